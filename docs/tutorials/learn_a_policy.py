"""From a log to a policy in production: learn, read the certificate, save, serve, check on next
week's log.

Run: python docs/tutorials/learn_a_policy.py
"""

import tempfile
from pathlib import Path

import numpy as np

import counterrank as cr
from counterrank.research.simulate import World

folder = Path(tempfile.mkdtemp())

# A search page with 20 candidates of which 5 are shown; today's ranker draws them by its scores
# (Plackett-Luce).
world = World(seed=5, behavior="dbn", K=5, items=20)
this_week, next_week = world.log(4000, seed=1), world.log(4000, seed=2)

# Learn on some rows, certify on the others. Nothing is saved that is not certified.
learned = cr.learn(this_week, independent_rows=True)  # no visitor has two rows in this world
print(learned.certificate)
for step in learned.path:
    print(f"  best of {step.m:2d}: lift {step.value:+.3f}, {step.ess:,.0f} effective rows")
if not learned.certificate.certified:
    raise SystemExit("nothing to ship yet")
learned.save(folder / "policy.json")  # data, never code
learned.to_html(folder / "learned.html")

# In production: draw m pages from today's ranker, show the one that the policy likes best.
policy = cr.load_policy(folder / "policy.json")


def serve(context, draw_page):
    """Return the page to show: `draw_page()` is one page of today's ranker, a list of items."""
    pages = [draw_page() for _ in range(policy.m)]
    worth = policy.list_value([context] * policy.m, pages, item_features)
    return pages[int(worth.argmax())]


item_features = next_week.item_features.values  # one row an item, in the order of policy.items
rng = np.random.default_rng(0)
today = next_week.propensity.take(slice(0, 1))  # today's ranker for the first request of next week
print("served:", serve(next_week.context[0], lambda: today.sample(5, rng)[0, 0].tolist()))

# Next week's log did not exist when the policy was learned: does it agree?
again = cr.evaluate(
    next_week.with_targets({"learned": policy.bind(next_week)}), ["learned"], estimators=["ips"]
)
lift = again.estimate("learned", "ips").lift
print(f"next week's log: lift {lift.value:+.3f} ({lift.low:+.3f} to {lift.high:+.3f})")
