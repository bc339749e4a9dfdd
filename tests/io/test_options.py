"""Options: keywords, command-line texts, TOML; and columns by other names."""

import subprocess
import sys

import pytest

from counterrank.common.errors import ConfigError
from counterrank.common.options import READING
from counterrank.io import ReadOptions, from_frame

MAPPED = {
    "items": [[0, 1]],
    "clicks": [[1, 0]],
    "p": [[0.5, 0.5]],
    "pi": [[0.25, 0.5]],
    "user": [7],
    "kind": ["S"],
}


def test_columns_as_text_and_as_mapping():
    text = "action=items, reward=clicks,propensity=p,new=pi"
    for columns in (text, dict(pair.strip().split("=") for pair in text.split(","))):
        log = from_frame(MAPPED, columns=columns, targets="new", unit="user", behavior="kind")
        assert log.action.tolist() == [[0, 1]] and log.targets["new"].values.tolist() == [
            [0.25, 0.5]
        ]
        assert log.unit.tolist() == [7] and log.behavior.tolist() == ["S"]


def test_columns_by_stem_star_and_list():
    wide = {
        "doc_1": [3],
        "doc_2": [4],
        "left": [1.0],
        "right": [0.0],
        "propensity_1": [0.5],
        "propensity_2": [0.5],
    }
    for action in ("doc", "doc_*", ["doc_1", "doc_2"]):
        log = from_frame(wide, columns={"action": action, "reward": ["left", "right"]})
        assert log.action.tolist() == [[3, 4]] and log.reward.tolist() == [[1, 0]]


def test_mapped_targets_without_naming_them():
    log = from_frame(MAPPED, columns="action=items,reward=clicks,propensity=p,new=pi")
    assert "new" in log.targets


def test_mapped_distributions():
    dist = {"q": [[0.5, 0.5]], "p_dist": [[0.25, 0.75]]}
    log = from_frame(
        {**MAPPED, **dist},
        columns="action=items,reward=clicks,propensity=p,new=pi,new_dist=q",
        targets="new",
    )
    assert log.dists["new"].tolist() == [[0.5, 0.5]] and log.dists["propensity"].tolist() == [
        [0.25, 0.75]
    ]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"colums": {}}, "did you mean 'columns'"),
        ({"columns": "action"}, "write pairs like action=items"),
        ({"columns": "rewrad=clicks"}, "did you mean 'reward'"),
        ({"columns": "nwe=pi", "targets": "new"}, "did you mean 'new'"),
        ({"columns": {"action": 3}}, "must be a column name"),
        ({"columns": [1]}, "must map names"),
        ({"context": 3}, "must be column names"),
        ({"position_weights": 3}, "one number per position"),
        ({"missing_reward": "drop"}, "'error' or 'zero'"),
        ({"require_propensity": "yes"}, "true or false"),
        ({"propensity_kind": 3}, "must be a text"),
    ],
)
def test_options_that_make_no_sense(given, words):
    with pytest.raises(ConfigError, match=words):
        ReadOptions.from_keywords(**given)


def of_file(path):
    from counterrank.cli.calls import Call

    return Call.of_line("evaluate", "log.parquet", {"config": (str(path),)})


def reading_of(call):
    """What of a call says how to read its log."""
    return {name: value for name, value in call.settings.items() if name in READING}


def test_toml(tmp_path):
    path = tmp_path / "log.toml"
    path.write_text(
        'estimators = ["ips"]\n[log]\ntargets = ["new"]\npropensity-kind = "prefix"\n'
        "position_weights = [1, 0.5, 0.25]\n"
        '[log.columns]\naction = "items"\n'
    )
    call = of_file(path)
    options = ReadOptions.from_keywords(**reading_of(call))
    assert options.columns == {"action": "items"} and options.propensity_kind == "prefix"
    assert call.values["position_weights"] == (1, 0.5, 0.25)
    assert call.values["targets"] == ("new",) and call.values["estimators"] == ("ips",)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("tragets = 'new'", "log.toml.*did you mean 'targets'"),
        ("a = ", "not valid TOML"),
        ("log = 3", "must name the log"),
        ("[log]\ncolumns = 3", "log.toml.*'columns' must be a table"),
    ],
)
def test_bad_toml(tmp_path, content, words):
    path = tmp_path / "log.toml"
    path.write_text(content)
    with pytest.raises(ConfigError, match=words):
        of_file(path)
    with pytest.raises(ConfigError, match="cannot read"):
        of_file(tmp_path / "none.toml")


def test_the_package_and_its_command_line_import_nothing_heavy():
    heavy = "('pyarrow', 'numba', 'pandas', 'scipy')"
    code = (
        f"import sys, counterrank, counterrank.cli.evaluate; print([m for m in {heavy} if m in "
        "sys.modules])"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip()
        == "[]"
    )


def test_public_names():
    import counterrank.io as readers

    for name in readers.__all__:
        assert hasattr(readers, name)


def test_the_command_line_says_the_same():
    from counterrank.cli.calls import Call
    from counterrank.cli.evaluate import evaluate as command

    def reading(*given):
        params = command.make_context("evaluate", ["log.csv", "--target", "new", *given]).params
        return reading_of(Call.of_line("evaluate", params.pop("log"), params))

    given = ["--missing-reward", "zero", "--items", "i.csv", "--logger", "plackett-luce"]
    keys = ["decimal=,", "renumber=true", "encode_actions=true"]
    given += [part for key in keys for part in ("--config", key)]
    options = ReadOptions.from_keywords(
        **reading(*given, "--policy", "new=top", "--policy", "b=softmax")
    )
    assert (options.decimal, options.renumber, options.missing_reward) == (",", True, "zero")
    assert options.encode_actions is True and options.items == "i.csv"
    assert options.logger.kind == "plackett-luce" and {n: p.kind for n, p in options.policies.items()} == {
        "new": "top", "b": "softmax",
    }  # fmt: skip
    assert reading() == {}, "what was not said leaves the file's word"


def test_what_is_none_stands_for_the_default():
    given = dict.fromkeys(
        ("context", "segments", "keep", "targets", "unit", "items", "where", "version", "rewards")
    )
    assert (
        ReadOptions.from_keywords(**given, encode_actions=None, target_lists=None) == ReadOptions()
    )
