"""Real pages by path: what is logged, what judges, and what is refused."""

import numpy as np
import pytest
from benchmarks import real_pages as real

import counterrank as cr
from counterrank.common.errors import LogError
from counterrank.research import bench
from counterrank.research.paper import figures, results


def write_search(path, *, sessions=60, lists=3, clicks=None):
    """Write a query whose lists show documents in turned order; the last list is always clicked."""
    names = [f"doc_{k}" for k in range(1, 7)] + [f"click_{k}" for k in range(1, 7)]
    rng, lines = np.random.default_rng(0), [",".join(["query", "region", *names])]
    for number in range(lists):
        for _ in range(sessions * (number + 1)):
            hit = (rng.random(6) < 0.2).astype(int) if clicks is None else clicks(number)
            docs = np.roll(np.arange(100, 106), number)
            lines.append(",".join(map(str, [7, 1, *docs, *hit])))
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def write_news(path, *, users=30, pages=20, column="pref_9"):
    stems = [f"{stem}_{k}" for stem in ("topic", "pref") for k in range(1, 10)]
    stems = [name for name in stems if name != column or column == "pref_9"]
    rng = np.random.default_rng(1)
    lines = [",".join(["user", "device", "age", "interest", "click", *stems])]
    for user in range(users):
        for _ in range(pages):
            own = [user, "phone", 30 + user, 4, rng.integers(1, 10)]
            cells = [rng.choice(["a", "b", "c"]) if s.startswith("t") else 4 for s in stems]
            lines.append(",".join(map(str, [*own, *cells])))
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_search_sessions_are_dealt_in_thirds_and_judged_by_others(tmp_path):
    """Clicks that depend on the list alone: every third has its mean, and the value of B is exact."""
    path = write_search(
        tmp_path / "s.csv", clicks=lambda number: (np.arange(6) < number).astype(int)
    )
    found = real.read_trial(path)
    assert (found.log.n, found.log.K) == ((60 + 120 + 180) // 3, 6)
    score = np.arange(3.0)
    tilted = np.array([1, 2, 3]) * np.exp((score - score.mean()) / score.std())
    assert found.truth == pytest.approx(tilted / tilted.sum() @ score, rel=1e-12)
    assert found.truth_stderr == 0
    assert found.log.value == pytest.approx((0 * 1 + 1 * 2 + 2 * 3) / 6)
    # Clicks vary with nothing but the list, so IPS is exact too: A's shares are those of its log.
    ips = cr.IPS().estimate(found.log, real.TARGET)
    assert ips.value == pytest.approx(found.truth, rel=1e-12)


def test_news_pages_are_judged_by_exact_weights():
    """Plackett-Luce over all orders of equal scores is uniform; the value is the share read above."""
    read = np.array([0, 3, 4, 8])
    value, stderr = real._judged(np.zeros((4, 9)), read, np.arange(4))
    assert value == 0.5 and stderr == pytest.approx(np.sqrt(4 * 0.25) / 4)
    # A page whose first four have all the score weighs 9 8 7 6 / 4! times as much.
    scores = np.zeros((2, 9))
    scores[0, :4] = 50.0
    heavy = 9 * 8 * 7 * 6 / 24
    value, _ = real._judged(scores, np.array([0, 8]), np.arange(2))
    assert value == pytest.approx(heavy / (heavy + 1), rel=1e-12)


def test_readers_of_the_log_do_not_judge(tmp_path):
    found = real.read_trial(write_news(tmp_path / "n.csv"))
    assert found.log.K == real.NEWS_K
    assert len(np.unique(found.log.unit)) == 10 and found.log.n == 200
    ratio = cr.IPS().estimate(found.log, real.TARGET)
    assert abs(ratio.value - found.truth) < 6 * np.hypot(ratio.stderr, found.truth_stderr)


@pytest.mark.parametrize(
    ("write", "told"),
    [
        (lambda p: p.write_text("a,b\n1,2\n"), "has neither the columns of search sessions"),
        (lambda p: write_search(p, sessions=3), "nothing for a policy to choose from"),
        (lambda p: write_search(p, clicks=lambda _: np.full(6, 2)), "in row 1 is neither 0 nor 1"),
        (lambda p: write_news(p, users=2), "three are the fewest"),
        (lambda p: p.write_text(""), "cannot be read as CSV"),
        (lambda p: None, "cannot be read as CSV"),
    ],
)
def test_files_that_are_no_real_pages_are_refused(tmp_path, write, told):
    path = tmp_path / "log.csv"
    write(path)
    with pytest.raises(LogError, match=told):
        real.read_trial(str(path))


def test_the_error_of_the_judge_is_told(tmp_path):
    path = write_news(tmp_path / "n.csv")
    drawn = bench.bootstrapped(real.read_trial(path), 0)
    rows = [{"x": 0.0, **row} for row in bench.run_trial(drawn, bench.methods(["ips", "iips"]))]
    columns = {key: np.array([row[key] for row in rows]) for key in rows[0]}
    (told,) = results.ab_tables(figures.get("real-world"), columns)
    pair = real.read_trial(path)
    assert f"B earns {pair.truth:.4g} with a standard error of {pair.truth_stderr:.2g}" in told
    assert {row["truth"] for row in rows} == {pair.truth}
