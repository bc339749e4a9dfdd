"""Reading an evaluation's plain dictionary: missing parts are empty, never an error."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from counterrank.estimators import Form, order_path, parse
from counterrank.report.numbers import known

Model = Mapping[str, Any]

LEVELS = ("insufficient", "directional", "reliable")


def table(value: Any) -> Mapping[str, Any]:
    """Return a mapping, empty when it is something else."""
    return value if isinstance(value, Mapping) else {}


def rows(value: Any) -> list[Mapping[str, Any]]:
    """Return the mappings of a list, none when it is something else."""
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        return []
    return [item for item in value if isinstance(item, Mapping)]


def complete(value: Any, *keys: str) -> list[Mapping[str, Any]]:
    """Return the mappings of a list whose entries of these names are all finite numbers.

    >>> complete([{"rows": 10, "lift": 0.5}, {"rows": 20, "lift": None}], "rows", "lift")
    [{'rows': 10, 'lift': 0.5}]
    """
    return [row for row in rows(value) if all(known(row.get(key)) for key in keys)]


def ends(
    row: Mapping[str, Any], low: str = "low", high: str = "high"
) -> tuple[float, float] | None:
    """Return both ends of an interval, None where one is missing."""
    first, last = row.get(low), row.get(high)
    return (float(first), float(last)) if known(first) and known(last) else None


def numbers(value: Any) -> list[float | None]:
    """Return the entries of a list, None where they are not finite numbers."""
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        return []
    return [float(item) if known(item) else None for item in value]


def whole_matrix(value: Any) -> list[list[float]]:
    """Return a square list of lists of finite numbers, empty when it is something else.

    >>> whole_matrix([[0, 1], [2, 0]]), whole_matrix([[0, 1], [2]])
    ([[0.0, 1.0], [2.0, 0.0]], [])
    """
    found = [numbers(line) for line in value] if isinstance(value, Sequence) else []
    # A line that lost an entry is too short below: a matrix with a hole is none.
    square = [[v for v in line if v is not None] for line in found]
    return square if all(len(line) == len(square) for line in square) else []


def column_name(name: Any) -> str:
    """Return a column as people call it; a bare number keeps its prefix.

    >>> column_name("x_tenure_days"), column_name("x_3")
    ('tenure days', 'x_3')
    """
    text = str(name)
    short = text.removeprefix("x_")
    return text if not short or short.isdigit() else short.replace("_", " ")


def texts(value: Any) -> list[str]:
    """Return the entries of a list as texts."""
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        return []
    return [str(item) for item in value if item is not None]


@dataclass(frozen=True)
class Reading:
    """An evaluation as a report reads it."""

    model: Model

    @property
    def log(self) -> Mapping[str, Any]:
        """What is known of the log."""
        return table(self.model.get("log"))

    @property
    def estimates(self) -> list[Mapping[str, Any]]:
        """All estimates that have a value."""
        return [e for e in rows(self.model.get("estimates")) if known(e.get("value"))]

    def silent(self, target: str) -> list[str]:
        """Return the estimators that have no value for a target and say why."""
        return [str(e.get("estimator")) for e in self._rows_of(target) if e.get("not_estimable")]

    def _rows_of(self, target: str) -> list[Mapping[str, Any]]:
        """Return the rows of a target, with and without a value."""
        every = rows(self.model.get("estimates"))
        return [e for e in every if str(e.get("target", "target")) == target]

    @property
    def regressions(self) -> list[Mapping[str, Any]]:
        """What each estimate tells of its reward model, empty where it has none."""
        return [table(table(e.get("details")).get("regression")) for e in self.estimates]

    @property
    def targets(self) -> list[str]:
        """The target policies in the order they were given."""
        return list(
            dict.fromkeys(str(e.get("target", "target")) for e in rows(self.model.get("estimates")))
        )

    def not_estimable(self, target: str) -> str:
        """Return why the recommended estimate of a target has no value; nothing where it has one."""
        name = table(self.model.get("recommended")).get(target)
        found = self._rows_of(target)
        chosen = next((e for e in found if e.get("estimator") == name), found[0] if found else {})
        if known(chosen.get("value")):
            return ""
        return str(chosen.get("not_estimable") or "the log has no evidence on it")

    @property
    def level(self) -> float:
        """The confidence level."""
        # All estimates of a run have one level; files that do not say were made at the default.
        found = [e["level"] for e in self.estimates if known(e.get("level"))]
        return float(found[0]) if found else 0.95

    def reach(self, error: float) -> float:
        """Return half the width of a normal interval at this level, for what has a standard error
        only.
        """
        return NormalDist().inv_cdf(0.5 + self.level / 2) * error

    @property
    def practical(self) -> float | None:
        """The smallest relative lift that matters, if the user gave one."""
        value = table(table(self.model.get("provenance")).get("options")).get("practical")
        return float(value) if value is not None and known(value) else None

    def of(self, target: str) -> list[Mapping[str, Any]]:
        """Return the estimates of a target, the recommended one first."""
        best = self.recommended(target)
        found = [e for e in self._rows_of(target) if known(e.get("value"))]
        return sorted(found, key=lambda e: e.get("estimator") != best)

    def recommended(self, target: str) -> str:
        """Return the name of the recommended estimator of a target."""
        named = table(self.model.get("recommended")).get(target)
        valued = [e for e in self._rows_of(target) if known(e.get("value"))]
        names = [str(e.get("estimator")) for e in valued]
        # A recommended estimator without a value stays recommended: another one in its place would
        # hide that the question has no answer.
        if named in names or named in self.silent(target):
            return str(named)
        return "auto" if "auto" in names else (names[0] if names else "")

    def best(self, target: str) -> Mapping[str, Any]:
        """Return the recommended estimate of a target."""
        found = self.of(target)
        return found[0] if found and not self.not_estimable(target) else {}

    def lift(self, target: str, estimator: str | None = None) -> Mapping[str, Any]:
        """Return the lift of a target by an estimator, by default the recommended one."""
        wanted = estimator or self.recommended(target)
        for row in rows(self.model.get("lift")):
            if str(row.get("target", "target")) == target and row.get("estimator") == wanted:
                return row
        return {}

    def diagnostics(self, target: str, estimator: str) -> Mapping[str, Any]:
        """Return the diagnostics of the weights of one estimate."""
        return table(table(self.model.get("diagnostics")).get(f"{target}/{estimator}"))

    def support(self, target: str) -> Mapping[str, Any]:
        """Return what the logger rarely or never shows of a target."""
        return table(table(table(self.model.get("diagnostics")).get("support")).get(target))

    def evidence(self, target: str | None = None) -> str:
        """Return the evidence level of a target, or of the whole evaluation; empty when unknown."""
        verdict = table(self.model.get("verdict"))
        # A target without a verdict of its own has that of the whole.
        of_target = table(verdict.get("targets")).get(target) if target is not None else None
        level = (
            table(of_target).get("level", of_target)
            if of_target is not None
            else verdict.get("level")
        )
        return str(level) if level in LEVELS else ""

    def reasons(self, target: str | None = None) -> list[Mapping[str, Any]]:
        """Return the reasons behind the evidence level, of one target or all."""
        found = rows(table(self.model.get("verdict")).get("reasons"))
        return [r for r in found if target is None or r.get("target") in (None, target)]

    def words(self) -> tuple[str, str]:
        """Return what a reward and a ranking are called: ("reward", "ranking") unless the log says."""
        words = table(self.log.get("words"))
        return str(words.get("reward") or "reward"), str(words.get("ranking") or "ranking")

    def order_path(self, target: str) -> list[Mapping[str, Any]]:
        """Return {order, value, low, high, ...} of the weights alone from IIPS to IPS, as recorded
        or as estimated.
        """
        path = rows(table(table(self.model.get("diagnostics")).get("order_path")).get(target))
        return self._path(path) if len(path) > 1 else self._path_of_estimates(target)

    def model_path(self, target: str) -> list[Mapping[str, Any]]:
        """Return the same around a reward model, where an estimator has recorded it."""
        for found in self.of(target):
            path = rows(table(found.get("details")).get("order_path"))
            if len(path) > 1:
                return self._path(path)
        return []

    def _path(self, found: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        filled = [self._with_interval(row, index + 1) for index, row in enumerate(found)]
        return complete(filled, "order", "value")

    def _with_interval(self, row: Mapping[str, Any], index: int) -> Mapping[str, Any]:
        filled = {"order": index, **row}
        value, error = filled.get("value"), filled.get("stderr")
        if not known(filled.get("low")) and known(value) and known(error):
            reach = self.reach(error)
            filled.update(low=value - reach, high=value + reach)
        return filled

    def _path_of_estimates(self, target: str) -> list[Mapping[str, Any]]:
        last = int(self.log.get("K") or 0)
        found = {str(e.get("estimator")): e for e in self.of(target)}
        named = dict(order_path(found, last)) if last else {}
        return (
            [{**found[name], "order": order} for order, name in named.items()]
            if len(named) > 1
            else []
        )


def family(estimate: Mapping[str, Any]) -> str:
    """Return "weights", "model" or "biased": the group an estimator is shown in.

    >>> family({"estimator": "ips"}), family({"estimator": "dr-order-2"}), family({"estimator": "iips"})
    ('weights', 'model', 'biased')
    """
    name = str(estimate.get("estimator", ""))
    return "biased" if known_bias(name) else "model" if parse(name).uses_model else "weights"


def known_bias(name: str) -> str:
    """Return why an estimator is off as soon as items act on each other, nothing where it is not.

    >>> known_bias("sniips"), known_bias("dr-iips")
    ('ignores every other item', '')
    """
    parsed = parse(name)
    if parsed.weights == "iips" and parsed.form in (Form.PLAIN, Form.RATIO, Form.CONTROL):
        return "ignores every other item"
    return "trusts its reward model alone" if name == "dm" else ""
