"""The fingerprint follows the content: not the format, not the order, not the chunks."""

import numpy as np
import pytest

from counterrank.data.fingerprint import fingerprint, fingerprint_of
from counterrank.data.log import Propensity, RankingLog
from counterrank.io import from_frame, read_log, scan_log
from counterrank.kernels import hashing


@pytest.mark.parametrize("shape", [{}, {"ragged": True, "names": True}])
def test_the_same_in_every_form(kit, tmp_path, shape):
    columns = kit.make(**shape)
    found = {fingerprint(kit.log(columns))}
    for layout in ("list", "numbered", "long"):
        for name in ("log.parquet", "log.csv", "log.jsonl"):
            path = kit.write(kit.lay_out(columns, layout), tmp_path / name)
            found |= {fingerprint(read_log(path)), fingerprint(scan_log(path, targets="new"))}
    assert len(found) == 1


def test_order_and_chunks_do_not_matter(kit):
    log = kit.log(kit.make())
    shuffled = log.take(np.random.default_rng(0).permutation(log.n))
    parts = [fingerprint_of(part) for part in log.chunks(7)]
    total = parts[0]
    for part in parts[1:]:
        total += part
    assert fingerprint(log) == fingerprint(shuffled) == str(total)


def test_every_change_shows(kit):
    base = kit.make(n=6)
    seen = [fingerprint(from_frame(base))]
    for name in ("action", "reward", "propensity", "new"):
        changed = {
            key: [list(v) if isinstance(v, list) else v for v in values]
            for key, values in base.items()
        }
        changed[name][3][1] = (
            4 if name == "action" and changed[name][3][1] != 4 else 0.125 if name != "action" else 3
        )
        seen.append(fingerprint(from_frame(changed)))
    seen.append(fingerprint(from_frame({**base, "x_age": [0.0] * 6})))
    seen.append(fingerprint(from_frame({**base, "x_device": [f"{d}!" for d in base["x_device"]]})))
    seen.append(fingerprint(from_frame({key: [*v, v[0]] for key, v in base.items()})))
    seen.append(fingerprint(from_frame(base, propensity_kind="prefix")))
    swapped = {**base, "reward": [base["reward"][1], base["reward"][0], *base["reward"][2:]]}
    seen.append(fingerprint(from_frame(swapped)))
    assert len(set(seen)) == len(seen)


def test_padding_and_signs_of_zero_do_not_count():
    one = RankingLog(action=[[0, -1]], reward=[[0.0, 5.0]], propensity=[[0.5, 0.1]])
    two = RankingLog(action=[[0, -1]], reward=[[-0.0, 0.0]], propensity=[[0.5, 0.9]])
    assert fingerprint(one) == fingerprint(two)


def test_a_frozen_value():
    log = RankingLog(
        action=[[0, 1], [1, 0]], reward=[[1, 0], [0.5, 2]], propensity=[[0.5, 0.5], [0.25, 0.5]]
    )
    assert fingerprint(log) == "6d6b168befccca98bb9483bc6ab25ae0"


MASK = 2**64 - 1


def mixed(value):
    value = (value + 0x9E3779B97F4A7C15) & MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def naive_sums(log):
    """The same hash with Python's integers, one ranking at a time."""
    first = second = 0
    for i in range(log.n):
        used = int(log.lengths[i])
        arrays = [[int(a) & MASK for a in log.action[i, :used]]]
        for array in (log.reward[i, :used], log.propensity.values[i, :used], log.context[i]):
            arrays.append([0 if v == 0 else int(np.float64(v).view(np.uint64)) for v in array])
        lanes = [0, 0]
        for salt, words in enumerate(arrays):
            for place, word in enumerate(words):
                for lane in range(2):
                    keyed = word ^ mixed(2 * salt + lane) ^ mixed(~(2 * place + lane) & MASK)
                    lanes[lane] += (keyed & 0xFFFFFFFF) * (keyed >> 32) + word
        one, two = (mixed(lane & MASK) for lane in lanes)
        first = (first + mixed(one ^ two)) & MASK
        second = (second + mixed((one + two) & MASK)) & MASK
    return first, second


def test_the_kernel_against_its_naive_twin(kit):
    log = from_frame(kit.make(n=25, ragged=True), targets=())
    assert tuple(fingerprint_of(log).sums[0].tolist()) == naive_sums(log)


@pytest.mark.parametrize("width", [1, 2, 3, 8, 700])
def test_a_changed_word_shows_wherever_it_stands_and_nothing_behind_the_end_does(width):
    rng = np.random.default_rng(width)
    values, valid = rng.random((40, width)), rng.integers(0, width + 1, 40)

    def hashes(numbers):
        found = hashing.RowHashes(40)
        found.absorb(valid, numbers)
        return found.values

    before = hashes(values)
    for k in {0, width // 2, width - 1}:
        changed = values.copy()
        changed[:, k] = np.nextafter(changed[:, k], 2.0)
        assert ((hashes(changed) != before) == (k < valid)).all()
    if width > 1:
        swapped = values[:, [1, 0, *range(2, width)]]
        assert ((hashes(swapped) != before) == (valid > 0)).all()


def test_every_nan_and_both_zeros_are_the_same():
    odd = np.array([0x7FF8000000000001, 0xFFF8000000000000, 1 << 63], np.uint64).view(np.float64)
    found = []
    for numbers in (odd, np.array([np.nan, np.nan, 0.0])):
        one = hashing.RowHashes(3)
        one.absorb(None, numbers[:, None])
        found.append(one.values.tolist())
    assert found[0] == found[1]


def test_joint_propensities_add_too():
    log = RankingLog(
        action=[[0, 1], [1, 2]],
        reward=[[0, 1], [1, 0]],
        propensity=Propensity("joint", [0.5, 0.25]),
    )
    halves = fingerprint_of(log.take(slice(0, 1))) + fingerprint_of(log.take(slice(1, 2)))
    assert fingerprint(log) == str(halves)
