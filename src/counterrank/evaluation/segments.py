"""Ways to cut a log into groups: columns, and the groups of a behaviour tree."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from counterrank.diagnostics.columns import by_label, segmentation
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


@dataclass(frozen=True)
class TreeGroups:
    """The groups of a fitted behaviour tree, named as the tree names them."""

    model: Any
    column: str = TREE

    def groups(self, batch: RankingLog) -> Iterator[tuple[str, NDArray[np.int64]]]:
        """Yield (label, rows) of a batch."""
        yield from by_label(np.asarray(self.model.groups(batch)).astype(str))


def cuts_of(names: Sequence[str], sample: Callable[[], RankingLog], plans: Sequence[Any]) -> list[Cut]:
    """Return how to cut by each name; `sample` is called only when a column has to be looked at."""
    return [tree_groups(plans) if name == TREE else segmentation(sample(), name) for name in names]


def tree_groups(plans: Sequence[Any]) -> TreeGroups:
    """Return the groups of the behaviour tree that one of the plans fitted."""
    for plan in plans:
        model = getattr(plan, "behavior_model", None)
        if model is not None and hasattr(model, "groups"):
            return TreeGroups(model)
    raise ConfigError("segment 'tree' needs a fitted behaviour tree; run 'aips' too, on a log with context columns")
