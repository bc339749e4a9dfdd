"""Scores in tables of their own: equal to the log joined by hand, and what is wrong with the join is said."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import counterrank as cr
from counterrank.common.errors import CounterrankError
from counterrank.io import scan_log

N, C, K = 300, 5, 3
LONG = {"ranking": "request", "position": "rank", "action": "item", "reward": "click",
        "propensity_scores": "prod"}  # fmt: skip
LOGGER = "plackett-luce:temperature=1"


class World:
    """Rankings of three of five items by their scores, and scores of two rankers."""

    def __init__(self) -> None:
        rng = np.random.default_rng(7)
        self.prod, self.a, self.b = rng.normal(size=(3, N, C)).round(6)
        order = np.argsort(-(self.prod + rng.gumbel(size=(N, C))), axis=1)
        self.place = np.argsort(order, axis=1)  # (N, C) place of each item
        self.order = order[:, :K]
        self.click = (rng.random((N, C)) < 0.2 + 0.1 * np.arange(C)).astype(float)

    def rows(self, *, unshown: bool = True, **more: np.ndarray) -> pa.Table:
        """One row per candidate, or per shown item."""
        keep = (self.place < K).ravel() | unshown
        shown = (self.place < K).ravel()
        columns = {
            "request": np.repeat(np.arange(N), C),
            "item": np.tile(np.arange(C), N),
            "rank": pa.array(np.where(shown, self.place.ravel() + 1, 0), mask=~shown),
            "click": pa.array(self.click.ravel(), mask=~shown),
            "prod": self.prod.ravel(),
            **{name: values.ravel() for name, values in more.items()},
        }
        return pa.table(columns).filter(pa.array(keep))

    def lists(self, *, candidates: bool = True, **more: np.ndarray) -> pa.Table:
        """One row per ranking."""
        columns = {
            "request": np.arange(N),
            "action": self.order.tolist(),
            "reward": np.take_along_axis(self.click, self.order, axis=1).tolist(),
            **({"candidates": [list(range(C))] * N} if candidates else {}),
            **({"propensity_scores": self.prod.tolist()} if candidates else {}),
            **{name: values.tolist() for name, values in more.items()},
        }
        return pa.table(columns)

    def scores(self, **more: np.ndarray) -> pa.Table:
        """One row per request and item, in arbitrary order."""
        table = pa.table(
            {
                "request": np.repeat(np.arange(N), C),
                "item": np.tile(np.arange(C), N),
                **{name: values.ravel() for name, values in more.items()},
            }
        )
        return table.take(pa.array(np.random.default_rng(3).permutation(N * C)))


@pytest.fixture(scope="module")
def world():
    return World()


def read(log, scores, columns=LONG, **more):
    return cr.RankingLog.from_frame(
        log, columns=columns, logger=LOGGER, scores=scores, missing_reward="zero", **more
    )


def by_hand(world, **more):
    return cr.RankingLog.from_frame(
        world.lists(a_scores=world.a, b_scores=world.b),
        logger=LOGGER, policies={"a": LOGGER, "b": LOGGER}, **more,
    )  # fmt: skip


def same(found, expected, targets=("a", "b")):
    """Whether two logs hold the same rankings, whatever their order, and the same policies."""
    assert found.n == expected.n
    for name in targets:
        one, two = (log.targets[name].prefix_log_prob(log.action) for log in (found, expected))
        np.testing.assert_allclose(one, two, rtol=1e-12)
    np.testing.assert_array_equal(found.action, expected.action)
    np.testing.assert_allclose(
        found.propensity.prefix_log_prob(found.action),
        expected.propensity.prefix_log_prob(expected.action), rtol=1e-12,
    )  # fmt: skip


@pytest.mark.parametrize("shape", ["rows", "lists", "text"])
def test_the_join_equals_the_columns_by_hand(world, shape):
    table, columns = world.rows(), LONG
    if shape != "rows":
        table, columns = world.lists(), {}
    if shape == "text":
        text = {name: [json.dumps(one) for one in table[name].to_pylist()]
                for name in ("action", "reward", "candidates", "propensity_scores")}  # fmt: skip
        table = pa.table({"request": table["request"], **text})
    scores = cr.Scores(world.scores(score_a=world.a, b_score=world.b))
    same(read(table, scores, columns), by_hand(world))


def test_candidates_come_from_the_table_where_the_log_lists_none(world):
    """Rows of shown items, or lists of them: what else was scored could have been shown."""
    everything = world.scores(score_a=world.a, score_b=world.b, today=world.prod)
    for table, columns in (
        (world.rows(unshown=False).drop_columns(["prod"]), {**LONG, "propensity_scores": "today"}),
        (world.lists(candidates=False), {"propensity_scores": "today"}),
    ):
        found = read(table, cr.Scores(everything), columns)
        same(found, by_hand(world))
        assert found.scores[0].added == N * (C - K) and found.scores[0].orphans == 0


def test_files_are_read_in_parts_as_in_memory(world, tmp_path):
    pq.write_table(world.rows(), tmp_path / "log.parquet", row_group_size=100)
    folder = tmp_path / "scores"
    folder.mkdir()
    scores = world.scores(score_a=world.a, score_b=world.b)
    pq.write_table(scores.slice(0, 700), folder / "1.parquet")
    pyarrow.csv.write_csv(scores.slice(700), folder / "2.csv")
    source = scan_log(tmp_path / "log.parquet", columns=LONG, logger=LOGGER, missing_reward="zero",
                      targets=("a", "b"), scores=cr.Scores(folder))  # fmt: skip
    same(source.first, by_hand(world))
    assert source.spec.scores[0].rows == N * C
    source.close()


def test_one_table_per_ranker_is_named_after_its_file(world, tmp_path):
    for name, values in (("ranker_a", world.a), ("scores_b", world.b)):
        pq.write_table(world.scores(score=values), tmp_path / f"{name}.parquet")
    found = read(world.rows(), [tmp_path / "ranker_a.parquet", tmp_path / "scores_b.parquet"])
    assert {"ranker_a", "b"} <= {*found.targets}
    expected = by_hand(world)
    np.testing.assert_allclose(
        found.targets["ranker_a"].scores, expected.targets["a"].scores, rtol=1e-12
    )


def test_names_of_targets(world):
    table = world.scores(
        score_a=world.a, b_score=world.a, scores_c=world.a, d_scores=world.a, e=world.a
    )
    found = read(world.rows(), cr.Scores(table))
    assert [*found.targets] == ["a", "b", "c", "d", "e"]
    found = read(world.rows(), cr.Scores(table, columns={"new": "e"}))
    assert [*found.targets] == ["new"]


def test_keys_of_other_names_and_types(world):
    """Items that are text in one table and numbers in the other are the same items."""
    scores = world.scores(score_a=world.a).rename_columns(["query", "doc", "score_a"])
    text = scores.set_column(1, "doc", scores["doc"].cast(pa.string()))
    expected = by_hand(world).targets["a"].scores
    for table in (scores, text):
        found = read(world.rows(), cr.Scores(table, on="request=query,item=doc"))
        np.testing.assert_array_equal(found.targets["a"].scores, expected)


def test_what_is_wrong_with_the_join_is_counted(world):
    scores = world.scores(score_a=world.a)
    request, item = scores["request"].to_numpy(), scores["item"].to_numpy()
    values = scores["score_a"].to_numpy()
    gone = (request == 5) & (item == 2)  # no row
    empty = (request == 6) & (item == 0)  # a row without a score
    other = request == 9  # a request that the log does not have
    doubled = np.flatnonzero((request == 20) & (item == 1))
    differing = np.flatnonzero((request == 21) & (item == 1))
    rows = np.concatenate([np.flatnonzero(~gone), doubled, differing])
    score = np.where(empty, np.nan, values)[rows]
    score[-1] += 1
    table = pa.table({
        "request": np.where(other, 10_000, request)[rows], "item": item[rows], "score_a": score,
    })  # fmt: skip
    found = read(world.rows(), cr.Scores(table))
    (joined,) = found.scores
    assert (joined.rows, joined.orphans, joined.duplicates) == (N * C + 1, C, 2)
    assert joined.missing == {"a": 1 + 1 + C + 1}
    codes = {one.code: one for one in joined.findings}
    assert {"scores-orphans", "scores-doubled", "scores-contradictory", "scores-missing"} <= {
        *codes
    }
    assert "1 of 1,499" in codes["scores-contradictory"].text
    assert found.targets["a"].unscored.nonzero()[0].tolist() == [5, 6, 9, 21]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"on": "request,nothing"}, "has no column 'nothing'"),
        ({"on": "device,item"}, "log has no column 'device'"),
        ({"columns": {"b": "score_b"}}, "no column 'score_b'"),
        ({"columns": "b"}, "given by target"),
        ({"on": "a=b=c"}, "--scores-join"),
    ],
)
def test_what_cannot_be_joined_is_refused(world, change, message):
    with pytest.raises(CounterrankError, match=message):
        read(world.rows(), cr.Scores(world.scores(score_a=world.a), **change))


def test_tables_of_other_requests_or_without_scores_are_refused(world):
    table = world.scores(score_a=world.a)
    away = table.set_column(0, "request", pa.array(table["request"].to_numpy() + 5000))
    with pytest.raises(CounterrankError, match="none of the 1,500 rows finds"):
        read(world.rows(), cr.Scores(away))
    with pytest.raises(CounterrankError, match="no column of scores"):
        read(world.rows(), cr.Scores(table.drop_columns(["score_a"])))
    with pytest.raises(CounterrankError, match="already"):
        read(world.rows(a_scores=world.a), cr.Scores(table))
