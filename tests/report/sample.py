"""A complete model of made-up numbers: every section of the report has something to show."""

from copy import deepcopy
from typing import Any

from counterrank.common.records import printed
from counterrank.estimators.behavior import Condition
from counterrank.evaluation import Evaluation
from counterrank.report import evaluation, html, terminal
from counterrank.report.document import BRIEF, VERBOSE, Document, Figure
from counterrank.report.evaluation_view import Reading

TARGETS = ("personalised", "clickbait")
K = 6


def estimate(target: str, name: str, value: float, stderr: float, **more: Any) -> dict[str, Any]:
    return {
        "target": target, "estimator": name, "value": value, "stderr": stderr, "low": value - 1.96 * stderr,
        "high": value + 1.96 * stderr, "level": 0.95, "ess": 24_000 * 0.01 / stderr, "flags": [],
        "by_position": [{"value": value / K, "stderr": stderr / K**0.5} for _ in range(K)], **more,
    }  # fmt: skip


def lift(row: dict[str, Any], today: float) -> dict[str, Any]:
    value, stderr = row["value"] - today, row["stderr"] * 0.9
    ends = {"low": value - 1.96 * stderr, "high": value + 1.96 * stderr}
    relative = {
        "relative": value / today,
        "relative_low": ends["low"] / today,
        "relative_high": ends["high"] / today,
    }
    by_position = [
        {"value": value / K * (1.6 - 0.25 * k), "stderr": stderr / K**0.5} for k in range(K)
    ]
    return {
        "target": row["target"], "estimator": row["estimator"], "value": value, "stderr": stderr, **ends, **relative,
        "by_position": by_position,
    }  # fmt: skip


def diagnostics(ess: float) -> dict[str, Any]:
    weights = [0.25 * 2**j for j in range(12)]
    return {
        "ess": ess, "ess_by_position": [ess] * K, "tail_index": 0.31, "largest_share": 0.004, "rows_carrying_90": 0.7,
        "rows_carrying_50": 0.21, "mean_weight": [1.0 + 0.01 * (k - 2) for k in range(K)],
        "mean_weight_z": [0.8 * (k - 2) for k in range(K)], "mean_weight_p": 0.4,
        "survival": {"weight": weights, "share": [min(1.0, 1.1 / (1 + w) ** 1.6) for w in weights]},
    }  # fmt: skip


def order_path(rows: list[dict[str, Any]], target: str) -> list[dict[str, Any]]:
    orders = {"iips": 1, "ips": K}
    keys = ("estimator", "value", "stderr", "low", "high", "ess")
    own = [row for row in rows if row["target"] == target and row["estimator"] in orders]
    found = [{"order": orders[row["estimator"]], **{key: row[key] for key in keys}} for row in own]
    return sorted(found, key=lambda row: row["order"])


def segment(
    target: str, column: str, label: str, value: float, stderr: float, ess: float
) -> dict[str, Any]:
    ends = {
        "value": value,
        "stderr": stderr,
        "low": value - 1.96 * stderr,
        "high": value + 1.96 * stderr,
    }
    return {
        "column": column, "label": label, "target": target, "estimator": "auto", "n": 4000, "value": 1.2 + value,
        "stderr": stderr, "low": 1.1, "high": 1.3, "ess": ess, "flags": [],
        "evidence": "insufficient" if ess < 100 else "reliable",
        "lift": {**ends, "adjusted_low": value - 2.8 * stderr, "adjusted_high": value + 2.8 * stderr},
    }  # fmt: skip


def reason(target: str, check: str, status: str, text: str, advice: str | None) -> dict[str, Any]:
    return {"target": target, "check": check, "status": status, "reason": text, "help": advice}


