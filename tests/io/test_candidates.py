"""Candidates, scores and features from files: the numbers of the Python objects, whatever the
format.
"""

import json
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import counterrank as cr
from counterrank.checks import audit_file
from counterrank.common.errors import (
    ConfigError,
    CounterrankError,
    LogError,
    PolicyError,
    PropensityError,
)
from counterrank.data.fingerprint import fingerprint
from counterrank.io import concat, from_frame, read_log, scan_log
from counterrank.policies import Candidates, parse_policy

SPECS = {
    "propensity": "plackett-luce:temperature=0.7",
    "new": "epsilon:epsilon=0.2",
    "soft": "softmax",
}
READ = {"logger": SPECS["propensity"], "policies": {"new": SPECS["new"], "soft": SPECS["soft"]}}


def world(n=60, K=3, A=12, seed=0):
    """Ragged candidates with scores, features and shown items, as plain lists."""
    rng = np.random.default_rng(seed)
    rows = {name: [] for name in ("action", "reward", "candidates", "propensity_scores", "new_scores", "soft_scores",
                                  "z_price", "z_brand", "x_age")}  # fmt: skip
    for i in range(n):
        C = int(rng.integers(K + 1, 9))
        listed = rng.choice(A, size=C, replace=False)
        shown = int(rng.integers(1, K + 1)) if i % 7 == 0 else K
        rows["candidates"].append(listed.tolist())
        rows["action"].append(rng.permutation(listed)[:shown].tolist())
        rows["reward"].append(rng.integers(2, size=shown).astype(float).tolist())
        for name in ("propensity_scores", "new_scores", "soft_scores"):
            rows[name].append(rng.normal(size=C).round(6).tolist())
        rows["z_price"].append(rng.random(C).round(6).tolist())
        rows["z_brand"].append([["acme", "bolt", "core"][j] for j in rng.integers(3, size=C)])
        rows["x_age"].append(float(rng.integers(20, 60)))
    return rows


def in_memory(rows):
    """The same log from Python objects."""
    brands = ("acme", "bolt", "core")
    features = {
        "z_price": rows["z_price"],
        "z_brand": [[brands.index(b) for b in row] for row in rows["z_brand"]],
    }
    sets = Candidates.from_lists(rows["candidates"], features, categories={"z_brand": brands})
    K = max(map(len, rows["action"]))
    pad = [row + [-1] * (K - len(row)) for row in rows["action"]]
    reward = [row + [0.0] * (K - len(row)) for row in rows["reward"]]
    policies = {
        name: parse_policy(text).bind(
            candidates=sets, scores=np.concatenate(rows[f"{name}_scores"])
        )
        for name, text in SPECS.items()
    }
    logger = policies.pop("propensity")
    return cr.RankingLog(
        action=pad,
        reward=reward,
        propensity=logger,
        targets=policies,
        candidates=sets,
        # fmt: skip
        context=np.array(rows["x_age"])[:, None],
        context_names=("x_age",),
    )


def write(rows, path):
    table = pa.table(rows)
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=20)
    elif path.suffix == ".feather":
        feather.write_feather(table, str(path))
    elif path.suffix == ".jsonl":
        path.write_text("\n".join(json.dumps(row) for row in table.to_pylist()) + "\n")
    else:
        text = {
            n: [" ".join(map(str, v)) if isinstance(v, list) else v for v in c]
            for n, c in rows.items()
        }
        lines = [
            "\t".join(text),
            *("\t".join(map(str, row)) for row in zip(*text.values(), strict=True)),
        ]
        path.write_text("\n".join(lines) + "\n")
    return path


def long_rows(rows):
    """One row a request and candidate."""
    found = {name: [] for name in ("request", "shown", "item", "click", *(f"{p}_scores" for p in SPECS), "z_price",
                                   "z_brand", "x_age")}  # fmt: skip
    for i, listed in enumerate(rows["candidates"]):
        for j, item in enumerate(listed):
            place = rows["action"][i].index(item) if item in rows["action"][i] else None
            found["request"].append(f"r{i}")
            found["shown"].append(None if place is None else place + 1)
            found["item"].append(item)
            found["click"].append(None if place is None else rows["reward"][i][place])
            for name in ("propensity_scores", "new_scores", "soft_scores", "z_price", "z_brand"):
                found[name].append(rows[name][i][j])
            found["x_age"].append(rows["x_age"][i])
    return found


