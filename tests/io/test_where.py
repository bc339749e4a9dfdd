"""Conditions on rows: what they mean, that they are held against folders and statistics, and what is
said of those that make no sense.
"""

import datetime
import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import counterrank as cr
from counterrank.common.errors import ConfigError, LogError
from counterrank.io import concat, scan_log
from counterrank.io.where import Where

TABLE = pa.table(
    {
        "day": pa.array([datetime.date(2026, 10, d) for d in (1, 2, 3, 4)] + [None], pa.date32()),
        "moment": pa.array([f"2026-10-0{d}T12:00:00" for d in (1, 2, 3, 4, 5)], pa.string()).cast(
            pa.timestamp("us")
        ),
        "zoned": pa.array(range(5), pa.int64()).cast(pa.timestamp("s", "Europe/Vienna")),
        "country": ["DE", "AT", None, "it's", "DE"],
        "hits": [1, 2, 3, 4, 5],
        "share": [0.5, 1.5, 2.5, float("nan"), None],
        "mobile": [True, False, True, None, False],
        "my col": pa.array(["x", "y", "x", "y", "x"]).dictionary_encode(),
        "in": [0, 1, 0, 1, 0],
        "items": [[1], [2], [3], [4], [5]],
    }
)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("hits = 3", [2]),
        ("hits == 3 or hits<>3", [0, 1, 2, 3, 4]),
        ("hits > 2.5 and hits<=4", [2, 3]),
        ("hits between 2 and 3", [1, 2]),
        ("not hits between 2 and 3", [0, 3, 4]),
        ("hits not between 2 and 3", [0, 3, 4]),
        ("hits in (1, 5, 9)", [0, 4]),
        ("hits not in (1, 5)", [1, 2, 3]),
        ("hits = -1 or hits = +4 or hits = 5e0", [3, 4]),
        ("country = 'DE'", [0, 4]),
        # As in SQL, what is missing is neither equal nor unequal.
        ("country != 'DE'", [1, 3]),
        ("not country = 'DE'", [1, 3]),
        ("country is null", [2]),
        ("country is not null and share is null", [4]),
        ("country = 'it''s'", [3]),
        ("day >= '2026-10-03'", [2, 3]),
        ("day = '2026-10-02' or days is null", None),
        ("moment < '2026-10-02'", [0]),
        ("moment >= '2026-10-04 12:00:00'", [3, 4]),
        ("zoned >= '1970-01-01 00:00:03'", [3, 4]),
        ("mobile = true", [0, 2]),
        ("mobile != true", [1, 4]),
        ("share > 1", [1, 2]),
        ("\"my col\" = 'x'", [0, 2, 4]),
        ('"in" = 1', [1, 3]),
        ("hits = 1 or hits = 2 and country = 'DE'", [0]),
        ("(hits = 1 or hits = 2) and country = 'AT'", [1]),
        ("NOT (hits < 3 OR hits > 4)", [2, 3]),
        # Beyond the small grammar: any condition on one row.
        ("3 = hits", [2]),
        ("lower(country) = 'de' and hits % 2 = 1", [0, 4]),
        ("country like 'D%' -- as in Germany", [0, 4]),
        ("day >= date '2026-10-04' - interval 1 day", [2, 3]),
        ("\"my col\" = 'x' and len(items) = 1 and items[1] > 2", [2, 4]),
        ("coalesce(share, 0) = 0", [4]),
        ("len(list_filter(items, lambda i: i > hits - 1 and i > 3)) > 0", [3, 4]),
        ("not " * 52 + "hits = 1", [0]),
    ],
)
def test_what_conditions_mean(text, rows):
    where = Where.parse(text)
    if rows is None:
        with pytest.raises(ConfigError, match=r"no column 'days' to select by .did you mean 'day'"):
            where.rows(TABLE)
        return
    assert where.rows(TABLE).tolist() == rows
    # Asked of DuckDB alone, it is the same condition; only there is NaN larger than any number.
    if where.condition is not None and text != "share > 1":
        assert replace(where, condition=None).rows(TABLE).tolist() == rows


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "where is empty"),
        ("hits =", "is no SQL expression: it ends too early .character 7.; write conditions like"),
        ("hits = 1 hits = 2", 'near "hits" .character 10.'),
        ("hits = 1 and", "it ends too early"),
        ("(hits = 1", "it ends too early"),
        ("country = 'DE", "unterminated .*string"),
        ("hits = 1; drop table log", 'near ";" .character 9.'),
        ("hits is 3", 'near "3"'),
        ("é = 1 é", 'near "é" .character 7.'),
        ("select", "without selection list; write conditions"),
        ("hits = 1)/*", "unterminated .*character 10.; write"),
        ("group = 3", "near .group. .*or .group. = 1"),
        ("(" * 5000 + "hits = 1", "is no SQL expression"),
    ],
)
def test_conditions_that_are_not_understood(text, message):
    with pytest.raises(ConfigError, match=message):
        Where.parse(text)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("country = 3", "column 'country' holds string, and 3 is none; write '3' in single quotes"),
        ("hits = 'many'", "column 'hits' holds int64, and 'many' is none"),
        ("day > 'monday'", "column 'day' holds date32.*, and 'monday' is none"),
        ("mobile = 'yes'", "column 'mobile' holds bool"),
        ("hits = true", "column 'hits' holds int64, and true is none"),
        ("items = 3", "rows cannot be selected by 'items', which holds list"),
        ({"hits": 1}, "where is a condition like"),
        (3, "where is a condition like"),
        ("len(list_filter(items, i -> i > 1)) > 0", "has an arrow; .* is written lambda x: x > 0"),
        ("country = DE", "no column 'DE' to select by.*; text stands in single quotes"),
        ("hits", "gives int64, not true or false"),
        ("hits in 1", "the condition 'hits in 1' cannot be used"),
        ("__import__('os') = 1", "cannot be used: .*__import__"),
        ("cast(country as int) = 3", "cannot be used: Could not convert string"),
        ("hits > (select avg(hits) from log)", "looks at rows of its own"),
        ("hits > 1 and random() < 0.5", "uses random, which may change"),
        ("day > current_date - 7", "uses current_date.*{yesterday}"),
        ("hits = 1) limit (1", "no SQL|one SQL"),
        ("hits = 1) from read_text('/etc/passwd') where (true", "no SQL|one SQL"),
        ("exists (select * from read_text('/etc/passwd'))", "looks at rows of its own"),
    ],
)
def test_values_that_do_not_fit(given, message):
    with pytest.raises(ConfigError, match=message):
        Where.parse(given).rows(TABLE)


