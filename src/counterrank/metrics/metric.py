"""The metrics of one evaluation: which there are, which decides, and what must not happen to others."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from counterrank.errors import ConfigError
from counterrank.metrics.functions import (
    ANY,
    FIRST_PLACE,
    IMPRESSIONS,
    PageFunction,
    metric_functions,
)
from counterrank.metrics.guardrails import Guardrail, parse_guardrail
from counterrank.texts import suggestion


@dataclass(frozen=True, slots=True)
class Measure:
    """One number per ranking, or one per position, made of one reward: what estimators estimate."""

    operand: str
    function: PageFunction | None = None

    @property
    def text(self) -> str:
        """How it is written."""
        if self.function is None:
            return self.operand
        return (
            self.function.name
            if self.function is IMPRESSIONS
            else f"{self.function.name}({self.operand})"
        )


#: What a metric is made of: one measure, or two for their ratio, each summed over all rankings first.
Measures = tuple[Measure, ...]

_NAME = r"(?:\"([^\"]+)\"|`([^`]+)`|([^\s()/\"`]+))"
#: A column, or a function of one; `share` alone has words inside.
_TERM = re.compile(rf"\s*{_NAME}\s*(?:\(\s*(ranking\s+has\s)?\s*{_NAME}\s*\))?\s*")
_FORMS = (
    "write a column, any(COLUMN), mrr(COLUMN), first(COLUMN), ndcg(COLUMN), count(COLUMN), "
    "sum(COLUMN) per ranking, share(ranking has COLUMN), or A / B"
)


def parse_metric(text: str) -> Measures:
    """Return what a metric's text means.

    >>> [part.text for part in parse_metric("any(click)")], len(parse_metric("revenue per click"))
    (['any(click)'], 2)

    Raises
    ------
    ConfigError
        The text is not understood; the message says where and shows the forms.
    """
    if not text.strip():
        raise ConfigError(f"a metric is empty; {_FORMS}")
    left, at = _term(text, 0)
    if at == len(text):
        return left
    sign = re.compile(r"/|per\b").match(text, at)
    if sign is None:
        raise _wrong(text, at)
    if sign[0] == "per" and re.fullmatch(r"\s*ranking\s*", text[sign.end() :]):
        # A value is per ranking anyway.
        return left
    right, at = _term(text, sign.end())
    if at < len(text):
        raise _wrong(text, at)
    if len(left) + len(right) > 2:
        raise ConfigError(f"the metric '{text}' is a ratio of a ratio; first(...) is one itself")
    return left + right


def _term(text: str, at: int) -> tuple[Measures, int]:
    """Return the column or function of one that stands at a place, and where it ends."""
    found = _TERM.match(text, at)
    if found is None:
        raise _wrong(text, at)
    *quoted, bare, has = found.groups()[:4]
    name, operand = quoted[0] or quoted[1] or bare, found[5] or found[6] or found[7]
    if operand is None:
        plain = bare == IMPRESSIONS.name
        return (Measure("", IMPRESSIONS) if plain else Measure(name),), found.end()
    if (name == "share") != (has is not None):
        raise _wrong(text, found.start(5))
    if name == "first":
        # Rankings without a reward have no first one: they count in neither part.
        return (Measure(operand, FIRST_PLACE), Measure(operand, ANY)), found.end()
    known = metric_functions() | {"share": ANY}
    if name not in known:
        names = sorted([*known, "first"])
        raise ConfigError(
            f"the metric '{text}' uses '{name}', which is no function of rewards"
            f"{suggestion(name, names)}; known: {', '.join(names)}"
        )
    return (Measure(operand, known[name]),), found.end()


def _wrong(text: str, at: int) -> ConfigError:
    rest = text[at:].split()
    where = f"at '{rest[0]}'" if rest else "at its end"
    return ConfigError(f"the metric '{text}' is not understood {where}; {_FORMS}")


#: What the one reward of a log is called where nobody named it.
SINGLE = "reward"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric by name: what it is made of, and how it was written."""

    name: str
    #: What is estimated for it.
    measures: Measures
    text: str

    @property
    def ratio(self) -> bool:
        """Whether it is one measure over another."""
        return len(self.measures) > 1

    @property
    def lower_is_better(self) -> bool:
        """Whether a fall is good news."""
        first = self.measures[0].function
        return first is FIRST_PLACE or (first is not None and first.lower_is_better)

    @property
    def unit(self) -> str:
        """What the value is counted in: "per ranking", "per click", "position"."""
        above, below = self.measures[0], self.measures[-1]
        if not self.ratio:
            return "per ranking"
        if above.function is FIRST_PLACE:
            return "position"
        return "per impression" if below.function is IMPRESSIONS else f"per {below.text}"


@dataclass(frozen=True, slots=True)
class Metrics:
    """All metrics of an evaluation, the primary among them, and the guardrails."""

    every: tuple[Metric, ...]
    primary: str
    #: Everything that is estimated, once each, the primary first.
    measures: Measures
    guardrails: tuple[Guardrail, ...] = ()
    #: Whether they have names; a log may have one reward that nobody named.
    named: bool = True

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
        if found[chosen].ratio:
            raise ConfigError(
                f"the primary metric '{chosen}' is a ratio; take what it counts, its numerator, as "
                "the primary, and the ratio as a further metric or a guardrail"
            )
        ordered = sorted(every, key=lambda metric: metric.name != chosen)
        parts = dict.fromkeys(measure for metric in ordered for measure in metric.measures)
        measures = tuple(one for one in parts if one.function is not IMPRESSIONS)
        return cls(every, chosen, measures, rails)

    @classmethod
    def asked_for(
        cls,
        known: Iterable[str],
        rewards: Mapping[str, Any] | Sequence[str] | None,
        primary: str | None,
        guardrails: Sequence[str | Guardrail] | str,
    ) -> "Metrics":
        """Return the metrics that the user named, beside those that a log has by name."""
        more = rewards if isinstance(rewards, Mapping) else {name: name for name in rewards or ()}
        given = {**{name: name for name in known}, **more}
        found = cls.of(given or {SINGLE: SINGLE}, primary, guardrails)
        return replace(found, named=bool(given or primary is not None or guardrails))

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
        return Metric(name, (measure,), measure.text)
    raise ConfigError(
        f"reward '{name}' is {given!r}; give a column, an expression such as 'any(click)', or "
        "page_metric(function, of=NAME)"
    )


def _resolved(metric: Metric, known: Mapping[str, Metric]) -> Metric:
    """Return a ratio with the names of other metrics replaced by what they measure."""
    if not metric.ratio:
        return metric
    parts = tuple(_named(part, metric, known) for part in metric.measures)
    return Metric(metric.name, parts, metric.text)


def _named(part: Measure, metric: Metric, known: Mapping[str, Metric]) -> Measure:
    other = known.get(part.operand) if part.function is None else None
    if other is None or other is metric:
        return part
    if other.ratio:
        raise ConfigError(
            f"reward '{metric.name}': '{metric.text}' is a ratio of '{other.name}', a ratio itself"
        )
    return other.measures[0]