LONG = "ranking=request,position=shown,action=item,reward=click"


def assert_same(log, other):
    np.testing.assert_array_equal(log.action, other.action)
    np.testing.assert_array_equal(log.reward, other.reward)
    np.testing.assert_array_equal(log.candidates.items, other.candidates.items)
    np.testing.assert_array_equal(log.candidates.offsets, other.candidates.offsets)
    assert log.item_feature_names == other.item_feature_names
    np.testing.assert_array_equal(log.features_of(log.action), other.features_of(other.action))
    assert log.categories_of_items == other.categories_of_items
    for one, two in (
        (log.propensity, other.propensity),
        *((log.targets[n], other.targets[n]) for n in other.targets),
    ):
        for question in ("prefix_log_prob", "position_log_prob"):
            np.testing.assert_allclose(
                getattr(one, question)(log.action),
                getattr(two, question)(other.action),
                atol=1e-12,
                rtol=0,
            )


@pytest.mark.parametrize("ending", [".parquet", ".feather", ".jsonl", ".tsv"])
def test_files_give_the_numbers_of_the_objects(tmp_path, ending):
    rows = world()
    path = write(rows, tmp_path / f"log{ending}")
    expected = in_memory(rows)
    assert_same(read_log(path, **READ), expected)
    source = scan_log(path, targets=("new", "soft"), **READ)
    assert_same(concat(list(source.batches(rows=17))), expected)
    assert fingerprint(source) == fingerprint(read_log(path, **READ)) == fingerprint(expected)


def test_tables_and_long_candidate_rows_give_them_too(tmp_path):
    rows = world()
    expected = in_memory(rows)
    pandas = pytest.importorskip("pandas")
    assert_same(from_frame(pandas.DataFrame(rows), **READ), expected)
    table = long_rows(rows)
    assert_same(from_frame(table, columns=LONG, **READ), expected)
    pq.write_table(pa.table(table), tmp_path / "long.parquet")
    pa.csv.write_csv(pa.table(table), tmp_path / "long.csv")
    for name in ("long.parquet", "long.csv"):
        source = scan_log(tmp_path / name, columns=LONG, targets=("new", "soft"), **READ)
        assert_same(concat(list(source.batches(rows=50))), expected)
    minus = {**table, "shown": [-1 if place is None else place for place in table["shown"]]}
    assert_same(from_frame(minus, columns=LONG, **READ), expected)


def test_an_evaluation_of_a_file_is_that_of_the_objects(tmp_path):
    rows = world(n=300)
    path = write(rows, tmp_path / "log.parquet")
    options = {"estimators": ["ips", "rips", "iips"], "audit": False}
    ours = cr.evaluate(in_memory(rows), ["new", "soft"], **options)
    for log in (path, tmp_path / "*.parquet"):
        found = cr.evaluate(log, ["new", "soft"], **READ, **options)
        for one, two in zip(found.estimates, ours.estimates, strict=True):
            assert (one.estimator, one.target) == (two.estimator, two.target)
            # What is not estimable has no value in either: such lists were not drawn by this
            # logger.
            np.testing.assert_allclose(
                [one.value, one.stderr], [two.value, two.stderr], rtol=0, atol=1e-12
            )
        assert np.isfinite([one.value for one in found.estimates]).sum() >= 3


def test_names_and_huge_ids_share_one_vocabulary(tmp_path):
    rows = world()
    for change in (lambda item: f"sku-{item:02d}", lambda item: 2**62 + item):
        renamed = {
            **rows,
            **{n: [[change(i) for i in row] for row in rows[n]] for n in ("action", "candidates")},
        }
        path = write(renamed, tmp_path / "log.parquet")
        used = sorted({item for row in rows["candidates"] for item in row})
        streamed = concat(list(scan_log(path, targets=("new",), **READ).batches(rows=9)))
        for log in (read_log(path, **READ), streamed):
            assert log.action_names == tuple(
                str(change(item)) for item in used
            ) and log.n_actions == len(used)
            np.testing.assert_allclose(
                log.propensity.prefix_log_prob(log.action),
                in_memory(rows).propensity.prefix_log_prob(in_memory(rows).action),
                atol=1e-12,
            )


