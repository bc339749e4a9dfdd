"""A log's fingerprint: the same content has the same one, in whatever format, order or chunks it
comes.

Each ranking is hashed to 128 bits and the hashes are added, so the state of a part adds like any
other sum. It tells accidental changes; it is no signature against forgery.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels import hashing
from counterrank.log import Probabilities, RankingLog
from counterrank.policies import Scored
from counterrank.propensity import Propensity
from counterrank.source import Source

Words = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The sum of the hashes of some rankings; adds over parts of a log."""

    sums: tuple[int, int]
    n: int
    shape: str
    #: The same without the target policies: equal for one log with other targets.
    row_sums: tuple[int, int] = (0, 0)
    row_shape: str = ""

    def __add__(self, other: Self) -> Self:
        return type(self)(
            _sum(self.sums, other.sums), self.n + other.n, self.shape, _sum(self.row_sums, other.row_sums),
            self.row_shape,
        )  # fmt: skip

    @property
    def of_rows(self) -> str:
        """32 hexadecimal digits of the rows alone, whatever targets are evaluated on them."""
        return _digest(self.row_sums, self.n, self.row_shape)

    def __str__(self) -> str:
        """32 hexadecimal digits."""
        return _digest(self.sums, self.n, self.shape)


def _sum(left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
    return (left[0] + right[0]) % 2**64, (left[1] + right[1]) % 2**64


def _digest(sums: tuple[int, int], n: int, shape: str) -> str:
    content = f"{sums[0]:016x}{sums[1]:016x}:{n}:{shape}"
    return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()


def fingerprint(log: RankingLog | Source) -> str:
    """Return 32 hexadecimal digits for the content of a log.

    What counts: actions, rewards, propensities, context, target policies, names and the kind of
    propensity.

    >>> log = RankingLog(action=[[0, 1]], reward=[[1, 0]], propensity=[[.5, .5]])
    >>> other = RankingLog(action=[[0, 1]], reward=[[1, 0]], propensity=[[.5, .25]])
    >>> len(fingerprint(log)), fingerprint(log) == fingerprint(other)
    (32, False)
    """
    if isinstance(log, RankingLog):
        return str(fingerprint_of(log))
    return str(log.reduce(fingerprint_of, label="fingerprint"))


def fingerprint_of(log: RankingLog) -> Fingerprint:
    """Return the fingerprint state of one batch."""
    state = np.zeros((log.n, 2), dtype=np.uint64)  # (n, 2)
    hashing.start(state)
    hashing.absorb_integers(state, log.action)
    hashing.absorb_floats(state, log.reward, log.lengths)
    _absorb_policy(state, log.propensity, log.lengths)
    if log.context is not None:
        hashing.absorb_floats(state, log.context, np.full(log.n, log.context.shape[1]))
    rows = hashing.total(state)
    for name in sorted(log.targets):
        _absorb_policy(state, log.targets[name], log.lengths)
    sums = hashing.total(state)
    return Fingerprint(
        (int(sums[0]), int(sums[1])),
        log.n,
        _shape(log, log.targets),
        (int(rows[0]), int(rows[1])),
        _shape(log, {}),
    )


def _absorb_policy(state: Words, policy: Probabilities, lengths: NDArray[np.int64]) -> None:
    if isinstance(policy, Propensity):
        joint = policy.kind == "joint"
        values = policy.values[:, None] if joint else policy.values
        hashing.absorb_floats(state, values, np.ones_like(lengths) if joint else lengths)
    elif isinstance(policy, Scored):
        sets = policy.candidates
        for listed in (sets.items, policy.scores):
            hashing.absorb_floats(state, sets.dense(listed, 0.0), sets.counts)


def _shape(log: RankingLog, targets: Mapping[str, Probabilities]) -> str:
    kinds = {name: _kind(policy) for name, policy in {"": log.propensity, **targets}.items()}
    content = {
        "K": log.K,
        "kinds": kinds,
        "context": log.context_names,
        "categories": {name: list(labels) for name, labels in log.categories.items()},
        "actions": log.action_names,
    }
    return json.dumps(content, sort_keys=True)


def _kind(policy: Probabilities) -> str:
    if isinstance(policy, Propensity):
        return policy.kind
    return policy.spec.text if isinstance(policy, Scored) else type(policy).__name__
