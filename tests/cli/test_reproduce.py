"""`reproduce` refuses what it cannot do with one message."""


def test_bad_ways_to_grow_a_tree_end_with_one_message(tmp_path, counterrank):
    for line, told in (
        (["toy", "--algorithm", "text"], "figure 'toy' has no AIPS with the oracle"),
        (["data-size", "--split-on", "length"], "'length' is no column to split on"),
    ):
        found = counterrank("reproduce", *line, "--out", str(tmp_path))
        assert found.code == 2
        assert told in found.err and "Traceback" not in found.err
