"""Evaluate a log: from a file to a decision, with a truth to compare with.

Run: python docs/tutorials/evaluate_a_log.py
"""

import tempfile
from pathlib import Path

import pyarrow.parquet as pq

import counterrank as cr
from counterrank.research import simulate

folder = Path(tempfile.mkdtemp())

# A simulated world, so that the true value of the policy "new" is known.
world = simulate.random(3, K=4, actions=3, d=3)
simulate.write_log(world, 6000, folder / "log.parquet", seed=1)
truth = float(pq.read_schema(folder / "log.parquet").metadata[b"counterrank.true_value"])

# One call: estimates, intervals, lift against the old policy, diagnostics, verdict.
# The policy "new" was not trained on this log, and says so: else evidence is directional at best.
names = ["auto", "order-2", "ips", "iips"]
result = cr.evaluate(folder / "log.parquet", ["new"], estimators=names, target_is_fresh=True)
print(result)

# Numbers, not only text.
best = result.estimate("new")
low, high = best.interval(0.95)
where = (
    "inside" if low <= truth <= high else "outside"
)  # one interval in twenty may miss; a single log proves nothing
print(
    f"{best.estimator}: {best.value:.3f}, 95 % interval {low:.3f} to {high:.3f}; truth "
    f"{truth:.3f}, {where}"
)
print(
    f"lift over the old policy: {best.lift.value:+.3f} ({best.lift.low:+.3f} to "
    f"{best.lift.high:+.3f})"
)
print("by position:", [round(p.value, 3) for p in best.by_position])
print("evidence:", result.verdict.level)

# What the others think, and why they differ: iips ignores interaction, ips pays for all of it.
for name in ("iips", "ips"):
    one = result.estimate("new", name)
    print(f"{name:>8}: {one.value:.3f} ± {one.stderr:.3f}, {one.ess:.0f} effective of {one.n} rows")

result.to_html(folder / "report.html")
result.to_json(folder / "result.json")
print("wrote", ", ".join(sorted(path.name for path in folder.iterdir())))

assert abs(best.value - truth) < 4 * best.stderr
