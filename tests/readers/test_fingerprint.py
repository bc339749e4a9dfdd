"""The fingerprint follows the content: not the format, not the order, not the chunks."""

import numpy as np
import pytest

from counterrank.fingerprint import fingerprint, fingerprint_of
from counterrank.log import RankingLog
from counterrank.propensity import Propensity
from counterrank.readers import from_frame, read_log
from counterrank.sources import scan_log


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
    assert fingerprint(log) == "58505695da0abce4ef9a871db3ee2aa1"


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
        words = [int(a) & MASK for a in log.action[i]]
        for array in (log.reward[i, :used], log.propensity.values[i, :used], log.context[i]):
            words += [0 if v == 0 else int(np.float64(v).view(np.uint64)) for v in array]
        one, two = 0x243F6A8885A308D3, 0x13198A2E03707344
        for word in words:
            one = mixed(one ^ word)
            two = ((two ^ ((word + 0xA4093822299F31D0) & MASK)) * 0x9FB21C651E98DF25) & MASK
            two ^= two >> 32
        first = (first + mixed(one ^ two)) & MASK
        second = (second + mixed((two + 0x082EFA98EC4E6C89) & MASK)) & MASK
    return first, second


def test_the_kernel_against_its_naive_twin(kit):
    log = from_frame(kit.make(n=25, ragged=True), targets=())
    assert fingerprint_of(log).sums == naive_sums(log)


def test_joint_propensities_add_too():
    log = RankingLog(
        action=[[0, 1], [1, 2]],
        reward=[[0, 1], [1, 0]],
        propensity=Propensity("joint", [0.5, 0.25]),
    )
    halves = fingerprint_of(log.take(slice(0, 1))) + fingerprint_of(log.take(slice(1, 2)))
    assert fingerprint(log) == str(halves)
