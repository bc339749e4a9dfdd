"""The front page of a shop: six slots, each filled with one of five modules; visitors who read it differently.

A visitor clicks slot k with probability e_k * appeal(a_k, x) * prod over the slots l that matter of
(1 - harm(a_l)). Flash deals are clicked more than anything else, and take clicks from the rest of
the page: whoever judges each slot by itself sees only the first half of that. Which other slots
matter depends on the visitor:

==========================  ===============================================
on a phone                  reads top down: the slots above matter
at a desk, known 30 days    goes to what they look for: no other slot matters
at a desk, new              compares everything: all slots matter
==========================  ===============================================
"""

import os
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from counterrank.common.arrays import Bools, Floats, Ints
from counterrank.common.atomic import replacing
from counterrank.policies import Factored

#: In the order of their codes, which is that of the alphabet.
MODULES = ("bestsellers", "flash deals", "for you", "new in", "stories")
DEALS, FOR_YOU, NEW_IN, STORIES = 1, 2, 3, 4
SLOTS = 6
EXAMINED = np.array([0.56, 0.49, 0.43, 0.38, 0.34, 0.31])
HARM = np.array([0.0, 0.5, 0.0, 0.0, 0.0])
TARGETS = ("personalised", "clickbait")
ROWS = 24_000
SEED = 20_231


@dataclass(frozen=True, slots=True)
class Visits:
    """n visits: who came, when, on what."""

    user: Ints
    day: Ints
    device: NDArray[np.str_]
    tenure_days: Ints
    country: NDArray[np.str_]
    hour: Ints

    def take(self, rows: slice) -> "Visits":
        """Return some of the visits."""
        return Visits(*(getattr(self, item.name)[rows] for item in fields(self)))

    @property
    def returning(self) -> Bools:
        """Known for at least thirty days."""
        return self.tenure_days >= 30

    @property
    def loyalty(self) -> Floats:
        """From 0 for the first visit to 1 for those known for months."""
        return np.tanh(self.tenure_days / 60)

    @property
    def evening(self) -> Floats:
        """From 0 in the morning to 1 at eight in the evening."""
        return 0.5 + 0.5 * np.cos((self.hour - 20) / 12 * np.pi)

    @property
    def phone(self) -> Bools:
        """On a phone."""
        on_phone: Bools = self.device == "mobile"
        return on_phone


