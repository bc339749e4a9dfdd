"""The grown forest: one tree per position, that assigns a behaviour model to each row; and its JSON form."""

import json
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counterrank.common.arrays import Bools, Floats, Ints
from counterrank.common.errors import BehaviorError, ConfigError
from counterrank.common.records import Record
from counterrank.estimators.behavior.growth import Group
from counterrank.estimators.behavior.masks import SETS, Candidate, as_mask
from counterrank.estimators.behavior.pairs import Blend, share_of
from counterrank.estimators.behavior.settings import CHANCE
from counterrank.estimators.behavior.training import Bins, TrainingSet
from counterrank.estimators.weights.ratios import Ratios

SCHEMA = "counterrank/behavior-tree/3"
#: Above any code of a category; the file may come from anywhere.
_MOST_CODES = 1_000_000


@dataclass(frozen=True, slots=True)
class Doubt(Record):
    """How far an estimate may be off because its models were chosen on its own rows.

    `gap` is the distance of the estimate to a value for which no behaviour was chosen, less the noise of
    that distance: the standard error holds it. `stderr` is the standard error of that value: by a reward
    model (`modelled`) or from all pairs of items (`pairs`). `left_out` is a bias that the value may have.
    """

    gap: float
    left_out: float
    stderr: float

    def flaw(self) -> tuple[str, str] | None:
        """Return a part that is no size."""
        return next(((name, "a number, 0 or more") for name in self if not self[name] >= 0), None)

    @property
    def allowance(self) -> float:
        """The bias to allow for."""
        return self.gap + self.left_out


class Reference(NamedTuple):
    """A value for which no behaviour was chosen: its rows (n,), and the spread that they have.

    `stretched` are rows with the spread that their tails have: few logs hold their extreme rows.
    `left_out` is a bias that the value may have, `variance` is that of the value beside the rows'.
    """

    rows: Floats
    stretched: Floats
    left_out: float
    variance: float = 0.0

    def doubt_of(self, chosen: Floats) -> Doubt:
        """Return the doubt about the mean of rows (n,)."""
        n = max(len(chosen), 1)
        spread = self.stretched if math.isfinite(float(self.stretched.std())) else self.rows
        # E mean^2 = effect^2 + variance of the mean.
        noise = float((chosen - spread).var()) / n + self.variance
        gap = float((chosen - self.rows).mean()) ** 2 - noise
        stderr = math.sqrt(float(spread.var()) / n + self.variance)
        return Doubt(math.sqrt(max(gap, 0.0)), self.left_out, stderr)


def beyond_chance_of(triples: Floats) -> float:
    """Return what triples add to the value from pairs, in rows (n,), beyond chance.

    So large is what pairs leave out, be it the triples themselves or, where these were counted, effects of
    more items. Products of three ratios are mostly noise: two standard errors of theirs are chance.
    """
    noise = (CHANCE**2) * float(triples.var()) / max(len(triples), 1)
    return math.sqrt(max(float(triples.mean()) ** 2 - noise, 0.0))


@dataclass(frozen=True, slots=True)
class StoredModel(Record):
    """A candidate as plain values: its mask is K texts of 0 and 1."""

    name: str
    mask: tuple[str, ...]

    @classmethod
    def from_candidate(cls, candidate: Candidate) -> "StoredModel":
        """Return a candidate as plain values."""
        digits = np.where(candidate.mask, b"1", b"0")
        return cls(candidate.name, tuple(row.tobytes().decode() for row in digits))

    def flaw(self) -> tuple[str, str] | None:
        """Return the mask where it is none."""
        good = all(len(row) == len(self.mask) and set(row) <= {"0", "1"} for row in self.mask)
        return None if good and self.mask else ("mask", "K strings of K characters 0 or 1")

    def candidate(self) -> Candidate:
        """Return the model."""
        return Candidate(self.name, np.array([[v == "1" for v in row] for row in self.mask]))


