"""What a metric is made of, and the small language people write it in.

click                          a column: a reward at each position, or one number per ranking
any(click)  mrr(click)  first(click)  ndcg(click)  count(click)  sum(revenue) per ranking
share(ranking has purchase)    the same as any(purchase)
clicks / impressions           a ratio, also written `revenue per click`
"""

import re
from dataclasses import dataclass

from counterrank.errors import ConfigError
from counterrank.metrics.functions import (
    ANY,
    FIRST_PLACE,
    IMPRESSIONS,
    PageFunction,
    metric_functions,
)
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


@dataclass(frozen=True, slots=True)
class Ratio:
    """One measure over another, each summed over all rankings first."""

    numerator: Measure
    denominator: Measure


Expression = Measure | Ratio

_NAME = r"(?:\"([^\"]+)\"|`([^`]+)`|([^\s()/\"`]+))"
#: A column, or a function of one; `share` alone has words inside.
_TERM = re.compile(rf"\s*{_NAME}\s*(?:\(\s*(ranking\s+has\s)?\s*{_NAME}\s*\))?\s*")
_FORMS = (
    "write a column, any(COLUMN), mrr(COLUMN), first(COLUMN), ndcg(COLUMN), count(COLUMN), "
    "sum(COLUMN) per ranking, share(ranking has COLUMN), or A / B"
)


def parse_metric(text: str) -> Expression:
    """Return what a metric's text means.

    >>> parse_metric("any(click)").text, parse_metric("revenue per click").denominator.text
    ('any(click)', 'click')

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
    if isinstance(left, Ratio) or isinstance(right, Ratio):
        raise ConfigError(f"the metric '{text}' is a ratio of a ratio; first(...) is one itself")
    return Ratio(left, right)


def _term(text: str, at: int) -> tuple[Expression, int]:
    """Return the column or function of one that stands at a place, and where it ends."""
    found = _TERM.match(text, at)
    if found is None:
        raise _wrong(text, at)
    *quoted, bare, has = found.groups()[:4]
    name, operand = quoted[0] or quoted[1] or bare, found[5] or found[6] or found[7]
    if operand is None:
        plain = bare == IMPRESSIONS.name
        return Measure("", IMPRESSIONS) if plain else Measure(name), found.end()
    if (name == "share") != (has is not None):
        raise _wrong(text, found.start(5))
    if name == "first":
        # Rankings without a reward have no first one: they count in neither part.
        return Ratio(Measure(operand, FIRST_PLACE), Measure(operand, ANY)), found.end()
    known = metric_functions() | {"share": ANY}
    if name not in known:
        names = sorted([*known, "first"])
        raise ConfigError(
            f"the metric '{text}' uses '{name}', which is no function of rewards"
            f"{suggestion(name, names)}; known: {', '.join(names)}"
        )
    return Measure(operand, known[name]), found.end()


def _wrong(text: str, at: int) -> ConfigError:
    rest = text[at:].split()
    where = f"at '{rest[0]}'" if rest else "at its end"
    return ConfigError(f"the metric '{text}' is not understood {where}; {_FORMS}")
