"""How scores become a policy, said in one line: `plackett-luce:temperature=0.5`, `top`,
`policy.json`.

One grammar for the command line (`--logger SPEC`, `--policy NAME=SPEC`), TOML (`kind = ...` and
options) and Python. Parsing is pure; `bind` makes the policy of some rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.errors import ConfigError, PolicyError
from counterrank.policies.base import Floats, Ints, Policy
from counterrank.policies.candidates import Candidates
from counterrank.policies.factored import Softmax
from counterrank.policies.plackett_luce import PlackettLuce
from counterrank.policies.ranked import Deterministic, RandomSwap, RandTopN
from counterrank.policies.slot_epsilon_greedy import SlotEpsilonGreedy


@dataclass(frozen=True, slots=True)
class Option:
    """A number a kind takes: its range in words and as a check, whole or not, and its default
    (None: required).
    """

    within: str
    allowed: Callable[[float], bool]
    whole: bool = False
    default: float | None = None
    optional: bool = False


_TEMPERATURE = Option("a positive number", lambda t: 0 < t < np.inf, default=1.0)
_SHARE = Option("a probability, 0 to 1", lambda p: 0 <= p <= 1)

#: The kinds of policy that scores can become, and the options of each.
KINDS: dict[str, dict[str, Option]] = {
    "plackett-luce": {"temperature": _TEMPERATURE},
    "top": {},
    "softmax": {"temperature": _TEMPERATURE},
    "epsilon": {"epsilon": _SHARE},
    "rand-top-n": {"n": Option("a whole number from 1", lambda n: n >= 1, whole=True)},
    "swap": {
        "probability": _SHARE,
        "places": Option("a whole number from 2", lambda n: n >= 2, whole=True, optional=True),
    },
}

#: Kinds whose positions are independent given the scores: an item may be shown twice.
FACTORED_KINDS = frozenset({"softmax"})
FILE = "file"
_FILES = (".json", ".npz")


@dataclass(frozen=True, slots=True)
class PolicySpec:
    """A kind of `KINDS` with its options, or the path of a policy file (kind "file").

    >>> parse_policy("plackett-luce").options
    {'temperature': 1.0}
    """

    kind: str
    options: Mapping[str, float] = field(default_factory=dict)
    path: str | None = None

    @property
    def needs_scores(self) -> bool:
        """Whether scores must be given; a file brings its own scorer."""
        return self.kind != FILE

    @property
    def deterministic(self) -> bool:
        """Whether the policy always shows one ranking: weights then say nothing."""
        idle = {"epsilon": "epsilon", "swap": "probability"}
        return self.kind == "top" or (self.kind in idle and self.options[idle[self.kind]] == 0)

    @property
    def text(self) -> str:
        """The spec in the grammar of `parse_policy`."""
        if self.path is not None:
            return self.path
        # 17 digits: what is written into a spec and read again is the same number.
        options = ",".join(f"{name}={value:.17g}" for name, value in self.options.items())
        return f"{self.kind}:{options}" if options else self.kind

    def bind(
        self, *, scores: ArrayLike, candidates: Candidates | None = None, name: str = "scores"
    ) -> Policy:
        """Return the policy of scores (N,), one a candidate, or (n, A) when every item is a
        candidate.
        """
        from counterrank.policies.scored import Scored

        if self.kind == FILE:
            raise PolicyError(
                f"{self.path} is a policy file: load it with load_policy and bind it to a log"
            )
        if candidates is not None:
            return Scored(candidates, scores, self, name=name)
        table = np.asarray(scores, dtype=np.float64)
        if table.ndim != 2:
            raise PolicyError(
                f"'{name}' must be (n, A), one score an item, or be given with candidates"
            )
        if self.kind != "swap":
            return self.dense(table, table.shape[1])
        # A swap moves the places that are shown, and how many those are is known only when it is
        # asked.
        n, A = table.shape
        every = Candidates(np.arange(n + 1) * A, np.tile(np.arange(A, dtype=np.int32), n))
        return Scored(every, table.reshape(-1), self, name=name)

    def dense(self, scores: Floats, length: int) -> Policy:
        """Return the policy of a table of scores (n, C), -inf where not eligible, for rankings of
        `length`.
        """
        if self.kind == "plackett-luce":
            return PlackettLuce(scores, self.options["temperature"])
        if self.kind == "softmax":
            return Softmax(scores, self.options["temperature"])
        if self.kind == "epsilon":
            return SlotEpsilonGreedy(scores, self.options["epsilon"])
        ranking, C = by_score(scores), scores.shape[1]
        if self.kind == "top":
            return Deterministic(ranking, C)
        if self.kind == "rand-top-n":
            return RandTopN(ranking, int(self.options["n"]), C)
        places = int(self.options.get("places", length))
        reach = max(places, length)
        return RandomSwap(ranking[:, :reach], _swaps(reach, places, self.options["probability"]), C)


def by_score(scores: Floats) -> Ints:
    """Return columns by descending score (n, C), equal ones in the order listed, -1 where not
    eligible.
    """
    order = np.argsort(-scores, axis=1, kind="stable")
    return np.where(np.take_along_axis(scores, order, axis=1) > -np.inf, order, -1)


def _swaps(reach: int, places: int, probability: float) -> Floats:
    """Return swap weights (reach, reach): one pair of the first `places`, all equally likely.

    >>> _swaps(1, 1, 0.5)
    array([[0.]])
    """
    weights = np.zeros((reach, reach))
    if places < 2:
        return weights
    weights[:places, :places] = np.triu(np.ones((places, places)), 1)
    chances: Floats = weights * (probability / weights.sum())
    return chances


def parse_policy(text: str) -> PolicySpec:
    """Return the spec of KIND[:option=value,...] or of a policy file.

    Parameters
    ----------
    text
        What `--policy NAME=` takes: "plackett-luce:temperature=2", "top", or the path of a policy file.

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
    PolicySpec(kind='epsilon', options={'epsilon': 0.1}, path=None)
    """
    text = text.strip()
    if text.endswith(_FILES):
        return PolicySpec(FILE, path=text)
    kind, colon, rest = text.partition(":")
    given: dict[str, Any] = {}
    for part in rest.split(",") if colon else ():
        option, equals, value = (word.strip() for word in part.partition("="))
        if not (option and equals and value):
            raise ConfigError(
                f"policy '{text}': '{part.strip()}' is no option=value; write "
                f"{_usage(kind.strip())}"
            )
        if option in given:
            raise ConfigError(f"policy '{text}': option '{option}' is given twice")
        given[option] = value
    return _spec(kind.strip(), given, f"policy '{text}'")


def parse_named_policy(text: str) -> tuple[str, PolicySpec]:
    """Return name and spec of NAME=KIND[:option=value,...].

    >>> parse_named_policy("new=top")[0]
    'new'
    """
    name, equals, rest = text.partition("=")
    # "epsilon:epsilon=0.1" has an equals sign too: a name holds no colon.
    if not (name.strip() and equals and rest.strip()) or re.search(r"[:,]", name):
        raise ConfigError(
            f"'{text}' names no policy; write NAME=KIND, such as new=top or new=plackett-luce"
        )
    return name.strip(), parse_policy(rest)


def policy_from_table(table: Mapping[str, Any], where: str) -> PolicySpec:
    """Return the spec of a TOML table with `kind` and the kind's options; `where` names the table
    in messages.
    """
    given = {name: value for name, value in table.items() if name != "kind"}
    kind = table.get("kind")
    if not isinstance(kind, str):
        raise ConfigError(
            f'{where} needs kind = "...": one of {", ".join(KINDS)}, or a policy file'
        )
    if kind.endswith(_FILES):
        if given:
            raise ConfigError(
                f"{where}: a policy file takes no options, got {', '.join(map(str, given))}"
            )
        return PolicySpec(FILE, path=kind)
    if ":" in kind and not given:
        return parse_policy(kind)
    return _spec(kind, given, where)


def _spec(kind: str, given: Mapping[str, Any], where: str) -> PolicySpec:
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
    for name, option in known.items():
        if name in given:
            options[name] = _number(given[name], option, name, where)
        elif option.default is not None:
            options[name] = option.default
        elif not option.optional:
            raise ConfigError(
                f"{where}: '{kind}' needs {name} ({option.within}); write {_usage(kind)}"
            )
    return PolicySpec(kind, options)


def _number(value: Any, option: Option, name: str, where: str) -> float:
    # TOML's true would pass as 1.
    try:
        number = float(value) if not isinstance(value, bool) else np.nan
    except (TypeError, ValueError):
        number = np.nan
    if not option.allowed(number) or (option.whole and number != np.rint(number)):
        raise ConfigError(f"{where}: {name} must be {option.within}, got '{value}'")
    return number


def _usage(kind: str) -> str:
    options = KINDS.get(kind, {"option": _SHARE})
    shown = [
        f"{name}={'2' if option.whole else '0.5'}"
        for name, option in options.items()
        if not option.optional
    ]
    return f"{kind}:{','.join(shown)}" if shown else kind
