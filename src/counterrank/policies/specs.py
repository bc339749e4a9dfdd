"""Policy specs: a text that says how scores become a policy.

Examples are `plackett-luce:temperature=0.5`, `top`, `0.98*top+0.02*shuffle` and `policy.json`. The
command line (`--logger SPEC`, `--policy NAME=SPEC`), TOML (`kind = ...` and options) and Python use the
same grammar. `PolicySpec.bind` makes the policy of given scores.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.common.arrays import Floats
from counterrank.common.errors import ConfigError, PolicyError
from counterrank.policies.arrays import SUM_TOLERANCE
from counterrank.policies.base import Policy
from counterrank.policies.candidates import Candidates
from counterrank.policies.factored import Softmax, best_first
from counterrank.policies.mixture import Mixture
from counterrank.policies.ranked import Deterministic, RandomSwap, RandTopN
from counterrank.policies.without_replacement import BelowFold, PlackettLuce, SlotEpsilonGreedy

#: A numeric option: its range in words and as a predicate, and its default (None: required).
Option = tuple[str, Callable[[float], bool], float | None]
#: The default of an option that may be omitted.
_LEFT_OUT = np.nan


_WHOLE: Option = ("a whole number from 1", lambda n: n >= 1 and n == np.rint(n), None)
_TEMPERATURE: Option = ("a positive number", lambda t: 0 < t < np.inf, 1.0)
_SHARE: Option = ("a probability, 0 to 1", lambda p: 0 <= p <= 1, None)


def _swapped(
    scores: Floats, length: int, probability: float, places: float = 0, first: float = 1
) -> RandomSwap:
    """Return the policy that swaps two places from `first` to `places`, all pairs equally likely."""
    places = places or length
    reach = int(max(places, length))
    place = np.arange(1, reach + 1)
    weights = np.triu(np.outer(place >= first, place <= places), 1)
    chances = weights * (probability / max(weights.sum(), 1))
    return RandomSwap(best_first(scores)[:, :reach], chances, scores.shape[1])


@dataclass(frozen=True, slots=True)
class Kind:
    """How scores (n, C), -inf if not eligible, become a policy of rankings of some length.

    `make` takes the scores, the length and the `options`.
    """

    make: Callable[..., Policy]
    options: Mapping[str, Option] = field(default_factory=dict)


#: The kinds of policy that scores can become.
KINDS = {
    "plackett-luce": Kind(
        lambda scores, _, **options: PlackettLuce(scores, **options),
        {"temperature": _TEMPERATURE},
    ),
    "top": Kind(lambda scores, _: Deterministic(best_first(scores), scores.shape[1])),
    "softmax": Kind(
        lambda scores, _, **options: Softmax(scores, **options), {"temperature": _TEMPERATURE}
    ),
    "epsilon": Kind(
        lambda scores, _, epsilon: SlotEpsilonGreedy(scores, epsilon),
        {"epsilon": _SHARE},
    ),
    "rand-top-n": Kind(
        lambda scores, _, n: RandTopN(best_first(scores), n, scores.shape[1]), {"n": _WHOLE}
    ),
    "swap": Kind(
        _swapped,
        {
            "probability": _SHARE,
            "places": ("a whole number from 2", lambda n: n >= 2 and n == np.rint(n), _LEFT_OUT),
            "first": (*_WHOLE[:2], _LEFT_OUT),
        },
    ),
    "shuffle": Kind(lambda scores, _: PlackettLuce(np.where(scores > -np.inf, 0.0, -np.inf))),
    "below": Kind(
        lambda scores, _, **options: BelowFold(scores, **options),
        {"after": _WHOLE, "temperature": _TEMPERATURE},
    ),
}

#: Kinds whose positions are independent given the scores: an item may be shown twice.
FACTORED_KINDS = frozenset({"softmax"})
FILE = "file"
#: The kind of specs that serve several kinds, each to a share of the traffic.
MIXTURE = "mixture"
#: The kind of specs that interleave two rankers, each with scores of its own.
TEAM_DRAFT = "team-draft"
#: The + between two components; the + of a number such as 1e+05 is not followed by `SHARE*`.
_PLUS = re.compile(r"\+(?=[^+*:,=]*\*)")
_FILES = (".json", ".npz")


@dataclass(frozen=True, slots=True)
class PolicySpec:
    """A kind of `KINDS` with its options, the path of a policy file (kind "file"), or a mixture.

    The `parts` of a mixture (kind "mixture") are its components with their shares of the traffic.

    >>> parse_policy("plackett-luce").options
    {'temperature': 1.0}
    """

    kind: str
    options: Mapping[str, float] = field(default_factory=dict)
    path: str | None = None
    parts: tuple[tuple[float, PolicySpec], ...] = ()
    #: The two rankers of a team draft.
    teams: tuple[str, ...] = field(default=(), repr=False)

    @property
    def needs_scores(self) -> bool:
        """Whether scores of its own must be given; a policy file has its scorer, a draft those of its teams."""
        return self.kind not in (FILE, TEAM_DRAFT)

    @property
    def deterministic(self) -> bool:
        """Whether the policy has only one possible ranking, so that weights are undefined."""
        if self.parts:
            # Deterministic components rank by the same scores, so they show the same ranking.
            return all(component.deterministic for _, component in self.parts)
        chances = self.options.get("epsilon"), self.options.get("probability")
        return self.kind == "top" or 0 in chances

    @property
    def text(self) -> str:
        """The spec in the grammar of `parse_policy`."""
        if self.path is not None:
            return self.path
        if self.teams:
            return f"{self.kind}:of={'+'.join(self.teams)}"
        if self.parts:
            return "+".join(f"{_digits(share)}*{component.text}" for share, component in self.parts)
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
        """Return the policy of scores (N,), one per candidate, or (n, A) if all items are candidates.

        With `partly`, scores of candidates may be missing (NaN), as in `Scored`.
        """
        from counterrank.policies.scored import Scored

        if self.kind == TEAM_DRAFT:
            raise PolicyError(
                f"{self.text} interleaves two rankers, so that only a logger can be one"
            )
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
        if "swap" not in (self.kind, *(component.kind for _, component in self.parts)):
            return self.dense(table, table.shape[1])
        # A swap moves shown places, whose number is known only when a probability is requested.
        return Scored(Candidates.all_items(*table.shape), table.reshape(-1), self, name=name)

    def dense(self, scores: Floats, length: int) -> Policy:
        """Return the policy of scores (n, C), -inf if not eligible, for rankings of `length` positions."""
        if self.parts:
            shares, components = zip(*self.parts, strict=True)
            return Mixture([component.dense(scores, length) for component in components], shares)
        return KINDS[self.kind].make(scores, length, **self.options)


def _digits(value: float) -> str:
    """Return the shortest text that parses to the same number.

    >>> _digits(0.1), _digits(2.0)
    ('0.1', '2')
    """
    return repr(float(value)).removesuffix(".0")


def parse_policy(text: str, where: str = "") -> PolicySpec:
    """Return the spec of KIND[:option=value,...] or of a policy file.

    Parameters
    ----------
    text
        A spec as on the command line (`--policy NAME=SPEC`): "plackett-luce:temperature=2", "top", a
        mixture with shares of the traffic ("0.98*top+0.02*shuffle"), or the path of a policy file.
    where
        What messages call it; by default the text.

    Returns
    -------
    PolicySpec
        The kind with its options, or the path. Its method `bind` makes the policy of a log's scores.

    Raises
    ------
    PolicyError
        The kind or an option is unknown, or a value cannot be parsed.

    Examples
    --------
    >>> parse_policy("epsilon:epsilon=0.1")
    PolicySpec(kind='epsilon', options={'epsilon': 0.1}, path=None, parts=())
    >>> [share for share, part in parse_policy("0.9*top+0.1*shuffle").parts]
    [0.9, 0.1]
    """
    text = text.strip()
    where = where or f"policy '{text}'"
    if text.endswith(_FILES):
        return PolicySpec(FILE, path=text)
    if "*" in text:
        return _parse_mixture(text)
    kind, colon, option_text = text.partition(":")
    if kind.strip() == TEAM_DRAFT:
        return _draft_of(option_text.partition("of=")[2].split("+"), where)
    options: dict[str, str] = {}
    for assignment in option_text.split(",") if colon else ():
        option, equals, value = (word.strip() for word in assignment.partition("="))
        if not (option and equals and value):
            raise ConfigError(
                f"{where}: '{assignment.strip()}' is not option=value; write {_usage(kind.strip())}"
            )
        if option in options:
            raise ConfigError(f"{where}: option '{option}' is given twice")
        options[option] = value
    return _spec_of_kind(kind.strip(), options, where)


def _draft_of(names: Iterable[Any], where: str) -> PolicySpec:
    """Return the spec of a team draft of two rankers.

    >>> _draft_of(["a", "b"], "[logger]").text
    'team-draft:of=a+b'
    """
    teams = tuple(str(name).strip() for name in names)
    if len(set(teams)) != 2 or not all(teams):
        raise ConfigError(
            f'{where}: a team draft is of two rankers, of = ["a", "b"] in a job or '
            "team-draft:of=a+b, with the scores of both"
        )
    return PolicySpec(TEAM_DRAFT, teams=teams)


def mixture_of(parts: Iterable[tuple[float, PolicySpec]]) -> PolicySpec:
    """Return the spec of a mixture of the parts, which are shares of the traffic and specs.

    Parts with share 0 are dropped. If one part remains, its spec is returned unchanged.

    >>> mixture_of([(0.0, parse_policy("top")), (1.0, parse_policy("shuffle"))]).text
    'shuffle'
    """
    used = tuple((float(share), component) for share, component in parts if share > 0)
    return used[0][1] if len(used) == 1 else PolicySpec(MIXTURE, parts=used)


def _parse_mixture(text: str) -> PolicySpec:
    components = []
    for piece in _PLUS.split(text):
        number, _, component_text = piece.partition("*")
        try:
            share = float(number)
        except ValueError:
            share = np.nan
        if not 0 <= share <= 1:
            raise ConfigError(
                f"policy '{text}': '{number.strip()}' is no share of the traffic, 0 to 1; write "
                "0.98*top+0.02*shuffle"
            )
        component = parse_policy(component_text)
        if component.kind in (FILE, TEAM_DRAFT, *FACTORED_KINDS):
            raise ConfigError(
                f"policy '{text}': '{component_text.strip()}' cannot be mixed with others; known are "
                f"{', '.join(kind for kind in KINDS if kind not in FACTORED_KINDS)}"
            )
        components.append((share, component))
    total = sum(share for share, _ in components)
    if abs(total - 1) > SUM_TOLERANCE:
        raise ConfigError(f"policy '{text}': the shares sum to {total:.6g}, not to 1")
    return mixture_of(components)


def parse_named_policy(text: str) -> tuple[str, PolicySpec]:
    """Return the name and the spec of NAME=KIND[:option=value,...].

    >>> parse_named_policy("new=top")[0]
    'new'
    """
    name, equals, spec_text = text.partition("=")
    # A name has no colon: "epsilon:epsilon=0.1" is a spec without name.
    if not (name.strip() and equals and spec_text.strip()) or re.search(r"[:,*]", name):
        raise ConfigError(
            f"'{text}' names no policy; write NAME=KIND, such as new=top or new=plackett-luce"
        )
    return name.strip(), parse_policy(spec_text)


def policy_from_table(table: Mapping[str, Any], where: str) -> PolicySpec:
    """Return the spec of a TOML table with `kind` and the kind's options; `where` names the table in messages."""
    kind = table.get("kind")
    if not isinstance(kind, str):
        raise ConfigError(
            f'{where} needs kind = "...": one of {", ".join(KINDS)}, or a policy file'
        )
    if kind == TEAM_DRAFT:
        names = table.get("of")
        return _draft_of(names if isinstance(names, list) else [], where)
    assignments = [f"{name}={value}" for name, value in table.items() if name != "kind"]
    if kind.endswith(_FILES) and assignments:
        raise ConfigError(f"{where}: a policy file takes no options, got {', '.join(assignments)}")
    return parse_policy(f"{kind}:{','.join(assignments)}" if assignments else kind, where)


