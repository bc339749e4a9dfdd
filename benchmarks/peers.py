"""The same numbers by other packages, in an environment of their own: obp's slate IPS, Vowpal
Wabbit's estimators.

obp 0.5.7 (Saito et al., Open Bandit Pipeline) pins versions that Python 3.11 cannot install, so its
package goes in without its dependencies, and its slate module is loaded without torch.
vw-estimators 0.2.2 sums row by row.
"""

import json
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import child, cpu_seconds, show

HOME = Path(__file__).with_name(".peers")
PACKAGES = [
    ["numpy", "pandas<3", "scipy", "scikit-learn"],
    ["--no-deps", "--ignore-requires-python", "obp==0.5.7"],
    ["--no-deps", "vw-estimators==0.2.2"],
]
LENGTH = 5


def table() -> None:
    """Print peers' processor time over ours, and how far the values agree."""
    python = _environment()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        data = str(Path(folder) / "data.npz")
        for name, (peer, n, ours) in PEERS.items():
            arrays = _arrays(n)
            np.savez(data, p0=arrays[0], p1=arrays[1], reward=arrays[2])
            mine, value = cpu_seconds(partial(_alone, ours, *arrays)), _alone(ours, *arrays)
            whole = cpu_seconds(partial(_evaluation, ours, *arrays))
            try:
                theirs = child("-m", "benchmarks.peers", peer, data, python=python, one_thread=True)
            except RuntimeError as problem:
                rows.append((name, f"{n:,}", "could not run", "", str(problem)[:80]))
                continue
            ratios = (f"{theirs['cpu'] / spent:,.0f}" for spent in (mine, whole))
            rows.append((name, f"{n:,}", *ratios, f"{abs(theirs['value'] / value - 1):.0e}"))
    header = [
        f"K = {LENGTH}",
        "n",
        "x our estimate",
        "x our evaluate()",
        "relative difference of values",
    ]
    show("Peers", header, rows)


def _arrays(n: int) -> tuple[Any, Any, Any]:
    from counterrank.research import simulate

    log = (
        simulate.random(0, K=LENGTH, actions=3, reward="binary")
        .draw(n, np.random.default_rng(0))
        .to_log()
    )
    return log.propensity.values, log.target("new").values, log.reward  # type: ignore[union-attr]


def _environment() -> str:
    python = HOME / "bin" / "python"
    if not (HOME / ".complete").exists():
        venv.create(HOME, with_pip=True, clear=True)
        for packages in PACKAGES:
            line = [
                str(python),
                "-m",
                "pip",
                "install",
                "-q",
                "--disable-pip-version-check",
                *packages,
            ]
            done = subprocess.run(line, capture_output=True, text=True, check=False)
            if done.returncode:
                print(
                    f"cannot install {packages[-1]}: {done.stderr.strip().splitlines()[-1]}",
                    file=sys.stderr,
                )
        (HOME / ".complete").touch()
    return str(python)


def _alone(name: str, p0: Any, p1: Any, reward: Any) -> float:
    """Validate the log, then value, standard error, interval, lift, effective sample size and
    flags.
    """
    import counterrank as cr

    log = cr.RankingLog(action=np.zeros(p0.shape, dtype=int), reward=reward, propensity=p0)
    return {"ips": cr.IPS(), "rips": cr.RIPS()}[name].estimate(log, p1).value


def _evaluation(name: str, p0: Any, p1: Any, reward: Any) -> None:
    """All of that, the audit of the propensities, diagnostics, verdict and planning."""
    import counterrank as cr

    log = cr.RankingLog(action=np.zeros(p0.shape, dtype=int), reward=reward, propensity=p0)
    cr.evaluate(log, {"new": p1}, estimators=[name])


#: obp groups rows with pandas, one group a ranking: more than a few thousand rankings take minutes.
#: VW's value is that of an empirical likelihood, near RIPS but not the same number.
PEERS = {
    "obp 0.5.7, slate IPS, value": ("obp_value", 8_000, "ips"),
    "obp 0.5.7, slate IPS, interval of 100 resamples": ("obp_interval", 8_000, "ips"),
    "vw-estimators 0.2.2, PDIS (RIPS) with Cressie-Read, value": ("vw_value", 100_000, "rips"),
    "vw-estimators 0.2.2, the same, interval": ("vw_interval", 100_000, "rips"),
}


def _obp(data: Any, method: str, **options: Any) -> Any:
    import importlib
    import types

    home = next(
        Path(folder) / "obp" for folder in sys.path if (Path(folder) / "obp" / "utils.py").exists()
    )
    torch = types.ModuleType("torch")
    torch.Tensor = torch.tensor = type("Tensor", (), {})  # type: ignore[attr-defined]
    sys.modules["torch"] = torch
    for package, path in (("obp", home), ("obp.ope", home / "ope")):
        sys.modules[package] = types.ModuleType(package)
        sys.modules[package].__path__ = [str(path)]
    slate = importlib.import_module("obp.ope.estimators_slate")
    n, length = data["p0"].shape
    estimator = slate.SlateStandardIPS(len_list=length)
    columns = {
        "slate_id": np.repeat(np.arange(n), length),
        "position": np.tile(np.arange(length), n),
        "reward": data["reward"].ravel(),
        "pscore": np.repeat(data["p0"].prod(1), length),
        "evaluation_policy_pscore": np.repeat(data["p1"].prod(1), length),
    }
    return lambda: getattr(estimator, method)(**columns, **options)


def obp_value(data: Any) -> Callable[[], float]:
    return _obp(data, "estimate_policy_value")  # type: ignore[no-any-return]


def obp_interval(data: Any) -> Callable[[], float]:
    run = _obp(data, "estimate_interval", n_bootstrap_samples=100, random_state=0)
    return lambda: float(run()["mean"])


def vw_value(data: Any) -> Callable[[], float]:
    return lambda: float(sum(_vw("Estimator", data).get()))


def vw_interval(data: Any) -> Callable[[], float]:
    def run() -> float:
        low, high = np.array(_vw("Interval", data).get()).T
        return float((low + high).sum() / 2)

    return run


def _vw(kind: str, data: Any) -> Any:
    from estimators.ccb import pdis_cressieread

    found = getattr(pdis_cressieread, kind)()
    for p0, r, p1 in zip(
        data["p0"].tolist(), data["reward"].tolist(), data["p1"].tolist(), strict=True
    ):
        found.add_example(p0, r, p1)
    return found


if __name__ == "__main__":
    loaded = dict(np.load(sys.argv[2]))
    work = {
        "obp_value": obp_value,
        "obp_interval": obp_interval,
        "vw_value": vw_value,
        "vw_interval": vw_interval,
    }
    task = work[sys.argv[1]](loaded)
    began = time.process_time()
    result = task()
    print(json.dumps({"cpu": time.process_time() - began, "value": result}))