@dataclass(frozen=True, slots=True)
class Node(Record):
    """A node: a leaf where `feature` is -1.

    A split without a threshold and without categories asks whether a value is there at all. Share of
    rows, objective, estimate, standard error, gain and chance are of the rows that the tree was grown
    on; `chance` is how probable so large a difference between the sides is in a shuffled context.
    """

    model: int
    share: float = np.nan
    objective: float = np.nan
    estimate: float = np.nan
    stderr: float = np.nan
    gain: float = np.nan
    feature: int = -1
    left: int = -1
    right: int = -1
    missing_left: bool = False
    threshold: float = np.nan
    left_categories: tuple[int, ...] = ()
    chance: float = np.nan

    @property
    def leaf(self) -> bool:
        """Whether it is not split."""
        return self.feature < 0

    def flaw(self) -> tuple[str, str] | None:
        """Return categories that are none."""
        good = all(0 <= code <= _MOST_CODES for code in self.left_categories)
        return None if good else ("left_categories", "a list of category codes")

    def goes_left(self, values: Floats, categories: int) -> Bools:
        """Return which values (n,) go left: a number that is at most the threshold, a category of the set.

        Missing ones, and codes that are none of so many `categories`, by `missing_left`.
        """
        left: Bools
        if self.left_categories:
            listed_values = (values > -1) & (values < categories)
            left = np.where(listed_values, np.isin(values, self.left_categories), self.missing_left)
        elif math.isnan(self.threshold):
            left = np.isnan(values) == self.missing_left
        else:
            # A missing value compares as false.
            left = ~(values > self.threshold) if self.missing_left else values <= self.threshold
        return left


@dataclass(frozen=True)
class Forest(Record):
    """Trees over the context, each leaf a behaviour model; the fields are those of its JSON form.

    `roots` has the first node of each position; `rows` is how many rankings it was grown on;
    `with_missing` names context columns that had missing values there; `blend` is the share of the
    value from pairs in the estimate of `aips-pairs`.
    """

    schema: str
    mse: str
    rows: int
    context: tuple[str, ...]
    candidates: tuple[StoredModel, ...]
    roots: tuple[int, ...]
    nodes: tuple[Node, ...]
    categories: dict[str, tuple[str, ...]] = field(default_factory=dict)
    with_missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    doubt: Doubt | None = None
    blend: Blend | None = field(default=None, metadata={"key": "pairs"})

    def flaw(self) -> tuple[str, str] | None:
        """Return the first part that does not fit the others."""
        sizes = {len(c.mask) for c in self.candidates}
        K = max(sizes, default=0)
        checks = (
            (
                "schema",
                self.schema == SCHEMA,
                f"{SCHEMA!r}; grow a tree of an earlier version anew",
            ),
            ("candidates", len(sizes) == 1, "a list of models for one number of positions"),
            ("rows", self.rows >= 0, "a number of rows"),
            ("roots", len(self.roots) == K, f"a list of {K} node numbers"),
            ("pairs", self.blend is None or len(self.blend.centre) == K, f"for {K} positions"),
        )
        flaw = next(((name, told) for name, good, told in checks if not good), None)
        return flaw or self._node_flaw()

    def _node_flaw(self) -> tuple[str, str] | None:
        children = list(self.roots)
        for number, node in enumerate(self.nodes):
            if not 0 <= node.model < len(self.candidates):
                return f"nodes[{number}].model", f"one of {len(self.candidates)} candidates"
            if node.leaf:
                continue
            if node.feature >= len(self.context):
                return f"nodes[{number}].feature", f"one of {len(self.context)} context columns"
            # Children stand after their parents, so no walk can run in a circle.
            if not number < min(node.left, node.right):
                return f"nodes[{number}]", "a split into later nodes"
            children += [node.left, node.right]
        connected = sorted(children) == list(range(len(self.nodes)))
        return None if connected else ("nodes", "a set of trees: a node has no parent or two")

    @property
    def K(self) -> int:  # noqa: N802 - the letter of the papers
        """Number of positions."""
        return len(self.roots)

    @cached_property
    def masks(self) -> Bools:
        """The candidates' masks (M, K, K)."""
        return np.stack([model.candidate().mask for model in self.candidates])

    def assign(self, context: "ArrayLike | None", n: int | None = None) -> Ints:
        """Return the model of each row and position, an index into `candidates`: (n, K)."""
        return self.assigned(context, [node.model for node in self.nodes], n)

    def assigned(
        self, context: "ArrayLike | None", labels: Sequence[int], n: int | None = None
    ) -> Ints:
        """Return the label of each row's leaf at each position (n, K), from one for every node."""
        values = self._columns(context, n)
        out = np.empty((self.K, values.shape[1]), dtype=np.int64)
        for root, column in zip(self.roots, out, strict=True):
            for leaf, reached in self._reached(values, root):
                np.copyto(column, labels[leaf], where=reached)
        return out.T

    def _reached(self, values: Floats, root: int) -> Iterator[tuple[int, Bools]]:
        """Yield each leaf of a tree, and the rows (n,) that come to it.

        Node by node rather than row by row: a comparison with one threshold runs over consecutive
        rows, where a walk waits for every branch that it did not foresee.
        """
        waiting = [(root, np.ones(values.shape[1], dtype=bool))]
        while waiting:
            number, reached = waiting.pop()
            node = self.nodes[number]
            if node.leaf:
                yield number, reached
                continue
            count = len(self.categories.get(self.context[node.feature], ()))
            left = reached & node.goes_left(values[node.feature], count)
            waiting += [(node.left, left), (node.right, reached ^ left)]

    def weights(self, context: "ArrayLike | None", ratios: Ratios) -> Floats:
        """Return w (n, K): at row i and position k the weight of the model assigned there."""
        # Only those in use: a log need not be able to weigh the others.
        used = sorted({node.model for node in self.nodes if node.leaf})
        labels = [used.index(node.model) if node.leaf else -1 for node in self.nodes]
        choice = self.assigned(context, labels, len(ratios.rho))
        return ratios.by_choice(self.masks[used], choice)

    def _columns(self, context: "ArrayLike | None", n: int | None) -> Floats:
        """Return the context column by column (d, n)."""
        width, names = len(self.context), ", ".join(self.context)
        if context is None:
            if not all(node.leaf for node in self.nodes):
                raise BehaviorError(f"this tree asks for context ({names}); none was given")
            return np.empty((width, n or 0))
        values = np.asarray(context, dtype=np.float64)
        if values.ndim != 2 or values.shape[1] != width:
            raise BehaviorError(
                f"the tree was grown on {width} context columns ({names}); "
                f"got an array of shape {values.shape}"
            )
        return np.ascontiguousarray(values.T)


