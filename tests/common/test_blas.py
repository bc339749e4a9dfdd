"""BLAS has one thread while the library computes, and what the caller set afterwards."""

import threading

import numpy as np
import pytest
import scipy.linalg  # noqa: F401 - its BLAS is loaded before threads are counted
from threadpoolctl import threadpool_info, threadpool_limits

import counterrank as cr
from counterrank.common.blas import single_blas_thread


def blas_threads():
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def two_threads():
    with threadpool_limits(2, user_api="blas"):
        yield


def test_public_functions_compute_with_one_thread_and_restore_the_callers_number():
    threads = []

    class Watched(cr.IPS):
        def fit(self, workspace):
            threads.append(blas_threads())
            return super().fit(workspace)

    half = np.full((40, 2), 0.5)
    action = np.arange(80).reshape(40, 2) % 2
    log = cr.RankingLog(action=action, reward=action * 1.0, propensity=half, targets={"new": half})
    Watched().estimate(log, "new")
    cr.evaluate(log, ["new"], estimators=[Watched()])
    assert len(threads) > 1 and all(numbers == {1} for numbers in threads)
    assert blas_threads() == {2}


def test_overlapping_calls_restore_the_callers_number():
    others_have_ended, seen = threading.Event(), []

    @single_blas_thread
    def waiting():
        assert others_have_ended.wait(10)

    @single_blas_thread
    def outer():
        thread.start()
        inner()
        others_have_ended.set()
        thread.join(10)

    @single_blas_thread
    def inner():
        seen.append(blas_threads())

    thread = threading.Thread(target=waiting)
    outer()
    assert seen == [{1}]
    assert blas_threads() == {2}


def test_the_number_is_restored_after_an_error():
    @single_blas_thread
    def fails():
        raise ValueError

    with pytest.raises(ValueError):
        fails()
    assert blas_threads() == {2}
