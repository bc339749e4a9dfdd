"""From two policies to importance weights for any behaviour mask, or a refusal that says why.

In kernels arrays are position-major, (K, n): the inner loop runs over rankings, so that it vectorises. Weights are
products, never exp of summed logs: a ratio of zero outside the mask must not become 0 * inf = NaN.
"""

from dataclasses import dataclass, field

import numpy as np

from counterrank.common.arrays import Bools, Floats, Ints
from counterrank.common.errors import PropensityError
from counterrank.common.messages import say
from counterrank.data.log import MEANING, SUPPORTS, Probabilities, Propensity, RankingLog
from counterrank.estimators.weights.moments import multiply
from counterrank.kernels.jit import fill, helper, jit
from counterrank.policies import BestOf, Policy, Scored, SubsetResult, subset_log_ratio

#: The logger's answers about the rankings of a batch, by the positions asked about: the same for all targets.
LoggerAnswers = dict[bytes, SubsetResult]


@dataclass(frozen=True, slots=True)
class Ratios:
    """Per-position ratios rho (n, K, Fortran order) of a batch, and which products of them are probability ratios.

    `kind` is that of `Propensity`; "policy" stands for two rankings-without-replacement policies,
    whose subset probabilities are computed on demand and kept. Ratios of some rows of a batch, `within`,
    read what was computed for all of them; `by_logger` has the logger's answers, for every target.
    """

    kind: str
    rho: Floats
    batch: RankingLog
    target: Probabilities
    within: "tuple[Ratios, Ints] | None" = None
    by_logger: LoggerAnswers = field(default_factory=dict)
    #: Weights and their relative squared errors by the positions asked about.
    _answers: dict[bytes, tuple[Floats, Floats]] = field(default_factory=dict)
    _sampling: list[float] = field(default_factory=list)

    @property
    def supports(self) -> frozenset[str]:
        """Which probabilities can be formed: joint, prefix, position, subset; for one position all are the same."""
        covers_page = self.kind == "policy" or self.rho.shape[1] == 1
        supported = SUPPORTS["factored"] if covers_page else SUPPORTS[self.kind]
        # The weight of one item says nothing of a reward that the whole page earned.
        return supported - {"position"} if self.batch.page_reward else supported

    def full(self) -> Floats:
        """Return w_k = prod_l rho_l at every position (n, K)."""
        self.need("joint")
        # Weights beyond all numbers are found by the estimate that rests on them, which says so.
        with np.errstate(over="ignore", invalid="ignore"):
            joint = self.rho.prod(axis=1)
        return np.broadcast_to(joint[:, None], self.rho.shape)

    def prefix(self) -> Floats:
        """Return w_k = prod_{l<=k} rho_l (n, K)."""
        self.need("prefix")
        out = self.rho.T.copy()
        with np.errstate(over="ignore", invalid="ignore"):
            for k in range(1, len(out)):
                out[k] *= out[k - 1]
        return out.T

    def position(self) -> Floats:
        """Return w_k = rho_k, the ratio of the marginals at position k (n, K)."""
        self.need("position")
        return (
            self.masked(np.eye(self.rho.shape[1], dtype=bool))
            if self.kind == "policy"
            else self.rho
        )

    def masked(self, mask: Bools) -> Floats:
        """Return w_k = pi(Phi_k) / pi0(Phi_k) for one mask (K, K)."""
        return self.by_choice(mask[None], np.zeros(self.rho.shape, dtype=np.int64))

    def fill(self, mask: Bools, k: int, out: Floats) -> None:
        """Fill out (n,) with w_k of one mask (K, K), which these ratios support."""
        if self.kind == "policy":
            out[:] = self.masked(mask)[:, k]
        else:
            at_position(self.rho.T, k, mask[k], len(mask), out)

    def by_choice(self, masks: Bools, choice: Ints) -> Floats:
        """Return w_k for masks (M, K, K) where row i and position k use model choice[i, k]."""
        for mask in masks:
            self.need(capability_of(mask))
        if self.kind == "policy":
            return self._subsets(masks, choice)
        if len(masks) == 1:
            return ordered(self.rho.T, masks[0], len(masks[0])).T
        models, chosen = np.ascontiguousarray(masks), np.ascontiguousarray(choice)
        return masked(self.rho.T, models, chosen).T

    def ordered(self, mask: Bools, order: int) -> Floats:
        """Return interaction-order weights inside a mask; positions must be independent ("factored")."""
        if self.batch.page_reward:
            raise PropensityError(_PAGE)
        return ordered(self.rho.T, mask, order).T

    def need(self, capability: str) -> None:
        """Raise unless these ratios can give `capability` probabilities."""
        if capability in self.supports:
            return
        if capability == "position" and self.batch.page_reward:
            raise PropensityError(_PAGE)
        if isinstance(self.target, BestOf):
            raise self.target.refusal(
                {"position": "single positions", "prefix": "prefixes"}.get(capability, capability)
            )
        remedy = {
            "position": "log the marginal probability of each shown item at its position (kind "
            "'position')",
            "prefix": "log the probability of each item given those above (kind 'prefix')",
            "subset": "give whole policies (such as PlackettLuce(scores)) or factored propensities",
            "joint": "log the probability of the whole ranking (kind 'joint')",
        }[capability]
        problem = PropensityError(
            f"this estimator needs '{capability}' probabilities, which '{self.kind}' propensities "
            f"({MEANING[self.kind]}) cannot give; {remedy}"
        )
        # A note is seen under a traceback, not on the command line, which has no such option.
        problem.add_note("or widen the mask to what the log supports: on_missing='superset'")
        raise problem

    @property
    def sampling_error(self) -> float:
        """Largest relative standard error of a weight computed so far, where policies had to be sampled."""
        return self._sampling[0] if self._sampling else 0.0

    def _subsets(self, masks: Bools, choice: Ints) -> Floats:
        length = self.rho.shape[1]
        # One question for all positions: single positions share a quadrature.
        relevant = (
            masks[0] if len(masks) == 1 else masks[choice, np.arange(length)]
        )  # (K, K) or (n, K, K)
        question = relevant.tobytes()
        if question not in self._answers:
            self._answers[question] = self._of_whole(question) or self._computed(relevant, question)
        weights, rel_var = self._answers[question]
        self._sampling[:] = [max(self.sampling_error, float(np.sqrt(rel_var.max(initial=0.0))))]
        return np.asfortranarray(weights)

    def _of_whole(self, question: bytes) -> tuple[Floats, Floats] | None:
        """Return weights and their squared errors of these rows, if all rows of the batch have them."""
        if self.within is None:
            return None
        batch_ratios, rows = self.within
        answer = batch_ratios._answers.get(question)
        return None if answer is None else (answer[0][rows], answer[1][rows])

    def _computed(self, masks: Bools, question: bytes) -> tuple[Floats, Floats]:
        logger, actions = self.batch.propensity, self.batch.action
        assert isinstance(logger, Policy) and isinstance(self.target, Policy)
        if question not in self.by_logger:
            logger.require("subset")
            self.by_logger[question] = logger.subset_log_prob(actions, masks)
        below = self.by_logger[question]
        log_w, rel_var = subset_log_ratio(logger, self.target, actions, masks, below=below)
        return np.asfortranarray(np.exp(log_w)), rel_var

    def part(
        self, batch: RankingLog, target: str, rows: Ints, by_logger: LoggerAnswers
    ) -> "Ratios":
        """Return the ratios of some `rows` of these, which are a batch of their own."""
        rho = np.asfortranarray(self.rho[rows])
        return Ratios(self.kind, rho, batch, batch.target(target), (self, rows), by_logger)


