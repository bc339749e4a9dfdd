"""A learned policy as an ONNX graph, for servers without Python; extra `onnx`.

Everything is computed in double precision, so that a graph agrees with the policy to rounding; but
for the sum of trees, which ONNX's operator rounds to single precision: those agree to 1e-6. It
reads `item` (n, C), the places of items in `policy.items` (any larger number is an
item that was not seen, -1 is none: pages may end early), `context` (n, d) and `features` (n, C, p)
with the columns of the policy, categories as codes. It returns what the policy needs: `list_value`
(n,) of whole pages for best of m, else `score` (n, C).
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from counterrank.arrays import Floats
from counterrank.data.encoding import FAR, GOLDEN, MOST_LABELS, Scaling, label_codes
from counterrank.errors import PolicyError, require
from counterrank.learning.boosting import BoostedModel
from counterrank.learning.policy import LearnedPolicy
from counterrank.learning.trees import Trees
from counterrank.models import (
    ALL,
    CLICK_SETTINGS,
    AmountModel,
    ClickModel,
    Means,
    NumberModel,
    Predictor,
    place_discount,
)
from counterrank.records import Json

#: The oldest operators that know all of this in double precision; runtimes of 2022 read them.
_OPSET, _ML_OPSET, _IR = 17, 3, 8


def onnx_bytes(policy: LearnedPolicy) -> bytes:
    """Return the graph of what a policy needs to be served, serialised and checked."""
    onnx = require("onnx", extra="onnx")
    graph = Graph(onnx)
    scorer = _Scorer(graph, policy)
    pages = policy.kind == "best-of"
    output, name = (scorer.list_value(), "list_value") if pages else (scorer.score(), "score")
    graph.add("Identity", [output], name)
    columns = len(policy.position_weights) if pages else "C"
    double, whole = onnx.TensorProto.DOUBLE, onnx.TensorProto.INT64
    value = onnx.helper.make_tensor_value_info
    inputs = [value("item", whole, ["n", columns])]
    if policy.context_names:
        inputs.append(value("context", double, ["n", len(policy.context_names)]))
    if policy.feature_names:
        inputs.append(value("features", double, ["n", columns, len(policy.feature_names)]))
    outputs = [value(name, double, ["n"] if pages else ["n", columns])]
    made = onnx.helper.make_graph(graph.nodes, "counterrank", inputs, outputs, graph.constants)
    opsets = [
        onnx.helper.make_opsetid("", _OPSET),
        onnx.helper.make_opsetid("ai.onnx.ml", _ML_OPSET),
    ]
    model = onnx.helper.make_model(made, opset_imports=opsets, ir_version=_IR)
    told = {"kind": policy.kind, "m": policy.m, "temperature": policy.temperature}
    onnx.helper.set_model_props(
        model, {"counterrank": json.dumps({**told, "items": list(policy.items)})}
    )
    # With shapes: a mistake here would else show on the server.
    onnx.checker.check_model(model, full_check=True)
    found: bytes = model.SerializeToString()
    return found


class Graph:
    """Nodes and constants in the order in which they are made; values are known by name."""

    def __init__(self, onnx: Any) -> None:
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, operator: str, inputs: Sequence[str], name: str = "", **options: Any) -> str:
        """Add a node of one output and return its name."""
        name = name or f"v{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(operator, list(inputs), [name], **options))
        return name

    def constant(self, values: Any, dtype: Any = np.float64) -> str:
        """Add numbers and return their name."""
        name = f"c{len(self.constants)}"
        array = np.ascontiguousarray(np.asarray(values, dtype=dtype))
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def whole(self, *values: int) -> str:
        """Add a list of whole numbers and return its name."""
        return self.constant(values, np.int64)

    def columns(self, value: str, axis: int, first: int, last: int) -> str:
        """Return entries first..last-1 along an axis."""
        ends = [self.whole(first), self.whole(last), self.whole(axis)]
        return self.add("Slice", [value, *ends])

    def total(self, value: str, axis: int, *, keep: bool = False) -> str:
        """Return the sum along an axis."""
        return self.add("ReduceSum", [value, self.whole(axis)], keepdims=int(keep))

    def wider(self, value: str, axis: int) -> str:
        """Return the value with a new axis of size one."""
        return self.add("Unsqueeze", [value, self.whole(axis)])


class _Scorer:
    """The scorer of a policy as nodes of a graph."""

    def __init__(self, graph: Graph, policy: LearnedPolicy) -> None:
        self.graph, self.policy = graph, policy
        self.x = self._encoded_context()
        self.z = self._encoded_features()
        self.is_shown = graph.add("GreaterOrEqual", ["item", graph.constant(0, np.int64)])
        #: 1 where there is an item, 0 in the padding: an empty slot earns nothing and attracts nobody.
        self.shown = graph.add("Cast", [self.is_shown], to=graph.onnx.TensorProto.DOUBLE)

    def list_value(self) -> str:
        """Return the expected total of each page (n,)."""
        g, alpha = self.graph, self.graph.constant(self.policy.position_weights)
        expected = g.add("Mul", [self._expected(self.policy.scorer.model), self.shown])
        return g.total(g.add("Mul", [expected, alpha]), 1)

    def _expected(self, model: Any) -> str:
        """Return the expected reward of each slot (n, K)."""
        if isinstance(model, BoostedModel):
            return self._trees(model, [float(k) for k in range(self.K)])
        if isinstance(model, NumberModel):
            return self._mean(model.mean)
        if isinstance(model, AmountModel):
            assert isinstance(model.clicks, ClickModel)
            both = [self._clicks(model.clicks), self._mean(model.amount)]
            return self.graph.add("Mul", both)
        return self._clicks(model)

    def score(self) -> str:
        """Return the key of each item by itself (n, C)."""
        g, model = self.graph, self.policy.scorer.model
        key = self._trees(model, None) if isinstance(model, BoostedModel) else self._alone(model)[0]
        return g.add("Where", [self.is_shown, key, g.constant(-np.inf)])

    def _alone(self, model: Any) -> tuple[str, str]:
        """Return the key of each item by itself, and its strength (n, C).

        The strength is a chance, a number, or a chance times an amount.
        """
        g = self.graph
        if isinstance(model, NumberModel):
            key = self._linear(model.mean.predictor.first or model.mean.predictor)
            return key, key
        if isinstance(model, AmountModel):
            click, chance = self._alone(model.clicks)
            most = g.constant(np.log(_most(model.amount) / model.amount.unit))
            amount = g.add("Min", [self._linear(model.amount.predictor), most])
            return g.add("Add", [click, amount]), g.add("Mul", [chance, g.add("Exp", [amount])])
        key = self._linear(model.predictor.first or model.predictor)
        return key, g.add("Sigmoid", [key])

    def _mean(self, means: Means) -> str:
        """Return the mean of each slot (n, K): of any number, or the amount of a click."""
        g, places = self.graph, means.predictor.parameters.theta[-1, : self.K]
        value = g.add("Add", [self._linear(means.predictor), g.constant(places)])
        if means.positive:
            value = g.add("Mul", [g.add("Exp", [value]), g.constant(means.unit)])
            return g.add("Min", [value, g.constant(_most(means))])
        value = g.add("Mul", [value, g.constant(means.unit)])
        return g.add("Add", [value, g.constant(means.centre)])

    @property
    def K(self) -> int:  # noqa: N802
        """Slots of a page."""
        return len(self.policy.position_weights)

    def _linear(self, predictor: Predictor) -> str:
        """Return log odds of the attraction (n, C)."""
        g, encoding = self.graph, predictor.encoding
        table, beta = predictor.table[-1], predictor.beta[-1]
        number = self._number(predictor)
        total = g.add("Gather", [g.constant(table[:, 0]), number])
        x = None if self.x is None else self._scaled(self.x, encoding.context)
        if encoding.slopes and x is not None:
            slopes = g.add("Gather", [g.constant(table[:, 1:]), number])
            total = g.add("Add", [total, g.total(g.add("Mul", [slopes, g.wider(x, 1)]), 2)])
        for kind, size in encoding.widths(predictor.variant, len(beta)):
            own, beta = beta[:size], beta[size:]
            if size:
                total = g.add("Add", [total, self._part(predictor, kind, own, x)])
        return total

    def _part(self, predictor: Predictor, kind: str, beta: Floats, x: str | None) -> str:
        """Return what the columns of one kind add (n, C) or (n, 1)."""
        g = self.graph
        if kind == "context" and x is not None:
            return g.add("MatMul", [x, g.constant(beta[:, None])])
        if kind == "rival":
            return self._times(self._rivals(predictor), beta)
        scaling = predictor.encoding.features
        if self.z is None or scaling is None or kind == "extra":
            raise _no_form(kind)
        z = self._scaled(self.z, scaling)
        if kind == "feature":
            return self._times(z, beta)
        assert x is not None
        mixed = g.add("MatMul", [z, g.constant(beta.reshape(len(scaling.mean), -1))])
        return g.total(g.add("Mul", [mixed, g.wider(x, 1)]), 2)

    def _times(self, columns: str, beta: Floats) -> str:
        product = self.graph.add("MatMul", [columns, self.graph.constant(beta[:, None])])
        return self.graph.add("Squeeze", [product, self.graph.whole(2)])

    def _rivals(self, predictor: Predictor) -> str:
        """Return what the other slots mean to each (n, K, 4 to 7), standardised."""
        g, first = self.graph, predictor.first
        assert first is not None and predictor.rivals is not None
        strength = self._linear(first)
        if first.curved:
            strength = g.add("Sigmoid", [strength])
        strength = g.add("Mul", [strength, self.shown])
        parts = self._rivalry(strength)
        if first.curved:
            parts.append(self._rest_of_page(strength))
        if predictor.similarity is not None:
            places = g.constant(predictor.similarity.place[-1])
            place = g.add("Gather", [places, self._number(predictor)])
            signed = g.add("Mul", [place, g.constant(predictor.similarity.sign[-1])])
            parts.append(self._with_those_above(signed, place))
        scaling = first.encoding.features
        if scaling is not None and self.z is not None:
            z = self._scaled(self.z, scaling)
            size = g.add("Sqrt", [g.total(g.add("Mul", [z, z]), 2, keep=True)])
            unit = g.add("Div", [z, g.add("Max", [size, g.constant(1e-12)])])
            parts.append(self._with_those_above(unit, unit))
        return self._scaled(self._stacked(parts), predictor.rivals)

    def _with_those_above(self, own: str, others: str) -> str:
        """Return the product of each slot with the sum of those above it (n, K)."""
        g = self.graph
        above = g.add("CumSum", [others, g.constant(1, np.int64)], exclusive=1)
        return g.total(g.add("Mul", [own, above]), 2)

    def _rivalry(self, strength: str) -> list[str]:
        """Return strengths summed above, of the item before, at most above, and summed below."""
        g, axis = self.graph, self.graph.constant(1, np.int64)
        above = g.add("CumSum", [strength, axis], exclusive=1)
        below = g.add("CumSum", [strength, axis], exclusive=1, reverse=1)
        each = [g.columns(strength, 1, k, k + 1) for k in range(self.K)]
        # Zeros of the right shape: the number of rows is not known when the graph is made.
        zero = g.add("Mul", [each[0], g.constant(0.0)])
        most = [zero]
        for value in each[:-1]:
            most.append(g.add("Max", [most[-1], value]))
        before = g.add("Concat", [zero, *each[:-1]], axis=1)
        return [above, before, g.add("Concat", most, axis=1), below]

    def _rest_of_page(self, strength: str) -> str:
        """Return what the other slots ask for (n, K), as the click models have it."""
        g, settings = self.graph, CLICK_SETTINGS
        known = g.add("Min", [strength, g.constant(1.0 - settings.missed)])
        odds = g.add("Div", [known, g.add("Sub", [g.constant(1.0), known])])
        odds = g.add("Mul", [odds, g.constant(place_discount(self.K))])
        others = g.add("Sub", [g.total(odds, 1, keep=True), odds])
        return g.add("Log", [g.add("Add", [others, g.constant(settings.rest_floor)])])

    def _stacked(self, parts: Sequence[str]) -> str:
        return self.graph.add("Concat", [self.graph.wider(part, 2) for part in parts], axis=2)

    def _clicks(self, model: ClickModel) -> str:
        """Return P(click) of each slot (n, K): the chance of each last click, carried down."""
        g, K = self.graph, self.K
        attraction = g.add("Sigmoid", [self._linear(model.predictor)])
        after = g.add("Gather", [g.constant(model.seen.after[-1]), self._number(model.predictor)])
        # exp(0 x): ones of a shape that is not known when the graph is made.
        ones = g.add("Exp", [g.add("Mul", [g.columns(after, 1, 0, 1), g.constant(0.0)])])
        odds, one = model.seen.odds[-1], g.constant(1.0)
        factors, state, clicked = [ones], ones, []
        nothing, path = self._left(model, ones)
        for k in range(K):
            factor = ones
            if k:
                since = g.add("Mul", [g.add("Concat", factors[1:], axis=1), path[k]])
                factor = g.add("Concat", [nothing[k], since], axis=1)
            examined = g.add("Mul", [factor, g.constant(odds[k, : k + 1])])
            chance = g.add(
                "Div", [g.columns(attraction, 1, k, k + 1), g.add("Add", [examined, one])]
            )
            here = g.add("Mul", [state, chance])
            clicked.append(g.total(here, 1, keep=True))
            state = g.add("Concat", [g.add("Sub", [state, here]), clicked[-1]], axis=1)
            own = g.columns(after, 1, k, k + 1)
            factors.append(g.add("Div", [own, path[k + 1]]) if k + 1 < K else own)
        return g.add("Concat", clicked, axis=1)

    def _left(self, model: ClickModel, ones: str) -> tuple[list[str], list[str]]:
        """Return what skipped items do to the odds of having left, before slot k (n, 1).

        Where nothing was clicked, and from the top on (the kernel `skipped`).
        """
        g, first = self.graph, model.predictor.first
        power = g.constant(float(model.seen.power[-1]))
        if first is None:
            return [ones] * self.K, [ones] * self.K
        strength = g.add("Sigmoid", [self._linear(first)])
        least = g.constant(CLICK_SETTINGS.missed)
        missed = g.add("Max", [g.add("Sub", [g.constant(1.0), strength]), least])
        nothing, path, left, product = [ones], [ones], None, ones
        for k in range(1, self.K):
            one = g.columns(missed, 1, k - 1, k)
            left = ones if left is None else g.add("Add", [g.add("Div", [left, one]), ones])
            product = g.add("Div", [product, one])
            nothing.append(g.add("Pow", [g.add("Div", [left, g.constant(float(k))]), power]))
            path.append(g.add("Pow", [product, power]))
        return nothing, path

    def _trees(self, model: BoostedModel, places: Sequence[float] | None) -> str:
        """Return what trees expect of each slot (n, K), or of each item alone in the first place."""
        g, trees = self.graph, model.trees[ALL]
        assert isinstance(trees, Trees)
        key, strength = self._alone(model.first)
        strength = g.add("Mul", [strength, self.shown])
        zero = g.add("Mul", [key, g.constant(0.0)])
        place = zero if places is None else g.add("Add", [zero, g.constant(places)])
        rivals = [zero] * 4 if places is None else self._rivalry(strength)
        columns = [self._stacked([place, zero, key, *rivals])]
        if self.x is not None:
            width = g.wider(zero, 2)
            columns.append(g.add("Add", [g.wider(self.x, 1), width]))
        if self.z is not None:
            columns.append(self.z)
        table = g.add("Concat", columns, axis=2)
        flat = g.add("Reshape", [table, g.whole(-1, trees.columns)])
        found = g.add(
            "TreeEnsembleRegressor", [flat], domain="ai.onnx.ml", **_ensemble(g.onnx, trees)
        )
        # The operator adds up in double and hands out single precision.
        found = g.add("Cast", [found], to=g.onnx.TensorProto.DOUBLE)
        if trees.sigmoid:
            found = g.add("Sigmoid", [g.add("Mul", [found, g.constant(trees.sigmoid)])])
        return g.add("Reshape", [found, g.add("Shape", [key])])

    def _number(self, predictor: Predictor) -> str:
        table = predictor.encoding.number
        if not len(table):
            raise _no_form("item ids of ten million and more")
        g = self.graph
        # Beyond the table every number is the unseen item's, which stands last.
        known = g.add("Min", ["item", g.constant(len(table) - 1, np.int64)])
        return g.add("Gather", [g.constant(table, np.int64), known])

    def _scaled(self, values: str, scaling: Scaling) -> str:
        """Return (values - mean) / spread, at most `far` from zero; missing is zero."""
        g, far = self.graph, FAR
        away = g.add("Sub", [values, g.constant(scaling.mean)])
        found = g.add("Mul", [away, g.constant(1.0 / scaling.spread)])
        # After scaling: a missing value is then the mean, as in the fit.
        known = g.add("Where", [g.add("IsNaN", [found]), g.constant(0.0), found])
        return g.add("Clip", [known, g.constant(-far), g.constant(far)])

    def _encoded_context(self) -> str | None:
        names, given = self.policy.context_names, self.policy.context_categories
        few = {name: labels for name, labels in given.items() if 1 < len(labels) <= MOST_LABELS}
        return self._encoded("context", names, few) if names else None

    def _encoded_features(self) -> str | None:
        names, given = self.policy.feature_names, self.policy.feature_categories
        return self._encoded("features", names, given) if names else None

    def _encoded(self, value: str, names: Sequence[str], given: Mapping[str, Sequence[str]]) -> str:
        """Return columns as the model reads them: few labels become indicators, many share hashed ones."""
        g, parts = self.graph, []
        for j, name in enumerate(names):
            own, labels = g.add("Gather", [value, g.whole(j)], axis=-1), given.get(name, ())
            if not labels:
                parts.append(own)
                continue
            codes = label_codes(len(labels))
            if codes.hashed:
                turned = g.add("Mul", [own, g.constant(GOLDEN)])
                rest = g.add("Sub", [turned, g.add("Floor", [turned])])
                own = g.add("Floor", [g.add("Mul", [rest, g.constant(float(MOST_LABELS))])])
            for code in range(codes.first, codes.last):
                same = g.add("Equal", [own, g.constant(float(code))])
                parts.append(g.add("Cast", [same], to=g.onnx.TensorProto.DOUBLE))
        return parts[0] if len(parts) == 1 else g.add("Concat", parts, axis=-1)


def _most(means: Means) -> float:
    """Return the amount at which means end, however far a predictor runs."""
    return float(means.number(np.array(np.inf)))


def _no_form(what: str) -> PolicyError:
    return PolicyError(
        f"this policy has no ONNX form ({what}); its JSON file scores the same everywhere "
        "counterrank runs"
    )


def _ensemble(onnx: Any, trees: Trees) -> Json:
    """Return trees as the attributes of ONNX's tree ensemble, numbers in double."""
    nodes: dict[str, list[Any]] = {name: [] for name in ("treeids", "nodeids", *_LEAF)}
    target: dict[str, list[Any]] = {name: [] for name in ("treeids", "nodeids", "ids", "weights")}
    for tree, root in enumerate(trees.first.tolist()):
        _grow(trees, root, tree, nodes, target)

    def numbers(name: str, values: list[float]) -> Any:
        kind = onnx.TensorProto.DOUBLE
        return onnx.helper.make_tensor(name, kind, [len(values)], values)

    values, weights = nodes.pop("values"), target.pop("weights")
    return {
        **{f"nodes_{name}": found for name, found in nodes.items()},
        **{f"target_{name}": found for name, found in target.items()},
        "nodes_values_as_tensor": numbers("nodes_values", values),
        "target_weights_as_tensor": numbers("target_weights", weights),
        "n_targets": 1,
    }


