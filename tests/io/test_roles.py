"""Roles of columns that nobody described."""

import datetime

import numpy as np
import pyarrow as pa

from counterrank.io.roles import guess_events, guess_log


def impressions(n: int = 40, *, candidates: int = 5, shown: int = 3) -> pa.Table:
    """Return one row per candidate in arbitrary order; what was not shown has no rank."""
    rng = np.random.default_rng(0)
    rows = []
    for request in range(n):
        scores = rng.normal(size=candidates)
        order = np.argsort(-(scores + rng.gumbel(size=candidates)))
        for item in range(candidates):
            place = int(np.flatnonzero(order == item)[0])
            rows.append(
                {
                    "request_id": f"r{request}",
                    "user_id": request // 2,
                    "ts": datetime.date(2026, 10, 1) + datetime.timedelta(request),
                    "device": ["mobile", "desktop"][request % 2],
                    "sku": f"sku-{item}",
                    "rank": place + 1 if place < shown else None,
                    "price": float(item),
                    "score_prod": scores[item],
                    "score_new": rng.normal(),
                }
            )
    rng.shuffle(rows)
    return pa.Table.from_pylist(rows)


def test_candidates_with_scores():
    found = guess_log(impressions())
    assert found.missing == ()
    assert found.columns == {
        "position": "rank",
        "ranking": "request_id",
        "action": "sku",
        "unit": "user_id",
        "propensity_scores": "score_prod",
        "new_scores": "score_new",
        "z_price": "price",
    }
    assert found.targets == ("new",) and found.logger == "plackett-luce"
    assert found.policies == {"new": "plackett-luce"}
    assert found.time == "ts" and found.context == found.segments == ("device",)


def test_rankings_in_the_order_of_the_scores_come_from_a_deterministic_logger():
    table = impressions()
    rows = sorted(table.to_pylist(), key=lambda row: (row["request_id"], -row["score_prod"]))
    for place, row in enumerate(rows):
        row["rank"] = place % 5 + 1
    assert guess_log(pa.Table.from_pylist(rows)).logger == "top"


def test_wide_probabilities():
    table = pa.table(
        {
            "action": [[0, 1], [1, 0]],
            "clicks": [[1, 0], [0, 0]],
            "propensity": [[0.5, 0.5], [0.5, 0.5]],
            "challenger": [[0.4, 0.6], [0.3, 0.7]],
            "x_age": [31.0, 22.0],
            "country": ["DE", "FR"],
        }
    )
    found = guess_log(table)
    assert found.targets == ("challenger",) and found.logger == "" and found.missing == ()
    assert found.columns == {"reward": "clicks"}
    assert found.context == ("x_age", "country") and found.segments == ("country",)


def test_what_cannot_be_told_is_said_and_can_be_given():
    table = impressions()
    others = {"score_prod": "score_a", "score_new": "score_b"}
    table = table.rename_columns([others.get(name, name) for name in table.column_names])
    found = guess_log(table)
    assert len(found.missing) == 1 and "score_a, score_b" in found.missing[0]
    told = guess_log(table, {"propensity_scores": "score_a"})
    assert told.missing == () and told.targets == ("b",)


def test_events_with_names_of_their_own():
    events = pa.table(
        {
            "request": ["r1", "r1", "r2"],
            "sku": ["sku-1", "sku-2", "sku-1"],
            "event_type": ["click", "order", "impression"],
            "Amount EUR": [0.0, 12.5, 0.0],
            "event_time": ["2026-10-01", "2026-10-01", "2026-10-02"],
        }
    )
    found = guess_events(events, guess_log(impressions()).columns)
    assert found.join == ("request_id=request", "sku") and found.time == "event_time"
    assert found.rewards == {
        "clicks": "count(*) filter (where event_type = 'click')",
        "order": "count(*) filter (where event_type = 'order')",
        "amount_eur": 'coalesce(sum("Amount EUR"), 0)',
    }
    assert found.missing == ()


def test_types_of_pandas_and_missing_cells():
    table = impressions()
    times = pa.array([datetime.datetime(2026, 10, 1)] * table.num_rows)
    table = table.drop_columns("ts").append_column("shown_at", times)
    place = table.column_names.index("device")
    large = table["device"].cast(pa.large_string())
    table = table.set_column(place, "device", large)
    found = guess_log(table)
    assert found.segments == ("device",) and found.time == "shown_at" and found.unit == "user_id"
    cells = large.to_pylist()
    cells[0] = None
    found = guess_log(table.set_column(place, "device", pa.array(cells)))
    assert found.context == () and "z_device" not in found.columns
    assert any(note.startswith("left out: device") for note in found.notes)


def test_a_column_named_unit_is_a_unit():
    table = impressions()
    names = ["unit" if name == "user_id" else name for name in table.column_names]
    found = guess_log(table.rename_columns(names))
    assert "unit" not in found.columns and found.unit == "unit"