def test_the_largest_item_need_not_be_among_the_first(tmp_path):
    rows = world()
    rows["candidates"][-1][0], old = 500, rows["candidates"][-1][0]
    rows["action"][-1] = [item for item in rows["action"][-1] if item != old] or [500]
    rows["reward"][-1] = rows["reward"][-1][: len(rows["action"][-1])]
    path = write(rows, tmp_path / "log.parquet")
    sizes = {batch.n_actions for batch in scan_log(path, targets=("new",), **READ).batches(rows=13)}
    assert sizes == {501}


def test_scores_by_item_where_every_item_is_a_candidate():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(20, 5))
    action = np.array([rng.permutation(5)[:2] for _ in range(20)])
    log = from_frame(
        {"action": action, "reward": np.ones((20, 2)), "propensity_scores": scores},
        logger="plackett-luce",
    )
    np.testing.assert_allclose(
        log.propensity.prefix_log_prob(log.action),
        cr.PlackettLuce(scores).prefix_log_prob(action),
        atol=1e-12,
    )
    names = {"action": [["a"]], "reward": [[1.0]], "propensity_scores": [[0.1, 0.2]]}
    with pytest.raises(LogError, match="these items have names; add a column 'candidates'"):
        from_frame(names, logger="softmax")


@pytest.mark.parametrize("named", [False, True])
def test_features_of_items_from_a_file(tmp_path, named):
    rows = world()
    name = (lambda i: f"i{i}") if named else (lambda i: i)
    rows = {
        **rows,
        **{n: [[name(i) for i in row] for row in rows[n]] for n in ("action", "candidates")},
    }
    path = write(rows, tmp_path / "log.parquet")
    items = tmp_path / "items.csv"
    lines = [f"{name(i)},{i / 10},{'red' if i % 2 else 'blue'}" for i in range(11)]
    items.write_text("item,weight,colour\n" + "\n".join(lines) + "\n")
    log = read_log(path, items=items, **READ)
    assert log.item_feature_names == ("z_price", "z_brand", "weight", "colour")
    assert log.categories_of_items["colour"] == ("blue", "red")
    ids = np.array(
        [
            [int(str(name).lstrip("i")) for name in row]
            for row in rows["action"]
            if len(row) == log.K
        ]
    )
    full = np.flatnonzero(log.lengths == log.K)
    found = log.features_of(log.action)[full]
    np.testing.assert_allclose(found[..., 2], np.where(ids < 11, ids / 10, np.nan))
    np.testing.assert_allclose(found[..., 3], np.where(ids < 11, ids % 2, np.nan))
    spec = scan_log(path, items=items, targets=("new",), **READ).spec
    again = pickle.loads(pickle.dumps(spec))
    np.testing.assert_array_equal(
        again.candidates.item_features.values, spec.candidates.item_features.values
    )
    items.write_text("item,weight\n" + f"{name(1)},1\n{name(1)},2\n")
    with pytest.raises(LogError, match="rows 0 and 1 are about the same item"):
        read_log(path, items=items, **READ)
    items.write_text("items,weight\n1,1\n")
    with pytest.raises(LogError, match=r"no column 'item' \(did you mean 'items'\?\)"):
        read_log(path, items=items, **READ)


def changed(rows, name, row, value):
    return {**rows, name: [value if i == row else old for i, old in enumerate(rows[name])]}


