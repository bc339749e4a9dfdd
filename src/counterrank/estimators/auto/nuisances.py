"""The nuisance models behind `auto`: several cross-fitted reward models, asked in one way.

Where both policies are factored with whole distributions the models of `models.fit_best` answer in
closed form; everywhere else rankings of the target are drawn and the click models are averaged over
them.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from counterrank.data.log import LOGGING, RankingLog
from counterrank.estimators.auto.aim import (
    SUMS,
    Range,
    aim_sums,
    by_position,
    log_ratios,
    logger_draws,
    page_policy,
)
from counterrank.estimators.auto.defaults import DEFAULTS
from counterrank.estimators.base import View, Workspace
from counterrank.messages import Message
from counterrank.models import (
    AmountModel,
    PageModel,
    Rankings,
    RepeatedLists,
    RewardModel,
    context_columns,
    encoded,
    factored_draws,
    fit_list_models,
    fit_lists,
    policy_draws,
    rankings_of,
    squared_loss,
    variants_for,
    whole_distribution,
)
from counterrank.policies import (
    Deterministic,
    Mixture,
    PlackettLuce,
    Policy,
    Scored,
    SlotEpsilonGreedy,
)
from counterrank.texts import in_percent

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: The random stream of the training rows, apart from those of the models; it follows the seed.
TRAINING_STREAM = 102


@dataclass(frozen=True, slots=True, eq=False)
class Outlook:
    """What M models say of n rows: q and its mean under the target (n, K), and surprises delta (n,
    K), averaged.

    `delta` sums to sum_k alpha_k (r_k - q_k); `means` (M, n) are each model's alpha-weighted means
    of a row and `errors` (M, n, K) each model's surprises, from which the models' disagreement is
    measured.
    """

    q: Floats
    mean: Floats
    delta: Floats
    means: Floats
    errors: Floats
    #: (n, K) of amounts: what of mean - q is a change in clicks, each worth the mean amount of its
    #: position. The rest is a change in amounts: both count before they cancel.
    volume: Floats | None = None


class Nuisances(Protocol):
    """Fitted models: `folds` of them were each fitted without one fold of rows."""

    @property
    def folds(self) -> int:
        """Number of folds F; a row's is its bucket modulo F."""

    @property
    def shares(self) -> Floats:
        """How much each model counts in the average (M,)."""

    @property
    def details(self) -> dict[str, Any]:
        """What was fitted, for people."""

    def outlook(self, view: View, fold: int | None = None) -> Outlook:
        """Return the models on the rows of a view, each row by the fit that did not see it, or all
        by fit `fold`.
        """

    def aim(self, view: View, residual: Floats) -> Floats:
        """Return the terms of the aimed step (3, n) from the pages' residuals; (0, n) without one."""


def in_fold(batch: RankingLog, fold: int) -> RankingLog:
    """Return the batch as if all rows were of one fold: the delete-a-fold jackknife asks each fit
    about all rows.
    """
    part = batch.take(slice(0, batch.n))
    object.__setattr__(part, "bucket", np.full(batch.n, fold, dtype=batch.bucket.dtype))
    return part


