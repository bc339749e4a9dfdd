"""`reproduce` refuses what it cannot do with one message, and runs estimators of others."""

import pytest


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (["toy", "--estimators", "ips"], "figure 'toy' has no estimators to choose from"),
        (["data-size", "--estimators", "aips (oracle big)"], "there is no MSE estimate"),
        (["data-size", "--estimators", "nothing"], "there is no estimator 'nothing'"),
        (
            ["data-size", "--estimators", "json:dumps"],
            "'json:dumps' is a function, not a counterrank",
        ),
        (["data-size", "--estimators", "gone.away:Mine"], "'gone.away:Mine' cannot be loaded"),
        (["data-size", "--estimators", "aips (best)"], "there is no MSE estimate 'best'"),
    ],
)
def test_bad_ways_end_with_one_message(tmp_path, counterrank, line, told):
    found = counterrank("reproduce", *line, "--out", str(tmp_path / "out"))
    assert found.code == 2
    assert told in found.err and "Traceback" not in found.err
    assert not (tmp_path / "out").exists()


def test_an_estimator_of_ones_own_stands_beside_the_others(tmp_path, counterrank):
    text = "import counterrank as cr\nMine = cr.IPS(aggregate='ratio', name='mine')\n"
    (tmp_path / "own_estimators.py").write_text(text)
    done = counterrank(
        "reproduce", "real-world", "--seeds", "2", "--out", "out", "--jobs", "1", "--estimators",
        "ips, aips, aips (pasif), own_estimators:Mine",
    )  # fmt: skip
    assert done.code == 0, done.err
    for name in ("ips", "aips", "aips (pasif)", "mine"):
        assert f"| {name} |" in done.out
    assert (tmp_path / "out" / "page.md").exists()


def test_a_protocol_file_repeats_a_study(tmp_path, counterrank):
    protocol = tmp_path / "study.toml"
    protocol.write_text('worlds = "text:1"\nestimators = ["ips", "iips"]\nseeds = 2\n')
    done = counterrank("reproduce", str(protocol), "--out", "out", "--jobs", "1")
    assert done.code == 0, done.err
    assert "| iips |" in done.out and "wrote out/bench.csv" in done.out
    folder = tmp_path / "out"
    assert (folder / "bench.csv").read_text().count("\n") == 3
    assert len(list(folder.glob("*/seed-*.parquet"))) == 2
    assert 'worlds = ["text:1"]' in (folder / "protocol.toml").read_text()
    wrong = counterrank("reproduce", str(protocol), "--out", "out", "--seeds", "3")
    assert wrong.code == 2 and "--seeds does not go with" in wrong.err
    missing = counterrank("reproduce", "gone.toml", "--out", "out")
    assert missing.code == 2 and "gone.toml cannot be read as the protocol" in missing.err