@pytest.mark.parametrize("case, message", [
    ("short scores", r"row 5: 'new_scores' has 1 scores, but there are \d candidates; give one "
                     r"for each"),
    ("short feature", r"row 5: 'z_price' has 1 values, but there are \d candidates"),
    ("missing score", r"row 5"),
    ("infinite score", r"row 5"),
    ("twice", r"row 5: item 3 is listed twice"),
    ("none", r"row 5 has no candidate"),
    ("all out", r"row 5"),
])  # fmt: skip
def test_bad_lists_are_one_message_with_the_row(tmp_path, case, message):
    rows = world()
    C = len(rows["candidates"][5])
    bad = {
        "short scores": lambda: changed(rows, "new_scores", 5, [0.5]),
        "short feature": lambda: changed(rows, "z_price", 5, [0.5]),
        "missing score": lambda: changed(rows, "propensity_scores", 5, [0.5] * (C - 1) + [None]),
        "infinite score": lambda: changed(rows, "new_scores", 5, [0.5] * (C - 1) + [float("inf")]),
        "all out": lambda: changed(rows, "new_scores", 5, [-float("inf")] * C),
        "twice": lambda: changed(rows, "candidates", 5, [3] * C),
        "none": lambda: {**rows, **{n: [[] if i == 5 else v for i, v in enumerate(rows[n])]
                                    for n in ("candidates", "propensity_scores", "new_scores", "soft_scores",
                                              "z_price", "z_brand")}},
    }[case]()  # fmt: skip
    with pytest.raises(CounterrankError, match=message):
        from_frame(bad, **READ)
    path = write(bad, tmp_path / "log.parquet")
    with pytest.raises(CounterrankError, match=message):
        list(scan_log(path, targets=("new",), **READ).batches(rows=10))


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("propensity_scores", float("nan"), r"ranking 'r5': 'propensity_scores' is nan"),
        ("new_scores", float("inf"), r"ranking 'r5': 'new_scores' is inf"),
        ("z_price", float("inf"), r"ranking 'r5': feature 'z_price' is infinite"),
        ("new_scores", "abc", r"'abc' at ranking 'r5', candidate 1; numbers are wanted"),
        ("item", 3, r"ranking 'r5': item 3 is listed twice"),
        ("item", "sku3", r"ranking 'r5': item sku3 is listed twice"),
    ],
)
def test_bad_rows_of_candidates_are_told_by_their_ranking(tmp_path, name, value, message):
    """A row of such a file is a candidate: the number of a ranking would lead nowhere."""
    rows = long_rows(world())
    if isinstance(value, str):
        rows[name] = [f"sku{one}" if name == "item" else str(one) for one in rows[name]]
    mine = [j for j, request in enumerate(rows["request"]) if request == "r5"]
    for j in mine if name == "item" else mine[:1]:
        if rows["shown"][j] is None or name != "item":
            rows[name][j] = value
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table(rows), path)
    with pytest.raises(CounterrankError, match=message):
        read_log(path, columns=LONG, **READ)
    with pytest.raises(CounterrankError, match=message):
        list(scan_log(path, columns=LONG, targets=("new",), **READ).batches(rows=100))


@pytest.mark.parametrize("name, value", [("propensity_scores", float("nan")), ("candidates", 3)])
def test_a_check_says_what_is_wrong_with_scores(tmp_path, name, value):
    rows = world()
    rows[name] = [[value] * len(v) if i == 5 else v for i, v in enumerate(rows[name])]
    path = write(rows, tmp_path / "log.parquet")
    found = audit_file(path, ("new",), **READ)
    assert found[0]["check"] == "readable" and found[0]["status"] == "failed"
    assert "row 5" in found[0]["found"] and found[0]["remedy"]


def test_a_model_of_users_refuses_what_was_no_candidate():
    """Its exposure would be zero, and what is divided by it no number."""
    log = in_memory(world(n=400))
    action = log.action.copy()
    action[350, 0] = next(a for a in range(12) if a not in log.candidates.take([350]).items)
    wrong = cr.RankingLog(
        action=action,
        reward=log.reward,
        propensity=log.propensity,
        targets=dict(log.targets),
        candidates=log.candidates,
    )
    with pytest.raises(CounterrankError, match="row 350, position 1: item .* is not among the row"):
        cr.evaluate(wrong, ["new"], estimators=["pbm"], audit=False)


def test_a_shown_item_that_is_no_candidate_is_refused_by_weights(tmp_path):
    rows = world(n=40)
    rows["action"][5] = [11 if 11 not in rows["candidates"][5] else 10, *rows["action"][5][1:]]
    rows["candidates"][5] = [item for item in rows["candidates"][5] if item not in (10, 11)]
    for name in ("propensity_scores", "new_scores", "soft_scores", "z_price", "z_brand"):
        rows[name][5] = rows[name][5][: len(rows["candidates"][5])]
    path = write(rows, tmp_path / "log.parquet")
    with pytest.raises(CounterrankError, match="row 5"):
        cr.evaluate(path, ["new"], estimators=["ips"], **READ)


