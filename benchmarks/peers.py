"""The same numbers by other packages, in an environment of their own: obp's slate IPS, Vowpal Wabbit's estimators.

obp 0.5.7 (Saito et al., Open Bandit Pipeline) pins versions that Python 3.11 cannot install, so its package goes in
without its dependencies, and its slate module is loaded without torch. vw-estimators 0.2.2 sums row by row.
"""

import json
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
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
#: obp checks rows with pandas, one group a ranking; more than this takes minutes.
SIZE, LENGTH = 8_000, 5


def table(n: int = SIZE) -> None:
    """Print peers' processor time over ours, and how far the values agree."""
    python = _environment()
    rng = np.random.default_rng(0)
    p0, p1 = rng.uniform(0.2, 1, (n, LENGTH)), rng.uniform(0.2, 1, (n, LENGTH))
    reward = (rng.random((n, LENGTH)) < 0.3).astype(float)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        data = str(Path(folder) / "data.npz")
        np.savez(data, p0=p0, p1=p1, reward=reward)
        for name, (peer, ours) in PEERS.items():
            mine = cpu_seconds(lambda ours=ours: ours(p0, p1, reward))  # type: ignore[misc]
            value = ours(p0, p1, reward)
            try:
                theirs = child(__file__, peer, data, python=python, one_thread=True)
            except RuntimeError as problem:
                rows.append((name, "could not run", str(problem)[:80]))
                continue
            rows.append((name, f"{theirs['cpu'] / mine:,.0f}", f"{abs(theirs['value'] / value - 1):.0e}"))
    header = [f"n = {n:,}, K = {LENGTH}", "x counterrank's CPU time", "relative difference of values"]
    show("Peers", header, rows)


def _environment() -> str:
    python = HOME / "bin" / "python"
    if not (HOME / ".complete").exists():
        venv.create(HOME, with_pip=True, clear=True)
        for packages in PACKAGES:
            line = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages]
            done = subprocess.run(line, capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"cannot install {packages[-1]}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        (HOME / ".complete").touch()
    return str(python)


def _estimate(name: str) -> Callable[[Any, Any, Any], float]:
    def run(p0: Any, p1: Any, reward: Any) -> float:
        import counterrank as cr

        log = cr.RankingLog(action=np.zeros(p0.shape, dtype=int), reward=reward, propensity=p0)
        # Validation, value, standard error, interval, lift, effective sample size and flags.
        found = cr.evaluate(log, {"new": p1}, estimators=[name]).estimate("new", name)
        return found.value

    return run


PEERS = {
    "obp 0.5.7, slate IPS, value": ("obp_value", _estimate("ips")),
    "obp 0.5.7, slate IPS, interval of 100 resamples": ("obp_interval", _estimate("ips")),
    "vw-estimators 0.2.2, PDIS (RIPS) with Cressie-Read, value": ("vw_value", _estimate("rips")),
    "vw-estimators 0.2.2, the same, interval": ("vw_interval", _estimate("rips")),
}


def _obp(data: Any, method: str, **options: Any) -> Any:
    import importlib
    import types

    home = next(Path(folder) / "obp" for folder in sys.path if (Path(folder) / "obp" / "utils.py").exists())
    sys.modules["torch"] = types.ModuleType("torch")
    sys.modules["torch"].Tensor = type("Tensor", (), {})  # type: ignore[attr-defined]
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
    for p0, r, p1 in zip(data["p0"].tolist(), data["reward"].tolist(), data["p1"].tolist(), strict=True):
        found.add_example(p0, r, p1)
    return found


if __name__ == "__main__":
    loaded = dict(np.load(sys.argv[2]))
    work = {"obp_value": obp_value, "obp_interval": obp_interval, "vw_value": vw_value, "vw_interval": vw_interval}
    task = work[sys.argv[1]](loaded)
    began = time.process_time()
    result = task()
    print(json.dumps({"cpu": time.process_time() - began, "value": result}))
