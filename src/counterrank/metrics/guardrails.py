"""Guardrails: limits of the lift of a metric, and their syntax."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from counterrank.common.errors import ConfigError
from counterrank.common.texts import comma_separated, in_percent, suggestion

_FORM = (
    "write NAME >= -0.01 (a relative lift; -1% is the same), NAME >= -0.05 EUR (absolute, with any "
    "unit), NAME by COLUMN >= -0.02, NAME where COLUMN = 'VALUE' >= -0.02, or <= if less is better"
)
#: A guardrail of one group: the metric, the column, its value (in quotes or not), and the comparison.
_GROUP = re.compile(
    r"(.+)\swhere\s(.+?)==?\s*(?:'([^']*)'|([^\s'<>=]+))\s*([<>\u2264\u2265].*)", re.DOTALL
)

#: A number, followed by a percent sign or a unit.
_LIMIT = re.compile(r"([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)(?:\s*(%)|\s+(.+))?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Guardrail:
    """A limit of the lift of a metric, for all rows, for every group of a column, or for one group.

    `unit` is the unit of an absolute limit, and empty for relative lifts. If `above`, the lift must be
    at least the limit, otherwise at most.
    """

    text: str
    metric: str
    limit: float
    above: bool = True
    by: str = ""
    unit: str = ""
    #: The group of the column `by` to which it is restricted.
    only: str = ""

    @property
    def relative(self) -> bool:
        """Whether the limit is relative to the baseline."""
        return not self.unit

    def among(self, labels: Sequence[str]) -> Sequence[str]:
        """Return the groups to which it applies; raise ConfigError if the log has no such group."""
        if not self.only:
            return labels
        if self.only not in labels:
            raise ConfigError(
                f"the log has no group for the guardrail '{self.text}'"
                f"{suggestion(self.only, labels)}; '{self.by}' has {comma_separated(labels)}"
            )
        return [self.only]


def parse_guardrail(text: str) -> Guardrail:
    """Parse the text of a guardrail.

    >>> parse_guardrail("clicks by device >= -2%")
    Guardrail(text='clicks by device >= -2%', metric='clicks', limit=-0.02, above=True, by='device', unit='', only='')
    >>> parse_guardrail("clicks where device = 'mobile' >= -2%").only
    'mobile'

    Raises
    ------
    ConfigError
        The syntax is wrong, or every lift satisfies the limit.
    """
    if group := _GROUP.fullmatch(text.strip()):
        metric, column, quoted, bare, comparison = group.groups()
        by_column = parse_guardrail(f"{metric} by {column} {comparison}")
        return replace(by_column, text=text.strip(), only=quoted or bare)
    plain = text.replace("\N{GREATER-THAN OR EQUAL TO}", ">=").replace(
        "\N{LESS-THAN OR EQUAL TO}", "<="
    )
    left, *sign_and_limit = re.split(r"(>=|<=|==|=|>|<)", plain)
    if len(sign_and_limit) != 2 or sign_and_limit[0] not in (">=", "<="):
        raise _syntax_error(text, f"'{sign_and_limit[0]}'" if sign_and_limit else "its end")
    metric, by = _metric_and_column(left, text)
    right = sign_and_limit[1].strip().replace("\N{MINUS SIGN}", "-")
    number = _LIMIT.fullmatch(right)
    if number is None:
        raise _syntax_error(text, f"'{right.split()[0]}'" if right else "its end")
    limit, unit, above = float(number[1]), number[3] or "", sign_and_limit[0] == ">="
    if number[2]:
        limit /= 100.0
    if not unit and (limit <= -1.0 if above else limit >= 1.0):
        raise ConfigError(
            f"the guardrail '{text}' allows a relative change of {in_percent(limit, 0)}, which excludes "
            "hardly anything: write 1 per cent as 0.01 or 1%, and an absolute limit with a unit"
        )
    return Guardrail(text.strip(), metric, limit, above, by, unit)


def _metric_and_column(left: str, text: str) -> tuple[str, str]:
    """Return the metric and the column on the left side; names with "by" must be quoted."""
    tokens = re.findall(r"\"([^\"]+)\"|`([^`]+)`|([^\s\"`]+)", left)
    words = [(next(filter(None, groups)), not groups[2]) for groups in tokens]
    cut = max((i for i, word in enumerate(words) if word == ("by", False)), default=len(words))
    metric, column = (
        " ".join(word for word, _ in side) for side in (words[:cut], words[cut + 1 :])
    )
    if not metric or (cut < len(words) and not column):
        raise _syntax_error(text, "'by'" if metric else "its start")
    return metric, column


def _syntax_error(text: str, where: str) -> ConfigError:
    return ConfigError(f"the guardrail '{text}' is not understood at {where}; {_FORM}")