def assemble(
    trees: Sequence[Group],
    data: TrainingSet,
    *,
    mse: str,
    n_apply: int,
) -> Forest:
    """Return the forest of the trees grown for each position."""
    nodes: list[Node] = []
    labels: list[int] = []
    roots = []
    for tree, models in zip(trees, data.models, strict=True):
        roots.append(len(nodes))
        for group, node in _nodes_of(tree, data.bins, models.tolist(), roots[-1]):
            nodes.append(node)
            labels.append(group.model)
    forest = Forest(
        schema=SCHEMA,
        mse=mse,
        rows=data.log.n,
        context=data.log.context_names,
        candidates=tuple(map(StoredModel.from_candidate, data.candidates)),
        roots=tuple(roots),
        nodes=tuple(nodes),
        categories=dict(data.log.categories),
        with_missing=data.with_missing,
        notes=data.notes,
    )
    models_of_rows = forest.assigned(data.log.context, labels, data.log.n)
    chosen = np.stack(
        [_picked(y, models) for y, models in zip(data.y, models_of_rows.T, strict=True)]
    ).T
    alpha, pairs, triples = data.log.position_weights, data.pairs, data.triples
    # With every effect of pairs, whatever the evidence.
    shares = pairs.tail_shares(triples)
    apart = pairs.summed(*shares)
    apart -= chosen
    gap = pairs.values(1.0, triples) - chosen.mean(axis=0)
    share = share_of(chosen, gap[None], apart, alpha, n_apply)
    chosen_totals, pair_totals = chosen @ alpha, pairs.totals(1.0, triples, alpha)
    if data.modelled is None:
        left_out = beyond_chance_of(pairs.triples @ alpha)
        reference = Reference(pair_totals, pairs.totals(*shares, alpha), left_out)
    else:
        totals = data.modelled.rows @ alpha
        reference = Reference(totals, totals, data.modelled.disagreement, data.modelled.variance)
    blended = reference.doubt_of(chosen_totals + share * (pair_totals - chosen_totals))
    blend = Blend(share, triples, tuple(pairs.centre.tolist()), blended.gap)
    return replace(forest, doubt=reference.doubt_of(chosen_totals), blend=blend)


