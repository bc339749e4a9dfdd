"""Trees from random partitions: Algorithm 1 as the paper prints it, and as the authors' code runs it.

The listing of Kiyohara et al. (2023) visits one node after another. It chooses the model of the node with
the smallest MSE, draws |S| random partitions of the node, chooses the best pair of models for each, and
splits by the best partition if its MSE is strictly below that of the node. The listing leaves open what
MSE(c; l) means for a part of the rows. Here it is the MSE of the whole assignment, with the models of all
other leaves as they are, because biases of groups may cancel.

The authors' code differs in four points: a partition is accepted also if its MSE is equal; the model of a
node is not chosen again when the node is visited; the variance is not allowed to be below that of the last
candidate on all rows; and the node that was created last is visited first.
"""

from collections import deque
from dataclasses import replace

import numpy as np

from counterrank.common.arrays import Bools, Floats
from counterrank.estimators.behavior.growth import Cuts, Group, Grower, TreeRows, Waiting
from counterrank.estimators.behavior.objective import TIE, Objective
from counterrank.estimators.behavior.settings import PARTITIONS, TreeLimits

#: Makes a score of zero equal to zero, too.
TINY = 1e-300


class PrintedGrower(Grower):
    """Grows a tree by Algorithm 1 as printed, with `PARTITIONS` random partitions of each node."""

    def __init__(
        self,
        objective: Objective,
        limits: TreeLimits,
        bins: int,
        categorical: Bools,
        *,
        rng: np.random.Generator,
    ) -> None:
        # Strict acceptance: any smaller MSE counts.
        super().__init__(objective, replace(limits, min_gain=0.0), bins, categorical)
        self.rng = rng

    def cuts(self, hist: Floats, least: int) -> Cuts:
        """Return random cuts of a node: a uniformly drawn feature, then a uniformly drawn cut of it."""
        sums, where, order = super().cuts(hist, least)
        features = np.unique(where[0])
        if not len(features):
            return sums, where, order
        drawn = [
            self.rng.choice(np.flatnonzero(where[0] == feature))
            for feature in self.rng.choice(features, size=PARTITIONS)
        ]
        return sums[drawn], where[:, drawn], order


class PublishedGrower(PrintedGrower):
    """Grows a tree by the search of the authors' code, with the MSE estimated from the log."""

    def grow(self, rows: TreeRows) -> Group:
        """Return the tree; the variance has the floor of the authors' code, except at the root."""
        last = self.objective.channels(rows.histogram(self.bins)[0].sum(axis=0))[-1]
        self.floor = max(float(last[1] - last[0] ** 2), 0.0) / self.objective.position.n_apply
        return super().grow(rows)

    def next_group(self, waiting: "deque[Waiting]") -> Waiting:
        """Return the group that was created last."""
        return waiting.pop()

    def settle(self, group: Group) -> Floats:
        """Return the channels of the group under each model; its model stays."""
        if self.objective.variance_floor != self.floor:
            self.objective = replace(self.objective, variance_floor=self.floor)
        channels = self.objective.channels(group.sums)
        with_rest: Floats = channels + (self.totals - channels[group.model])
        group.score = self.objective.score(self.totals)
        return with_rest

    def threshold(self, group: Group, least_gain: float) -> float:
        """Return a limit just above the score of the group, so that an equal score is accepted."""
        return group.score + 3.0 * TIE * abs(group.score) + TINY