def visits(n: int, rng: np.random.Generator) -> Visits:
    """Draw n visits of about n/2 users over two weeks; a user keeps device, country and tenure."""
    users = max(n // 2, 1)
    device = rng.choice(["mobile", "desktop", "tablet"], users, p=[0.58, 0.32, 0.10])
    country = rng.choice(["DE", "FR", "IT", "PL"], users, p=[0.4, 0.25, 0.15, 0.2])
    tenure = np.floor(rng.exponential(70.0, users) * rng.choice([0.2, 1.5], users)).astype(np.int64)
    user = rng.integers(0, users, n)
    hour = np.clip(np.round(rng.normal(15, 5, n)), 0, 23).astype(np.int64)
    return Visits(
        user, np.sort(rng.integers(1, 15, n)), device[user], tenure[user], country[user], hour
    )


def appeal(who: Visits) -> Floats:
    """Return (n, A): how much each module is clicked where it is looked at."""
    table = np.tile([1.0, 1.55, 0.95, 0.95, 0.80], (len(who.user), 1))
    table[:, FOR_YOU] += 0.50 * who.loyalty
    table[:, NEW_IN] += 0.45 * (1 - who.loyalty)
    table[:, STORIES] += 0.25 * who.evening * who.phone
    return table


def logging_policy(who: Visits) -> Floats:
    """Return (n, A): today's policy, close to uniform, with a taste for bestsellers and stories in the evening."""
    scores = np.tile([0.25, -0.10, 0.0, 0.0, -0.10], (len(who.user), 1))
    scores[:, FOR_YOU] += 0.25 * who.loyalty
    scores[:, STORIES] += 0.15 * who.evening
    return softmax(scores, axis=1)  # type: ignore[no-any-return]


def target_policy(who: Visits, name: str) -> Floats:
    """Return (n, A) of a target: "personalised" fits modules to visitors, "clickbait" shows what is clicked most."""
    scores = np.tile([0.25, -0.35, 0.0, 0.0, -0.25], (len(who.user), 1))
    if name == "clickbait":
        scores[:, DEALS] += 0.50 + 0.60 * who.evening + 0.50 * (1 - who.loyalty)
    else:
        scores[:, FOR_YOU] += 1.00 * who.loyalty
        scores[:, NEW_IN] += 0.85 * (1 - who.loyalty)
    return softmax(scores, axis=1)  # type: ignore[no-any-return]


def matters(who: Visits) -> Bools:
    """Return (n, K, K): whether slot l acts on the clicks of slot k, l != k."""
    above = np.tri(SLOTS, k=-1, dtype=bool)
    off_diagonal = ~np.eye(SLOTS, dtype=bool)
    desk_new = ~who.phone & ~who.returning
    relevant: Bools = (who.phone[:, None, None] & above) | (desk_new[:, None, None] & off_diagonal)
    return relevant


def click_probability(who: Visits, shown: Ints) -> Floats:
    """Return (n, K): the probability of a click on each slot of the pages shown (n, K)."""
    item_appeal = np.take_along_axis(appeal(who), shown, axis=1)
    unharmed = np.where(matters(who), (1 - HARM[shown])[:, None, :], 1.0).prod(axis=2)
    probability: Floats = EXAMINED * item_appeal * unharmed
    return probability


def true_value(who: Visits, policy: Floats) -> float:
    """Return the exact clicks per page of a policy (n, A) for these visits.

    Slots are drawn independently, so the expectation of the product is the product of the
    expectations.
    """
    mean_appeal = (policy * appeal(who)).sum(axis=1)
    unharmed = (policy * (1 - HARM)).sum(axis=1)
    n_relevant = matters(who).sum(axis=2)  # (n, K)
    return float(
        (EXAMINED * mean_appeal[:, None] * unharmed[:, None] ** n_relevant).sum(axis=1).mean()
    )


def truth(n: int = ROWS, seed: int = SEED) -> dict[str, float]:
    """Return the true clicks per page of "logging" and each target, for the visits of the log.

    >>> {name: round(value, 2) for name, value in truth(1000).items()}
    {'logging': 2.3, 'personalised': 2.56, 'clickbait': 2.0}
    """
    who = visits(n, np.random.default_rng(seed))
    values = {"logging": true_value(who, logging_policy(who))}
    return values | {name: true_value(who, target_policy(who, name)) for name in TARGETS}


def make_log(path: str | os.PathLike[str], *, n: int = ROWS, seed: int = SEED) -> None:
    """Write the log as Parquet; the true value of each target is in the metadata."""
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(seed)
    who = visits(n, rng)
    policy = logging_policy(who)
    shown = Factored(policy).sample(SLOTS, rng)[:, 0]
    clicks = (rng.random(shown.shape) < click_probability(who, shown)).astype(np.float64)
    columns: dict[str, object] = {
        "unit": np.char.add("user-", who.user.astype(str)),
        "day": who.day,
        "x_device": who.device,
        "x_tenure_days": who.tenure_days,
        "x_returning": np.where(who.returning, "yes", "no"),
        "country": who.country,
        "hour": who.hour,
        "action": np.array(MODULES)[shown].tolist(),
        "reward": clicks.tolist(),
        "propensity": np.take_along_axis(policy, shown, axis=1).tolist(),
        "propensity_dist": policy.tolist(),
    }
    for name in TARGETS:
        shares = target_policy(who, name)
        columns[name] = np.take_along_axis(shares, shown, axis=1).tolist()
        columns[f"{name}_dist"] = shares.tolist()
    table = pa.table(columns)
    values = {
        f"counterrank.true_value.{name}": repr(value) for name, value in truth(n, seed).items()
    }
    with replacing(path) as temporary:
        parquet.write_table(table.replace_schema_metadata(values), temporary, compression="zstd")
