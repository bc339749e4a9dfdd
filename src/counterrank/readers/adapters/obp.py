"""Slate feedback of Open Bandit Pipeline (obp): flat arrays, one entry a (slate, position).

obp keeps three probabilities of what was shown: `pscore` of the whole slate, `pscore_cascade` of
the items down to this position (cumulative), `pscore_item_position` of this item at this position.
Positions start at 0.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.errors import LogError, PropensityError
from counterrank.log import RankingLog
from counterrank.propensity import Propensity

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_KEY = {"prefix": "pscore_cascade", "position": "pscore_item_position", "joint": "pscore"}
#: Rounding allowed between the product of marginals and the joint of a factored policy.
_CLOSE = 1e-9


def from_obp(
    feedback: Mapping[str, Any],
    targets: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    kind: str | None = None,
) -> RankingLog:
    """Return a log from `obtain_batch_bandit_feedback` of obp's slate data sets.

    `targets` maps a name to a dict with the same pscore keys (obp's evaluation_policy_pscore...).
    `kind` None takes the most that all of them support: factored when the item marginals multiply
    to the joint, else prefix, else position, else joint.
    """
    slots = _Slots(feedback)
    policies = {"": feedback, **(targets or {})}
    tables = {name: _pscores(policy, name, slots) for name, policy in policies.items()}
    kind = kind or _common_kind(tables)
    propensities = {name: _propensity(table, kind, name) for name, table in tables.items()}
    context = feedback.get("context")
    return RankingLog(
        action=slots.spread(feedback["action"], "action", -1),
        reward=slots.spread(feedback["reward"], "reward", 0.0),
        propensity=propensities.pop(""),
        context=None
        if context is None
        else np.asarray(context, dtype=np.float64)[slots.rounds(context)],
        targets=propensities,
    )


class _Slots:
    """Where each entry of the flat arrays goes: (slate, position)."""

    def __init__(self, feedback: Mapping[str, Any]) -> None:
        for key in ("slate_id", "position", "action", "reward"):
            if key not in feedback or feedback[key] is None:
                known = ", ".join(sorted(map(str, feedback)))
                raise LogError(
                    f"obp feedback has no '{key}'; it has {known}. Slate feedback is wanted"
                )
        slate = np.asarray(feedback["slate_id"])
        self.position = np.asarray(feedback["position"]).astype(np.int64)
        self.size = len(slate)
        if self.size == 0 or self.position.shape != slate.shape:
            raise LogError(
                f"'slate_id' has {self.size} entries, 'position' {self.position.size}; one each "
                "is wanted"
            )
        self.ids, self.row = np.unique(slate, return_inverse=True)
        self.n, self.K = len(self.ids), int(self.position.max()) + 1
        self._check()

    def _check(self) -> None:
        if self.position.min() < 0:
            raise LogError(
                f"'position' is {self.position.min()} at entry {self.position.argmin()}; obp "
                "counts from 0"
            )
        seen = np.bincount(self.row * self.K + self.position, minlength=self.n * self.K)
        if seen.max() > 1:
            row, position = divmod(int(seen.argmax()), self.K)
            raise LogError(f"slate {self.ids[row]} has position {position} {seen.max()} times")
        used = seen.reshape(self.n, self.K)
        gap = (np.diff(used, axis=1) > 0).any(axis=1) | (used[:, 0] == 0)
        if gap.any():
            row = int(np.argmax(gap))
            missing = int(np.argmin(used[row]))
            raise LogError(f"slate {self.ids[row]} has no position {missing}, but later ones")
        self.used = used.astype(bool)

    def spread(self, values: Any, name: str, pad: float) -> NDArray[Any]:
        """Return (n, K) from a flat array."""
        flat = np.asarray(values)
        if flat.shape != (self.size,):
            raise LogError(
                f"'{name}' has shape {flat.shape}, 'slate_id' has ({self.size},); they must match"
            )
        if flat.dtype.kind not in "biuf":
            raise LogError(f"'{name}' holds {flat.dtype}, numbers are wanted")
        result = np.full(
            (self.n, self.K), pad, dtype=np.int64 if flat.dtype.kind in "biu" else np.float64
        )
        if name != "action":
            result = result.astype(np.float64)
        result[self.row, self.position] = flat
        return result

    def rounds(self, context: Any) -> Ints:
        """Return the row of `context` for each slate: slate ids are rounds when they fit, else
        their order.
        """
        rows = len(np.asarray(context))
        if (
            np.issubdtype(self.ids.dtype, np.integer)
            and self.ids.min() >= 0
            and self.ids.max() < rows
        ):
            return self.ids.astype(np.int64)
        if rows != self.n:
            raise LogError(f"'context' has {rows} rows, there are {self.n} slates")
        return np.arange(self.n)


def _pscores(policy: Mapping[str, Any], name: str, slots: _Slots) -> dict[str, Floats]:
    prefix = "evaluation_policy_"
    found = {}
    for kind, key in _KEY.items():
        values = policy.get(key, policy.get(prefix + key) if name else None)
        if values is not None:
            found[kind] = slots.spread(values, key, 1.0)
    if not found:
        raise PropensityError(f"{_called(name)} has none of {', '.join(_KEY.values())}")
    if "position" in found and "joint" in found:
        product = np.where(slots.used, found["position"], 1.0).prod(axis=1)
        if np.allclose(product, found["joint"][:, 0], rtol=_CLOSE, atol=0):
            found["factored"] = found["position"]
    return found


def _common_kind(tables: Mapping[str, Mapping[str, Floats]]) -> str:
    for kind in ("factored", "prefix", "position", "joint"):
        if all(kind in table for table in tables.values()):
            return kind
    have = "; ".join(
        f"{_called(name)}: {', '.join(_KEY[k] for k in table if k in _KEY)}"
        for name, table in tables.items()
    )
    raise PropensityError(f"logging and target policies have no pscore in common ({have})")


def _propensity(table: Mapping[str, Floats], kind: str, name: str) -> Propensity:
    source = "position" if kind == "factored" and kind not in table else kind
    if source not in table:
        key = _KEY.get(source, source)
        raise PropensityError(f"kind '{kind}' needs '{key}', which {_called(name)} does not have")
    values = table[source]
    if kind == "prefix":
        above = np.concatenate([np.ones((len(values), 1)), values[:, :-1]], axis=1)
        # Below a prefix of probability zero nothing can follow: zero, not 0/0.
        values = np.divide(values, above, out=np.zeros_like(values), where=above > 0)
    return Propensity(kind, values[:, 0] if kind == "joint" else values)


def _called(name: str) -> str:
    return f"target policy '{name}'" if name else "the feedback"