def finding(
    check: str, status: str, found: str, examples: list[Any] | None = None, cause: str | None = None,
    remedy: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    return {"check": check, "status": status, "found": found, "examples": examples or [], "cause": cause,
            "remedy": remedy}  # fmt: skip


def leaf(conditions: list[Condition], share: float, name: str, items: list[Any]) -> dict[str, Any]:
    rules = [str(one) for one in conditions]
    return {"rule": " and ".join(rules) or "all rankings", "rules": rules, "share": share, "model": name,
            "conditions": [one.to_dict() for one in conditions],
            "items": items, "estimate": 0.2, "stderr": 0.01, "low": 0.18, "high": 0.22}  # fmt: skip


def behavior() -> dict[str, Any]:
    """Position 1 has one group, the others are split by device."""
    split = [
        [leaf([Condition("x_device", "in", labels=("mobile",))], 0.6, "C", [int(c <= k) for c in range(K)]),
         leaf([Condition("x_device", "not in", labels=("mobile",))], 0.4, "I", [int(c == k) for c in range(K)])]
        for k in range(K)
    ]  # fmt: skip
    split[0] = [leaf([], 1.0, "I", [1] + [0] * (K - 1))]
    positions = [{"position": k + 1, "groups": groups} for k, groups in enumerate(split)]
    sees = [[float(c <= k) for c in range(K)] for k in range(K)]
    mobile = Condition("x_device", "in", labels=("mobile",)).to_dict()
    people = [{"rule": "device is mobile", "conditions": [mobile], "share": 0.6, "sees": sees}]
    return {"mse": "reference", "rows": 12_000, "per_position": True, "positions": positions,
            "people": people, "importance": {"x_device": 0.9, "x_hour": 0.1}, "notes": ["a note"]}  # fmt: skip


def model(today: float = 1.2) -> dict[str, Any]:
    """Return the dictionary an Evaluation would give."""
    path = [
        {"order": m, "value": v, "stderr": s}
        for m, v, s in (
            (1, 1.25, 0.008),
            (2, 1.30, 0.014),
            (3, 1.29, 0.02),
            (4, 1.31, 0.03),
            (6, 1.28, 0.06),
        )
    ]
    rows = [
        estimate(
            "personalised",
            "auto",
            1.30,
            0.010,
            details={"order_path": path, "regression": {"model": "linear"}},
        ),
        estimate("personalised", "ips", 1.29, 0.03),
        estimate("personalised", "rips", 1.28, 0.015),
        estimate("personalised", "dr-order-2", 1.295, 0.012),
        estimate("personalised", "iips", 1.25, 0.008),
        estimate("clickbait", "auto", 1.08, 0.03),
        estimate(
            "clickbait",
            "ips",
            1.15,
            0.35,
            flags=["low-ess: only 40 of 24000 rows carry information"],
        ),
        estimate("clickbait", "iips", 1.33, 0.008),
    ]
    found = {
        "schema": "counterrank/evaluation/1",
        "log": {"n": 24_000, "K": K, "fingerprint": "00ff00ff00ff00ff", "rows_fingerprint": "00ff",
                "value": today, "stderr": 0.006,
                "position_weights": [1.0] * K, "words": {"reward": "clicks", "ranking": "page"}},
        "estimates": rows,
        "lift": [lift(row, today) for row in rows],
        "recommended": {"personalised": "auto", "clickbait": "auto"},
        "comparisons": [{"better": "clickbait", "than": "personalised", "value": -0.22, "stderr": 0.02, "low": -0.26,
                         "high": -0.18, "p_value": 1e-9}],
        "segments": [
            segment(target, column, label, sign * size, 0.02 + 0.01 * index, ess)
            for target, sign in (("personalised", 1), ("clickbait", -1))
            for column, cells in (("x_device", (("mobile", 0.11), ("desktop", 0.05), ("tablet", -0.01))),
                                  ("x_country", (("DE", 0.08), ("FR", 0.02))))
            for index, (label, size) in enumerate(cells)
            for ess in ((50.0 if label == "tablet" else 900.0),)
        ],
        "diagnostics": {
            **{f"{row['target']}/{row['estimator']}": diagnostics(row["ess"]) for row in rows},
            "order_path": {target: order_path(rows, target) for target in TARGETS},
        },
        "behavior": {**behavior(), "target": "personalised",
                     "others": {"clickbait": {**behavior(), "target": "clickbait"}}},
        "verdict": {
            "level": "directional", "summary": "One check raised a doubt.",
            "targets": {"personalised": "reliable", "clickbait": "directional"},
            "reasons": [
                reason("personalised", "ess", "pass", "9,000 effective rows", None),
                reason("clickbait", "agreement", "warn", "ips and rips differ by 2.3 errors",
                       "log more exploration at positions 5 and 6"),
            ],
        },
        "planning": {
            target: {"detectable_lift": 0.03, "detectable_relative": 0.025,
                     "curve": [{"rows": 1000 * 2**j, "lift": 0.15 / 2 ** (j / 2)} for j in range(9)], "ab_rows": 61_000,
                     "rows_for": [{"relative": 0.01, "rows": 150_000}, {"relative": 0.02, "rows": 38_000}],
                     "exploration": [{"epsilon": 0.2, "stderr_ratio": 0.8}]}
            for target in TARGETS
        },
        "sensitivity": {"personalised": {"curve": [{"gamma": 1 + g / 10, "low": 1.3 - g / 50, "high": 1.3 + g / 50,
                                                    "lift_low": 0.1 - g / 50, "lift_high": 0.1 + g / 50}
                                                   for g in range(9)], "sign_changes_at": 1.5}},
        "audit": [
            finding("propensities in (0, 1]", "passed", "144,000 numbers"),
            finding("duplicates", "warned", "12 rows occur twice", [{"row": 17, "same as": 3}],
                    "a file was read twice", "drop one copy"),
            finding("drift", "skipped", "no column of days"),
        ],
        "skipped": [{"target": "clickbait", "estimator": "cascade-dr", "reason": "needs propensity_dist"}],
        "provenance": {"counterrank": "0.1.0", "python": "3.11", "numpy": "2.0",
                       "command": "counterrank evaluate log.parquet",
                       "options": {"targets": list(TARGETS), "level": 0.95, "seed": 0, "practical": 0.01}},
        "decision": {"action": "ship", "reasons": [], "target": "personalised",
                     "targets": {"personalised": "ship", "clickbait": "hold"}},
    }  # fmt: skip
    found["metrics"] = [
        {"name": "clicks", "primary": True, "expression": "click", "kind": "position", "unit": "per page",
         "lower_is_better": False, "value": today, "stderr": 0.006,
         **{key: found[key] for key in ("estimates", "lift", "recommended", "verdict")}}
    ]  # fmt: skip
    return deepcopy(found)  # rows share lists: what one test damages must not reach the next


def six() -> dict[str, Any]:
    """Return six policies over five metrics: every state, guardrails, a limit that matters, segments."""
    today = {"clicks": 1.328, "applies": 0.094, "revenue": 0.41, "hides": 0.038, "load time": 412.0}
    values = {
        "fresh only": (-2.7, -4.1, -0.3, -0.6, -0.9), "diverse mix": (1.4, 0.8, -0.1, -1.9, 0.4),
        "boost a bit": (3.1, 2.2, 0.6, -0.8, 0.2), "pay more first": (4.2, 1.1, 5.1, 7.4, 0.3),
        "new catalogue": (0.0,) * 5, "shadow copy": (0.0,) * 5,
    }  # fmt: skip
    actions = dict(zip(values, ("hold", "test", "ship", "hold", "test", "test"), strict=True))
    levels = dict.fromkeys(values, "reliable") | {
        "diverse mix": "directional",
        "new catalogue": "insufficient",
    }
    metrics = []
    for place, (name, base) in enumerate(today.items()):
        rows = []
        for target, lifts in values.items():
            error = (
                0.0
                if target == "shadow copy"
                else base * (0.25 + 0.3 * (target == "diverse mix")) / 100
            )
            row = estimate(target, "auto", base * (1 + lifts[place] / 100), error or 1e-300)
            if target == "new catalogue":
                row.update(value=None, low=None, high=None, stderr=None, estimable=False,
                           not_estimable="61 % of what it would show was never shown by today's policy")  # fmt: skip
            rows.append(row)
        lifts = [
            {"target": row["target"], "estimator": "auto"}
            if row["value"] is None
            else lift(row, base)
            for row in rows
        ]
        metrics.append({
            "name": name, "primary": not place, "expression": name, "kind": "position", "unit": "per page",
            "lower_is_better": place > 2, "value": base, "stderr": base / 500, "estimates": rows, "lift": lifts,
            "recommended": dict.fromkeys(values, "auto"),
            "verdict": {"level": "directional", "targets": levels, "reasons": []},
        })  # fmt: skip
    limits = {"revenue": ">= -0.01", "hides": "<= 0.03", "load time": "<= 0.02"}
    rails = [
        {"expression": f"{name} {limit}", "target": target, "lift": values[target][at] / 100,
         "low": (values[target][at] - 1) / 100, "high": (values[target][at] + 1) / 100, "metric": name,
         "limit": float(limit.split()[1]), "relative": True, "evidence": "reliable",
         "status": "broken" if (target, name) == ("pay more first", "hides") else
         "open" if (target, name) == ("diverse mix", "revenue") else "safe"}
        for at, (name, limit) in enumerate(limits.items(), 2) for target in values
    ]  # fmt: skip
    found, first = model(), metrics[0]
    found.update({key: first[key] for key in ("estimates", "lift", "recommended", "verdict")})
    cells = (
        ("x_device", (("mobile", 0.02), ("desktop", -0.01), ("tablet", 0.0))),
        ("x_country", (("DE", 0.0), ("PL", 0.03))),
    )
    segments = [
        segment(target, column, label, 1.328 * (values[target][0] / 100 + size), 0.02,
                50.0 if label == "tablet" else 900.0)
        for target in (*values,)[:4] for column, labels in cells for label, size in labels
    ]  # fmt: skip
    found.update(
        metrics=metrics, guardrails=rails, segments=segments, comparisons=[], planning={}, sensitivity={},
        diagnostics={}, behavior={**behavior(), "target": "boost a bit"},
        decision={"action": "ship", "target": "boost a bit", "targets": actions, "reasons": []},
    )  # fmt: skip
    found["log"].update(n=92_980, K=8, units=31_407, value=today["clicks"], stderr=0.003)
    return found


def refused() -> dict[str, Any]:
    """Return the same with a check that failed, so that nothing of it may be believed."""
    found = model()
    found["audit"].append(
        finding("sums", "failed", "rows add up to 1.04", [{"row": 3, "sum": 1.04}],
                "rounding to two digits", "log more digits")
    )  # fmt: skip
    return found


def result(given: dict[str, Any] | None = None) -> Evaluation:
    """Return the evaluation that a model describes."""
    return Evaluation.from_dict(model() if given is None else given)


def document(given: dict[str, Any] | None = None) -> Document:
    """Return what is said of it."""
    return evaluation.document(result(given))


def page(given: dict[str, Any] | None = None) -> str:
    """Return its page."""
    return html.page(document(given))


def shown(given: dict[str, Any] | None = None, width: int = 120, *, verbose: bool = False) -> str:
    """Return what a terminal shows."""
    blocks = terminal.renderables(document(given), VERBOSE if verbose else BRIEF)
    return "".join(printed(one, width) for one in blocks)


def figures(given: dict[str, Any] | None, kind: str) -> list[Figure]:
    """Return its charts of one kind."""
    return document(given).figures(kind)


def reading(given: dict[str, Any] | None = None) -> Reading:
    """Return the same as a report reads it."""
    return Reading(result(given))
