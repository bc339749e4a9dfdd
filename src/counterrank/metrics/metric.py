"""The metrics of an evaluation: their expressions, the primary metric, and the guardrails."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from counterrank.common.errors import ConfigError
from counterrank.common.texts import suggestion
from counterrank.data.log import RankingLog
from counterrank.metrics.guardrails import Guardrail, parse_guardrail
from counterrank.metrics.measures import (
    ANY,
    FIRST_PLACE,
    IMPRESSIONS,
    SINGLE,
    Measure,
    PageFunction,
    metric_functions,
)

#: The measures of a metric: one, or numerator and denominator of a ratio of totals.
Measures = tuple[Measure, ...]

_NAME = r"(?:\"([^\"]+)\"|`([^`]+)`|([^\s()/\"`]+))"
#: A column, or a function of a column; only `share` has words in its argument.
_TERM = re.compile(rf"\s*{_NAME}\s*(?:\(\s*(ranking\s+has\s)?\s*{_NAME}\s*\))?\s*")
_FORMS = (
    "write a column, any(COLUMN), mrr(COLUMN), first(COLUMN), ndcg(COLUMN), count(COLUMN), "
    "sum(COLUMN) per ranking, share(ranking has COLUMN), or A / B"
)


def parse_metric(text: str) -> Measures:
    """Parse the expression of a metric.

    >>> [part.text for part in parse_metric("any(click)")], len(parse_metric("revenue per click"))
    (['any(click)'], 2)

    Raises
    ------
    ConfigError
        The syntax is wrong; the message says where and shows the forms.
    """
    if not text.strip():
        raise ConfigError(f"a metric is empty; {_FORMS}")
    left, end = _term(text, 0)
    if end == len(text):
        return left
    sign = re.compile(r"/|per\b").match(text, end)
    if sign is None:
        raise _syntax_error(text, end)
    if sign[0] == "per" and re.fullmatch(r"\s*ranking\s*", text[sign.end() :]):
        # All values are per ranking.
        return left
    right, end = _term(text, sign.end())
    if end < len(text):
        raise _syntax_error(text, end)
    if len(left) + len(right) > 2:
        raise ConfigError(f"the metric '{text}' is a ratio of a ratio; first(...) is one itself")
    return left + right


def _term(text: str, start: int) -> tuple[Measures, int]:
    """Parse a column or a function of a column; return its measures and the end of the match."""
    match = _TERM.match(text, start)
    if match is None:
        raise _syntax_error(text, start)
    *quoted, bare, has = match.groups()[:4]
    name, operand = quoted[0] or quoted[1] or bare, match[5] or match[6] or match[7]
    if operand is None:
        return (Measure(name, IMPRESSIONS if bare == IMPRESSIONS.name else None),), match.end()
    if (name == "share") != (has is not None):
        raise _syntax_error(text, match.start(5))
    if name == "first":
        # Rankings without a reward count neither in the numerator nor in the denominator.
        return (Measure(operand, FIRST_PLACE), Measure(operand, ANY)), match.end()
    functions = metric_functions() | {"share": ANY}
    if name not in functions:
        names = sorted([*functions, "first"])
        raise ConfigError(
            f"the metric '{text}' uses '{name}', which is not a function of rewards"
            f"{suggestion(name, names)}; known: {', '.join(names)}"
        )
    return (Measure(operand, functions[name]),), match.end()


def _syntax_error(text: str, start: int) -> ConfigError:
    remaining_words = text[start:].split()
    where = f"at '{remaining_words[0]}'" if remaining_words else "at its end"
    return ConfigError(f"the metric '{text}' is not understood {where}; {_FORMS}")


@dataclass(frozen=True, slots=True)
class Metric:
    """A named metric, with its measures and its expression."""

    name: str
    measures: Measures
    text: str

    @property
    def ratio(self) -> bool:
        """Whether it is a ratio of two measures."""
        return len(self.measures) > 1

    @property
    def lower_is_better(self) -> bool:
        """Whether smaller values are better."""
        first = self.measures[0].function
        return first is FIRST_PLACE or (first is not None and first.lower_is_better)

    @property
    def unit(self) -> str:
        """The unit of the value: "per ranking", "per click", "position"."""
        above, below = self.measures[0], self.measures[-1]
        if not self.ratio:
            return "per ranking"
        if above.function is FIRST_PLACE:
            return "position"
        return "per impression" if below.function is IMPRESSIONS else f"per {below.text}"


@dataclass(frozen=True, slots=True)
class Metrics:
    """All metrics of an evaluation, the name of the primary one, and the guardrails."""

    all_metrics: tuple[Metric, ...]
    primary: str
    #: All distinct measures, with that of the primary metric first.
    measures: Measures
    guardrails: tuple[Guardrail, ...] = ()
    #: Whether the metrics were named; False for the only reward of a log without names.
    named: bool = True

    @classmethod
    def parse(
        cls,
        rewards: Mapping[str, Any],
        primary: str | None = None,
        guardrails: Sequence[str | Guardrail] | str = (),
    ) -> "Metrics":
        """Return the metrics of expressions or user-defined functions by name.

        Raises
        ------
        ConfigError
            The syntax of an expression is wrong, or a name is unknown.
        """
        by_name = {name: _metric(name, definition) for name, definition in rewards.items()}
        metrics = tuple(
            replace(
                metric,
                measures=tuple(
                    _referenced(measure, metric, by_name) for measure in metric.measures
                ),
            )
            if metric.ratio
            else metric
            for metric in by_name.values()
        )
        rails = tuple(
            rail if isinstance(rail, Guardrail) else parse_guardrail(rail)
            for rail in ([guardrails] if isinstance(guardrails, (str, Guardrail)) else guardrails)
        )
        names = list(by_name)
        chosen = names[0] if primary is None else primary
        for name, what in ((chosen, "primary"), *((rail.metric, rail.text) for rail in rails)):
            if name not in by_name:
                subject = "the primary metric" if what == "primary" else f"the guardrail '{what}'"
                raise ConfigError(
                    f"{subject} names '{name}', which is no metric here{suggestion(name, names)}; "
                    f"metrics are {', '.join(names)}"
                )
        if by_name[chosen].ratio:
            raise ConfigError(
                f"the primary metric '{chosen}' is a ratio; use its numerator as the primary metric, "
                "and the ratio as a further metric or a guardrail"
            )
        ordered = sorted(metrics, key=lambda metric: metric.name != chosen)
        parts = dict.fromkeys(measure for metric in ordered for measure in metric.measures)
        measures = tuple(measure for measure in parts if measure.function is not IMPRESSIONS)
        return cls(metrics, chosen, measures, rails)

    @classmethod
    def requested(
        cls,
        log: Any,
        reading: dict[str, Any],
        rewards: Mapping[str, Any] | Sequence[str] | None,
        primary: str | None = None,
        guardrails: Sequence[str | Guardrail] | str = (),
        time: str | None = None,
    ) -> "Metrics":
        """Return the metrics that the user named, and those that an opened log has by name.

        What the reader must know of them is put into `reading`.
        """
        if (events := reading.get("events")) is not None:
            reading["events"] = events = events.seen_at(time)
            rewards = events.with_names(rewards)
        opened = isinstance(log, RankingLog) or (hasattr(log, "reduce") and hasattr(log, "first"))
        definitions = {
            name: name for name in (getattr(log, "first", log).rewards if opened else ())
        }
        definitions |= rewards if isinstance(rewards, Mapping) else {n: n for n in rewards or ()}
        metrics = cls.parse(definitions or {SINGLE: SINGLE}, primary, guardrails)
        if not definitions and primary is None and not guardrails:
            return replace(metrics, named=False)
        if not opened:
            reading["rewards"] = metrics.operands
        return metrics

    def of_log(self, rewards: Collection[str]) -> "Metrics":
        """Return these metrics, or the first reward of a log that turned out to have names where none was named."""
        if self.named or not rewards:
            return self
        name = next(iter(rewards))
        return replace(self.parse({name: name}), named=False)

    @property
    def operands(self) -> tuple[str, ...]:
        """The required rewards of the log, with that of the primary metric first."""
        return tuple(dict.fromkeys(measure.operand for measure in self.measures))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that guardrails split by."""
        return tuple(dict.fromkeys(rail.by for rail in self.guardrails if rail.by))

    def metric(self, name: str) -> Metric:
        """Return a metric by its name."""
        return next(metric for metric in self.all_metrics if metric.name == name)


def _metric(name: str, definition: Any) -> Metric:
    if not name.strip():
        raise ConfigError("a metric has no name; write NAME=COLUMN or NAME='any(COLUMN)'")
    if isinstance(definition, str):
        try:
            return Metric(name, parse_metric(definition), definition)
        except ConfigError as problem:
            raise problem.about(f"reward '{name}'") from None
    match definition:
        case (PageFunction() as function, of):
            measure = Measure(str(of), function)
            return Metric(name, (measure,), measure.text)
    raise ConfigError(
        f"reward '{name}' is {definition!r}; give a column, an expression such as 'any(click)', or "
        "page_metric(function, of=NAME)"
    )


def _referenced(measure: Measure, metric: Metric, by_name: Mapping[str, Metric]) -> Measure:
    """Return a part of a ratio, or the measure of the other metric that it names."""
    referenced = by_name.get(measure.operand) if measure.function is None else None
    if referenced is None or referenced is metric:
        return measure
    if referenced.ratio:
        raise ConfigError(
            f"reward '{metric.name}': '{metric.text}' contains '{referenced.name}', which is a ratio"
        )
    return referenced.measures[0]
