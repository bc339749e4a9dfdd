"""A log's fingerprint: the same content has the same one, in whatever format, order or chunks it comes.

Each ranking is hashed to 128 bits and the hashes are added, so the state of a part adds like any
other sum. It tells accidental changes; it is no signature against forgery.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from counterrank.common.arrays import Ints
from counterrank.data.log import Probabilities, Propensity, RankingLog
from counterrank.data.source import MemorySource, Source
from counterrank.kernels import hashing
from counterrank.policies import Scored


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The sum of the hashes of some rankings; adds over parts of a log."""

    #: Of everything, and of the rows without the target policies (2, 2): the latter are equal for one log
    #: with other targets.
    sums: NDArray[np.uint64]
    n: int
    shape: Mapping[str, Any]
    row_shape: Mapping[str, Any]

    def __add__(self, other: Self) -> Self:
        # Unsigned numbers wrap around.
        return type(self)(self.sums + other.sums, self.n + other.n, self.shape, self.row_shape)

    @property
    def of_rows(self) -> str:
        """32 hexadecimal digits of the rows alone, whatever targets are evaluated on them."""
        return self._digest(self.sums[1], self.row_shape)

    def __str__(self) -> str:
        """32 hexadecimal digits."""
        return self._digest(self.sums[0], self.shape)

    def _digest(self, sums: NDArray[np.uint64], shape: Mapping[str, Any]) -> str:
        first, second = sums.tolist()
        content = f"{first:016x}{second:016x}:{self.n}:{json.dumps(shape, sort_keys=True)}"
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
    source = MemorySource(log) if isinstance(log, RankingLog) else log
    return str(source.reduce(fingerprint_of, label="fingerprint"))


def fingerprint_of(log: RankingLog) -> Fingerprint:
    """Return the fingerprint state of one batch."""
    return with_pages(log)[0]


def with_pages(log: RankingLog) -> tuple[Fingerprint, NDArray[np.uint64]]:
    """Return the fingerprint state of one batch, and hashes of what each row showed and earned (n,)."""
    hashes = hashing.RowHashes(log.n)
    hashes.absorb(log.lengths, log.action, log.reward)
    pages = hashes.values
    _absorb_policy(hashes, log.propensity, log.lengths)
    if log.context is not None:
        hashes.absorb(None, log.context)
    rows = hashes.total()
    for name in sorted(log.targets):
        _absorb_policy(hashes, log.targets[name], log.lengths)
    sums = np.array([hashes.total(), rows], dtype=np.uint64)
    return Fingerprint(sums, log.n, _shape(log, log.targets), _shape(log, {})), pages


def _absorb_policy(hashes: hashing.RowHashes, policy: Probabilities, lengths: Ints) -> None:
    if isinstance(policy, Propensity):
        joint = policy.kind == "joint"
        hashes.absorb(
            None if joint else lengths, policy.values[:, None] if joint else policy.values
        )
    elif isinstance(policy, Scored):
        sets = policy.candidates
        hashes.absorb(
            sets.counts, *(sets.dense(listed, 0.0) for listed in (sets.items, policy.scores))
        )


def _shape(log: RankingLog, targets: Mapping[str, Probabilities]) -> dict[str, object]:
    """Return what the numbers mean; it is written out once, for the digest of the whole log."""
    return {
        "K": log.K,
        "kinds": {name: _kind(policy) for name, policy in {"": log.propensity, **targets}.items()},
        "context": log.context_names,
        "categories": log.categories,
        "actions": log.action_names,
    }


def _kind(policy: Probabilities) -> str:
    if isinstance(policy, Propensity):
        return policy.kind
    return policy.spec.text if isinstance(policy, Scored) else type(policy).__name__
