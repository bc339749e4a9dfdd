"""Sources that stand before others: samples that are remembered, batches that are changed."""

import numpy as np
import pytest
from tests.data.elsewhere import Elsewhere

from counterrank.common.errors import EngineError
from counterrank.data.source import MappedSource, MemorySource, SampledOnce
from counterrank.testing import random_log


class Counted(MemorySource):
    """A log in memory that counts its samples, and whether it was closed."""

    drawn = 0
    closed = False

    def sample(self, rows, rng):
        self.drawn += 1
        return super().sample(rows, rng)

    def close(self):
        self.closed = True


@pytest.fixture
def source():
    return Counted(random_log(np.random.default_rng(0), n=60), threads=1)


def test_a_sample_is_drawn_once_for_generators_in_one_state(source):
    once, first, second = SampledOnce(source), np.random.default_rng(5), np.random.default_rng(5)
    one, other = once.sample(10, first), once.sample(10, second)
    assert one is other and source.drawn == 1
    # Both generators go on as if each had drawn the sample itself.
    plain = np.random.default_rng(5)
    source.sample(10, plain)
    assert first.random() == second.random() == plain.random()


def test_another_state_or_size_draws_anew(source):
    once, rng = SampledOnce(source), np.random.default_rng(5)
    samples = [once.sample(10, rng), once.sample(10, rng), once.sample(11, rng)]
    assert source.drawn == 3 and samples[2].n == 11
    assert samples[0].numbers.tolist() != samples[1].numbers.tolist()


def test_a_log_elsewhere_is_read_once_for_samples_up_to_the_largest(source):
    once, rng = SampledOnce(Elsewhere(source), least=40), np.random.default_rng(5)
    samples = [once.sample(rows, rng) for rows in (10, 40, 10, 20)]
    assert source.drawn == 1 and [sample.n for sample in samples] == [10, 40, 10, 20]
    assert all(np.isin(sample.numbers, samples[1].numbers).all() for sample in samples)
    assert samples[0].numbers.tolist() != samples[2].numbers.tolist()
    # All there are, and not drawn again although they are fewer than asked for.
    assert [once.sample(rows, rng).n for rows in (80, 70)] == [60, 60] and source.drawn == 2
    once.release()
    assert once.sample(10, rng).n == 10 and source.drawn == 3


def test_a_sample_of_a_sample_is_uniform(source):
    drawn = np.zeros(60)
    for seed in range(400):
        once, rng = SampledOnce(Elsewhere(source), least=30), np.random.default_rng(seed)
        drawn[once.sample(6, rng).numbers] += 1
    # Binomial(400, 0.1): beyond 5.5 standard deviations of 6 has chance 60 * 1e-7 (false alarm 6e-6).
    assert abs(drawn - 40).max() < 33


def test_every_batch_is_changed_once(source):
    doubled = MappedSource(source, lambda batch: batch.changed(reward=2 * batch.reward))
    total = source.reduce(lambda batch: batch.reward.sum())
    assert doubled.reduce(lambda batch: batch.reward.sum()) == pytest.approx(2 * total)
    assert sum(batch.reward.sum() for batch in doubled.batches()) == pytest.approx(2 * total)
    np.testing.assert_array_equal(doubled.first.reward, 2 * source.first.reward)
    whole = doubled.sample(60, np.random.default_rng(0))
    np.testing.assert_array_equal(whole.reward, 2 * source.log.reward)
    assert doubled.n == 60
    doubled.close()
    assert source.closed


def test_batches_of_a_source_that_has_none_are_refused(source):
    class Remote:
        first, n = source.first, 60

    with pytest.raises(EngineError, match="engine 'local'"):
        MappedSource(Remote()).batches()
    MappedSource(Remote()).close()


def test_a_changed_copy_shares_what_was_not_changed(source):
    log = source.log
    copy = log.changed(start=7)
    assert (copy.start, log.start) == (7, 0) and copy.reward is log.reward
    assert copy.numbers.tolist() == list(range(7, 67))
