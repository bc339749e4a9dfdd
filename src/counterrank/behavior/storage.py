"""Forests as JSON: written whole, checked when read."""

import json
import os
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.atomic import write_text
from counterrank.behavior.blending import Blend
from counterrank.behavior.forest import Doubt, Forest
from counterrank.behavior.masks import SETS, Candidate
from counterrank.behavior.pairs import PairEstimate
from counterrank.errors import BehaviorError
from counterrank.records import Json

SCHEMA = "counterrank/behavior-tree/1"
FACTS = ("share", "objective", "estimate", "stderr", "gain")


def save(forest: Forest, path: "str | os.PathLike[str]") -> None:
    """Write the forest to a JSON file."""
    write_text(path, json.dumps(to_dict(forest), indent=1, allow_nan=False) + "\n")


def load(path: "str | os.PathLike[str]") -> Forest:
    """Return the forest in a JSON file."""
    try:
        given = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as problem:
        raise BehaviorError(
            f"cannot read the behaviour tree {path}: {problem.strerror or problem}"
        ) from problem
    except (ValueError, RecursionError) as problem:
        raise BehaviorError(
            f"{path} is not a behaviour tree: not valid JSON ({problem})"
        ) from problem
    try:
        return from_dict(given)
    except BehaviorError as problem:
        raise BehaviorError(f"{path} is not a valid behaviour tree: {problem}") from problem


def load_candidates(path: "str | os.PathLike[str]") -> list[str | Candidate]:
    """Return the behaviour models in a JSON file.

    The file has a list of names ("C2"), matrices of 0 and 1, or objects with `name` and `mask`; a
    saved tree gives those it was grown with.
    """
    known = ", ".join(SETS)
    try:
        given = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as problem:
        raise BehaviorError(
            f"behaviour candidates '{path}' are neither a set ({known}) nor a file that can be "
            f"read: {problem.strerror or problem}"
        ) from problem
    except (ValueError, RecursionError) as problem:
        raise BehaviorError(
            f"{path} holds no behaviour candidates: not valid JSON ({problem})"
        ) from problem
    rows: Any = given.get("candidates") if isinstance(given, dict) else given
    try:
        _need(isinstance(rows, list) and len(rows) > 0, "it is no list of models")
        return [one if isinstance(one, str) else _candidate(i, one) for i, one in enumerate(rows)]
    except BehaviorError as problem:
        raise BehaviorError(f"{path} holds no behaviour candidates: {problem}") from problem


def to_dict(forest: Forest) -> Json:
    """Return the forest as plain values."""
    return {
        "schema": SCHEMA,
        "mse": forest.mse,
        "rows": forest.n_grown,
        "context": list(forest.context_names),
        "categories": {name: list(labels) for name, labels in forest.categories.items()},
        "candidates": [
            {
                "name": c.name,
                "order": c.order,
                "mask": ["".join("01"[int(v)] for v in row) for row in c.mask],
            }
            for c in forest.candidates
        ],
        "with_missing": list(forest.with_missing),
        "notes": list(forest.notes),
        **({} if forest.doubt is None else {"doubt": asdict(forest.doubt)}),
        **({} if forest.blend is None else {"pairs": _of_blend(forest.blend)}),
        "roots": forest.roots.tolist(),
        "nodes": [_node(forest, at) for at in range(len(forest.nodes))],
    }


def _node(forest: Forest, at: int) -> Json:
    facts = {
        name: float(v) for name, v in zip(FACTS, forest.facts[at], strict=True) if np.isfinite(v)
    }
    node: Json = {"model": int(forest.model[at]), **facts}
    feature, left, right, member = (int(v) for v in forest.nodes[at])
    if feature < 0:
        return node
    node |= {
        "feature": feature,
        "left": left,
        "right": right,
        "missing_left": bool(forest.missing_left[at]),
    }
    if member:
        node["left_categories"] = np.flatnonzero(forest.sets[member - 1]).tolist()
    elif np.isfinite(forest.threshold[at]):
        node["threshold"] = float(forest.threshold[at])
    else:
        # JSON has no infinity, and an infinite threshold only asks whether a value is there.
        node["threshold"] = "missing"
    return node


