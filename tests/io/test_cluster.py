"""What a worker does with a partition, without a cluster."""

from functools import partial
from operator import attrgetter
from pathlib import Path

import numpy as np
import pyarrow as pa

from counterrank.io import ReadOptions, scan_log
from counterrank.io.cluster import (
    ROWS_OF_A_PARTITION,
    _sum_of_frame,
    _sum_of_part,
    frame_batches,
    outcome_of,
)
from counterrank.io.schema import resolve
from counterrank.io.survey import Survey


def test_rows_of_a_partition_are_numbered_from_its_own_start():
    table = pa.table(
        {
            "action": [[0, 1]] * 5,
            "reward": [[1.0, 0.0]] * 5,
            "propensity": [[0.5, 0.5]] * 5,
        }
    )
    options = ReadOptions.from_keywords()
    survey = Survey.begin(resolve(table, options, in_memory=False), options, table)
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


def test_a_worker_that_does_not_reach_what_was_made_of_a_file_says_so(kit, tmp_path):
    files = scan_log(kit.write(kit.make(n=5), tmp_path / "log.csv"), targets="new")
    work = partial(outcome_of, partial(_sum_of_part, files, attrgetter("n")), files=files)
    assert work(0, iter(())).rows == 5
    Path(files.parts[0].file.path).unlink()
    problem = work(0, iter(())).problem
    assert "this worker does not reach" in problem and "log.csv" in problem and "TMPDIR" in problem