def _picked(y: Floats, models: Ints) -> Floats:
    """Return y[i, models[i]] (n,), column by column, as y (n, M) lies in memory."""
    used = np.flatnonzero(np.bincount(models, minlength=y.shape[1]))
    out = y[:, used[0]].copy()
    for model in used[1:]:
        np.copyto(out, y[:, model], where=models == model)
    return out


def _nodes_of(
    tree: Group, bins: Bins, models: list[int], first: int
) -> Iterator[tuple[Group, Node]]:
    """Yield the groups of a tree and their nodes, numbered from `first` on, parents before children.

    Estimate and error are of the rows' own value in the group: mean of w r and its standard error.
    """
    groups = [tree]
    for group in groups:  # grows on the way
        rows, total, square = group.sums[
            [0, 1 + group.model, 1 + len(models) + group.model]
        ].tolist()
        mean = total / max(rows, 1)
        # n / (n - 1) of a sample's variance and 1 / n of its mean's, in one.
        error = math.sqrt(max(square / max(rows, 1) - mean**2, 0.0) / max(rows - 1, 1))
        node = Node(
            models[group.model], float(rows / tree.sums[0]), group.score, mean, error, group.gain
        )
        if group.sides:
            edges, edge_numbers = bins.edges[group.feature], np.flatnonzero(group.goes_left[1:])
            split: dict[str, Any] = {}
            if bins.categorical[group.feature]:
                split["left_categories"] = tuple(edges[edge_numbers].astype(int).tolist())
            elif 0 < len(edge_numbers) <= len(edges):
                # Bins 1..b go left: values up to edge b.
                split["threshold"] = float(edges[len(edge_numbers) - 1])
            a = first + len(groups)
            node = replace(
                node,
                feature=group.feature,
                left=a,
                right=a + 1,
                chance=group.chance,
                missing_left=bool(group.goes_left[0]),
                **split,
            )
            groups += group.sides
        yield group, node


def load_candidates(path: "str | os.PathLike[str]") -> list[str | Candidate]:
    """Return the behaviour models in a JSON file.

    The file has a list of names ("C2"), matrices of 0 and 1, or objects with `name` and `mask`; a
    saved tree gives those it was grown with.
    """
    told = f"behaviour candidates '{path}' are neither a set ({', '.join(SETS)}) nor a file"
    document = read_json(path, f"{told} that can be read", f"{path} holds no behaviour candidates")
    rows: Any = document.get("candidates") if isinstance(document, dict) else document
    try:
        if not (isinstance(rows, list) and rows):
            raise BehaviorError("it is no list of models")
        return [row if isinstance(row, str) else _model(i, row) for i, row in enumerate(rows)]
    except (BehaviorError, ConfigError) as problem:
        raise BehaviorError(f"{path} holds no behaviour candidates: {problem}") from problem


def _model(i: int, row: Any) -> Candidate:
    """Return a model given as an object with name and mask, or as a matrix without a name."""
    if not isinstance(row, list):
        return StoredModel.from_dict(row).candidate()
    try:
        matrix = np.array(row)
    except ValueError:
        matrix = np.empty(0)
    if matrix.dtype.kind != "i":
        raise BehaviorError(f"candidate {i} must be a matrix of 0 and 1")
    return Candidate(f"model {i + 1}", as_mask(matrix, len(row)))


def read_json(path: "str | os.PathLike[str]", unread: str, broken: str) -> Any:
    """Return what a JSON file holds; `unread` and `broken` begin the messages of one that cannot be read."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as problem:
        raise BehaviorError(f"{unread}: {problem.strerror or problem}") from problem
    except (ValueError, RecursionError) as problem:
        raise BehaviorError(f"{broken}: not valid JSON ({problem})") from problem