def ratios_of(
    batch: RankingLog,
    target: str,
    numbers: tuple[str, Floats, Floats] | None = None,
    by_logger: LoggerAnswers | None = None,
) -> Ratios:
    """Return the ratios of target policy `target` to the logging policy on the rows of a batch.

    `numbers` is what `common_numbers` gave, and `by_logger` the logger's answers, where they were asked
    before: a policy's probabilities may be costly.
    """
    kind, logging, target_numbers = common_numbers(batch, target) if numbers is None else numbers
    # A joint sits in the first column; the rest are ones, so the same product serves every kind.
    rho = quotients(
        np.ascontiguousarray(target_numbers), np.ascontiguousarray(logging), batch.lengths
    )
    answers = {} if by_logger is None else by_logger
    return Ratios(kind, rho.T, batch, batch.target(target), by_logger=answers)


_PAGE = (
    "this estimator weighs single items, but the log has one reward per ranking, which every item of it "
    "may have earned; use auto, ips, rips or pi"
)


def capability_of(mask: Bools) -> str:
    """Return the weakest kind of probability that serves every row of a mask (K, K).

    >>> capability_of(np.eye(2, dtype=bool)), capability_of(np.tri(2, dtype=bool))
    ('position', 'prefix')
    """
    counts = mask.sum(axis=1)
    if (counts == mask.shape[1]).all():
        return "joint"
    if (counts == 1).all():
        return "position"
    leading = np.arange(mask.shape[1]) < counts[:, None]
    return "prefix" if (mask == leading).all() else "subset"


