"""How scores become a policy, in one line of text.

`plackett-luce:temperature=0.5`, `top`, `0.98*top+0.02*shuffle`, `policy.json`.

One grammar for the command line (`--logger SPEC`, `--policy NAME=SPEC`), TOML (`kind = ...` and
options) and Python. Parsing is pure; `bind` makes the policy of some rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.arrays import Floats
from counterrank.errors import ConfigError, PolicyError
from counterrank.policies.arrays import SUM_TOLERANCE
from counterrank.policies.base import Policy
from counterrank.policies.candidates import Candidates
from counterrank.policies.factored import Softmax, best_first
from counterrank.policies.mixture import Mixture
from counterrank.policies.plackett_luce import BelowFold, PlackettLuce
from counterrank.policies.ranked import Deterministic, RandomSwap, RandTopN
from counterrank.policies.slot_epsilon_greedy import SlotEpsilonGreedy

#: A number that a kind takes: its range in words and as a check, and its default (None: required).
Option = tuple[str, Callable[[float], bool], float | None]
#: The default of an option that may be left out.
_LEFT_OUT = np.nan


_WHOLE: Option = ("a whole number from 1", lambda n: n >= 1 and n == np.rint(n), None)
_TEMPERATURE: Option = ("a positive number", lambda t: 0 < t < np.inf, 1.0)
_SHARE: Option = ("a probability, 0 to 1", lambda p: 0 <= p <= 1, None)

#: The kinds of policy that scores can become, and the options of each.
KINDS: dict[str, dict[str, Option]] = {
    "plackett-luce": {"temperature": _TEMPERATURE},
    "top": {},
    "softmax": {"temperature": _TEMPERATURE},
    "epsilon": {"epsilon": _SHARE},
    "rand-top-n": {"n": _WHOLE},
    "swap": {
        "probability": _SHARE,
        "places": ("a whole number from 2", lambda n: n >= 2 and n == np.rint(n), _LEFT_OUT),
        "first": (*_WHOLE[:2], _LEFT_OUT),
    },
    "shuffle": {},
    "below": {"after": _WHOLE, "temperature": _TEMPERATURE},
}

#: Kinds whose positions are independent given the scores: an item may be shown twice.
FACTORED_KINDS = frozenset({"softmax"})
FILE = "file"
#: Several kinds, each for a share of the traffic.
MIXTURE = "mixture"
#: Between two parts of a mixture; the + of a number such as 1e+05 is followed by no share.
_PLUS = re.compile(r"\+(?=[^+*:,=]*\*)")
_FILES = (".json", ".npz")


@dataclass(frozen=True, slots=True)
class PolicySpec:
    """A kind of `KINDS` with its options, the path of a policy file (kind "file"), or a mixture.

    A mixture (kind "mixture") has several kinds with their shares of the traffic.

    >>> parse_policy("plackett-luce").options
    {'temperature': 1.0}
    """

    kind: str
    options: Mapping[str, float] = field(default_factory=dict)
    path: str | None = None
    parts: tuple[tuple[float, PolicySpec], ...] = ()

    @property
    def needs_scores(self) -> bool:
        """Whether scores must be given; a file brings its own scorer."""
        return self.kind != FILE

    @property
    def deterministic(self) -> bool:
        """Whether the policy always shows one ranking: weights then say nothing."""
        idle = {"epsilon": "epsilon", "swap": "probability"}
        if self.kind == MIXTURE:
            # Two deterministic lists by the same scores are the same list.
            return all(part.deterministic for share, part in self.parts if share > 0)
        return self.kind == "top" or (self.kind in idle and self.options[idle[self.kind]] == 0)

    @property
    def text(self) -> str:
        """The spec in the grammar of `parse_policy`."""
        if self.path is not None:
            return self.path
        if self.kind == MIXTURE:
            return "+".join(f"{_digits(share)}*{part.text}" for share, part in self.parts)
        options = ",".join(f"{name}={_digits(value)}" for name, value in self.options.items())
        return f"{self.kind}:{options}" if options else self.kind

    def bind(
        self,
        *,
        scores: ArrayLike,
        candidates: Candidates | None = None,
        name: str = "scores",
        partly: bool = False,
    ) -> Policy:
        """Return the policy of scores (N,), one per candidate, or (n, A) when every item is a candidate.

        With `partly`, scores of candidates may be missing (NaN); see `Scored`.
        """
        from counterrank.policies.scored import Scored

        if self.kind == FILE:
            raise PolicyError(
                f"{self.path} is a policy file: load it with load_policy and bind it to a log"
            )
        if candidates is not None:
            return Scored(candidates, scores, self, name=name, partly=partly)
        table = np.asarray(scores, dtype=np.float64)
        if table.ndim != 2:
            raise PolicyError(
                f"'{name}' must be (n, A), one score per item, or be given with candidates"
            )
        if "swap" not in (self.kind, *(part.kind for _, part in self.parts)):
            return self.dense(table, table.shape[1])
        # A swap moves the shown places, and their number is known only when the policy is asked.
        return Scored(Candidates.every(*table.shape), table.reshape(-1), self, name=name)

    def dense(self, scores: Floats, length: int) -> Policy:
        """Return the policy of a table of scores (n, C), -inf where not eligible, for rankings of `length`."""
        if self.kind == MIXTURE:
            return Mixture(
                [part.dense(scores, length) for _, part in self.parts],
                [share for share, _ in self.parts],
            )
        if self.kind == "plackett-luce":
            return PlackettLuce(scores, self.options["temperature"])
        if self.kind == "shuffle":
            return PlackettLuce(np.where(scores > -np.inf, 0.0, -np.inf))
        if self.kind == "below":
            return BelowFold(scores, int(self.options["after"]), self.options["temperature"])
        if self.kind == "softmax":
            return Softmax(scores, self.options["temperature"])
        if self.kind == "epsilon":
            return SlotEpsilonGreedy(scores, self.options["epsilon"])
        ranking, C = best_first(scores), scores.shape[1]
        if self.kind == "top":
            return Deterministic(ranking, C)
        if self.kind == "rand-top-n":
            return RandTopN(ranking, int(self.options["n"]), C)
        places, first = int(self.options.get("places", length)), int(self.options.get("first", 1))
        reach = max(places, length)
        # One pair of the places `first` to `places`, all equally likely.
        place = np.arange(1, reach + 1)
        weights = np.triu(np.outer(place >= first, place <= places), 1)
        chances = weights * (self.options["probability"] / max(weights.sum(), 1))
        return RandomSwap(ranking[:, :reach], chances, C)


def _digits(value: float) -> str:
    """Return the shortest text that is read again as the same number.

    >>> _digits(0.1), _digits(2.0)
    ('0.1', '2')
    """
    return repr(float(value)).removesuffix(".0")


def parse_policy(text: str) -> PolicySpec:
    """Return the spec of KIND[:option=value,...] or of a policy file.

    Parameters
    ----------
    text
        What `--policy NAME=` takes: "plackett-luce:temperature=2", "top", several of them with their
        shares of the traffic ("0.98*top+0.02*shuffle"), or the path of a policy file.

    Returns
    -------
    PolicySpec
        The kind with its options, or the path; it becomes a policy once it is bound to a log's scores.

    Raises
    ------
    PolicyError
        The kind or an option is unknown, or a value cannot be read.

    Examples
    --------
    >>> parse_policy("epsilon:epsilon=0.1")
    PolicySpec(kind='epsilon', options={'epsilon': 0.1}, path=None, parts=())
    >>> [share for share, part in parse_policy("0.9*top+0.1*shuffle").parts]
    [0.9, 0.1]
    """
    return _parsed(text.strip(), f"policy '{text.strip()}'")


def _parsed(text: str, where: str) -> PolicySpec:
    if text.endswith(_FILES):
        return PolicySpec(FILE, path=text)
    if "*" in text:
        return _mixture(text)
    kind, colon, rest = text.partition(":")
    given: dict[str, str] = {}
    for part in rest.split(",") if colon else ():
        option, equals, value = (word.strip() for word in part.partition("="))
        if not (option and equals and value):
            raise ConfigError(
                f"{where}: '{part.strip()}' is no option=value; write {_usage(kind.strip())}"
            )
        if option in given:
            raise ConfigError(f"{where}: option '{option}' is given twice")
        given[option] = value
    return _spec(kind.strip(), given, where)


def mixture_of(parts: Iterable[tuple[float, PolicySpec]]) -> PolicySpec:
    """Return the policy that serves each part to its share of the traffic.

    Parts of no traffic are left out, and a single one stands for itself.

    >>> mixture_of([(0.0, parse_policy("top")), (1.0, parse_policy("shuffle"))]).text
    'shuffle'
    """
    used = tuple((float(share), part) for share, part in parts if share > 0)
    return used[0][1] if len(used) == 1 else PolicySpec(MIXTURE, parts=used)


def _mixture(text: str) -> PolicySpec:
    parts = []
    for piece in _PLUS.split(text):
        number, _, rest = piece.partition("*")
        try:
            share = float(number)
        except ValueError:
            share = np.nan
        if not 0 <= share <= 1:
            raise ConfigError(
                f"policy '{text}': '{number.strip()}' is no share of the traffic, 0 to 1; write "
                "0.98*top+0.02*shuffle"
            )
        part = parse_policy(rest)
        if part.kind in (FILE, *FACTORED_KINDS):
            raise ConfigError(
                f"policy '{text}': '{rest.strip()}' cannot be mixed with others; known are "
                f"{', '.join(kind for kind in KINDS if kind not in FACTORED_KINDS)}"
            )
        parts.append((share, part))
    total = sum(share for share, _ in parts)
    if abs(total - 1) > SUM_TOLERANCE:
        raise ConfigError(f"policy '{text}': the shares sum to {total:.6g}, not to 1")
    return mixture_of(parts)


def parse_named_policy(text: str) -> tuple[str, PolicySpec]:
    """Return name and spec of NAME=KIND[:option=value,...].

    >>> parse_named_policy("new=top")[0]
    'new'
    """
    name, equals, rest = text.partition("=")
    # "epsilon:epsilon=0.1" has an equals sign too: a name holds no colon.
    if not (name.strip() and equals and rest.strip()) or re.search(r"[:,*]", name):
        raise ConfigError(
            f"'{text}' names no policy; write NAME=KIND, such as new=top or new=plackett-luce"
        )
    return name.strip(), parse_policy(rest)


def policy_from_table(table: Mapping[str, Any], where: str) -> PolicySpec:
    """Return the spec of a TOML table with `kind` and the kind's options; `where` names the table in messages."""
    kind = table.get("kind")
    if not isinstance(kind, str):
        raise ConfigError(
            f'{where} needs kind = "...": one of {", ".join(KINDS)}, or a policy file'
        )
    given = [f"{name}={value}" for name, value in table.items() if name != "kind"]
    if kind.endswith(_FILES) and given:
        raise ConfigError(f"{where}: a policy file takes no options, got {', '.join(given)}")
    return _parsed(f"{kind}:{','.join(given)}" if given else kind, where)


