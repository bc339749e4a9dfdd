"""The metrics of one evaluation: which there are, which decides, and what must not happen to others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from counterrank.errors import ConfigError
from counterrank.metrics.expressions import Expression, Measure, Ratio, parse_metric
from counterrank.metrics.functions import FIRST_PLACE, IMPRESSIONS, PageFunction
from counterrank.metrics.guardrails import Guardrail, parse_guardrail
from counterrank.texts import suggestion

#: What the one reward of a log is called where nobody named it.
SINGLE = "reward"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric by name: what it is made of, and how it was written."""

    name: str
    expression: Expression
    text: str

    @property
    def measures(self) -> tuple[Measure, ...]:
        """What is estimated for it."""
        if isinstance(self.expression, Ratio):
            return (self.expression.numerator, self.expression.denominator)
        return (self.expression,)

    @property
    def lower_is_better(self) -> bool:
        """Whether a fall is good news."""
        first = self.measures[0].function
        return first is FIRST_PLACE or (first is not None and first.lower_is_better)

    @property
    def unit(self) -> str:
        """What the value is counted in: "per ranking", "per click", "position"."""
        if isinstance(self.expression, Ratio):
            if self.expression.numerator.function is FIRST_PLACE:
                return "position"
            below = self.expression.denominator
            return "per impression" if below.function is IMPRESSIONS else f"per {below.text}"
        return "per ranking"


@dataclass(frozen=True, slots=True)
class Metrics:
    """All metrics of an evaluation, the primary among them, and the guardrails."""

    every: tuple[Metric, ...]
    primary: str
    guardrails: tuple[Guardrail, ...] = ()

    @classmethod
    def of(
        cls,
        rewards: Mapping[str, Any],
        primary: str | None = None,
        guardrails: Sequence[str | Guardrail] | str = (),
    ) -> "Metrics":
        """Return the metrics that texts, or functions of one's own, describe.

        Raises
        ------
        ConfigError
            A text is not understood, or a name is unknown.
        """
        found = {name: _metric(name, given) for name, given in rewards.items()}
        every = tuple(_resolved(metric, found) for metric in found.values())
        given = (guardrails,) if isinstance(guardrails, (str, Guardrail)) else tuple(guardrails)
        rails = tuple(one if isinstance(one, Guardrail) else parse_guardrail(one) for one in given)
        chosen = next(iter(found)) if primary is None else primary
        known = list(found)
        for name, what in ((chosen, "primary"), *((rail.metric, rail.text) for rail in rails)):
            if name not in found:
                said = "the primary metric" if what == "primary" else f"the guardrail '{what}'"
                raise ConfigError(
                    f"{said} names '{name}', which is no metric here{suggestion(name, known)}; "
                    f"metrics are {', '.join(known)}"
                )
        if isinstance(next(one for one in every if one.name == chosen).expression, Ratio):
            raise ConfigError(
                f"the primary metric '{chosen}' is a ratio; take what it counts, its numerator, as "
                "the primary, and the ratio as a further metric or a guardrail"
            )
        return cls(every, chosen, rails)

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Everything that is estimated, once each, the primary first."""
        ordered = sorted(self.every, key=lambda metric: metric.name != self.primary)
        found = [measure for metric in ordered for measure in metric.measures]
        return tuple(m for m in dict.fromkeys(found) if m.function is not IMPRESSIONS)

    @property
    def operands(self) -> tuple[str, ...]:
        """The rewards of the log that are needed, that of the primary first."""
        return tuple(dict.fromkeys(measure.operand for measure in self.measures))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that guardrails split by."""
        return tuple(dict.fromkeys(rail.by for rail in self.guardrails if rail.by))

    def metric(self, name: str) -> Metric:
        """Return a metric by its name."""
        return next(one for one in self.every if one.name == name)


def _metric(name: str, given: Any) -> Metric:
    if not name.strip():
        raise ConfigError("a metric has no name; write NAME=COLUMN or NAME='any(COLUMN)'")
    if isinstance(given, str):
        try:
            return Metric(name, parse_metric(given), given)
        except ConfigError as problem:
            raise problem.about(f"reward '{name}'") from None
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], PageFunction):
        measure = Measure(str(given[1]), given[0])
        return Metric(name, measure, measure.text)
    raise ConfigError(
        f"reward '{name}' is {given!r}; give a column, an expression such as 'any(click)', or "
        "page_metric(function, of=NAME)"
    )


def _resolved(metric: Metric, known: Mapping[str, Metric]) -> Metric:
    """Return a ratio with the names of other metrics replaced by what they measure."""
    if not isinstance(metric.expression, Ratio):
        return metric
    parts = [_named(part, metric, known) for part in metric.measures]
    return Metric(metric.name, Ratio(parts[0], parts[1]), metric.text)


def _named(part: Measure, metric: Metric, known: Mapping[str, Metric]) -> Measure:
    other = known.get(part.operand) if part.function is None else None
    if other is None or other is metric:
        return part
    if isinstance(other.expression, Ratio):
        raise ConfigError(
            f"reward '{metric.name}': '{metric.text}' is a ratio of '{other.name}', a ratio itself"
        )
    return other.expression