def _grow(
    trees: Trees, root: int, tree: int, nodes: dict[str, list[Any]], target: dict[str, list[Any]]
) -> None:
    """Add a tree from its root on; ONNX numbers the nodes of each from 0."""
    # A list of what is still to add, and the place that links to it: a file's tree may be deeper
    # than Python's calls.
    waiting: list[tuple[int, str, int]] = [(root, "", 0)]
    own = 0
    while waiting:
        node, side, above = waiting.pop()
        place = len(nodes["treeids"])
        if side:
            nodes[side][above] = own
        question = _LEAF if node < 0 else _question(trees, node)
        _append(nodes, {"treeids": tree, "nodeids": own, **question})
        if node < 0:
            weight = float(trees.leaf[~node])
            _append(target, {"treeids": tree, "nodeids": own, "ids": 0, "weights": weight})
        else:
            waiting.append((int(trees.right[node]), "falsenodeids", place))
            waiting.append((int(trees.left[node]), "truenodeids", place))
        own += 1


#: What a node asks and where it leads; a leaf has to fill every column too. Links to children are
#: filled in once those are numbered.
_LEAF = {
    "featureids": 0, "modes": "LEAF", "truenodeids": 0, "falsenodeids": 0,
    "missing_value_tracks_true": 0, "values": 0.0,
}  # fmt: skip


def _question(trees: Trees, node: int) -> Json:
    return {
        **_LEAF, "featureids": int(trees.column[node]), "modes": "BRANCH_LEQ",
        "missing_value_tracks_true": int(trees.missing[node]),
        "values": float(trees.threshold[node]),
    }  # fmt: skip


def _append(columns: dict[str, list[Any]], row: Mapping[str, Any]) -> None:
    for name, value in row.items():
        columns[name].append(value)
