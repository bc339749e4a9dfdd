"""What a metric is made of, and the small language people write it in.

click                          a column: a reward at each position, or one number a ranking
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
    """One number a ranking, or one a position, made of one reward: what estimators estimate."""

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

_TOKEN = re.compile(r"\s*(?:(?P<quoted>\"[^\"]*\"|`[^`]*`)|(?P<word>[^\s()/\"`]+)|(?P<sign>[()/]))")
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
    return _ExpressionParser(text).expression()


class _ExpressionParser:
    """Reads one expression from left to right."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.tokens: list[tuple[str, bool]] = []
        while self.at < len(text.rstrip()):
            found = _TOKEN.match(text, self.at)
            if found is None:
                raise self.wrong(text[self.at :].strip())
            quoted = found["quoted"] is not None
            word = found["quoted"][1:-1] if quoted else found["word"] or found["sign"]
            self.tokens.append((word, quoted))
            self.at = found.end()
        self.at = 0

    def wrong(self, token: str) -> ConfigError:
        where = f"at '{token}'" if token else "at its end"
        return ConfigError(f"the metric '{self.text}' is not understood {where}; {_FORMS}")

    def next(self) -> str:
        token = self.tokens[self.at][0] if self.at < len(self.tokens) else ""
        self.at += 1
        return token

    def sees(self, word: str) -> bool:
        """Return whether the next token is this word or sign, not a quoted name."""
        return self.at < len(self.tokens) and self.tokens[self.at] == (word, False)

    def takes(self, word: str) -> None:
        found = self.next()
        if found != word:
            raise self.wrong(found)

    def name(self) -> str:
        quoted = self.at < len(self.tokens) and self.tokens[self.at][1]
        found = self.next()
        if not found or (not quoted and found in "()/"):
            raise self.wrong(found)
        return found

    def expression(self) -> Expression:
        left = self.term()
        if self.at == len(self.tokens):
            return left
        sign = self.next()
        if sign not in ("/", "per"):
            raise self.wrong(sign)
        if sign == "per" and self.sees("ranking"):
            # A value is per ranking anyway.
            self.next()
            if self.at < len(self.tokens):
                raise self.wrong(self.next())
            return left
        right = self.term()
        if self.at < len(self.tokens):
            raise self.wrong(self.next())
        for part in (left, right):
            if isinstance(part, Ratio):
                raise ConfigError(
                    f"the metric '{self.text}' is a ratio of a ratio; first(...) is one itself"
                )
        assert isinstance(left, Measure) and isinstance(right, Measure)
        return Ratio(left, right)

    def term(self) -> Expression:
        name = self.name()
        if not self.sees("("):
            plain = name == IMPRESSIONS.name and not self.tokens[self.at - 1][1]
            return Measure("", IMPRESSIONS) if plain else Measure(name)
        self.next()
        if name == "share":
            self.takes("ranking")
            self.takes("has")
        operand = self.name()
        self.takes(")")
        if name == "first":
            # Rankings without a reward have no first one: they count in neither part.
            return Ratio(Measure(operand, FIRST_PLACE), Measure(operand, ANY))
        known = metric_functions() | {"share": ANY}
        if name not in known:
            names = sorted([*known, "first"])
            raise ConfigError(
                f"the metric '{self.text}' uses '{name}', which is no function of rewards"
                f"{suggestion(name, names)}; known: {', '.join(names)}"
            )
        return Measure(operand, known[name])
