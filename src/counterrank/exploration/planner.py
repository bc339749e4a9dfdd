"""Planning: from a log with scores to options of exploration, with costs and detectable lifts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from counterrank.common.arrays import Bools
from counterrank.common.blas import single_blas_thread
from counterrank.common.errors import ConfigError, LogError
from counterrank.common.messages import say
from counterrank.common.options import LEVEL, SEED, SHARE
from counterrank.data.log import RankingLog
from counterrank.data.validation import no_weight
from counterrank.estimators.weights.thresholds import THRESHOLDS
from counterrank.evaluation import detectable, rows_for, sensible
from counterrank.exploration import settings
from counterrank.exploration.costs import Costs
from counterrank.exploration.options import (
    Family,
    Tried,
    coldest_of,
    drop_small_shares,
    families,
    options,
    parts,
    round_shares,
    shares_at_budget,
    spread_of,
    temperatures,
)
from counterrank.exploration.predictions import (
    DrawnPages,
    PageRewards,
    PredictedError,
    drawn,
    fit_rewards,
    full_pages,
    item_log_prob,
    page_log_prob,
    simulated_error,
    single_positions,
    squared_reward,
)
from counterrank.exploration.result import DetectableLift, ExplorationOption, ExplorationPlan
from counterrank.policies import (
    Candidates,
    Deterministic,
    PlackettLuce,
    Policy,
    PolicySpec,
    Scored,
    parse_policy,
)
from counterrank.statistics import check_level

if TYPE_CHECKING:
    from counterrank.io import LogLike


#: Largest share of a target's pages that an option may never show.
MISSING = 0.05
#: Number of effective rows below which evidence is insufficient.
FEWEST = float(THRESHOLDS["ess"].directional)
#: How often `auto` is asked about the option that is chosen.
ASKED = 3


@single_blas_thread
def plan(
    log: LogLike,
    targets: Sequence[str] = (),
    *,
    detect: float = SHARE,
    budget: float = SHARE,
    level: float = LEVEL,
    rows_per_week: float | None = None,
    seed: int = SEED,
    **reading: Any,
) -> ExplorationPlan:
    """Plan what to randomise so that the next rankers can be evaluated, and what it costs.

    Parameters
    ----------
    log
        Any log that `evaluate` accepts, with the scores of all candidates (`logger="top"`,
        `logger="plackett-luce"`, ...). The logger may be deterministic.
    targets
        Names of candidate policies whose lift over production is to be detected; those in `policies=`
        by default. Without any, families of future rankers are used.
    detect
        The relative lift to detect: 0.01 is 1 %.
    budget
        The largest relative loss.
    level
        Confidence of intervals.
    rows_per_week
        Number of rankings served in a week, for statements by week.
    seed
        Seed of all random streams.
    **reading
        Options of the reader.

    Returns
    -------
    ExplorationPlan
        Options with cost and detectable lifts, the frontier, and the chosen option.

    Raises
    ------
    LogError
        The log has no scores, one candidate in every row, or no reward.
    ConfigError
        The lift, budget, level or number of rows is out of range.

    Examples
    --------
    >>> import counterrank as cr
    >>> rng = np.random.default_rng(0)
    >>> policy = cr.PlackettLuce(rng.normal(size=(300, 5)))
    >>> action = policy.sample(2, rng)[:, 0]
    >>> clicks = (rng.random(action.shape) < action / 5).astype(float)
    >>> log = cr.RankingLog(action=action, reward=clicks, propensity=policy)
    >>> planned = cr.plan(log, detect=0.5, budget=0.1)
    >>> len(planned.options) > 5, planned.choice == planned.options[planned.chosen]
    (True, True)

    References
    ----------
    Oosterhuis and de Rijke, "Taking the counterfactual online: efficient and unbiased online
    evaluation for ranking", ICTIR 2020.
    """
    from counterrank.io import opened

    _check(detect, budget, rows_per_week)
    check_level(level)
    read_options: dict[str, Any] = {"require_propensity": False, **reading}
    targets = tuple(targets) or tuple(reading.get("policies") or ())
    with opened(log, targets, needs_targets=False, **read_options) as (source, names):
        rng = np.random.default_rng([seed, 10])
        no_weight(source.first, "plans")
        sample = source.sample(settings.ROWS, rng)
        n = source.n if source.n is not None else source.reduce(attrgetter("n"), label="counting")
    names = targets or names
    goal = PlanRequest(n, detect, budget, level, rows_per_week, seed)
    return _make_plan(sample, names, goal)


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """The goal of a plan: the lift to detect, the allowed loss, and the number of rows."""

    n: int
    detect: float
    budget: float
    level: float
    rows_per_week: float | None
    seed: int


def _make_plan(log: RankingLog, names: tuple[str, ...], goal: PlanRequest) -> ExplorationPlan:
    logger = production(log)
    _refuse(log, logger)
    inputs = PlanInputs.from_log(log, logger, names, goal)
    costs = inputs.costs
    spread = spread_of(logger)
    widest = int(logger.candidates.counts.max())
    coldest = coldest_of(logger)
    heat = temperatures(logger.spec, spread, coldest)
    tried = list(options(logger.spec, log.K, widest, heat, goal.budget, costs.loss))
    tried += inputs.optima(parts(logger.spec, log.K, spread, coldest))
    judged_options = [inputs.evaluate_option(*candidate) for candidate in _distinct(tried)]
    counted = names or tuple(family.name for family in inputs.families)
    judged_options, chosen, reached = inputs.choose_by_auto(judged_options, counted)
    front = frontier(judged_options, counted)
    return ExplorationPlan(
        options=tuple(judged_options),
        frontier=front,
        chosen=chosen,
        reached=reached,
        judged=counted,
        rows=goal.n,
        rows_per_week=goal.rows_per_week,
        detect=goal.detect,
        budget=goal.budget,
        level=goal.level,
        value=costs.value,
        notes=_notes(log, logger, inputs),
    )


def production(log: RankingLog) -> Scored:
    """Return the logging policy as scores of candidates with a policy spec."""
    policy = log.propensity
    if isinstance(policy, Scored):
        if policy.factored:
            raise LogError(
                "the logger draws each position independently and may show an item twice; plans "
                "require rankings without repeats",
                remedy=f"say how it ranks, such as {say('--logger', 'plackett-luce')}",
            )
        return policy
    if not isinstance(policy, (PlackettLuce, Deterministic)):
        raise LogError(
            "the log has no scores, which a plan requires",
            remedy="log the scores of all candidates in 'propensity_scores' and say how they rank, "
            f"such as {say('--logger', 'top')} or {say('--logger', 'plackett-luce')}",
        )
    table = np.broadcast_to(policy.item_scores(), (log.n, policy.n_actions))
    spec = parse_policy("top" if isinstance(policy, Deterministic) else "plackett-luce")
    return Scored(Candidates.all_items(*table.shape), table.reshape(-1), spec)


def _refuse(log: RankingLog, logger: Scored) -> None:
    """Raise LogError if the log does not allow a plan."""
    sets = logger.candidates
    eligible = np.add.reduceat(np.isfinite(logger.scores), sets.offsets[:-1])
    if (eligible <= 1).all():
        raise LogError(
            "every row has one candidate, so there is nothing to randomise",
            remedy="list all candidates that could have been shown, with their scores",
        )
    if log.K > settings.LONGEST:
        raise LogError(
            f"pages of {log.K} positions are too long for the models of a plan (at most "
            f"{settings.LONGEST})",
            remedy="plan for the first positions",
        )
    if not float((log.reward @ log.position_weights).mean()) > 0:
        raise LogError(
            "production earns nothing in this log, so relative losses and lifts are undefined",
            remedy="give rewards with a positive mean",
        )


def _check(detect: float, budget: float, rows_per_week: float | None) -> None:
    for name, value in (("detect", detect), ("budget", budget)):
        if not (math.isfinite(value) and 0 < value < 1):
            raise ConfigError(
                f"{say(f'--{name}', python=name)} must be between 0 and 1, such as 0.01 for 1 %; "
                f"got {value:g}"
            )
    if rows_per_week is not None and not (math.isfinite(rows_per_week) and rows_per_week > 0):
        raise ConfigError(
            f"{say('--rows-per-week', python='rows_per_week')} must be a positive number; got "
            f"{rows_per_week:g}"
        )


def _distinct(tried: Sequence[Tried]) -> list[Tried]:
    """Return the options without duplicates, in order of first occurrence."""
    first: dict[str, Tried] = {}
    for candidate in tried:
        first.setdefault(candidate[1].text, candidate)
    return list(first.values())


@dataclass(frozen=True, slots=True, eq=False)
class PlanInputs:
    """The inputs of all predictions: the requests, the models, and pages drawn from the targets."""

    log: RankingLog
    models: PageRewards
    #: The models on the requests for which logs are simulated.
    served: PageRewards
    costs: Costs
    families: list[Family]
    #: Pages of each target; a family has several rankers.
    targets: dict[str, list[DrawnPages]]
    #: The share of the rows in which a target scores all candidates.
    shares: dict[str, float]
    design: float
    goal: PlanRequest

    @classmethod
    def from_log(
        cls, log: RankingLog, logger: Scored, names: tuple[str, ...], goal: PlanRequest
    ) -> PlanInputs:
        """Fit the models, and draw the pages of all targets."""
        scored = {name: _scored(log, name) for name in names}
        rows = np.flatnonzero(np.logical_and.reduce([np.ones(log.n, bool), *scored.values()]))
        if not len(rows):
            raise LogError(
                f"no request has scores of all candidates from all of {', '.join(names)}",
                remedy="give scores of all candidates, also of those that were not shown",
            )
        # Evenly spaced rows, because logs change over time.
        all_models = fit_rewards(log, logger, goal.seed)
        models, served = (
            all_models.take(
                rows[np.linspace(0, len(rows) - 1, min(len(rows), size)).astype(np.int64)]
            )
            for size in (settings.REQUESTS, settings.SIMULATED)
        )
        ranker_families = families(models.logger, log.K, goal.seed)
        rng = np.random.default_rng([goal.seed, 14])
        targets = {name: [drawn(_target(models.requests, name), models, 4, rng)] for name in names}
        for family in ranker_families:
            rankers = [family.draw(models.logger, rng) for _ in range(settings.RANKERS)]
            targets[family.name] = [drawn(ranker, models, 4, rng) for ranker in rankers]
        if not targets:
            raise LogError(
                "noise in the scores does not change any page, so there are no future rankers to "
                "plan for",
                remedy=f"name candidates with {say('--policy', 'NAME=KIND')}, or list more candidates",
            )
        costs = Costs(log, logger, models, goal.level, goal.seed)
        shares = {name: float(rows_scored.mean()) for name, rows_scored in scored.items()}
        return cls(log, models, served, costs, ranker_families, targets, shares, _design(log), goal)

    @property
    def by_place(self) -> bool:
        """Whether estimators by position can be used."""
        return self.log.K > 1 and not self.log.page_reward

    def option(self, spec: PolicySpec) -> DrawnPages:
        """Return pages drawn from an option."""
        rng = np.random.default_rng([self.goal.seed, 15])
        return drawn(self.models.policy(spec), self.models, settings.DRAWS, rng)

    def evaluate_option(self, kind: str, spec: PolicySpec) -> ExplorationOption:
        """Return an option with its cost and its detectable lifts."""
        shown = self.option(spec)
        lifts = tuple(self._detectable(name, self.predicted(shown, name)) for name in self.targets)
        return ExplorationOption(kind, spec.text, self.costs.cost(spec), lifts)

    def predicted(self, shown: DrawnPages, name: str) -> list[PredictedError]:
        """Return the predicted error of each estimator for a target, averaged over a family."""
        alpha = self.log.position_weights
        ways = [full_pages, single_positions] if self.by_place else [full_pages]
        # The optimum uses all rankers of a family; two are enough to predict errors.
        pages = self.targets[name][:2]
        return [
            _mean([way(shown, target_pages, self.models, alpha) for target_pages in pages])
            for way in ways
        ]

    def choose_by_auto(
        self, judged_options: list[ExplorationOption], counted: tuple[str, ...]
    ) -> tuple[list[ExplorationOption], int, bool]:
        """Return the options with the detectable lifts of `auto`, the chosen one, and whether it suffices.

        `auto` is asked about the option that the formulas choose, for the target whose lift is the hardest to
        detect there; the ratio of both holds for the other options and targets. Where another option is
        chosen then, `auto` is asked about that one.
        """
        goal, by_auto = self.goal, judged_options
        chosen, reached = choose(judged_options, counted, goal.detect, goal.budget)
        judged = None
        for _ in range(ASKED):
            if (
                chosen == judged
                or (factor := self._factor_of_auto(judged_options[chosen], counted)) is None
            ):
                return by_auto, chosen, reached
            by_auto = [
                replace(
                    option,
                    detectable=tuple(
                        lift.by_auto(factor, goal.detect, FEWEST) for lift in option.detectable
                    ),
                )
                for option in judged_options
            ]
            judged = chosen
            chosen, reached = choose(by_auto, counted, goal.detect, goal.budget)
        # Options of nearly the same worth take turns: the one that was asked about is kept.
        chosen = judged if judged is not None else chosen
        return by_auto, chosen, by_auto[chosen].worst(counted) <= goal.detect

    def _factor_of_auto(self, option: ExplorationOption, counted: tuple[str, ...]) -> float | None:
        """Return how many times larger a lift must be for `auto` than the formulas say; None where it cannot run."""
        lifts = [lift for lift in option.detectable if lift.target in counted and lift.lift]
        if not lifts:
            return None
        hardest = max(lifts, key=lambda lift: lift.lift or 0.0)
        families_by_name = {family.name: family for family in self.families}
        if hardest.target in families_by_name:
            rng = np.random.default_rng([self.goal.seed, 19])
            target: Policy = families_by_name[hardest.target].draw(self.served.logger, rng)
        else:
            target = _target(self.served.requests, hardest.target)
        error = simulated_error(
            self.served, parse_policy(option.spec), target, self.goal.level, self.goal.seed
        )
        if error is None:
            return None
        rows = self.goal.n * self.shares.get(hardest.target, 1.0)
        return self.design * error.detectable(rows, self.goal.level) / float(hardest.lift or 1.0)

    def optima(self, mixed: list[PolicySpec]) -> list[Tried]:
        """Return the optimal mixtures at several budgets, for weights of pages and of single positions."""
        policies = [self.models.policy(spec) for spec in mixed]
        loss = np.array([self.costs.loss(spec) for spec in mixed])
        targets = [drawn_pages for ranker in self.targets.values() for drawn_pages in ranker]
        alpha, models = self.log.position_weights, self.models
        # pi(page) E[Y^2] (n, S): its mean of 1 / p_0 is E_0[w^2 Y^2].
        pages = [np.exp(t.log_prob) * squared_reward(t.q, models, alpha) for t in targets]
        kinds = [("optimum for whole pages", pages, page_log_prob)]
        if self.by_place:
            # pi(a_k at k) E[r_k^2] (n, S, K).
            places = [np.exp(t.item_log_prob) * t.q * alpha**2 * models.square for t in targets]
            kinds.append(("optimum for places", places, item_log_prob))
        mixtures = []
        for kind, needs, log_prob in kinds:
            weight = np.concatenate(needs, axis=None)
            weight = weight / max(float(weight.sum()), 1e-300)
            probs = np.exp(
                [
                    np.concatenate([log_prob(policy, t.pages) for t in targets], axis=None)
                    for policy in policies
                ]
            )
            for level in settings.LEVELS:
                budget = self.goal.budget * level
                shares = shares_at_budget(probs, weight, loss, budget)
                shares = drop_small_shares(probs, weight, loss, shares, budget)
                mixtures.append((kind, round_shares(shares.tolist(), mixed)))
        return mixtures

    def _detectable(self, target: str, predictions: list[PredictedError]) -> DetectableLift:
        """Return the detectable lift of a target with the best estimator."""
        goal, value = self.goal, self.costs.value
        n = goal.n
        scored = self.shares.get(target, 1.0)
        predictions = [
            replace(predicted, share=predicted.share * scored) for predicted in predictions
        ]

        def error(prediction: PredictedError, rows: float) -> float:
            return prediction.spread * self.design / value / math.sqrt(rows * scored)

        def lift(prediction: PredictedError, rows: float) -> float:
            return detectable(
                error(prediction, rows), allowance=prediction.allowance / value, level=goal.level
            )

        reached = [prediction for prediction in predictions if prediction.missing <= MISSING]
        # With few effective rows the formula underestimates errors.
        enough = [prediction for prediction in reached if prediction.share * n >= FEWEST]
        best = min(enough or reached or predictions, key=lambda prediction: lift(prediction, n))
        stderr, allowance, rows_needed = error(best, n), best.allowance / value, None
        if reached:
            rows_needed = n
            if stderr > 0:
                rows_needed = rows_for(
                    goal.detect, n, stderr, allowance=allowance, level=goal.level
                )
            if rows_needed is not None and best.share * rows_needed < FEWEST:
                rows_needed = sensible(FEWEST / best.share, n) if best.share > 0 else None
        week = goal.rows_per_week
        return DetectableLift(
            target=target,
            lift=lift(best, n) if enough else None,
            rows=n,
            estimator=best.estimator,
            stderr=stderr if enough else None,
            allowance=allowance,
            effective=best.share * n,
            rows_needed=rows_needed,
            weekly=lift(best, week) if week and best.share * week >= FEWEST else None,
        )


def _scored(log: RankingLog, name: str) -> Bools:
    """Return in which rows (n,) a target scores every candidate."""
    policy = log.target(name)
    return ~policy.unscored if isinstance(policy, Scored) else np.ones(log.n, dtype=bool)


def _target(log: RankingLog, name: str) -> Policy:
    policy = log.target(name)
    if not isinstance(policy, Policy):
        raise LogError(
            f"'{name}' is given by propensities, from which no pages can be drawn",
            remedy=f"give its scores and {say('--policy', f'{name}=top')}",
        )
    return policy


def _design(log: RankingLog) -> float:
    """Return the factor by which units with several rows widen errors: the root of the design effect."""
    if log.unit is None:
        return 1.0
    y = log.reward @ log.position_weights
    y = y - y.mean()
    over_units = np.bincount(np.unique(log.unit, return_inverse=True)[1], y)
    return math.sqrt(max(float(over_units @ over_units) / max(float(y @ y), 1e-300), 1.0))


def _mean(predictions: list[PredictedError]) -> PredictedError:
    """Return the mean of predictions for several rankers; variances are averaged."""
    numbers = np.array([astuple(prediction)[1:] for prediction in predictions])
    _, *means = numbers.mean(axis=0).tolist()
    spread = math.sqrt(float((numbers[:, 0] ** 2).mean()))
    return PredictedError(predictions[0].estimator, spread, *means)


def frontier(options: Sequence[ExplorationOption], targets: tuple[str, ...]) -> tuple[int, ...]:
    """Return the indices of options that no other beats in cost and detectable lift, by cost."""
    order = sorted(
        range(len(options)), key=lambda i: (options[i].cost.value, options[i].worst(targets))
    )
    front, best = [], math.inf
    for index in order:
        worst = options[index].worst(targets)
        if worst < best:
            front.append(index)
            best = worst
    return tuple(front)


def choose(
    options: Sequence[ExplorationOption], targets: tuple[str, ...], detect: float, budget: float
) -> tuple[int, bool]:
    """Return the index of the chosen option, and whether it detects the lift of all targets.

    The choice is the cheapest option that detects the lift; if there is none, the option within the
    budget that detects the smallest lift. Today's policy (the first option) is kept if it detects the
    lift, or if no other option is clearly better.
    """
    order = sorted(range(len(options)), key=lambda i: options[i].cost.value)
    for index in (0, *order):
        if options[index].worst(targets) <= detect:
            return index, True
    # Options are tuned to the budget by predictions, so their cost from the log may be larger.
    within = [i for i in order if options[i].cost.value <= 1.1 * budget] or order[:1]
    # The fewest rows, then the smallest detectable lift.
    best = min(within, key=lambda i: (options[i].needed(targets), options[i].worst(targets)))
    rows, today_rows = options[best].needed(targets), options[0].needed(targets)
    smaller = options[best].worst(targets) < CLEARLY * options[0].worst(targets)
    is_better = rows < CLEARLY * today_rows or (rows <= today_rows and smaller)
    return (best if is_better else 0), False


#: Differences of less than a fiftieth are within the error of a plan.
CLEARLY = 0.98


def _notes(log: RankingLog, logger: Scored, inputs: PlanInputs) -> tuple[str, ...]:
    shares = ", ".join(f"{round(100 * family.share)} %" for family in inputs.families)
    notes = []
    if inputs.families:
        notes.append(
            f"Future rankers add noise to production's scores until {shares} of the shown positions have "
            "another item; they represent rankers that do not exist yet."
        )
    notes.append(
        "A lift is detectable if the interval of `auto`, the recommended estimator, excludes zero in four of "
        "five logs. Formulas for weights compare the options; `auto` then estimates a simulated log of the "
        "chosen one, and the ratio of both is applied to all."
    )
    if logger.deterministic:
        notes.append(
            "The log is from a deterministic ranker: costs and errors are predicted by models of users, "
            "with intervals from no loss to twice the expected one."
        )
    return tuple(notes)