@dataclass(frozen=True, slots=True, eq=False)
class ClosedForm:
    """Models that know their mean under the target, with their `shares` (M,) in the average;
    surprises are plain residuals.
    """

    models: tuple[RewardModel, ...]
    shares: Floats
    folds: int
    span: Range

    @property
    def details(self) -> dict[str, Any]:
        """Those of the model that predicts best."""
        return self.models[0].details

    def aim(self, view: View, residual: Floats) -> Floats:
        """Return the terms of the aimed step, its means exact: positions are independent."""
        batch = view.batch
        old, new = (whole_distribution(batch, name) for name in (LOGGING, view.target))
        assert old is not None and new is not None
        shown = batch.action >= 0
        return aim_sums(*by_position(self.span, new, old, view.ratios.rho, shown), residual)

    def outlook(self, view: View, fold: int | None = None) -> Outlook:
        """Return the average of the models' predictions."""
        batch = view.batch if fold is None else in_fold(view.batch, fold)
        found = [model.predict(batch, view.target) for model in self.models]
        alpha = view.batch.position_weights
        errors = np.stack([alpha * (view.batch.reward - one.q) for one in found])
        q, mean = np.stack([one.q for one in found]), np.stack([one.mean for one in found])
        return _averaged(q, mean, errors, alpha, self.shares)


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """Models of whole rankings with their `shares` (M,) in the average, over `draws` rankings of
    the target a row.
    """

    models: tuple[PageModel, ...]
    shares: Floats
    draws: int
    seed: int
    details: dict[str, Any] = field(default_factory=dict)
    #: Share of the rows that are asked about, and the mean reward of each position (K,) for others.
    rate: float = 1.0
    level: Floats = field(default_factory=lambda: np.zeros(0))
    #: Log ratios that were logged; None where a policy does not know its rankings' probabilities.
    span: Range | None = None
    #: Variance of the change that repeated lists leave unknown (`models.RepeatedLists.unknown`).
    unknown: float = 0.0
    #: Mean amount of a click at each position (K,) where rewards are amounts, else none.
    worth: Floats = field(default_factory=lambda: np.zeros(0))
    #: What has to be said of the models.
    flags: tuple[str, ...] = ()

    @property
    def folds(self) -> int:
        """Number of folds."""
        return self.models[0].folds

    def aim(self, view: View, residual: Floats) -> Floats:
        """Return the terms of the aimed step, its means over drawn rankings of both policies."""
        batch = view.batch
        target, logger = (page_policy(batch, name) for name in (view.target, LOGGING))
        if self.span is None or target is None or logger is None or batch.n == 0:
            return np.empty((0 if self.span is None else SUMS, batch.n))
        span = self.span

        def steps() -> list[Floats]:
            own = batch.action[:, None, :]
            drawn = drawn_once(view, self.draws, self.seed)
            others = logger_once(view, logger, self.draws, self.seed)
            ratios = span.cut(
                log_ratios(target, logger, np.concatenate([own, others, drawn], axis=1))
            )
            parts = np.split(ratios, [1, 1 + others.shape[1]], axis=1)
            return [part.mean(axis=1) for part in parts]

        # Rewards have no part in it: views of other rewards take it over.
        h, by_logger, by_target = view.draws_of.once(("aim", self.draws, self.seed, span), steps)
        return aim_sums(h, by_logger, by_target, residual)

    def outlook(self, view: View, fold: int | None = None) -> Outlook:
        """Return the average of the models' predictions."""
        batch = view.batch
        n, K, alpha = batch.n, batch.K, batch.position_weights
        own = (
            np.asarray(batch.bucket % self.folds, dtype=np.int64)
            if fold is None
            else np.full(n, fold)
        )
        # Fits of different folds are compared on the same rankings: few do, and so do the models that
        # count.
        size = self.draws if fold is None else self.fold_draws
        least = 0.0 if fold is None else DEFAULTS.least_share
        asked = np.flatnonzero(self.shares >= least)
        logged, pages = self._logged(view), self._pages(view, size)
        q, mean, errors = (np.empty((len(asked), n, K)) for _ in range(3))
        volume, shares = np.zeros((n, K)), self.shares[asked] / self.shares[asked].sum()
        for rows, part in logged.parts():
            folds = own[rows]
            for j, model in enumerate(asked):
                past = self.models[model].history(part, batch.reward[rows], folds, alpha)
                q[j, rows], errors[j, rows] = past.q, past.delta
                if len(self.worth) and not pages.paired:
                    volume[rows] -= shares[j] * self._worth(int(model), part, folds)
        mean[:] = q if pages.paired else 0.0
        for sign, drawn in pages.parts:
            count = max(drawn.m // max(n, 1), 1)
            ahead, owns = np.empty((len(asked), drawn.m, K)), np.repeat(own, count)
            for rows, part in drawn.parts():
                folds = owns[rows]
                for j, model in enumerate(asked):
                    ahead[j, rows] = self.models[model].expected(part, folds)
                    if len(self.worth):
                        worth = sign * shares[j] * self._worth(int(model), part, folds) / count
                        at = np.arange(rows.start, rows.start + part.m) // count
                        np.add.at(volume, at, worth)
            mean += sign * ahead.reshape(len(asked), n, count, K).mean(axis=2)
        look = _averaged(q, mean, errors, alpha, shares)
        return replace(look, volume=volume) if len(self.worth) else look

    def _worth(self, model: int, part: Rankings, folds: Ints) -> Floats:
        """Return the expected clicks of each slot, each worth the mean amount of its position."""
        one = self.models[model]
        if isinstance(one, AmountModel):
            return self.worth * one.clicks.expected(part, folds)
        return one.expected(part, folds)

    @property
    def fold_draws(self) -> int:
        """Rankings of the target a row on which fits of different folds are compared."""
        return min(self.draws, DEFAULTS.fold_draws)

    def compared(self, view: View, rows: Ints) -> View:
        """Return some rows of a view for comparing folds: their rankings are among those it has."""
        size = self.fold_draws
        part = view.part(("compared", self.draws, size, rows.tobytes()), rows)
        part.once("rankings", lambda: self._logged(view).take(rows))
        part.once(("drawn rankings", size), lambda: self._pages(view, self.draws).take(rows, size))
        draws = drawn_once(view, self.draws, self.seed)
        part.once(("target draws", size), lambda: draws[rows, :size])
        return part

    def _logged(self, view: View) -> Rankings:
        return view.once("rankings", lambda: logged_rankings(view.batch, view.target))

    def _pages(self, view: View, size: int) -> "DrawnPages":
        def make() -> DrawnPages:
            drawn, logger = drawn_once(view, size, self.seed), page_policy(view.batch, LOGGING)
            if logger is None or view.batch.n == 0:
                return DrawnPages(((1.0, self._asked(view, drawn)),))
            half = (size + 1) // 2
            both = (drawn, logger_once(view, logger, size, self.seed))
            return DrawnPages(
                tuple(
                    (sign, self._asked(view, pages[:, :half]))
                    for sign, pages in zip((1.0, -1.0), both, strict=True)
                )
            )

        return view.once(("drawn rankings", size), make)

    def _asked(self, view: View, drawn: Ints) -> Rankings:
        return self._logged(view).others(drawn, extra=scores(view.batch, view.target, drawn))


@dataclass(frozen=True, slots=True, eq=False)
class DrawnPages:
    """Drawn rankings that models are asked of: the target's (sign 1) and, where it can be drawn from, the
    logger's (sign -1).

    The change that a model expects is its mean over the target's less that over the logger's. The shown
    page is one draw of the logger: with it in the place of the logger's mean, a target that shows what
    the logger shows would seem to change something. Both are drawn by the same random numbers, so that
    what the policies have in common cancels.
    """

    parts: tuple[tuple[float, Rankings], ...]

    @property
    def paired(self) -> bool:
        """Whether the logger's rankings are among them."""
        return len(self.parts) == 2

    def take(self, rows: Ints, size: int) -> "DrawnPages":
        """Return those of some rows, `size` rankings of each in all."""
        each = (size + 1) // 2 if self.paired else size
        return DrawnPages(tuple((sign, _first(part, rows, each)) for sign, part in self.parts))


def _first(rankings: Rankings, rows: Ints, size: int) -> Rankings:
    """Return the first `size` rankings of some requests."""
    each = rankings.m // max(rankings.n, 1)
    return rankings.take((rows[:, None] * each + np.arange(size)).ravel())


def _averaged(q: Floats, mean: Floats, errors: Floats, alpha: Floats, shares: Floats) -> Outlook:
    over = [np.tensordot(shares, values, axes=1) for values in (q, mean, errors)]
    return Outlook(over[0], over[1], over[2], mean @ alpha, errors)


def shares_of(
    losses: Floats, slots: int, unit: Ints | None = None, *, power: float = 1.0
) -> Floats:
    """Return how much each model counts, from its squared errors (M, n) on rows it has not seen: as
    a power of the likelihood of their rewards, the noise normal with the variance that the best model
    leaves. A power below one is for models that are all wrong: how well they predict what the logger
    shows says only in part what they are worth for the target (Grunwald & van Ommen 2017).

    Rows of one `unit` (n,) say the same several times: what a model is better by counts less, by
    the design effect of that difference (its variance over units relative to that over rows).

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
        over_units = np.array([(np.bincount(unit, one) ** 2).sum() for one in apart])
        over_rows = (apart**2).sum(axis=1)
        design = np.maximum(over_units / np.where(over_rows > 0.0, over_rows, 1.0), 1.0)
    likely = np.exp(-0.5 * power * (total - best) / (best / max(slots, 1)) / design)
    out: Floats = likely / likely.sum()
    return out


@dataclass(frozen=True, slots=True, eq=False)
class FittedPages:
    """Models of whole rankings with their `shares` (M,) in an average; `lists` is the one among them
    that remembers repeated lists, where there is one.
    """

    models: tuple[PageModel, ...]
    shares: Floats
    lists: RepeatedLists | None

    @property
    def details(self) -> list[dict[str, Any]]:
        """What was fitted, for people."""
        pairs = zip(self.models, self.shares, strict=True)
        return [{**model.details, "share": float(share)} for model, share in pairs]

    def by_place(self, rankings: Rankings, fold: Ints) -> Floats:
        """Return the expected reward of each slot (m, K), by the fits that did not see its `fold`
        (m,).
        """
        out = np.zeros(rankings.item.shape)
        for rows, part in rankings.parts():
            for model, share in zip(self.models, self.shares, strict=True):
                if share > 0.0:
                    out[rows] += share * model.expected(part, fold[rows])
        return out


def fit_pages(
    sample: RankingLog, rankings: Rankings, *, seed: int, competition: bool = True
) -> FittedPages:
    """Return the click models of some rows, cross-fitted by bucket; without competition a model does
    not know the items below.
    """
    folds = DEFAULTS.folds
    fold = np.asarray(sample.bucket % folds, dtype=np.int64)
    variants = tuple(v for v in variants_for(rankings) if competition or not v.competition)
    clicks = fit_list_models(
        rankings,
        sample.reward,
        fold,
        folds=folds,
        variants=variants,
        seed=seed,
        page=sample.page_reward,
        choice=competition,
    )
    # The mean of a list knows the items below: not for models that must not.
    lists = fit_lists(rankings, sample.reward, fold, folds) if competition else None
    models: list[PageModel] = [*clicks, *([] if lists is None else [lists])]
    losses = np.array([squared_loss(m, rankings, sample.reward, fold) for m in models])
    unit = sample.bucket if sample.unit is not None else None
    rewards = sample.n if sample.page_reward else int(sample.lengths.sum())
    shares = shares_of(losses, rewards, unit, power=DEFAULTS.likelihood)
    return FittedPages(tuple(models), shares, lists)


def fit_drawn(workspace: Workspace, *, competition: bool = True) -> Drawn:
    """Return the click models of a log, fitted to a sample of its rows; without competition a model
    does not know the items below.
    """
    seed, rows = workspace.seed, DEFAULTS.training_rows
    sample = workspace.source.sample(rows, np.random.default_rng([seed, TRAINING_STREAM]))
    rankings = logged_rankings(sample, workspace.target)
    fitted = fit_pages(sample, rankings, seed=seed, competition=competition)
    models, lists = fitted.models, fitted.lists
    fold = np.asarray(sample.bucket % DEFAULTS.folds, dtype=np.int64)
    n, most = workspace.source.n, DEFAULTS.asked_rows
    asked = n if n is None else min(n, int(most))
    return Drawn(
        models,
        fitted.shares,
        draws_for(asked),
        seed,
        {"models": fitted.details},
        rate=1.0 if n is None else min(most / n, 1.0),
        level=sample.reward.sum(axis=0) / np.maximum((sample.action >= 0).sum(axis=0), 1),
        span=logged_span(sample, workspace.target),
        unknown=0.0 if lists is None else unknown_of(lists, rankings, sample, workspace),
        **amounts(models[0], rankings, sample.reward, fold),
    )


def logged_span(sample: RankingLog, target: str) -> Range | None:
    """Return the range of the logged rankings' log ratios; None where a policy does not know them."""
    new, old = (page_policy(sample, name) for name in (target, LOGGING))
    if new is None or old is None:
        return None
    return Range.of(log_ratios(new, old, sample.action[:, None, :])[:, 0])


def unknown_of(
    lists: RepeatedLists, rankings: Rankings, sample: RankingLog, workspace: Workspace
) -> float:
    """Return the variance of the change that the means of repeated lists leave unknown."""
    target, size = workspace.target, draws_for(sample.n)
    drawn = target_draws(sample, target, size, workspace.seed)
    return lists.unknown(rankings, rankings.others(drawn, extra=scores(sample, target, drawn)))


def amounts(model: Any, rankings: Rankings, reward: Floats, fold: Ints) -> dict[str, Any]:
    """Return the mean amount of a click at each position, and what has to be said where nothing tells
    an item's price; nothing of rewards that are no amounts.
    """
    if not isinstance(model, AmountModel):
        return {}
    paid = (rankings.item >= 0) & (reward > 0.0)
    worth = np.where(paid, reward, 0.0).sum(axis=0) / np.maximum(paid.sum(axis=0), 1)
    # As items that nobody has clicked yet: those the target would show have hardly been either.
    new = replace(rankings, item=np.where(rankings.item >= 0, rankings.item.max() + 1, -1))
    log, found = np.log(reward[paid]), np.log(model.amount(new, fold)[paid])
    between = _between(rankings.item[paid], log)
    told = float(log.var() - (log - found).var())
    item, count = np.unique(rankings.item[paid], return_counts=True)
    often = np.isin(rankings.item, item[count >= DEFAULTS.often]).sum()
    same = between <= DEFAULTS.same_amount**2
    if same or told >= between / 2 or often >= rankings.lengths.sum() / 2:
        return {"worth": worth}
    text = _UNKNOWN_AMOUNT.format(told=in_percent(max(told / between, 0.0), 0))
    flag = Message("amount-unknown", text)
    return {"worth": worth, "flags": (flag,)}


_UNKNOWN_AMOUNT = (
    "item features tell {told} of how much items differ in what a click earns, so that "
    "of the target's items is guessed from few clicks; give prices as a feature of the items"
)


def _between(item: Ints, values: Floats) -> float:
    """Return the variance of values (N,) between items: all of it, less that within items seen twice.

    >>> _between(np.array([0, 0, 1, 1]), np.array([1.0, 1.0, 3.0, 3.0]))
    1.0
    """
    _, number, count = np.unique(item, return_inverse=True, return_counts=True)
    mean = np.bincount(number, values) / count
    repeats = float((count - 1).sum())
    within = float(((values - mean[number]) ** 2).sum()) / max(repeats, 1.0)
    return max(float(values.var()) - within, 0.0)


def draws_for(rows: int | None) -> int:
    """Return how many rankings of the target are drawn a row: fewer on long logs, whose rows
    average out the rest.

    >>> draws_for(2_000), draws_for(1_000_000)
    (4, 1)
    """
    most, together = DEFAULTS.draws, DEFAULTS.draws_together
    return int(np.clip(together // (rows or together), 1, most))


def drawn_once(view: View, size: int, seed: int) -> Ints:
    """Return `target_draws` of a view, drawn once."""
    first = view.draws_of
    return first.once(
        ("target draws", size), lambda: target_draws(first.batch, first.target, size, seed)
    )


def logger_once(view: View, logger: Policy, size: int, seed: int) -> Ints:
    """Return `logger_draws` of a view, drawn once."""
    first = view.draws_of
    return first.once(("logger draws", size), lambda: logger_draws(first.batch, logger, size, seed))


def target_draws(batch: RankingLog, target: str, size: int, seed: int) -> Ints:
    """Return (n, size, K) rankings drawn from the target, as long as the logged ones."""
    wanted = whole_distribution(batch, target)
    if wanted is not None:
        return factored_draws(batch, wanted, size, seed)
    return policy_draws(batch, target, size, seed)


def logged_rankings(batch: RankingLog, target: str) -> Rankings:
    """Return the logged rankings with both policies' scores of every item, where they have scores."""
    extra = scores(batch, target, batch.action[:, None, :])
    logged = rankings_of(batch, extra=None if extra is None else extra[:, 0])
    return replace(logged, bends=True, pool=pool_of(batch, target))


def pool_of(batch: RankingLog, target: str) -> Rankings | None:
    """Return all candidates of each row as rankings; None where they are not known, no more than what
    is shown, or too many to be seen at once.
    """
    sets, most = batch.candidates, DEFAULTS.pool
    if sets is None or batch.page_reward or not batch.K < sets.counts.max(initial=0) <= most:
        return None
    items = sets.dense(sets.items, -1).astype(np.int64)
    extra = scores(batch, target, items[:, None, :])
    names = batch.item_feature_names
    return Rankings(
        items,
        context_columns(batch),
        features=encoded(batch.features_of(items), names, batch.categories_of_items)
        if names
        else None,
        extra=None if extra is None else extra[:, 0],
        bends=True,
        at=np.full(items.shape, batch.K),
    )


def scores(batch: RankingLog, target: str, items: Ints) -> Floats | None:
    """Return the target's and the logger's scores of items (n, S, K, 1 or 2); None without any.

    The logger's stand beside the target's because they decided what was shown where. A shrunk model
    that does not know them takes the good places for the reason why good items are clicked, and
    promises too little for good items elsewhere.
    """
    found = [attraction(policy, items) for policy in (batch.target(target), batch.propensity)]
    known = [one for one in found if one is not None]
    return np.stack(known, axis=-1) if known else None


def attraction(policy: Any, items: Ints) -> Floats | None:
    """Return a policy's score of items (n, S, K), less its row's mean: what it knows of relevance;
    None if nothing.

    A target is made to be good, so its own scores are the best single feature a reward model can
    have.
    """
    if isinstance(policy, Mixture):
        found = (attraction(part, items) for part in policy.components)
        return next(
            (one for one in found if one is not None and np.nanmax(np.abs(one), initial=0.0) > 0),
            None,
        )
    if isinstance(policy, Scored):
        one = policy if policy.n_rows == len(items) else policy.take(np.zeros(len(items), np.int64))
        places, offsets = one.candidates.locate(items), one.candidates.offsets
        values = np.append(one.scores, np.nan)[
            np.where(places < 0, -1, offsets[:-1, None, None] + places)
        ]
        known = np.isfinite(one.scores)
        row = np.repeat(np.arange(one.n_rows), one.candidates.counts)
        sums = np.bincount(row[known], weights=one.scores[known], minlength=one.n_rows)
        centre = sums / np.maximum(np.bincount(row[known], minlength=one.n_rows), 1)
    else:
        table = score_table(policy)
        if table is None:
            return None
        rows = np.zeros(len(items), dtype=np.int64) if len(table) == 1 else np.arange(len(items))
        centre = table.sum(axis=1) / table.shape[1]
        odd = np.flatnonzero(~np.isfinite(centre))
        if len(odd):
            known = np.isfinite(table[odd])
            sums = np.where(known, table[odd], 0.0).sum(axis=1)
            centre[odd] = sums / np.maximum(known.sum(axis=1), 1)
        centre = centre[rows]
        values = table[rows[:, None, None], np.maximum(items, 0)]
    out = values - centre[:, None, None]
    return np.where((items >= 0) & np.isfinite(out), out, np.nan)


def score_table(policy: Any) -> Floats | None:
    """Return a policy's scores (n or 1, A), higher is better; None where it has none."""
    if isinstance(policy, PlackettLuce):
        return policy.scores
    if isinstance(policy, SlotEpsilonGreedy):
        return np.where(policy.rank >= 0, -np.log1p(np.maximum(policy.rank, 0)), -np.inf)
    if isinstance(policy, Deterministic):
        table = np.full((len(policy.ranking), policy.n_actions), -np.log1p(policy.ranking.shape[1]))
        places = np.broadcast_to(
            -np.log1p(np.arange(policy.ranking.shape[1])), policy.ranking.shape
        )
        np.put_along_axis(table, np.maximum(policy.ranking, 0), places, axis=1)
        return table
    return None
