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

from counterrank.data.log import Probabilities, RankingLog
from counterrank.data.propensity import Propensity
from counterrank.data.source import Source
from counterrank.kernels import hashing
from counterrank.policies import Scored


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The sum of the hashes of some rankings; adds over parts of a log."""

    sums: tuple[int, int]
    n: int
    shape: Mapping[str, Any]
    #: The same without the target policies: equal for one log with other targets.
    row_sums: tuple[int, int]
    row_shape: Mapping[str, Any]

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


def _digest(sums: tuple[int, int], n: int, shape: Mapping[str, Any]) -> str:
    content = f"{sums[0]:016x}{sums[1]:016x}:{n}:{json.dumps(shape, sort_keys=True)}"
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
    found = Fingerprint(hashes.total(), log.n, _shape(log, log.targets), rows, _shape(log, {}))
    return found, pages


def _absorb_policy(
    hashes: hashing.RowHashes, policy: Probabilities, lengths: NDArray[np.int64]
) -> None:
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