def test_thousands_of_values(kit, tmp_path):
    columns = {**kit.make(n=40), "unit": list(range(40))}
    path = kit.write(columns, tmp_path / "log.parquet")
    values = ", ".join(map(str, range(5, 10_005)))
    for read in (cr.read_log, lambda *given, **more: scan_log(*given, **more).first):
        assert read(path, where=f"unit in ({values})", targets="new").n == 35
    assert Where.parse("share in (0.5, 1.5)").rows(TABLE).tolist() == [0, 1]
    many = ", ".join(f"'{code}'" for code in ("DE", *range(100)))
    assert Where.parse(f"country not in ({many})").rows(TABLE).tolist() == [1, 3]


def test_every_input_knows_it(kit, tmp_path):
    """Files, frames, logs and streams select the same rows, with the same folds."""
    columns = kit.make(n=90)
    columns["hits"] = list(range(90))
    whole = kit.log(columns)
    keep = (np.array(columns["country"]) == "AT") & (np.arange(90) >= 30)
    text = "country = 'AT' and hits >= 30"
    table = pa.table(columns)
    logs = [cr.RankingLog.from_frame(table, where=text)]
    for name in ("log.parquet", "log.arrow", "log.csv", "log.jsonl"):
        path = kit.write(columns, tmp_path / name)
        logs.append(cr.read_log(path, where=text))
        logs.append(concat(list(scan_log(path, where=text, targets="new").batches(rows=7))))
    long = kit.write(kit.lay_out(columns, "long"), tmp_path / "long.parquet")
    logs.append(cr.read_log(long, where=text))
    logs.append(concat(list(scan_log(long, where=text, targets="new").batches(rows=21))))
    other = "upper(country) = 'AT' and hits + 1 > 30"
    logs.append(cr.RankingLog.from_frame(table, where=other))
    for name in ("log.parquet", "log.csv", "long.parquet"):
        logs.append(cr.read_log(tmp_path / name, where=other))
        logs.append(
            concat(list(scan_log(tmp_path / name, where=other, targets="new").batches(rows=21)))
        )
    for log in logs:
        np.testing.assert_array_equal(log.action, whole.action[keep])
        np.testing.assert_allclose(log.reward, whole.reward[keep])
        np.testing.assert_array_equal(log.bucket, whole.bucket[keep])


def test_a_result_says_which_rows_were_kept(kit, tmp_path):
    path = kit.write(kit.make(n=90), tmp_path / "log.parquet")
    result = cr.evaluate(path, ["new"], estimators=["ips"], where="country = 'AT'")
    assert result.provenance["options"]["where"] == "country = 'AT'"
    assert json.loads(result.to_json())["provenance"]["options"]["where"] == "country = 'AT'"
    assert cr.evaluate(path, ["new"], estimators=["ips"]).provenance["options"].get("where") is None


