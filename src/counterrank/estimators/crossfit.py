"""Cross-fitted reward models, averaged: what they expect of logged rankings and of the target's.

`doubly_robust`, `pooled` and `auto` ask them in one way. Where both policies have whole
distributions of independent positions the models of `models.fit_close` answer in closed form.
Everywhere else rankings of the target are drawn, and click models are averaged over them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from counterrank.common.arrays import Floats, Ints
from counterrank.common.messages import Message
from counterrank.common.records import Json
from counterrank.common.texts import in_percent
from counterrank.data.log import LOGGING, RankingLog
from counterrank.estimators.base import View, Workspace
from counterrank.estimators.behavior import has_closed_form
from counterrank.models import (
    AmountModel,
    Close,
    Rankings,
    RewardModel,
    Stream,
    Training,
    fit_close,
    fit_list_models,
    fit_lists,
    page_policy,
    paired_draws,
    rankings_of,
    squared_loss,
    stream,
    target_draws,
    train,
    variants_for,
)
from counterrank.policies import Policy, attraction


@dataclass(frozen=True, slots=True)
class CrossFitDefaults:
    """Numbers of cross-fitting, each with its reason."""

    #: A fit sees four fifths of the rows, and five fits make a jackknife.
    folds: int = 5
    #: Power of the likelihood by which models count: all are wrong, and how well they predict what the
    #: logger shows says only in part how right they are about the target (Grunwald & van Ommen 2017).
    likelihood: float = 0.125
    #: The log contradicts a model with a smaller share: it counts less in the models' disagreement, in
    #: proportion, and its folds are not compared.
    least_share: float = 0.001
    #: Standard deviation of log amounts between items below which prices hardly differ.
    same_amount: float = 0.1
    #: Clicks after which the mean amount of an item is known.
    often: int = 10
    #: Models have an entry for each pair of positions: longer rankings have none.
    longest: int = 100

    #: Rankings that models are trained on. More help on long logs (all of 100,000 rows: a third less
    #: error in one world) at twice the time.
    training_rows: int = 32_768
    #: Rankings that models predict; the error of the fits is larger than what more rankings would save.
    asked_rows: int = 32_768
    #: Rankings drawn for a row, of the target or half of each policy: by the seed a lift then varies by
    #: .02 to .09 of an A/B test's half-width (eleven development logs).
    draws: int = 4
    #: Rankings drawn in all: on long logs the average over rows makes up for fewer draws per row.
    draws_together: int = 200_000
    #: Rankings of the target a row on which fits of different folds are compared.
    fold_draws: int = 2
    #: Rankings on which the fits of a doubly robust estimator are compared; their mean adds a
    #: sixty-fourth of the spread of rows to the differences between fits.
    compared_rows: int = 4_096


DEFAULTS = CrossFitDefaults()


def trained(workspace: Workspace, *, rich: bool = True) -> Training | None:
    """Return the training rows of closed-form models; None where their sums would not fit into memory."""
    make = partial(train, workspace.source, seed=workspace.seed, rich=rich, shared=workspace.shared)
    return workspace.cached(("training", rich), make)


def close_models(workspace: Workspace) -> Close | None:
    """Return the closed-form models that predict unseen rows about as well as the best, if the log allows any."""

    def fitted() -> Close | None:
        training = trained(workspace)
        if training is None:
            return None
        return fit_close(training, seed=workspace.seed)

    allowed = has_closed_form(workspace.ratios, workspace.target)
    return workspace.cached("close models", fitted) if allowed else None


def closed_models(workspace: Workspace) -> tuple[RewardModel, ...]:
    """Return these models alone, the best first."""
    close = close_models(workspace)
    return () if close is None else close.models


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """Predictions of M models for n rows: their average q, its mean under the target and surprises (n, K).

    `delta` sums to sum_k alpha_k (r_k - q_k). `totals` (M, n) are each model's alpha-weighted mean of a
    row plus its surprises; the models' disagreement is measured on them. `volume` (n, K), of amounts
    only, is the part of mean - q that is a change in clicks, each worth the mean amount of its position;
    the rest is a change in amounts. Both count before they cancel.
    """

    q: Floats
    mean: Floats
    delta: Floats
    totals: Floats
    volume: Floats | None = None


def folds_of(batch: RankingLog, folds: int, fold: int | None = None) -> Ints:
    """Return the fold of each row (n,), by which it is asked of a fit that has not seen it.

    The delete-a-fold jackknife asks one fit about all rows: `fold` then stands for every row's.
    """
    folds_by_row = batch.bucket % folds if fold is None else np.full(batch.n, fold)
    return np.asarray(folds_by_row, dtype=np.int64)


def predicted(view: View, model: RewardModel) -> tuple[Floats, Floats]:
    """Return q on the logged rankings and E_pi q (n, K), out of fold; computed once for a view."""

    def ask() -> tuple[Floats, Floats]:
        fold = folds_of(view.batch, model.folds)
        q = model.expected(plain_rankings(view), fold)
        return q, model.mean_under(view.batch, view.target, fold)

    return view.cached(("prediction", id(model)), ask)


def plain_rankings(view: View) -> Rankings:
    """Return a view's logged rankings without scores, made once."""
    return view.cached("plain rankings", lambda: rankings_of(view.batch))


