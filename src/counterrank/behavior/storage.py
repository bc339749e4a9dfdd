"""Forests as JSON: written whole, checked when read."""

import json
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from counterrank.atomic import write_text
from counterrank.behavior.blending import Blend
from counterrank.behavior.forest import Doubt, Forest
from counterrank.behavior.masks import SETS, Candidate, as_mask
from counterrank.behavior.pairs import PairEstimate
from counterrank.errors import BehaviorError, ConfigError
from counterrank.records import Record

SCHEMA = "counterrank/behavior-tree/2"
FACTS = ("share", "objective", "estimate", "stderr", "gain")
#: Above any code of a category: sets are stored as tables as wide as the largest, and the file may
#: come from anywhere.
_MOST_CODES = 1_000_000


@dataclass(frozen=True, slots=True)
class StoredModel(Record):
    """A candidate: its mask as K texts of 0 and 1."""

    name: str
    mask: tuple[str, ...]

    def flaw(self) -> tuple[str, str] | None:
        """Return the mask where it is none."""
        good = all(len(row) == len(self.mask) and set(row) <= {"0", "1"} for row in self.mask)
        return None if good and self.mask else ("mask", "K strings of K characters 0 or 1")

    def candidate(self) -> Candidate:
        """Return the model."""
        return Candidate(self.name, np.array([[v == "1" for v in row] for row in self.mask]))