def common_numbers(batch: RankingLog, name: str) -> tuple[str, Floats, Floats]:
    """Return the kind both policies have in common and the logger's and target's factors (n, K) of that kind."""
    logging, policy = batch.propensity, batch.target(name)
    if isinstance(policy, BestOf):
        # A weight against the logger, no probability: the logger's factors are ones.
        factors = np.ones(batch.action.shape)
        factors[:, 0] = policy.joint_weight(batch.action)
        return "joint", np.ones_like(factors), factors
    if isinstance(logging, Propensity):
        kind = logging.kind
    elif isinstance(policy, Propensity):
        kind = policy.kind
    else:
        kind = "factored" if logging.factored and policy.factored else "policy"
    if isinstance(policy, Propensity) and policy.kind != kind:
        raise PropensityError(
            f"the log's propensities are '{kind}' but those of '{name}' are '{policy.kind}'; both must "
            "be of one kind"
        )
    factors = numbers(logging, batch, kind)
    if isinstance(logging, Policy):
        # What it never shows cannot have been logged.
        refuse_impossible(batch, factors, kind)
    return kind, factors, numbers(policy, batch, kind)


def refuse_impossible(batch: RankingLog, factors: Floats, kind: str = "position") -> None:
    """Raise where the logger's chance (n, K) of what it has shown is zero."""
    used = np.arange(batch.K) < (1 if kind == "joint" else batch.lengths[:, None])
    never = (factors <= 0) & used
    if not never.any():
        return
    row, position = np.argwhere(never)[0]
    place = f"row {batch.numbers[row]}" + ("" if kind == "joint" else f", position {position + 1}")
    if batch.candidates is not None and (outside := batch.shown[row] == -2).any():
        item = batch.action[row, np.argmax(outside)]
        raise PropensityError(
            f"{place}: item {item} was shown but is not among the row's "
            f"{batch.candidates.counts[row]} candidates; "
            "list everything that could have been shown, or drop such rows (`check` counts them)"
        )
    told = f"{place}: the logging policy never shows what was logged ({batch.action[row].tolist()})"
    impossible = np.flatnonzero(never.any(axis=1))
    if isinstance(batch.propensity, Scored) and (ties := _tied(batch.propensity, impossible)):
        raise PropensityError(
            f"{told}, but candidates of equal score stand there: ties explain {ties:,} of "
            f"{len(impossible):,} such rows among {batch.n:,}. Equal scores rank in the order in "
            "which candidates are listed: list them as the logger breaks ties, add to its scores what "
            "decides between equals, or leave out the rows where ties decide: "
            f"{say('--drop-ties', python='drop_ties=True')}"
        )
    raise PropensityError(f"{told}; check that policy, scores and log belong together")


def _tied(logger: Scored, rows: Ints) -> int:
    """Return in how many of these rows two candidates have one score that can be shown."""
    offsets, count = logger.candidates.offsets, 0
    if logger.n_rows == 1:
        rows = rows[:1] * 0
    for row in rows:
        scores = logger.scores[offsets[row] : offsets[row + 1]]
        shown = scores[np.isfinite(scores)]
        count += len(np.unique(shown)) < len(shown)
    return count


def numbers(policy: Probabilities, batch: RankingLog, kind: str) -> Floats:
    """Return a policy's (n, K) factors of the given kind for the logged rankings."""
    if isinstance(policy, Propensity):
        return policy.by_position(batch.K)
    if kind == "factored" and not policy.factored:
        raise PropensityError(
            f"the log has 'factored' propensities but {type(policy).__name__} ranks without "
            "replacement; log 'prefix' "
            "or 'position' propensities, or give the logging policy itself"
        )
    if kind in ("factored", "position"):
        return np.exp(policy.position_log_prob(batch.action))
    cumulative = policy.prefix_log_prob(batch.action)  # (n, K)
    if kind == "joint":
        return Propensity("joint", np.exp(cumulative[:, -1])).by_position(batch.K)
    return conditionals(cumulative)


def conditionals(cumulative: Floats) -> Floats:
    """Return P(a_k | items above) (n, K) from cumulative log-probabilities; zero after an impossible item."""
    before = np.concatenate([np.zeros((len(cumulative), 1)), cumulative[:, :-1]], axis=1)
    with np.errstate(invalid="ignore"):
        return np.where(np.isneginf(before), 0.0, np.exp(cumulative - before))


#: Rows handled at a time where polynomials of ratios are built: a few degrees fit the same cache.
_ORDER_BLOCK = 512
#: Rows turned position-major at a time.
_TURNED = 4096


