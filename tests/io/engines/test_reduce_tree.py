"""Sums over many partitions do not depend on faults, nor on the order in which tasks end."""

from benchmarks.reduce_tree import compared


def test_lost_and_repeated_partitions_change_no_digit():
    found = compared(60, 40, 4)
    assert found["redone"] > 0 and found["twice"] > 0
    assert found["same"] and found["random"] < 1e-12