@dataclass(frozen=True, slots=True, eq=False)
class ModelAverage:
    """Cross-fitted models with their `shares` (M,) in an average."""

    models: tuple[RewardModel, ...]
    shares: Floats

    @property
    def folds(self) -> int:
        """Number of folds."""
        return self.models[0].folds if self.models else 0

    def by_model(self, rankings: Rankings, fold: Ints) -> Floats:
        """Return each model's expected rewards (M, m, K), by the fits that left out `fold` (m,)."""
        out = np.empty((len(self.models), *rankings.item.shape))
        for rows, block in rankings.parts():
            for j, model in enumerate(self.models):
                out[j, rows] = model.expected(block, fold[rows])
        return out

    def mean(self, rankings: Rankings, fold: Ints) -> Floats:
        """Return their average (m, K)."""
        return np.tensordot(self.shares, self.by_model(rankings, fold), axes=1)

    def supported(self) -> "ModelAverage":
        """Return the average of the models that the log does not contradict."""
        # They come and go with a share of nothing, and have all of it from twice the least share on.
        shares = self.shares * np.clip(self.shares / DEFAULTS.least_share - 1.0, 0.0, 1.0)
        numbers = np.flatnonzero(shares)
        shares = shares[numbers]
        return ModelAverage(tuple(self.models[j] for j in numbers), shares / shares.sum())