def _spec_of_kind(kind: str, texts: Mapping[str, str], where: str) -> PolicySpec:
    if kind not in KINDS:
        raise ConfigError(
            f"{where}: unknown kind '{kind}'; known: {', '.join([*KINDS, TEAM_DRAFT])}, or a file ending in "
            f"{' or '.join(_FILES)}"
        )
    accepted = KINDS[kind].options
    for name in texts:
        if name not in accepted:
            takes = f"it takes {', '.join(accepted)}" if accepted else "it takes none"
            raise ConfigError(f"{where}: '{kind}' has no option '{name}'; {takes}")
    options: dict[str, float] = {}
    for name, (within, allowed, default) in accepted.items():
        value = texts.get(name, default)
        if value is None:
            raise ConfigError(f"{where}: '{kind}' needs {name} ({within}); write {_usage(kind)}")
        try:
            number = float(value)
        except ValueError:
            number = np.nan
        if name in texts and not allowed(number):
            raise ConfigError(f"{where}: {name} must be {within}, got '{value}'")
        if not np.isnan(number):
            options[name] = number
    return PolicySpec(kind, options)


def _usage(kind: str) -> str:
    options = KINDS[kind].options if kind in KINDS else {"option": _SHARE}
    shown = [
        f"{name}={'2' if 'whole' in within else '0.5'}"
        for name, (within, _, default) in options.items()
        if default is not _LEFT_OUT
    ]
    return f"{kind}:{','.join(shown)}" if shown else kind
