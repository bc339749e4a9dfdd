"""Jobs from tables that nobody described."""

import datetime

import numpy as np
import pyarrow as pa
import pytest

from counterrank.io.guess import guess_job


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
    found = guess_job(impressions())
    assert found.questions == []
    assert found.columns == {
        "position": "rank",
        "ranking": "request_id",
        "action": "sku",
        "unit": "user_id",
        "propensity_scores": "score_prod",
        "new_scores": "score_new",
        "z_price": "price",
    }
    assert found.targets == ["new"] and found.logger == "plackett-luce"
    assert found.temperature is not None and 0.5 < found.temperature < 2
    assert found.time == "ts" and found.context == found.segments == ["device"]


def test_rankings_in_the_order_of_the_scores_come_from_a_deterministic_logger():
    table = impressions()
    rows = sorted(table.to_pylist(), key=lambda row: (row["request_id"], -row["score_prod"]))
    for place, row in enumerate(rows):
        row["rank"] = place % 5 + 1
    assert guess_job(pa.Table.from_pylist(rows)).logger == "top"


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
    found = guess_job(table)
    assert found.targets == ["challenger"] and found.logger == "" and not found.questions
    assert found.columns == {"reward": "clicks"}
    assert found.context == ["x_age", "country"] and found.segments == ["country"]


def test_the_scores_that_order_the_pages_are_todays_whatever_they_are_called():
    table = impressions()
    others = {"score_prod": "score_a", "score_new": "score_b"}
    table = table.rename_columns([others.get(name, name) for name in table.column_names])
    found = guess_job(table)
    assert found.columns["propensity_scores"] == "score_a" and found.targets == ["b"]
    assert found.questions == []


def test_scores_that_explain_the_pages_alike_are_asked_about():
    table = impressions()
    twin = pa.array(table["score_prod"].to_numpy() * 1.001 + 1.0)
    table = table.drop_columns("score_new").append_column("score_b", twin)
    table = table.rename_columns(
        ["score_a" if n == "score_prod" else n for n in table.column_names]
    )
    (question,) = guess_job(table).questions
    assert question.table == "columns" and question.line == 'propensity_scores = "score_b"'
    assert "score_a" in question.text
    answered = guess_job(table, stated={"propensity_scores": "score_b"})
    assert answered.questions == [] and answered.targets == ["a"]


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
    found = guess_job(impressions(), events)
    assert found.events == {"join": ["request_id=request", "sku"], "time": "event_time"}
    assert found.event_rewards == {
        "clicks": "count(*) filter (where event_type = 'click')",
        "order": "count(*) filter (where event_type = 'order')",
        "amount_eur": 'coalesce(sum("Amount EUR"), 0)',
    }
    assert found.questions == []


#: Letters of names: nothing that they say in any language is known.
LETTERS = ["abcdefghij", "äöüßéèñ", "жщыэю", "検索結果", "xyz '\"-.", "klm_"]


def raw_tables(rng, *, first: int, shown_only: bool, whole: bool):
    """Return three tables and what their columns are: pages, events, and scores of two rankers."""
    n, candidates, shown = 300, 6, 3
    items = np.stack([rng.permutation(40)[:candidates] for _ in range(n)])
    old = rng.normal(size=(n, candidates))
    order = np.argsort(-(old + rng.gumbel(size=old.shape)), axis=1)
    key = (lambda i: int(i) + 7000) if whole else (lambda i: f"k{i:03}")
    pages, acts, scores = [], [], []
    for r in range(n):
        for c in range(candidates):
            place = int(np.flatnonzero(order[r] == c)[0])
            row = {"ranking": r + 5 if whole else f"q-{r}", "unit": f"p{r % 90}", "page": r // 100,
                   "action": key(items[r, c]), "position": first + place if place < shown else None,
                   "cost": int(100 + 3 * (items[r, c] % 11)),
                   "where": ["north", "south", "west"][r % 3]}  # fmt: skip
            if place < shown or not shown_only:
                pages.append(row)
            scores.append(
                {
                    "ranking": row["ranking"],
                    "action": row["action"],
                    "old": old[r, c],
                    "new": rng.normal(),
                }
            )
            if place < shown and rng.random() < 0.4:
                kind = ["open", "buy"][int(rng.random() < 0.3)]
                acts.append({"ranking": row["ranking"], "action": row["action"], "kind": kind, "slot": first + place,
                             "sum": float(rng.integers(1, 50)) if kind == "buy" else 0.0})  # fmt: skip
    return pages, acts, scores