def test_minus_infinity_is_not_eligible_and_nulls_are_no_candidates():
    rows = world()
    C = len(rows["candidates"][5])
    out = rows["candidates"][5].index(
        next(i for i in rows["candidates"][5] if i not in rows["action"][5])
    )
    scores = list(rows["propensity_scores"][5])
    gone = from_frame(changed(rows, "propensity_scores", 5, [-np.inf if j == out else s for j, s in enumerate(scores)]),
                      **READ)  # fmt: skip
    listed = changed(
        rows,
        "candidates",
        5,
        [None if j == out else i for j, i in enumerate(rows["candidates"][5])],
    )
    left = from_frame(listed, **READ)
    assert left.candidates.counts[5] == C - 1
    np.testing.assert_allclose(
        left.propensity.prefix_log_prob(left.action)[5],
        gone.propensity.prefix_log_prob(gone.action)[5],
        atol=1e-12,
    )


def test_scores_without_a_kind_say_what_to_say(tmp_path):
    rows = world()
    with pytest.raises(
        PropensityError, match="scores of the logger in 'propensity_scores'.*--logger plackett-luce"
    ):
        from_frame(rows)
    with pytest.raises(
        LogError, match="'new' has scores in 'new_scores'.*--policy new=plackett-luce"
    ):
        from_frame(rows, logger="softmax", targets="new")
    with pytest.raises(
        LogError, match="no column 'next_scores' with the scores of policy next.*next_scores=NAME"
    ):
        from_frame(rows, logger="softmax", policies={"next": "top"})
    with pytest.raises(ConfigError, match="unknown kind 'plackett'"):
        from_frame(rows, logger="plackett")
    with pytest.raises(ConfigError, match="given twice"):
        from_frame(rows, logger="softmax", policies=["new=top", "new=softmax"])
    renamed = {("old_model" if n == "propensity_scores" else n): v for n, v in rows.items()}
    log = from_frame(renamed, columns="propensity_scores=old_model", **READ)
    assert_same(log, in_memory(rows))


def test_a_logger_in_a_file_that_is_not_there_is_named(tmp_path):
    path = write(world(), tmp_path / "log.parquet")
    with pytest.raises(PolicyError, match=r"cannot read .*policy\.json"):
        read_log(path, logger=str(tmp_path / "policy.json"))


def test_policies_in_toml(tmp_path):
    from counterrank.cli.jobs import Job

    (tmp_path / "job.toml").write_text(
        '[log]\ntargets = ["new"]\n[logger]\nkind = "plackett-luce"\ntemperature = 0.7\n'
        '[policies.new]\nkind = "epsilon"\nepsilon = 0.2\n'
    )
    options = Job.read(str(tmp_path / "job.toml")).values("evaluate")
    assert options["logger"].text == parse_policy(SPECS["propensity"]).text
    assert options["policies"]["new"].text == parse_policy(SPECS["new"]).text


def test_a_dask_frame_gives_the_numbers_of_the_objects():
    dask = pytest.importorskip("dask")
    import pandas
    from dask import dataframe

    from counterrank.io import ReadOptions
    from counterrank.io.dask import frame_source

    rows = world()
    with dask.config.set({"dataframe.convert-string": False, "scheduler": "synchronous"}):
        frame = dataframe.from_pandas(pandas.DataFrame(rows), npartitions=4)
        source = frame_source(frame, ReadOptions.from_keywords(targets=("new", "soft"), **READ))
        sums = source.reduce(ratio_sums)
    np.testing.assert_allclose(sums, ratio_sums(in_memory(rows)), atol=1e-9)
    assert source.first.n_actions == in_memory(rows).n_actions


def ratio_sums(log):
    """Sums of weights by position, an array that adds."""
    ratio = log.targets["new"].prefix_log_prob(log.action) - log.propensity.prefix_log_prob(
        log.action
    )
    return np.exp(np.where(log.action >= 0, ratio, 0.0)).sum(axis=0)


def test_a_request_that_shows_nothing():
    table = long_rows(world())
    table["shown"] = [
        None if name == "r3" else place
        for name, place in zip(table["request"], table["shown"], strict=True)
    ]
    with pytest.raises(LogError, match=r"ranking 'r3' shows no item: all its rows lack 'shown'"):
        from_frame(table, columns=LONG, **READ)
