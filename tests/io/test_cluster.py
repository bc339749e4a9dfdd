"""What a worker does with a partition, without a cluster."""

import numpy as np
import pyarrow as pa

from counterrank.io import ReadOptions, Survey, resolve
from counterrank.io.cluster import ROWS_OF_A_PARTITION, _sum_of_frame, frame_batches


def test_rows_of_a_partition_are_numbered_from_its_own_start():
    table = pa.table(
        {
            "action": [[0, 1]] * 5,
            "reward": [[1.0, 0.0]] * 5,
            "propensity": [[0.5, 0.5]] * 5,
        }
    )
    options = ReadOptions.of()
    survey = Survey.of(resolve(table, options, in_memory=False), options, table)
    survey.absorb(table)
    spec = survey.finish(table)
    first, second = frame_batches(spec, 2, iter([table.slice(0, 3), table.slice(3)]))
    start = 2 * ROWS_OF_A_PARTITION
    assert (first.start, second.start) == (start, start + 3)
    assert second.numbers.tolist() == [start + 3, start + 4]
    # Buckets, and so folds and samples, are those of the numbers.
    again = next(frame_batches(spec, 2, iter([table])))
    np.testing.assert_array_equal(again.bucket, np.concatenate([first.bucket, second.bucket]))
    other = next(frame_batches(spec, 3, iter([table])))
    assert not np.array_equal(other.bucket, again.bucket)
    pieces = iter([table.slice(0, 3), table.slice(3)])
    assert _sum_of_frame(spec, lambda batch: batch.n, 2, pieces) == (5, 5)