def renamed(rows, rng, used):
    """Return rows in any order as a table of columns in any order and of random names, and those names."""
    names = {}
    for key in rows[0]:
        while True:
            letters = LETTERS[rng.integers(len(LETTERS))]
            name = "".join(rng.choice(list(letters), 6)).strip()
            if name and name.lower() not in used:
                break
        names[key] = name
        used.add(name.lower())
    rows = [rows[i] for i in rng.permutation(len(rows))]
    keys = [list(names)[i] for i in rng.permutation(len(names))]
    return pa.table({names[key]: [row[key] for row in rows] for key in keys}), names


@pytest.mark.parametrize("seed", range(8))
def test_random_names_change_no_role(seed):
    rng, used = np.random.default_rng(seed), set()
    raw = raw_tables(rng, first=seed % 2, shown_only=seed % 4 > 1, whole=seed > 3)
    (pages, ours), (acts, theirs), (scores, scored) = (renamed(rows, rng, used) for rows in raw)
    guess = guess_job(pages, acts, [scores])
    assert guess.questions == []
    roles = {role: ours[role] for role in ("ranking", "position", "action", "unit")}
    assert {role: guess.columns[role] for role in roles} == roles
    join = [f"{ours[key]}={theirs[key]}" for key in ("ranking", "action")]
    assert guess.events["join"] == join
    (table,) = guess.scores
    assert table["join"] == [f"{ours[key]}={scored[key]}" for key in ("ranking", "action")]
    assert table["columns"].pop("propensity") == scored["old"]
    assert (
        list(table["columns"].values()) == [scored["new"]] and [*table["columns"]] == guess.targets
    )
    assert ours["where"] in guess.segments and guess.logger == "plackett-luce"
    assert 0.7 < guess.temperature < 1.4
    told = "".join(guess.event_rewards.values())
    assert "= 'open'" in told and "= 'buy'" in told and theirs["sum"].replace('"', '""') in told
    assert theirs["slot"] not in told


def test_types_of_pandas_and_missing_cells():
    table = impressions()
    times = pa.array([datetime.datetime(2026, 10, 1)] * table.num_rows)
    table = table.drop_columns("ts").append_column("shown_at", times)
    place = table.column_names.index("device")
    large = table["device"].cast(pa.large_string())
    table = table.set_column(place, "device", large)
    found = guess_job(table)
    assert found.segments == ["device"] and found.time == "shown_at" and found.unit == "user_id"
    cells = large.to_pylist()
    cells[0] = None
    found = guess_job(table.set_column(place, "device", pa.array(cells)))
    assert found.context == [] and "z_device" not in found.columns
    assert any(note.startswith("left out: device") for note in found.notes)


def test_a_column_named_unit_is_a_unit():
    table = impressions()
    names = ["unit" if name == "user_id" else name for name in table.column_names]
    found = guess_job(table.rename_columns(names))
    assert "unit" not in found.columns and found.unit == "unit"


def test_pages_without_other_candidates_are_told_what_that_does_to_the_temperature():
    table = impressions()
    told = [note for note in guess_job(table).notes if "temperature is too high" in note]
    assert not told
    shown = table.filter(pa.array([place is not None for place in table["rank"].to_pylist()]))
    assert any("temperature is too high" in note for note in guess_job(shown).notes)


def test_the_arm_of_an_experiment_is_no_property_of_the_request():
    table = impressions()
    names = ["variant" if name == "device" else name for name in table.column_names]
    guess = guess_job(table.rename_columns(names))
    assert guess.arm == "variant" and guess.context == guess.segments == []
