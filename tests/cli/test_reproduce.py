"""`reproduce` refuses what it cannot do with one message."""


def test_bad_ways_to_grow_a_tree_end_with_one_message(tmp_path, counterrank):
    for line, told in (
        (["toy", "--algorithm", "text"], "figure 'toy' has no AIPS with the oracle"),
        (["data-size", "--split-on", "length"], "'length' is no column to split on"),
    ):
        found = counterrank("reproduce", *line, "--out", str(tmp_path))
        assert found.code == 2
        assert told in found.err and "Traceback" not in found.err


def test_bad_real_logs_end_with_one_message(tmp_path, counterrank):
    (tmp_path / "no.csv").write_text("a,b\n1,2\n")
    for line, told in (
        (["real-world", "--log", str(tmp_path / "no.csv")], "neither the columns of search"),
        (["real-world", "--log", str(tmp_path / "gone.csv")], "cannot be read as CSV"),
        (["toy", "--log", str(tmp_path / "no.csv")], "--log goes alone, with the figure"),
    ):
        found = counterrank("reproduce", *line, "--out", str(tmp_path / "out"))
        assert found.code == 2
        assert told in found.err and "Traceback" not in found.err
        assert not (tmp_path / "out").exists()