@dataclass(frozen=True, slots=True)
class StoredNode(Record):
    """A node: a leaf where `feature` is -1.

    A split without a threshold and without categories asks whether a value is there at all.
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

    def flaw(self) -> tuple[str, str] | None:
        """Return categories that are none."""
        good = all(0 <= code <= _MOST_CODES for code in self.left_categories)
        return None if good else ("left_categories", "a list of category codes")


@dataclass(frozen=True, slots=True)
class StoredBlend(Record):
    """The share of the value from pairs, and what makes it."""

    share: float
    triples: float
    centre: tuple[float, ...]

    def flaw(self) -> tuple[str, str] | None:
        """Return a share that is none."""
        for name in ("share", "triples"):
            if not 0 <= self[name] <= 1:
                return name, "one of the numbers from 0 to 1"
        return None if np.isfinite(self.centre).all() else ("centre", "a list of numbers")


@dataclass(frozen=True, slots=True)
class StoredForest(Record):
    """A forest as plain values."""

    schema: str
    mse: str
    rows: int
    context: tuple[str, ...]
    candidates: tuple[StoredModel, ...]
    roots: tuple[int, ...]
    nodes: tuple[StoredNode, ...]
    categories: dict[str, tuple[str, ...]] = field(default_factory=dict)
    with_missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    doubt: Doubt | None = None
    pairs: StoredBlend | None = None

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
            ("roots", len(self.roots) in (1, K), f"a list of {K} node numbers, or of 1"),
            ("pairs", self.pairs is None or len(self.pairs.centre) == K, f"for {K} positions"),
        )
        flaw = next(((name, told) for name, good, told in checks if not good), None)
        return flaw or self._node_flaw()

    def _node_flaw(self) -> tuple[str, str] | None:
        seen = list(self.roots)
        for at, node in enumerate(self.nodes):
            if not 0 <= node.model < len(self.candidates):
                return f"nodes[{at}].model", f"one of {len(self.candidates)} candidates"
            if node.feature < 0:
                continue
            if node.feature >= len(self.context):
                return f"nodes[{at}].feature", f"one of {len(self.context)} context columns"
            # Children stand after their parents, so no walk can run in a circle.
            if not at < min(node.left, node.right):
                return f"nodes[{at}]", "a split into later nodes"
            seen += [node.left, node.right]
        whole = sorted(seen) == list(range(len(self.nodes)))
        return None if whole else ("nodes", "a set of trees: a node has no parent or two")

    def forest(self) -> Forest:
        """Return the forest."""
        size, nodes = len(self.nodes), self.nodes
        chosen = [at for at, node in enumerate(nodes) if node.left_categories]
        width = 1 + max((max(nodes[at].left_categories) for at in chosen), default=-1)
        table = np.full((size, 4), -1, dtype=np.int64)
        table[:, :3] = [(node.feature, node.left, node.right) for node in nodes]
        table[:, 3] = 0
        table[chosen, 3] = np.arange(1, len(chosen) + 1)
        sets = np.zeros((len(chosen), width), dtype=bool)
        for row, at in zip(sets, chosen, strict=True):
            row[list(nodes[at].left_categories)] = True
        threshold = np.array([node.threshold for node in nodes])
        missing = np.array([node.missing_left for node in nodes])
        alone = (table[:, 0] >= 0) & (table[:, 3] == 0) & np.isnan(threshold)
        threshold[alone] = np.where(missing[alone], -np.inf, np.inf)
        blend = None
        if self.pairs is not None:
            pairs = PairEstimate(np.array(self.pairs.centre), 1.0, self.pairs.triples)
            blend = Blend(self.pairs.share, pairs)
        return Forest(
            candidates=tuple(c.candidate() for c in self.candidates),
            context_names=self.context,
            categories=self.categories,
            roots=np.array(self.roots, dtype=np.int64),
            nodes=table,
            threshold=threshold,
            missing_left=missing,
            sets=sets,
            model=np.array([node.model for node in nodes], dtype=np.int64),
            facts=np.array([[node[name] for name in FACTS] for node in nodes]),
            mse=self.mse,
            n_grown=self.rows,
            with_missing=self.with_missing,
            notes=self.notes,
            doubt=self.doubt,
            blend=blend,
        )


def stored(forest: Forest) -> StoredForest:
    """Return a forest as plain values."""
    nodes = []
    for at, (feature, left, right, row) in enumerate(forest.nodes.tolist()):
        facts = dict(zip(FACTS, forest.facts[at].tolist(), strict=True))
        node = StoredNode(int(forest.model[at]), **facts)
        if feature >= 0:
            codes = np.flatnonzero(forest.sets[row - 1]).tolist() if row else ()
            node = replace(
                node, feature=feature, left=left, right=right, threshold=float(forest.threshold[at]),
                missing_left=bool(forest.missing_left[at]), left_categories=tuple(codes),
            )  # fmt: skip
        nodes.append(node)
    blend = forest.blend
    return StoredForest(
        schema=SCHEMA,
        mse=forest.mse,
        rows=forest.n_grown,
        context=forest.context_names,
        candidates=tuple(
            StoredModel(c.name, tuple("".join("01"[v] for v in row) for row in c.mask.astype(int)))
            for c in forest.candidates
        ),
        roots=tuple(forest.roots.tolist()),
        nodes=tuple(nodes),
        categories=dict(forest.categories),
        with_missing=forest.with_missing,
        notes=tuple(map(str, forest.notes)),
        doubt=forest.doubt,
        pairs=None
        if blend is None
        else StoredBlend(blend.share, blend.pairs.triples, tuple(blend.pairs.centre.tolist())),
    )


def save(forest: Forest, path: "str | os.PathLike[str]") -> None:
    """Write the forest to a JSON file."""
    write_text(path, json.dumps(stored(forest).to_dict(), indent=1, allow_nan=False) + "\n")


def load(path: "str | os.PathLike[str]") -> Forest:
    """Return the forest in a JSON file."""
    given = _json(path, f"cannot read the behaviour tree {path}", f"{path} is not a behaviour tree")
    try:
        return StoredForest.from_dict(given).forest()
    except ConfigError as problem:
        raise BehaviorError(f"{path} is not a valid behaviour tree: {problem}") from problem


def load_candidates(path: "str | os.PathLike[str]") -> list[str | Candidate]:
    """Return the behaviour models in a JSON file.

    The file has a list of names ("C2"), matrices of 0 and 1, or objects with `name` and `mask`; a
    saved tree gives those it was grown with.
    """
    told = f"behaviour candidates '{path}' are neither a set ({', '.join(SETS)}) nor a file"
    given = _json(path, f"{told} that can be read", f"{path} holds no behaviour candidates")
    rows: Any = given.get("candidates") if isinstance(given, dict) else given
    try:
        if not (isinstance(rows, list) and rows):
            raise BehaviorError("it is no list of models")
        return [one if isinstance(one, str) else _model(i, one) for i, one in enumerate(rows)]
    except (BehaviorError, ConfigError) as problem:
        raise BehaviorError(f"{path} holds no behaviour candidates: {problem}") from problem


def _model(i: int, one: Any) -> Candidate:
    """Return a model given as an object with name and mask, or as a matrix without a name."""
    if not isinstance(one, list):
        return StoredModel.from_dict(one).candidate()
    try:
        matrix = np.array(one)
    except ValueError:
        matrix = np.empty(0)
    if matrix.dtype.kind != "i":
        raise BehaviorError(f"candidate {i} must be a matrix of 0 and 1")
    return Candidate(f"model {i + 1}", as_mask(matrix, len(one)))


def _json(path: "str | os.PathLike[str]", unread: str, broken: str) -> Any:
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as problem:
        raise BehaviorError(f"{unread}: {problem.strerror or problem}") from problem
    except (ValueError, RecursionError) as problem:
        raise BehaviorError(f"{broken}: not valid JSON ({problem})") from problem