def test_half_a_ranking_is_no_ranking(kit, tmp_path):
    columns = kit.lay_out(kit.make(n=9), "long")
    columns["shelf"] = [f"s{i % 2}" for i in range(len(columns["position"]))]
    long = kit.write(columns, tmp_path / "long.parquet")
    for read in (cr.read_log, scan_log):
        for text in ("position <= 2", "reward > 0"):
            with pytest.raises(ConfigError, match="a condition selects whole rankings"):
                read(long, where=text)
    with pytest.raises(LogError, match="'shelf'"):
        cr.read_log(long, where="shelf = 's1'")


def test_folders_are_pruned_before_any_file_is_opened(kit, tmp_path):
    columns = kit.make(n=60)
    for d, country in enumerate(("DE", "AT", "DE"), 1):
        folder = tmp_path / f"day=2026-10-0{d}" / f"shop={country}"
        folder.mkdir(parents=True)
        rows = {name: values[20 * d - 20 : 20 * d] for name, values in columns.items()}
        kit.write(rows, folder / "part.parquet")
    # A file that cannot be read tells whether it was tried.
    (tmp_path / "day=2026-10-02/shop=AT/part.parquet").write_bytes(b"PAR1 no more than that PAR1")
    text = "day >= '2026-10-01' and shop = 'DE'"
    source = scan_log(tmp_path, where=text, targets="new", context="shop,x_age", segments="day")
    found = concat(list(source.batches()))
    assert found.n == 40 and found.categories["shop"] == ("DE",)
    assert set(found.columns["day"]) == {"2026-10-01", "2026-10-03"}
    assert cr.read_log(tmp_path, where=text).n == 40
    with pytest.raises(LogError, match="part.parquet"):
        cr.read_log(tmp_path, where="day <= '2026-10-02'")
    with pytest.raises(LogError, match="no ranking matches shop = 'FR'"):
        cr.read_log(tmp_path, where="shop = 'FR'")


def test_row_groups_are_pruned(tmp_path):
    n = 400
    table = pa.table(
        {
            "action": [[0, 1]] * n,
            "reward": [[0.0, 1.0]] * n,
            "propensity": [[0.5, 0.5]] * n,
            "new": [[0.5, 0.5]] * n,
            "hour": np.arange(n) // 100,
        }
    )
    from counterrank.io import survey

    pq.write_table(table, tmp_path / "log.parquet", row_group_size=100)
    files = survey.expand(tmp_path / "log.parquet")
    parts = tuple(survey.FilePart(files[0], 100 * g, 100, (g,)) for g in range(4))
    for text, groups in (
        ("hour = 2", [2]),
        ("hour > 1", [2, 3]),
        ("not hour <= 2", [3]),
        ("hour in (0, 3)", [0, 3]),
        ("hour < 0", []),
    ):
        found = survey.pruned(parts, Where.parse(text))
        assert [part.groups[0] for part in found] == groups, text


def test_the_command(kit, tmp_path, capsys):
    from click.testing import CliRunner

    from counterrank.cli.main import main

    columns = kit.make(n=200)
    path = str(kit.write(columns, tmp_path / "log.parquet"))
    arguments = ["evaluate", path, "--target", "new", "--estimators", "ips", "--json", "-"]
    result = CliRunner().invoke(main, [*arguments, "--where", "country = 'AT'"])
    assert result.exit_code == 0, result.output
    assert f'"n": {columns["country"].count("AT")}' in result.stdout


def test_a_condition_on_a_column_that_one_file_lacks(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("action_1,reward_1,propensity_1,day\na,1,0.5,1\n")
    with pytest.raises(
        ConfigError, match="there is no column 'dya' to select by .did you mean 'day'"
    ):
        cr.read_log(path, where="dya = 1")


@pytest.mark.parametrize("text", ["unnest([1, 2]) > 0", "sum(hits) > 3", "hits > max(hits) - 1"])
def test_a_condition_is_about_one_row(text):
    with pytest.raises(ConfigError, match="keeps each row once or not at all"):
        Where.parse(text)


def test_parameters_of_a_lambda_are_no_columns():
    lists = TABLE.append_column("list", pa.array([[0], [2, 3], [1], [5], []]))
    for text in (
        "len(list_filter(list, lambda x: x > hits)) > 0",
        "len([x for x in list if x > hits]) > 0",
    ):
        condition = Where.parse(text)
        assert set(condition.columns) == {"list", "hits"}
        assert condition.rows(lists).tolist() == [1, 3]