def from_dict(given: Any) -> Forest:
    """Return the forest described by plain values, or say which value is wrong."""
    _need(isinstance(given, dict), "the file does not hold an object")
    _need(given.get("schema") == SCHEMA, f"schema is {given.get('schema')!r}, expected {SCHEMA!r}")
    names = _list_of_str(given.get("context"), "context")
    categories = given.get("categories", {})
    _need(isinstance(categories, dict), "categories is not an object")
    found = _candidates(given.get("candidates"))
    nodes = given.get("nodes")
    _need(isinstance(nodes, list) and len(nodes) > 0, "nodes is not a list of nodes")
    roots = given.get("roots")
    K = len(found[0].mask)
    whole = isinstance(roots, list) and all(_is_int(r, 0, len(nodes) - 1) for r in roots)
    _need(
        whole and len(roots) in (1, K),
        f"roots must be {K} node numbers (or 1); got {str(roots)[:80]}",
    )
    _need(
        _is_int(given.get("rows"), 0, 2**62),
        f"rows is {given.get('rows')!r}, expected a whole number",
    )
    table = [
        _checked(node, at, len(nodes), len(found), len(names)) for at, node in enumerate(nodes)
    ]
    _one_parent_each(table, roots)
    return _build(
        given,
        table,
        found,
        tuple(names),
        {k: tuple(_list_of_str(v, k)) for k, v in categories.items()},
    )


def _build(
    given: Json,
    table: list[Json],
    found: tuple[Candidate, ...],
    names: tuple[str, ...],
    categories: dict[str, tuple[str, ...]],
) -> Forest:
    facts = [[node.get(name, np.nan) for name in FACTS] for node in table]
    return Forest(
        candidates=found,
        context_names=names,
        categories=categories,
        roots=np.array(given["roots"], dtype=np.int64),
        **_splits(table),
        model=np.array([node["model"] for node in table], dtype=np.int64),
        facts=np.array(facts, dtype=np.float64),
        mse=str(given.get("mse", "")),
        n_grown=int(given["rows"]),
        with_missing=tuple(_list_of_str(given.get("with_missing", []), "with_missing")),
        notes=tuple(_list_of_str(given.get("notes", []), "notes")),
        doubt=_doubt(given.get("doubt")),
        blend=_blend(given.get("pairs"), len(found[0].mask)),
    )


def _doubt(given: Any) -> Doubt | None:
    if given is None:
        return None
    found: list[Any] = [given.get(f.name) for f in fields(Doubt)] if isinstance(given, dict) else []
    _need(
        found and all(_is_number(v) and v >= 0 for v in found),
        "doubt must hold the numbers gap, triples and stderr, none negative; grow the tree anew if "
        "an earlier version wrote it",
    )
    return Doubt(*(float(v) for v in found))


def _of_blend(blend: Blend) -> Json:
    return {
        "share": blend.share,
        "centre": blend.pairs.centre.tolist(),
        "triples": blend.pairs.triples,
    }


def _blend(given: Any, positions: int) -> Blend | None:
    if given is None:
        return None
    centre = given.get("centre") if isinstance(given, dict) else None
    _need(
        isinstance(centre, list)
        and len(centre) == positions
        and all(_is_number(v) for v in centre)
        and all(_is_number(given.get(name)) and 0 <= given[name] <= 1 for name in _SHARES),
        f"pairs must hold share and triples, numbers from 0 to 1, and centre, {positions} numbers",
    )
    estimate = PairEstimate(np.array(centre, dtype=np.float64), 1.0, float(given["triples"]))
    return Blend(float(given["share"]), estimate)


_SHARES = ("share", "triples")


def _splits(table: list[Json]) -> Json:
    """Return the arrays of a forest that say where each node sends its rows."""
    size = len(table)
    nodes = np.full((size, 4), -1, dtype=np.int64)
    nodes[:, 3] = 0
    threshold, missing = np.full(size, np.nan), np.zeros(size, dtype=bool)
    widest = (
        max((max(node.get("left_categories", [-1]), default=-1) for node in table), default=-1) + 1
    )
    sets: list[NDArray[np.bool_]] = []
    for at, node in enumerate(table):
        if "feature" not in node:
            continue
        nodes[at, :3] = node["feature"], node["left"], node["right"]
        missing[at] = node["missing_left"]
        if "left_categories" in node:
            sets.append(np.isin(np.arange(widest), node["left_categories"]))
            nodes[at, 3] = len(sets)
        elif node["threshold"] == "missing":
            threshold[at] = -np.inf if node["missing_left"] else np.inf
        else:
            threshold[at] = node["threshold"]
    return {
        "nodes": nodes,
        "threshold": threshold,
        "missing_left": missing,
        "sets": np.stack(sets) if sets else np.zeros((0, 0), dtype=bool),
    }


