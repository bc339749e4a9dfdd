"""Results in MLflow: what was measured as metrics, the verdict as a tag, the report as an artifact."""

import math
import os
import time
from collections.abc import Iterator
from typing import Any

from counterrank.errors import ConfigError, require
from counterrank.evaluation.result import Evaluation

#: The experiment of runs that name none.
EXPERIMENT = "counterrank"


def log_to_mlflow(result: Evaluation, experiment: str | None = None) -> str:
    """Record an evaluation as a run of MLflow and return the run's id.

    The server, or the folder, is that of MLFLOW_TRACKING_URI. Metrics are called
    `TARGET/ESTIMATOR/value` and so on, the verdict and its summary are tags, and the report and
    the whole result are artifacts.

    Parameters
    ----------
    result
        What `evaluate` returned.
    experiment
        Name of the experiment, made where it is new; MLFLOW_EXPERIMENT_NAME or "counterrank" when
        None.
    """
    mlflow = require("mlflow", extra="mlflow")
    try:
        return _logged(mlflow, result, experiment)
    except mlflow.exceptions.MlflowException as problem:
        line = (str(problem).strip().splitlines() or ["no reason given"])[0][:300]
        raise ConfigError(f"MLflow did not take the result: {line}") from None


def _logged(mlflow: Any, result: Evaluation, experiment: str | None) -> str:
    client = mlflow.MlflowClient()
    name = experiment or os.environ.get("MLFLOW_EXPERIMENT_NAME") or EXPERIMENT
    found = client.get_experiment_by_name(name)
    number = client.create_experiment(name) if found is None else found.experiment_id
    run = client.create_run(number, tags=_tags(result)).info.run_id
    status = "FAILED"
    try:
        now = int(time.time() * 1000)
        metrics = [mlflow.entities.Metric(key, value, now, 0) for key, value in _metrics(result)]
        client.log_batch(run, metrics=metrics)
        client.log_text(run, result.to_html(), "report.html")
        client.log_text(run, result.to_json(), "result.json")
        status = "FINISHED"
    finally:
        client.set_terminated(run, status)
    return str(run)


def _metrics(result: Evaluation) -> Iterator[tuple[str, float]]:
    """Yield what can be drawn over time; what is not known is left out."""
    found: dict[str, float] = {"rows": result.log.n, "logger/value": result.log.value}
    for one in result.estimates:
        low, high = one.interval(one.level)
        stem = f"{one.target}/{one.estimator}"
        found |= {
            f"{stem}/value": one.value,
            f"{stem}/stderr": one.stderr,
            f"{stem}/low": low,
            f"{stem}/high": high,
            f"{stem}/lift": one.lift.value,
            f"{stem}/lift_low": one.lift.low,
            f"{stem}/lift_high": one.lift.high,
        }
    for key, value in found.items():
        if value is not None and math.isfinite(value):
            yield _key(key), float(value)


def _key(text: str) -> str:
    """Return a name that MLflow takes: letters, digits and a few signs."""
    return "".join(c if c.isalnum() or c in "_-. /" else "_" for c in text)[:250]


def _tags(result: Evaluation) -> dict[str, str]:
    tags = {
        "verdict": result.verdict.level,
        "summary": result.verdict.summary,
        "log_fingerprint": result.log.fingerprint,
        "targets": ", ".join(dict.fromkeys(one.target for one in result.estimates)),
    }
    return {f"counterrank.{key}": str(value)[:500] for key, value in tags.items()}
