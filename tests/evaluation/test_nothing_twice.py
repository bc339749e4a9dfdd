"""What costs most is computed once: the logger's probabilities for all targets, predictions for all metrics."""

from collections import Counter
from typing import ClassVar

import numpy as np
import pytest
from tests.data.elsewhere import Elsewhere

import counterrank as cr
from counterrank.data.source import MemorySource, Reporter, reporting_to
from counterrank.evaluation import judge
from counterrank.models import Rankings
from counterrank.models.clicks.model import ClickModel
from counterrank.policies import PlackettLuce
from counterrank.testing import random_log


def shop(n: int = 1500, K: int = 4, A: int = 7, seed: int = 2) -> cr.RankingLog:
    """Clicks and revenue of a Plackett-Luce logger, and two targets."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n, A))
    logger = PlackettLuce(scores)
    action = logger.sample(K, rng)[:, 0]
    chance = 1 / (
        1 + np.exp(1.0 - np.take_along_axis(scores, action, axis=1) * 0.5 + np.arange(K) * 0.3)
    )
    click = (rng.random((n, K)) < chance).astype(float)
    price = np.exp(rng.normal(size=(n, K)) * 0.3)
    targets = {
        name: PlackettLuce(scores + rng.normal(size=scores.shape) * 0.4) for name in ("a", "b")
    }
    return cr.RankingLog(
        action=action, reward={"clicks": click, "revenue": click * price}, propensity=logger, targets=targets
    )  # fmt: skip


@pytest.fixture(scope="module")
def log() -> cr.RankingLog:
    return shop()


def test_each_policy_is_asked_once_about_the_rows(
    log: cr.RankingLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The sensitivity to propensities looks at a sample of rows of its own.
    monkeypatch.setattr(judge, "_sensitivity", lambda *_: {})
    asked: Counter[tuple[bytes, bytes, bytes]] = Counter()
    answer = PlackettLuce.subset_log_prob

    def counted(self: PlackettLuce, actions: np.ndarray, masks: np.ndarray) -> object:
        # First looks at a few rows are no cost.
        if len(actions) > 1000:
            asked[self.scores.tobytes(), np.asarray(actions).tobytes(), masks.tobytes()] += 1
        return answer(self, actions, masks)

    monkeypatch.setattr(PlackettLuce, "subset_log_prob", counted)
    cr.evaluate(log, ["a", "b"])
    assert len({scores for scores, _, _ in asked}) == 3
    assert set(asked.values()) == {1}


def test_clicks_and_revenue_share_the_predictions_of_clicks(
    log: cr.RankingLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: Counter[tuple[int, bytes, bytes]] = Counter()
    keep, run = [], ClickModel._run

    def counted(
        self: ClickModel, rankings: Rankings, fold: np.ndarray, *more: np.ndarray
    ) -> object:
        if not len(more[0]):
            keep.append(self.predictor)
            asked[id(self.predictor), rankings.item.tobytes(), fold.tobytes()] += 1
        return run(self, rankings, fold, *more)

    monkeypatch.setattr(ClickModel, "_run", counted)
    cr.evaluate(log, ["a"], estimators="auto")
    # Training rows are the logged rows here, and asked once for the losses.
    assert max(asked.values()) <= 2
    assert sum(asked.values()) <= 1.2 * len(asked)


def test_progress_names_each_metric_and_reaches_the_end_of_its_fits(log: cr.RankingLog) -> None:
    class Listener(Reporter):
        stages: ClassVar[list[list[object]]] = []

        def begin(self, label: str, total: int | None) -> None:
            self.stages.append([label, total, 0.0, 0])

        def advance(self, rows: float) -> None:
            self.stages[-1][2] += rows
            self.stages[-1][3] += rows > 0.0

    with reporting_to(Listener()):
        cr.evaluate(log, ["a", "b"], independent_rows=True)
    fits = Listener.stages[1:3]
    assert [stage[:2] for stage in fits] == [
        ["fitting clicks, 1 of 2", 2],
        ["fitting revenue, 2 of 2", 2],
    ]
    # Each fit and fold moves the bar, so that a time left can be told from the first on.
    assert all(stage[2] == pytest.approx(2.0) and stage[3] > 2 * 6 for stage in fits)
    names = [stage[0] for stage in Listener.stages]
    assert names[:1] + names[3:] == ["reading", "estimating", "judging"]


@pytest.mark.parametrize("estimators", [["aips"], ["auto"], ["auto", "aips", "ips"], ["dr-aips"]])
def test_a_log_elsewhere_is_read_once_for_samples_and_once_for_sums(
    estimators: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of the tree, of the models and those that are looked at are one sample, for every target."""
    for name in ("LEAST_ROWS", "TRAINING_ROWS"):
        monkeypatch.setattr(f"counterrank.models.settings.{name}", 600)
    monkeypatch.setattr("counterrank.evaluation.fit.PROBE_ROWS", 500)
    log = random_log(np.random.default_rng(0), n=1_000)
    both = log.with_targets({"same": log.target("new")})
    source = Elsewhere(MemorySource(both.changed(dists={**log.dists, "same": log.dists["new"]})))
    result = cr.evaluate(source, ["new", "same"], estimators=estimators)
    assert (source.samples, source.passes) == (1, 1)
    assert {estimate.estimator for estimate in result.estimates} == set(estimators)
