"""Each thing that can be wrong gets one message with its place, its value and a way out."""

import pyarrow as pa
import pytest

from counterrank.common.errors import CounterrankError, LogError, PropensityError
from counterrank.io import from_frame, read_log, scan_log

GOOD = {
    "action": [[0, 1], [2, 0], [1, 2]],
    "reward": [[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]],
    "propensity": [[0.5, 0.5], [0.25, 0.5], [0.5, 0.5]],
    "new": [[0.5, 0.5], [0.25, 0.5], [0.5, 0.5]],
}
LONG = {
    "ranking": ["a", "a", "b", "b"],
    "position": [1, 2, 1, 2],
    "action": [0, 1, 2, 0],
    "reward": [0, 1, 1, 0],
    "propensity": [0.5] * 4,
}


def changed(row: int, position: int, value: object, column: str) -> dict:
    columns = {name: [list(entry) for entry in values] for name, values in GOOD.items()}
    columns[column][row][position] = value
    return columns


CASES = {
    "missing column": (
        {"actoin": GOOD["action"], **{k: GOOD[k] for k in ("reward", "propensity")}},
        {},
        ["no column 'action'", "did you mean 'actoin'", "--columns action=NAME"],
    ),
    "missing reward": ({k: GOOD[k] for k in ("action", "propensity")}, {}, ["no column 'reward'"]),
    "missing propensity": (
        {k: GOOD[k] for k in ("action", "reward")},
        {},
        ["'propensity'", "--estimate-propensity"],
    ),
    "missing target": (GOOD, {"targets": "nwe"}, ["target policy nwe", "did you mean 'new'"]),
    "missing target beside policies": (
        GOOD,
        {"targets": "nope,old", "policies": {"old": "top"}},
        ["target policy nope", "Policies that rank by scores are old"],
    ),
    "the logger among the policies": (
        GOOD,
        {"policies": {"propensity": "top"}},
        ["'propensity' is the logging policy", "--logger"],
    ),
    "a target with the logger's name": (GOOD, {"targets": "propensity"}, ["the logging policy"]),
    "missing context": (GOOD, {"context": "age"}, ["no column 'age' for context"]),
    "missing segment": (GOOD, {"segments": "day"}, ["no column 'day' for segment"]),
    "mistyped segment": (
        {**GOOD, "device": ["a", "b", "a"]},
        {"segments": "devcie"},
        ["no column 'devcie' for segment (did you mean 'device'?)"],
    ),
    "missing unit": (GOOD, {"unit": "user"}, ["no column 'user' for unit"]),
    "NaN reward": (
        changed(1, 0, float("nan"), "reward"),
        {},
        ["reward", "row 1", "position 1", "nan"],
    ),
    "null reward": (changed(2, 1, None, "reward"), {}, ["reward", "row 2", "position 2"]),
    "infinite reward": (changed(0, 1, float("inf"), "reward"), {}, ["row 0", "position 2", "inf"]),
    "zero propensity": (
        changed(1, 1, 0.0, "propensity"),
        {},
        ["'propensity' is 0", "row 1", "position 2"],
    ),
    "negative propensity": (changed(1, 1, -0.5, "propensity"), {}, ["-0.5", "row 1", "position 2"]),
    "large propensity": (
        changed(2, 0, 7.0, "propensity"),
        {},
        ["'propensity' is 7", "row 2", "position 1"],
    ),
    "null propensity": (changed(2, 0, None, "propensity"), {}, ["missing", "row 2", "position 1"]),
    "target above one": (
        changed(0, 0, 1.5, "new"),
        {"targets": "new"},
        ["'new' is 1.5", "row 0", "position 1"],
    ),
    "log-probabilities": (
        {**GOOD, "propensity": [[-0.5, -1], [-2, -0.1], [-1, -1]]},
        {},
        ["log-probabilities", "exp"],
    ),
    "short reward": (
        {**GOOD, "reward": [[0, 1], [1], [0, 0]]},
        {},
        ["row 1", "'reward' has 1 entries", "'action' has 2"],
    ),
    "long reward": (
        {**GOOD, "reward": [[0, 1], [1, 0, 0], [0, 0]]},
        {},
        ["row 1", "'reward' has 3 entries"],
    ),
    "fractional id": (
        changed(1, 1, 1.5, "action") | {"action": [[0.0, 1.0], [2.0, 1.5], [1.0, 2.0]]},
        {},
        ["1.5", "row 1", "position 2"],
    ),
    "negative id": (
        changed(2, 1, -7, "action"),
        {},
        ["-7", "row 2", "position 2", "encode_actions"],
    ),
    "hole in a ranking": (changed(2, 0, None, "action"), {}, ["row 2", "empty position"]),
    "empty ranking": (
        {
            **GOOD,
            "action": [[0, 1], [], [1, 2]],
            "reward": [[0, 1], [], [0, 0]],
            "propensity": [[0.5, 0.5], [], [0.5, 0.5]],
        },
        {"targets": ()},
        ["row 1", "no item"],
    ),
    "text reward": (
        {**GOOD, "reward": [["0", "1"], ["1", "much"], ["0", "0"]]},
        {},
        ["'much'", "row 1, position 2", "numbers are wanted"],
    ),
    "decimal comma": (
        {**GOOD, "reward": [["0", "1"], ["0,5", "1"], ["0", "0"]]},
        {},
        ["'0,5'", "row 1, position 1", "--config decimal=, (decimal=',' in Python)"],
    ),
    "dates as reward": (
        {**GOOD, "reward": pa.array([[0, 1], [1, 1], [0, 0]], pa.list_(pa.timestamp("s")))},
        {},
        ["timestamp", "numbers are wanted"],
    ),
    "infinite context": (
        {**GOOD, "x_a": [0.0, float("inf"), 1.0]},
        {},
        ["'x_a'", "row 1", "infinite"],
    ),
    "list as context": (
        {**GOOD, "tags": [["a"], ["b"], ["c"]]},
        {"context": "tags"},
        ["'tags'", "one value per ranking"],
    ),
    "missing unit value": ({**GOOD, "unit": ["a", None, "b"]}, {}, ["unit", "row 1"]),
    "gap in numbered": (
        {"action_1": [0], "action_2": [1], "action_4": [1], "reward_1": [0], "propensity_1": [1]},
        {},
        ["'action_3' is missing"],
    ),
    "numbered lengths": (
        {
            "action_1": [0],
            "action_2": [1],
            "reward_1": [0.0],
            "propensity_1": [1.0],
            "propensity_2": [1.0],
        },
        {},
        ["'reward_1' has 1 columns", "2 positions"],
    ),
    "duplicate position": (
        {**LONG, "position": [1, 1, 1, 2]},
        {},
        ["ranking 'a'", "position 1 twice", "rows 0 and 1"],
    ),
    "missing position": (
        {**LONG, "position": [1, 3, 1, 2]},
        {},
        ["ranking 'a'", "position 3 but not 2"],
    ),
    "fractional position": ({**LONG, "position": [1, 1.5, 1, 2]}, {}, ["row 1", "1.5"]),
    "null ranking": (
        {**LONG, "ranking": ["a", "a", None, "b"]},
        {},
        ["row 2", "'ranking' is missing"],
    ),
    "context within a ranking": (
        {**LONG, "x_a": [1, 2, 3, 3]},
        {},
        ["row 1", "'x_a' is 2", "one value per ranking"],
    ),
    "joint that differs": (
        {**GOOD},
        {"propensity_kind": "joint"},
        ["row 1", "one number per ranking"],
    ),
    "dist sums": (
        {**GOOD, "propensity_dist": [[0.5, 0.5], [0.5, 0.4], [1, 0]]},
        {},
        ["propensity_dist", "row 1", "0.9"],
    ),
    "dist sizes": (
        {**GOOD, "propensity_dist": [[0.5, 0.5], [1.0], [1, 0]]},
        {},
        ["propensity_dist", "row 1", "1 probabilities"],
    ),
    "position weights": (
        GOOD,
        {"position_weights": "1,2,3"},
        ["2 positions", "3 position weights"],
    ),
    "two columns for one role": (GOOD, {"columns": {"unit": ["a", "b"]}}, ["'unit' is one column"]),
    "unknown kind": (GOOD, {"propensity_kind": "factord"}, ["factord", "did you mean 'factored'"]),
    "no rows": ({name: pa.array([], pa.list_(pa.float64())) for name in GOOD}, {}, ["empty"]),
    "broken text list": (
        {"action": ["[0, 1]", "[0, 1"], "reward": ["[0, 1]"] * 2, "propensity": ["[1, 1]"] * 2},
        {},
        ["row 1", "'[0, 1'", "not a whole list"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_one_clear_message(case):
    columns, options, words = CASES[case]
    with pytest.raises(CounterrankError) as caught:
        from_frame(columns, **options)
    message = str(caught.value)
    assert "\n" not in message and len(message) < 500
    for word in words:
        assert word in message


def test_not_a_table():
    with pytest.raises(LogError, match="not a table"):
        from_frame(42)


def test_two_columns_of_one_name():
    table = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(LogError, match="two columns called 'a'"):
        from_frame(table)


def test_mixed_types_in_pandas():
    pandas = pytest.importorskip("pandas")
    with pytest.raises(LogError, match="column 'reward' mixes"):
        from_frame(pandas.DataFrame({"action": [[0]], "reward": [[0, "x"]], "propensity": [[1.0]]}))


def test_too_many_names(monkeypatch):
    monkeypatch.setattr("counterrank.io.survey.MOST_LABELS", 2)
    with pytest.raises(LogError, match="more than 2 different names"):
        from_frame(
            {"action": [["a"], ["b"], ["c"]], "reward": [[0]] * 3, "propensity": [[1.0]] * 3}
        )


def test_rows_are_counted_over_the_whole_stream(tmp_path, kit):
    columns = kit.make(n=50)
    columns["propensity"][41][2] = 0.0
    path = kit.write(columns, tmp_path / "log.parquet")
    for read in (lambda: read_log(path), lambda: list(scan_log(path).batches(rows=10))):
        with pytest.raises(PropensityError, match="row 41, position 3"):
            read()


def test_rankings_torn_apart_are_put_together_in_a_stream(tmp_path, kit):
    columns = kit.lay_out(kit.make(n=4), "long")
    order = [0, 1, 3, 4, 5, 2, *range(6, 12)]
    torn = {name: [values[i] for i in order] for name, values in columns.items()}
    path = kit.write(torn, tmp_path / "log.parquet")
    whole = read_log(path)
    assert whole.n == 4
    streamed = list(scan_log(path).batches(rows=1))
    assert [log.action.tolist() for log in streamed] == [[row] for row in whole.action.tolist()]


def test_a_longer_ranking_than_the_metadata_promised(tmp_path, kit):
    columns = {name: kit.make(n=1200)[name] for name in ("action", "reward", "propensity", "new")}
    for name in ("action", "reward", "propensity", "new"):
        columns[name][1100] = columns[name][1100] + columns[name][1100][:1]
        columns[name][1101] = columns[name][1101][:2]
    path = kit.write(columns, tmp_path / "log.parquet", row_group_size=5000)
    assert read_log(path).K == 4
    with pytest.raises(LogError, match="row 1100: 'action' has 4 entries, but rankings have 3"):
        list(scan_log(path).batches())


def test_rows_of_a_long_stream_are_counted_in_the_file(tmp_path, kit):
    columns = kit.lay_out(kit.make(n=30), "long")
    columns["position"][61] = 1
    path = kit.write(columns, tmp_path / "log.parquet")
    for read in (lambda: read_log(path), lambda: list(scan_log(path).batches(rows=6))):
        with pytest.raises(LogError, match="ranking 'r20' has position 1 twice .rows 60 and 61"):
            read()


def test_faults_in_a_segment_name_the_row_of_the_file(tmp_path, kit):
    columns = kit.make(n=30)
    row = columns["country"].index("AT", 10)
    columns["propensity"][row][0] = 2.0
    path = kit.write(columns, tmp_path / "log.parquet")
    with pytest.raises(PropensityError, match=rf"row {row}\b"):
        list(scan_log(path, where="country = 'AT'").batches())
    assert scan_log(path, where="country = 'CZ'").first.n > 0


def test_words_as_numbers_are_not_taken_for_decimals():
    with pytest.raises(LogError, match="'much'") as problem:
        from_frame(pa.table({**GOOD, "reward": [["0", "1"], ["1", "much"], ["0", "0"]]}))
    assert "decimals" not in str(problem.value)
