"""Models without the logger's scores are left out where clicks contradict them, and only there."""

from dataclasses import replace

import numpy as np
import pytest

from counterrank.estimators.crossfit import shares_of
from counterrank.models import Rankings, fit_history, squared_loss
from counterrank.models.clicks import fit

K, ITEMS = 4, 12


def clicked(strength: float, n: int = 4000) -> tuple[Rankings, np.ndarray, np.ndarray]:
    """Return rankings with two scores, clicks that the second one drives, and folds."""
    rng = np.random.default_rng(8)
    item = np.argsort(rng.random((n, ITEMS)), axis=1)[:, :K]
    scores = rng.normal(size=(n, K, 2))
    logit = -1.0 + 0.5 * np.sin(item) + strength * scores[:, :, 1]
    seen = rng.random((n, K)) < 1 / (1 + np.arange(K)) ** 0.5
    click = seen & (rng.random((n, K)) < 1 / (1 + np.exp(-logit)))
    return Rankings(item, np.empty((n, 0)), extra=scores), click.astype(float), np.arange(n) % 3


@pytest.mark.parametrize(("strength", "left_out"), [(1.0, True), (0.05, False)])
def test_variants_are_left_out_by_the_likelihood(
    strength: float, left_out: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rankings, click, fold = clicked(strength)
    models = fit_history(rankings, click, fold, folds=3)
    assert [model.variant.extra for model in models] == ([2, 2] if left_out else [1, 1, 2, 2])
    monkeypatch.setattr(fit, "SETTINGS", replace(fit.SETTINGS, contradicted=np.inf))
    every = fit_history(rankings, click, fold, folds=3)
    losses = np.array([squared_loss(model, rankings, click, fold) for model in every])
    shares = shares_of(losses, click.size, power=0.125)
    assert (shares[:2].max() < 1e-6) == left_out
    # Those that stay are the same: nothing of the others is in them.
    for model, other in zip(models[::-1], every[::-1], strict=False):
        np.testing.assert_array_equal(
            model.predictor.parameters.theta, other.predictor.parameters.theta
        )