#: q, its mean under the target, and surprises (n, K).
ThreeArrays = tuple[Floats, Floats, Floats]
#: Drawn rankings, each with the sign by which a model's mean over them counts.
SignedRankings = tuple[tuple[float, Rankings], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Predictions(ModelAverage):
    """What models say of a log's rows and of a target.

    With `draws` the mean under the target is an average over so many drawn rankings a row; without,
    the models know it in closed form.
    """

    draws: int = 0
    seed: int = 0
    #: How much each closed form counts in their disagreement (M,), from 0 to 1.
    close: Floats = field(default_factory=lambda: np.zeros(0))
    details: Json = field(default_factory=dict)
    #: Whether the logger's rankings are drawn too, where they can be (`_pages`).
    paired: bool = False
    #: Share of the rows that are asked about, and the mean reward of each position (K,) for others.
    rate: float = 1.0
    level: Floats = field(default_factory=lambda: np.zeros(0))
    #: Mean amount of a click at each position (K,) where rewards are amounts, else none.
    worth: Floats = field(default_factory=lambda: np.zeros(0))
    #: Flags about the models.
    flags: tuple[str, ...] = ()
    #: Least and largest log ratio of logged rankings, without tails; None where a policy does not know
    #: its rankings' probabilities. `auto` reads it, and the next.
    span: tuple[float, float] | None = None
    #: Variance of the change that repeated lists leave unknown (`models.RepeatedLists.unknown`).
    unknown: float = 0.0
    #: Whether `unknown` contains all that the log does not show of the change (`models.doubt`).
    doubted: bool = False

    @property
    def counted(self) -> Floats:
        """How much each model counts in their disagreement (M,), from 0 to 1."""
        return np.minimum(self.shares / DEFAULTS.least_share, 1.0) if self.draws else self.close

    def predict(self, view: View, fold: int | None = None) -> Prediction:
        """Return the average of the models' predictions, by the fits that did not see a row or by one fit."""
        batch = view.batch
        n, K, alpha = batch.n, batch.K, batch.position_weights
        if not self.models:
            none = np.zeros((n, K))
            return Prediction(none, none, alpha * batch.reward, np.empty((0, n)))
        fold_of_row = folds_of(batch, self.folds, fold)
        # To compare folds, few rankings and the models with a share are enough.
        averaged = self.supported() if self.draws and fold is not None else self
        volume = np.zeros((n, K)) if len(self.worth) else None
        if self.draws:
            size = self.draws if fold is None else self.fold_draws
            predicted: Iterable[ThreeArrays] = self._averaged(
                view, averaged, fold_of_row, size, volume
            )
        else:
            predicted = self._exact(view, fold_of_row)
        # Model by model: all of them at once would be the largest arrays of an evaluation.
        average, totals = np.zeros((3, K, n)), np.empty((len(averaged.models), n))
        for j, (own_q, own_mean, own_delta) in enumerate(predicted):
            for number, values in enumerate((own_q, own_mean, own_delta)):
                average[number] += averaged.shares[j] * values.T
            # A product with ones sums short rows ten times as fast as `sum` does.
            totals[j] = own_mean @ alpha + own_delta @ np.ones(K)
        # Position by position in memory, as weights are.
        q, mean, delta = average.swapaxes(1, 2)
        return Prediction(q, mean, delta, totals, volume)

    def _exact(self, view: View, fold: Ints) -> Iterator[ThreeArrays]:
        """Yield q, its mean under the target and surprises (n, K) of each closed-form model."""
        batch, logged = view.batch, self._logged(view)
        for model in self.models:
            past = model.history(logged, view.reward, fold, batch.position_weights)
            yield past.q, model.mean_under(batch, view.target, fold), past.delta

    def _averaged(
        self, view: View, average: ModelAverage, fold: Ints, size: int, volume: Floats | None
    ) -> list[ThreeArrays]:
        """Return the same of each model from drawn rankings, `size` a row; add the change in clicks to `volume`."""
        batch, logged = view.batch, self._logged(view)
        n, K = batch.action.shape
        q, errors, mean = np.zeros((3, len(average.models), n, K))
        for rows, block in logged.parts():
            for j, model in enumerate(average.models):
                past = model.history(block, batch.reward[rows], fold[rows], batch.position_weights)
                q[j, rows], errors[j, rows] = past.q, past.delta
        pages = self._pages(view, size)
        paired = len(pages) == 2
        if volume is not None and not paired:
            volume -= self._clicks(average, logged, fold)
        mean = q.copy() if paired else mean
        for sign, drawn in pages:
            draws_per_row = max(drawn.m // max(n, 1), 1)
            folds = np.repeat(fold, draws_per_row)
            mean += sign * average.by_model(drawn, folds).reshape(-1, n, draws_per_row, K).mean(
                axis=2
            )
            if volume is not None:
                clicks = self._clicks(average, drawn, folds)
                volume += sign * clicks.reshape(n, draws_per_row, K).mean(axis=1)
        return list(zip(q, mean, errors, strict=True))

    def _clicks(self, average: ModelAverage, rankings: Rankings, fold: Ints) -> Floats:
        """Return the expected clicks of each slot (m, K), each worth the mean amount of its position."""
        out = np.zeros(rankings.item.shape)
        for rows, block in rankings.parts():
            for model, share in zip(average.models, average.shares, strict=True):
                if isinstance(model, AmountModel):
                    clicks = self.worth * model.clicks.expected(block, fold[rows])
                else:
                    clicks = model.expected(block, fold[rows])
                out[rows] += share * clicks
        return out

    @property
    def fold_draws(self) -> int:
        """Rankings of the target a row on which fits of different folds are compared."""
        return min(self.draws, DEFAULTS.fold_draws)

    def compared(self, view: View, rows: Ints) -> View:
        """Return the view of some rows on which folds are compared; it shares the rankings of this view."""
        size = self.fold_draws
        subset = view.part(("compared", self.draws, size, rows.tobytes()), rows)
        if self.draws:
            pages, draws = self._pages(view, self.draws), drawn_once(view, self.draws, self.seed)
            subset.cached("rankings", lambda: self._logged(view).take(rows))
            subset.cached(("target draws", size), lambda: draws[rows, :size])
            count = np.arange(-(-size // len(pages)))

            def first() -> SignedRankings:
                # The first draws of each of the rows.
                drawn_rows = [
                    rows[:, None] * (page.m // max(page.n, 1)) + count for _, page in pages
                ]
                return tuple(
                    (sign, page.take(drawn.ravel()))
                    for (sign, page), drawn in zip(pages, drawn_rows, strict=True)
                )

            subset.cached(("drawn rankings", size), first)
        return subset

    def _logged(self, view: View) -> Rankings:
        if not self.draws:
            return plain_rankings(view)
        return view.cached("rankings", lambda: logged_rankings(view.batch, view.target))

    def _pages(self, view: View, size: int) -> SignedRankings:
        """Return drawn rankings with signs, `size` a row in all: the target's (1), and the logger's (-1).

        A model's mean under the target is its mean over the target's rankings. Half of them are the
        logger's where it can be drawn from: the mean is then the model's value on the shown page, plus
        its mean over the target's rankings, less its mean over the logger's. The shown page is only one
        draw of the logger, and if it stood for the logger's mean, a target equal to the logger would
        seem to change something.
        """
        logger = page_policy(view.batch, LOGGING) if self.paired and view.batch.n else None

        def make() -> SignedRankings:
            drawn, half = {1.0: drawn_once(view, size, self.seed)}, size
            if logger is not None:
                drawn[-1.0], half = logger_draws(view, logger, size, self.seed), -(-size // 2)
            logged, batch = self._logged(view), view.batch
            pages = {sign: items[:, :half] for sign, items in drawn.items()}
            return tuple(
                (sign, logged.others(items, extra=scores(batch, view.target, items)))
                for sign, items in pages.items()
            )

        return view.cached(("drawn rankings", size), make)


#: Where a log allows no models.
NO_MODELS = Predictions((), np.zeros(0), level=np.zeros(0), worth=np.zeros(0))


def shares_of(
    losses: Floats, slots: int, unit: Ints | None = None, *, power: float = 1.0
) -> Floats:
    """Return how much each model counts (M,), from its squared errors (M, n) on rows it has not seen.

    A model counts by a power of the likelihood of the rewards, with normal noise of the variance that
    the best model leaves. A power below one is for models that are all wrong: how well they predict
    what the logger shows says only in part what they are worth for the target (Grunwald & van Ommen
    2017).

    Rows of one `unit` (n,) repeat each other. The difference between two models is therefore divided
    by its design effect: its variance over units relative to that over rows.

    >>> shares_of(np.array([[50.0, 50.0], [50.0, 50.0], [60.0, 80.0]]), 100).round(3).tolist()
    [0.5, 0.5, 0.0]
    """
    total = losses.sum(axis=1)
    best = float(total.min())
    if best <= 0.0:
        return np.asarray(total == best) / np.count_nonzero(total == best)
    design = np.ones(len(losses))
    if unit is not None:
        apart = losses - losses[total.argmin()]
        apart = apart - apart.mean(axis=1, keepdims=True)
        over_units = np.array([(np.bincount(unit, difference) ** 2).sum() for difference in apart])
        over_rows = (apart**2).sum(axis=1)
        design = np.maximum(over_units / np.where(over_rows > 0.0, over_rows, 1.0), 1.0)
    likely = np.exp(-0.5 * power * (total - best) / (best / max(slots, 1)) / design)
    out: Floats = likely / likely.sum()
    return out


def fit_pages(
    sample: RankingLog, rankings: Rankings, *, seed: int, competition: bool = True
) -> ModelAverage:
    """Return the click models of some rows, cross-fitted by bucket; the means of repeated lists come last.

    Without competition a model does not know the items below.
    """
    folds = DEFAULTS.folds
    fold = folds_of(sample, folds)
    variants = tuple(v for v in variants_for(rankings) if competition or not v.competition)
    clicks = fit_list_models(
        rankings,
        sample.reward,
        fold,
        folds=folds,
        variants=variants,
        seed=seed,
        page=sample.page_reward,
    )
    # The mean of a list knows the items below: not for models that must not.
    lists = fit_lists(rankings, sample.reward, fold, folds) if competition else None
    models: list[RewardModel] = [*clicks, *([] if lists is None else [lists])]
    losses = np.array([squared_loss(m, rankings, sample.reward, fold) for m in models])
    unit = sample.bucket if sample.unit is not None else None
    rewards = sample.n if sample.page_reward else int(sample.lengths.sum())
    shares = shares_of(losses, rewards, unit, power=DEFAULTS.likelihood)
    return ModelAverage(tuple(models), shares)


def training_pages(workspace: Workspace) -> tuple[RankingLog, Rankings]:
    """Return a sample of a log's rows, to which models are fitted, and its rankings."""
    rng = stream(workspace.seed, Stream.CROSS_FIT_ROWS)
    sample = workspace.source.sample(DEFAULTS.training_rows, rng)
    # What is prepared of rankings depends on whether rewards are of the page.
    key = ("training rankings", workspace.target, sample.page_reward)
    if key not in workspace.shared:
        workspace.shared[key] = logged_rankings(sample, workspace.target)
    return sample, workspace.shared[key]


def fit_drawn(
    workspace: Workspace, sample: RankingLog, rankings: Rankings, *, competition: bool = True
) -> Predictions:
    """Return the click models of a log, fitted to a sample of its rows."""
    n, limit, seed = workspace.source.n, DEFAULTS.asked_rows, workspace.seed
    fitted = fit_pages(sample, rankings, seed=seed, competition=competition)
    worth, flags = amounts(fitted.models[0], sample, rankings)
    shares = zip(fitted.models, fitted.shares, strict=True)
    return Predictions(
        fitted.models,
        fitted.shares,
        draws=draws_for(n if n is None else min(n, limit)),
        seed=seed,
        details={"models": [{**model.details, "share": float(share)} for model, share in shares]},
        rate=1.0 if n is None else min(limit / n, 1.0),
        level=sample.reward.sum(axis=0) / np.maximum((sample.action >= 0).sum(axis=0), 1),
        worth=worth,
        flags=flags,
    )


def amounts(
    model: RewardModel, sample: RankingLog, rankings: Rankings
) -> tuple[Floats, tuple[str, ...]]:
    """Return the mean amount of a click at each position (K,), and a flag where prices are unknown.

    Rewards that are no amounts have neither.
    """
    if not isinstance(model, AmountModel):
        return np.zeros(0), ()
    reward, fold = sample.reward, folds_of(sample, DEFAULTS.folds)
    paid = (rankings.item >= 0) & (reward > 0.0)
    worth = np.where(paid, reward, 0.0).sum(axis=0) / np.maximum(paid.sum(axis=0), 1)
    # Predicted as if items were new, because the target's items have hardly been clicked either.
    new = replace(rankings, item=np.where(rankings.item >= 0, rankings.item.max() + 1, -1))
    log, predicted = np.log(reward[paid]), np.log(model.amount.expected(new, fold)[paid])
    between = _between(rankings.item[paid], log)
    told = float(log.var() - (log - predicted).var())
    item, count = np.unique(rankings.item[paid], return_counts=True)
    often = np.isin(rankings.item, item[count >= DEFAULTS.often]).sum()
    prices_alike = between <= DEFAULTS.same_amount**2
    if prices_alike or told >= between / 2 or often >= rankings.lengths.sum() / 2:
        return worth, ()
    text = (
        f"item features tell {in_percent(max(told / between, 0.0), 0)} of how much items differ in "
        "what a click earns, so that of the target's items is guessed from few clicks; give prices "
        "as a feature of the items"
    )
    return worth, (Message("amount-unknown", text),)


def _between(item: Ints, values: Floats) -> float:
    """Return the variance of values (N,) between items: the total less that within items seen twice.

    >>> _between(np.array([0, 0, 1, 1]), np.array([1.0, 1.0, 3.0, 3.0]))
    1.0
    """
    _, number, count = np.unique(item, return_inverse=True, return_counts=True)
    mean = np.bincount(number, values) / count
    repeats = float((count - 1).sum())
    within = float(((values - mean[number]) ** 2).sum()) / max(repeats, 1.0)
    return max(float(values.var()) - within, 0.0)


def draws_for(rows: int | None) -> int:
    """Return how many rankings of the target are drawn a row.

    Fewer are enough on long logs, whose rows average out the rest.

    >>> draws_for(2_000), draws_for(1_000_000)
    (4, 1)
    """
    limit, together = DEFAULTS.draws, DEFAULTS.draws_together
    return int(np.clip(together // (rows or together), 1, limit))


def drawn_once(view: View, size: int, seed: int) -> Ints:
    """Return `target_draws` of a view, drawn once."""
    first = view.draws_of
    return first.cached(
        ("target draws", size), lambda: target_draws(first.batch, first.target, size, seed)
    )


def logger_draws(view: View, logger: Policy, size: int, seed: int) -> Ints:
    """Return (n, size, K) rankings of the logger by the numbers that draw the target's, drawn once."""
    first = view.draws_of
    return first.cached(
        ("logger draws", size), lambda: paired_draws(first.batch, logger, size, seed)
    )


def logged_rankings(batch: RankingLog, target: str) -> Rankings:
    """Return the logged rankings with both policies' scores of every item, where they have scores."""
    extra = scores(batch, target, batch.action[:, None, :])
    logged = rankings_of(batch, extra=None if extra is None else extra[:, 0])
    return replace(logged, nonlinear=True)


def scores(batch: RankingLog, target: str, items: Ints) -> Floats | None:
    """Return the target's and the logger's scores of items (n, S, K, 1 or 2); None without any.

    The logger's scores are included because they decided what was shown where. A shrunk model without
    them attributes the clicks of good items to their good places, and predicts too little for good items
    elsewhere.
    """
    attractions = [attraction(policy, items) for policy in (batch.target(target), batch.propensity)]
    available = [table for table in attractions if table is not None]
    return np.stack(available, axis=-1) if available else None