def quotients(target: Floats, logging: Floats, lengths: Ints) -> Floats:
    """Return rho_k = pi(a_k) / pi0(a_k) (K, n) of (n, K) inputs; one in the padding: products skip it."""
    n, length = target.shape
    out = np.empty((length, n))
    quotient = np.empty((min(_TURNED, n), length))
    # In parts that stay in the cache while they are turned.
    for first in range(0, n, _TURNED):
        rows = slice(first, min(first + _TURNED, n))
        block = quotient[: rows.stop - first]
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            np.divide(target[rows], logging[rows], out=block)
        # Position by position: a third faster than turning all at once.
        for k in range(length):
            out[k, rows] = block[:, k]
    if lengths.min(initial=length) < length:
        out[np.arange(length)[:, None] >= lengths] = 1.0
    return out


@jit
def masked(rho: Floats, masks: Bools, choice: Ints) -> Floats:
    """Return w_k (K, n) = prod over l with masks[choice[i, k], k, l] of rho_l; masks (M, K, K), choice (n, K)."""
    length, n = rho.shape
    out = np.empty((length, n))
    for k in range(length):
        for i in range(n):
            mask = masks[choice[i, k], k]
            product = 1.0
            for m in range(length):
                if mask[m]:
                    product *= rho[m, i]
            out[k, i] = product
    return out


@helper
def _raise_degree(rho: Floats, lower: Floats, upper: Floats) -> None:
    """Add (rho - 1) lower to upper; rows of one table are known to be apart only as arguments."""
    for i in range(rho.shape[0]):
        upper[i] += (rho[i] - 1.0) * lower[i]


def at_position(rho: Floats, k: int, relevant: Bools, order: int, out: Floats) -> None:
    """Fill out (n,) with w_k of the items relevant (K,), truncated at an interaction order.

    w_k(c, m) = rho_k * sum over T in Phi_k(c) without k, |T| <= m-1, of prod_{l in T} (rho_l - 1),
    by the recurrence of elementary symmetric polynomials, which their partial sums over |T| <= j obey
    as well, O(K m) a position. At full order the
    plain product is used: the alternating sum loses all digits to cancellation for long rankings.
    """
    fill_position(rho, k, relevant, order, np.empty((order, _ORDER_BLOCK)), out)


@jit
def fill_position(  # noqa: C901 - a kernel in one piece
    rho: Floats, k: int, relevant: Bools, order: int, poly: Floats, out: Floats
) -> None:
    """Do what `at_position` says; `poly` (order, _ORDER_BLOCK) is to work with."""
    length, n = rho.shape
    relevant_count = 0
    for m in range(length):
        relevant_count += relevant[m] and m != k
    plain = order > relevant_count
    for first in range(0, n, _ORDER_BLOCK):
        end = min(first + _ORDER_BLOCK, n)
        row = out[first:end]
        fill(row, 1.0)
        if plain:
            for m in range(length):
                if relevant[m]:
                    multiply(rho[m, first:end], row)
            continue
        for j in range(order):
            fill(poly[j], 1.0)
        for m in range(length):
            if relevant[m] and m != k:
                for j in range(order - 1, 0, -1):
                    _raise_degree(rho[m, first:end], poly[j - 1], poly[j])
        multiply(poly[order - 1], row)
        if relevant[k]:
            multiply(rho[k, first:end], row)


def ordered(rho: Floats, mask: Bools, order: int) -> Floats:
    """Return the weights (K, n) of one mask (K, K) for every ranking, as `at_position`."""
    out = np.empty_like(rho)
    for k, relevant in enumerate(np.ascontiguousarray(mask)):
        at_position(rho, k, relevant, order, out[k])
    return out


def excess_squares(logging: Floats, target: Floats) -> Floats:
    """Return v = E[rho^2 | x] - 1 = sum_b pi(b)^2 / pi0(b) - 1 of distributions (..., A), over the logger's support."""
    shown = logging > 0
    moment: Floats = np.where(shown, target**2 / np.where(shown, logging, 1.0), 0.0).sum(axis=-1)
    return moment - 1.0


def of_others(values: Floats) -> tuple[Floats, Floats]:
    """Return the elementary symmetric polynomials e_1 and e_2 of the other positions' values (n, K).

    They are made of the positions before and after: sums alone, so that no digit is lost by taking a
    large value out again.
    """
    above, below = _before(values), _before(values[:, ::-1])[:, ::-1]
    pairs = _before(values * above) + _before((values * below)[:, ::-1])[:, ::-1]
    return above + below, pairs + above * below


def _before(values: Floats) -> Floats:
    """Return the sums over the positions above each position (n, K)."""
    out = np.zeros_like(values)
    np.cumsum(values[:, :-1], axis=1, out=out[:, 1:])
    return out
