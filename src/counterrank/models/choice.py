"""Which reward model a log gets: the one with the least squared error on rows it has not seen."""

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from counterrank.common.arrays import Floats, Ints
from counterrank.models import settings
from counterrank.models.base import squared_loss
from counterrank.models.grams import Training
from counterrank.models.linear import LinearModel, fit_linear
from counterrank.models.rankings import Stream, rankings_of, stream
from counterrank.models.visibility import Rows, VisibilityModel, columns, fit_visibility

Chosen: TypeAlias = LinearModel | VisibilityModel


@dataclass(frozen=True, slots=True, eq=False)
class Close:
    """The models that predict unseen rows about as well as the best, which is the first.

    `losses` (M, n) are their squared errors on n such rows with `slots` rewards; `unit` (n,) is the unit
    of each row, where there are units. Errors up to `within` times the least are close.
    """

    models: tuple[Chosen, ...]
    losses: Floats
    slots: int
    unit: Ints | None
    within: float = settings.CLOSE_ERROR

    @property
    def counted(self) -> Floats:
        """How much each model counts (M,): in full, but for the last fifth on the way to `within`.

        Otherwise a small change of the log would let a model in or out at once.
        """
        loss = self.losses.sum(axis=1)
        if len(loss) == 1:
            return np.ones(1)
        excess = loss / max(float(loss.min()), 1e-300) - 1.0
        out: Floats = np.clip(5.0 * (1.0 - excess / (self.within - 1.0)), 0.0, 1.0)
        return out


def fit_close(training: Training, *, seed: int = 0, within: float = settings.CLOSE_ERROR) -> Close:
    """Return every model whose squared error on unseen rows is at most `within` times the least.

    How far they disagree says how far to trust any of them.
    """
    linear, layout = fit_linear(training, seed=seed), training.layout
    # 0/1 rewards do not show which items per user saw: there the model lost to the logistic ridge.
    wide = columns(layout) > settings.VISIBILITY_COLUMNS
    if not 2 <= layout.K <= settings.VISIBILITY_LONGEST or wide or training.binary:
        return Close((linear,), np.zeros((1, 1)), 1, None)
    # The sample's rows keep their folds, so models are compared on the same unseen rows.
    sample = training.source.sample(settings.VISIBILITY_ROWS, stream(seed, Stream.VISIBILITY_ROWS))
    rows = Rows.from_log(sample, layout)
    chosen: dict[str, Chosen] = {"ridge": linear}
    visible = fit_visibility(rows, layout, draws=linear.draws, seed=linear.seed)
    chosen |= {name: replace(model, ridge=linear) for name, model in visible.items()}
    logged = rankings_of(sample)
    errors = {
        name: squared_loss(model, logged, sample.reward, rows.fold)
        for name, model in chosen.items()
    }
    slots = int(rows.present.sum())
    losses = {name: float(loss.sum()) / max(slots, 1) for name, loss in errors.items()}
    names = sorted(losses, key=lambda name: losses[name])
    chosen[names[0]].details["out_of_fold_mse_of"] = losses
    close = [name for name in names if losses[name] <= within * losses[names[0]]]
    return Close(
        tuple(chosen[name] for name in close),
        np.stack([errors[name] for name in close]),
        slots,
        sample.bucket if sample.unit is not None else None,
        within,
    )
