"""Intervals are continuous in the data, and do not depend on what else is evaluated, on threads or chunks."""

import numpy as np
import pytest
from tests.evaluation.test_nothing_twice import shop

import counterrank as cr
from counterrank.data import source
from counterrank.evaluation import fit
from counterrank.models.clicks import fit as click_fits
from counterrank.policies import PlackettLuce


@pytest.fixture(scope="module")
def log() -> cr.RankingLog:
    return shop()


@pytest.fixture(scope="module")
def whole(log: cr.RankingLog) -> cr.Evaluation:
    return cr.evaluate(log, ["a", "b"], independent_rows=True)


def ends(result: cr.Evaluation) -> dict[tuple[str, str], np.ndarray]:
    """Return the lifts with their ends, in half-widths of each."""
    table = {}
    for metric in result.metrics:
        for estimate in metric.estimates:
            if estimate.estimator == "auto":
                lift = estimate.lift
                half = (lift.high - lift.low) / 2
                table[metric.name, estimate.target] = (
                    np.array([lift.value, lift.low, lift.high]) / half
                )
    return table


def test_a_change_of_the_data_by_1e_9_moves_ends_by_less_than_1e_4_half_widths(
    log: cr.RankingLog, whole: cr.Evaluation
) -> None:
    rng = np.random.default_rng(11)

    def nearly(values: np.ndarray) -> np.ndarray:
        return values * (1.0 + 1e-9 * rng.normal(size=values.shape))

    moved = cr.RankingLog(
        action=log.action,
        reward={"clicks": log.rewards["clicks"], "revenue": nearly(log.rewards["revenue"])},
        propensity=PlackettLuce(nearly(log.propensity.scores)),
        targets={name: PlackettLuce(nearly(policy.scores)) for name, policy in log.targets.items()},
    )  # fmt: skip
    after = ends(cr.evaluate(moved, ["a", "b"], independent_rows=True))
    for key, before in ends(whole).items():
        np.testing.assert_allclose(after[key], before, rtol=0, atol=1e-4, err_msg=str(key))


@pytest.mark.parametrize("name", ["clicks", "revenue"])
def test_a_metric_alone_equals_the_metric_among_others(
    log: cr.RankingLog, whole: cr.Evaluation, name: str
) -> None:
    alone = cr.RankingLog(
        action=log.action, reward={name: log.rewards[name]}, propensity=log.propensity, targets=log.targets
    )  # fmt: skip
    single = ends(cr.evaluate(alone, ["a"], independent_rows=True))
    np.testing.assert_allclose(single[name, "a"], ends(whole)[name, "a"], rtol=0, atol=1e-9)


@pytest.mark.parametrize("threads", [1, 3])
def test_results_and_texts_do_not_depend_on_threads_and_chunks(
    log: cr.RankingLog, whole: cr.Evaluation, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (source, fit, click_fits):
        monkeypatch.setattr(module, "default_threads", lambda: threads)
    monkeypatch.setattr(
        click_fits, "SETTINGS", click_fits.replace(click_fits.SETTINGS, slots_alone=0)
    )
    monkeypatch.setattr(source, "_COSTLY", 200 * threads)
    result = cr.evaluate(log, ["a", "b"], independent_rows=True)
    for key, before in ends(whole).items():
        np.testing.assert_allclose(ends(result)[key], before, rtol=0, atol=1e-9, err_msg=str(key))
    assert [str(finding) for finding in result.audit] == [str(finding) for finding in whole.audit]
    assert result.verdict.reasons == whole.verdict.reasons
