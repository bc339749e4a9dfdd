"""Ways to cut a log into groups: columns, and the groups of a behaviour tree."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from counterrank.diagnostics import by_label, segmentation
from counterrank.errors import ConfigError
from counterrank.evaluation.options import TREE
from counterrank.log import RankingLog


class Cut(Protocol):
    """A way to cut the log into groups."""

    @property
    def column(self) -> str:
        """The name the groups are listed under."""

    def groups(self, batch: RankingLog) -> Iterator[tuple[str, NDArray[np.int64]]]:
        """Yield (label, rows) of a batch."""


#: Groups of a tree that are listed; the rest stand together.
TREE_GROUPS = 8
OTHERS = "other behaviour"


@dataclass(frozen=True)
class TreeGroups:
    """The groups of a fitted behaviour tree: rankings with the same model at every position."""

    model: Any
    kept: tuple[str, ...] = ()
    column: str = TREE

    def groups(self, batch: RankingLog) -> Iterator[tuple[str, NDArray[np.int64]]]:
        """Yield (label, rows) of a batch."""
        names = self.names(batch)
        yield from by_label(np.where(np.isin(names, self.kept), names, OTHERS) if self.kept else names)

    def names(self, batch: RankingLog) -> NDArray[np.str_]:
        """Return the models of each row (n,): one name when it is the same at all positions, else all of them."""
        forest = self.model.together
        choice = forest.choice(batch.context, batch.n, batch.bucket)  # (n, K)
        patterns, back = np.unique(choice, axis=0, return_inverse=True)
        labels = [[forest.candidates[m].name for m in row] for row in patterns]
        texts = [row[0] if len(set(row)) == 1 else ", ".join(row) for row in labels]
        return np.array(texts)[np.asarray(back).reshape(-1)]


def cuts_of(names: Sequence[str], sample: Callable[[], RankingLog], plans: Sequence[Any]) -> list[Cut]:
    """Return how to cut by each name; `sample` is called only when a column has to be looked at."""
    return [tree_groups(plans, sample()) if name == TREE else segmentation(sample(), name) for name in names]


def tree_groups(plans: Sequence[Any], sample: RankingLog) -> TreeGroups:
    """Return the largest groups of the behaviour tree that one of the plans fitted."""
    for plan in plans:
        model = getattr(plan, "behavior_model", None)
        if model is not None and hasattr(model, "together"):
            found, counts = np.unique(TreeGroups(model).names(sample), return_counts=True)
            largest = found[np.argsort(-counts, kind="stable")[:TREE_GROUPS]]
            return TreeGroups(model, tuple(str(name) for name in largest))
    raise ConfigError("segment 'tree' needs a fitted behaviour tree; run 'aips' too, on a log with context columns")
