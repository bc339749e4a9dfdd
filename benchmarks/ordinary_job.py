"""An ordinary job of a marketplace: what a team evaluates in a week, and what it would do instead.

40,000 requests of 9,000 users, about 37 candidates each, of which a Plackett-Luce logger shows eight;
two rankers on file as scores; clicks, applies and revenue joined from a table of events; one segment.
What a team would do instead: a boosting fit for each metric, and predictions for all candidates.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import counterrank as cr

LENGTH, ITEMS, CANDIDATES = 8, 600, 37
METRICS = {
    "clicks": "count(*) filter (where event = 'click')",
    "applies": "count(*) filter (where event = 'apply')",
    "revenue": "coalesce(sum(revenue), 0)",
}


@dataclass(frozen=True)
class OrdinaryJob:
    """The tables of a job with `n` requests, drawn from a seed."""

    n: int
    seed: int = 0

    @cached_property
    def world(self) -> dict[str, Any]:
        rng, n = np.random.default_rng(self.seed), self.n
        users = max(n * 9 // 40, 1)
        user = rng.integers(0, users, n)
        taste, age = rng.normal(size=users)[user], rng.normal(40.0, 12.0, users)[user]
        device = rng.choice(["phone", "desktop", "tablet"], n, p=[0.6, 0.3, 0.1])
        counts = np.clip(rng.poisson(CANDIDATES, n), LENGTH + 4, 64)
        quality, price = rng.normal(size=ITEMS), rng.normal(size=ITEMS)
        order = np.argsort(rng.random((n, ITEMS), dtype=np.float32), axis=1)[:, : counts.max()]
        listed = np.arange(counts.max()) < counts[:, None]
        relevance = 0.6 * quality[order] + 0.5 * price[order] * taste[:, None]
        noise = rng.normal(size=(3, *order.shape))
        scores = {
            "propensity": 0.7 * relevance + 0.5 * noise[0],
            "a": 1.0 * relevance + 0.4 * noise[0] + 0.3 * noise[1],
            "b": 0.8 * relevance - 0.3 * price[order] + 0.4 * noise[2],
        }
        gumbel = rng.gumbel(size=order.shape)
        place = np.argsort(-np.where(listed, scores["propensity"] + gumbel, -np.inf), axis=1)
        place = place[:, :LENGTH]
        shown = np.take_along_axis(order, place, axis=1)
        attraction = 1 / (1 + np.exp(1.0 - np.take_along_axis(relevance, place, axis=1)))
        seen = rng.random((n, LENGTH)) < 1 / (1 + np.arange(LENGTH)) ** 0.6
        click = seen & (rng.random((n, LENGTH)) < attraction)
        apply = click & (rng.random((n, LENGTH)) < 0.15)
        paid = np.exp(3.0 + 0.3 * price[shown] + 0.5 * rng.normal(size=shown.shape))
        revenue = np.where(apply, paid, 0.0)
        return {
            "user": user, "age": age, "device": device, "listed": listed, "order": order, "place": place,
            "shown": shown, "scores": scores, "price": price[order], "rating": quality[order] + noise[0],
            "click": click, "apply": apply, "revenue": revenue,
        }  # fmt: skip

    def write(self, folder: Path) -> None:
        """Write log.parquet and events.parquet."""
        w, listed = self.world, self.world["listed"]
        ends = np.concatenate([[0], listed.sum(axis=1).cumsum()]).astype(np.int32)

        def lists(values: np.ndarray) -> pa.Array:
            return pa.ListArray.from_arrays(pa.array(ends), pa.array(values[listed]))

        fixed = pa.array(np.arange(self.n + 1, dtype=np.int32) * LENGTH)
        log = {
            "request_id": np.arange(self.n),
            "user": w["user"],
            "x_age": w["age"],
            "x_device": w["device"],
            "x_hour": np.arange(self.n) % 24,
            "item": pa.ListArray.from_arrays(fixed, pa.array(w["shown"].ravel())),
            "candidates": lists(w["order"]),
            "z_price": lists(w["price"]),
            "z_rating": lists(w["rating"]),
            **{f"{name}_scores": lists(values) for name, values in w["scores"].items()},
        }
        pq.write_table(pa.table(log), folder / "log.parquet", row_group_size=16_384)
        parts = []
        for event in ("click", "apply"):
            row, k = np.nonzero(w[event])
            earned = w["revenue"][row, k] if event == "apply" else np.zeros(len(row))
            parts.append(
                pa.table({
                    "request_id": row, "item": w["shown"][row, k],
                    "event": pa.array([event] * len(row)), "revenue": earned,
                })
            )  # fmt: skip
        pq.write_table(pa.concat_tables(parts), folder / "events.parquet")

    def evaluate(self, folder: Path, **options: Any) -> cr.Evaluation:
        """Evaluate both rankers by every metric."""
        asked: dict[str, Any] = {"targets": ["a", "b"], "segments": "x_device", "metrics": METRICS}
        asked |= options
        events = cr.Events(
            str(folder / "events.parquet"), on=["request_id", "item"], rewards=asked.pop("metrics")
        )
        return cr.evaluate(
            str(folder / "log.parquet"), asked.pop("targets"), events=events, columns={"action": "item"},
            unit="user", logger="plackett-luce", target_is_fresh=True,
            policies={"a": "plackett-luce", "b": "plackett-luce"}, **asked,
        )  # fmt: skip

    def boosting(self) -> list[np.ndarray]:
        """Return predictions of three boosting fits, 100 trees each on one thread, for all candidates."""
        import lightgbm

        w, n = self.world, self.n
        hour, device = np.arange(n) % 24, np.unique(w["device"], return_inverse=True)[1]

        def columns(values: np.ndarray) -> np.ndarray:
            return np.take_along_axis(values, w["place"], axis=1)

        each = [w["price"], w["rating"], w["scores"]["propensity"]]
        request = np.stack([w["age"], hour, device], axis=1)
        k = np.tile(np.arange(LENGTH), n)
        request_of_slot = np.repeat(request, LENGTH, axis=0)
        shown = np.column_stack([request_of_slot, k, *(columns(one).ravel() for one in each)])
        row, _ = np.nonzero(w["listed"])
        top = np.zeros(len(row))
        every = np.column_stack([request[row], top, *(one[w["listed"]] for one in each)])
        out = []
        for name, objective in (("click", "binary"), ("apply", "binary"), ("revenue", "l2")):
            data = lightgbm.Dataset(shown, w[name].ravel().astype(float))
            fit = lightgbm.train(
                {"objective": objective, "num_threads": 1, "verbosity": -1}, data, num_boost_round=100
            )  # fmt: skip
            out.append(fit.predict(every, num_threads=1))
        return out
