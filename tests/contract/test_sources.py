"""Sources hold every row once and sum alike; one that loses a row is caught."""

import numpy as np
import pytest

from counterrank.engines.local import MemorySource
from counterrank.testing import check_source, random_log


def test_memory_keeps_the_contract():
    log = random_log(np.random.default_rng(5), n=700)
    check_source(MemorySource(log), log)
    check_source(MemorySource(log, threads=1), log)


def test_a_source_that_loses_rows_is_caught():
    log = random_log(np.random.default_rng(5), n=700)
    with pytest.raises(AssertionError, match="rows"):
        check_source(MemorySource(log.take(slice(0, 699))), log)