def _spec(kind: str, given: Mapping[str, str], where: str) -> PolicySpec:
    if kind not in KINDS:
        raise ConfigError(
            f"{where}: unknown kind '{kind}'; known: {', '.join(KINDS)}, or a file ending in "
            f"{' or '.join(_FILES)}"
        )
    known = KINDS[kind]
    for name in given:
        if name not in known:
            takes = f"it takes {', '.join(known)}" if known else "it takes none"
            raise ConfigError(f"{where}: '{kind}' has no option '{name}'; {takes}")
    options: dict[str, float] = {}
    for name, (within, allowed, default) in known.items():
        value = given.get(name, default)
        if value is None:
            raise ConfigError(f"{where}: '{kind}' needs {name} ({within}); write {_usage(kind)}")
        try:
            number = float(value)
        except ValueError:
            number = np.nan
        if name in given and not allowed(number):
            raise ConfigError(f"{where}: {name} must be {within}, got '{value}'")
        if not np.isnan(number):
            options[name] = number
    return PolicySpec(kind, options)


def _usage(kind: str) -> str:
    options = KINDS.get(kind, {"option": _SHARE})
    shown = [
        f"{name}={'2' if 'whole' in within else '0.5'}"
        for name, (within, _, default) in options.items()
        if default is not _LEFT_OUT
    ]
    return f"{kind}:{','.join(shown)}" if shown else kind