def _checked(given: Any, at: int, nodes: int, models: int, features: int) -> Json:
    _need(isinstance(given, dict), f"node {at} is not an object")
    node: Json = given
    _need(
        _is_int(node.get("model"), 0, models - 1),
        f"node {at}: model is {node.get('model')!r}, not one of {models}",
    )
    for name in FACTS:
        _need(
            name not in node or _is_number(node[name]),
            f"node {at}: {name} is {node.get(name)!r}, not a number",
        )
    if "feature" not in node:
        return node
    _need(
        _is_int(node["feature"], 0, features - 1),
        f"node {at}: feature is {node['feature']!r}, but there are {features} context columns",
    )
    for side in ("left", "right"):
        # Children stand after their parents, so no walk can run in a circle.
        _need(
            _is_int(node.get(side), at + 1, nodes - 1),
            f"node {at}: {side} is {node.get(side)!r}, not a later node",
        )
    _need(node["left"] != node["right"], f"node {at}: both children are node {node['left']}")
    _need(
        isinstance(node.get("missing_left"), bool), f"node {at}: missing_left must be true or false"
    )
    members = node.get("left_categories")
    if members is not None:
        # Bounded: sets are stored as tables as wide as the largest code, and the file may come from
        # anywhere.
        good = isinstance(members, list) and all(_is_int(c, 0, 1_000_000) for c in members)
        _need(good, f"node {at}: left_categories must be category codes; got {str(members)[:80]}")
    else:
        cut = node.get("threshold")
        _need(
            cut == "missing" or _is_number(cut),
            f"node {at}: threshold is {cut!r}, not a number or 'missing'",
        )
    return node


def _one_parent_each(table: list[Json], roots: list[int]) -> None:
    seen = list(roots)
    for node in table:
        if "feature" in node:
            seen += [node["left"], node["right"]]
    _need(
        sorted(seen) == list(range(len(table))),
        "the nodes do not form trees: a node has no parent or two",
    )


def _candidates(given: Any) -> tuple[Candidate, ...]:
    _need(isinstance(given, list) and len(given) > 0, "candidates is not a list of models")
    found = [_candidate(i, c) for i, c in enumerate(given)]
    sizes = {len(c.mask) for c in found}
    _need(len(sizes) == 1, f"candidates are for different numbers of positions: {sorted(sizes)}")
    return tuple(found)


def _candidate(i: int, c: Any) -> Candidate:
    if isinstance(c, list):  # a matrix of numbers, without a name
        whole = all(isinstance(row, list) and all(_is_int(v, 0, 1) for v in row) for row in c)
        _need(whole, f"candidate {i} must be a matrix of 0 and 1")
        c = {"name": f"model {i + 1}", "mask": ["".join(str(v) for v in row) for row in c]}
    _need(isinstance(c, dict) and isinstance(c.get("name"), str), f"candidate {i} has no name")
    rows = c.get("mask")
    good = isinstance(rows, list) and len(rows) > 0
    good = good and all(
        isinstance(r, str) and len(r) == len(rows) and set(r) <= {"0", "1"} for r in rows
    )
    _need(good, f"candidate {i} ({c['name']}): mask must be K strings of K characters 0 or 1")
    _need(
        c.get("order") is None or _is_int(c["order"], 1, 10_000),
        f"candidate {i}: order is {c.get('order')!r}",
    )
    return Candidate(c["name"], np.array([[v == "1" for v in r] for r in rows]), c.get("order"))


def _list_of_str(value: Any, name: str) -> list[str]:
    _need(
        isinstance(value, list) and all(isinstance(v, str) for v in value),
        f"{name} is not a list of names",
    )
    return list(value)


def _is_int(value: Any, low: int, high: int) -> bool:
    # JSON's true would pass as 1.
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _is_number(value: Any) -> bool:
    return (
        isinstance(value, (int, float)) and not isinstance(value, bool) and bool(np.isfinite(value))
    )


def _need(condition: Any, message: str) -> None:
    if not condition:
        raise BehaviorError(message)
