"""The members of `auto`: the average of the models, corrected by weights that rely more and more on the data.

The first member is "models": the logged reward plus the change that the models expect of the target,
which is the models' mean corrected by weights of one. The others have the name of the estimator whose
weights they use: "iips", "order-2", "order-3", "rips", "ips". Where there are models, own-position weights
are cut at a limit, and the models stand for the part that is cut off.

Long logs are read in two phases: cheap members on all rows, costly models on a random part of them. A
member of a row is its cheap version a_i (with the mean reward of a position as the model) plus the
change e_i that the models make. Rows are drawn independently with probability p, I_i = 1 for a drawn
row. Then

    mean of a_i + (I_i / p) e_i

has the mean of a_i + e_i for any a (the difference estimator: Cochran 1977, ch. 12; Saerndal, Swensson &
Wretman 1992, ch. 9). Its spread over all rows contains both phases: Var(a + e) / n + (1/p - 1) E[e^2] / n.
The controls (I_i / p - 1) (1, y_i) have mean zero. They remove the chance variation in the number of drawn
rows and their rewards y, which leaves (1/p - 1) Var(e | y) / n for the second term.
"""

from functools import reduce

import numpy as np

from counterrank.arrays import Bools, Floats, Ints
from counterrank.data.log import LOGGING, RankingLog
from counterrank.estimators.base import View
from counterrank.estimators.weights.kernels import weights as kernels
from counterrank.estimators.weights.ratios import Ratios
from counterrank.models import whole_distribution
from counterrank.policies import Policy

#: Interaction orders between the own item and the whole ranking. Higher orders are too noisy at the
#: usual sizes of logs.
ORDERS = (2, 3)
#: The member that rests on the models alone, and the same with the aimed step (`aim`).
MODELS, AIMED = "models", "aimed"
#: Longer rankings have no orders: products of so many ratios are zero or overflow.
LONGEST = 1024


def members_of(ratios: Ratios, *, modelled: bool) -> tuple[str, ...]:
    """Return the members that these ratios support, from the models to the weights of whole rankings."""
    K = ratios.rho.shape[1]
    found = ["iips"] if "position" in ratios.supports else []
    if ratios.batch.page_reward:
        pass  # The reward is that of the page, so no member lies between no item and all items.
    elif ratios.kind == "factored" and K <= LONGEST:
        # Orders need independent positions. Other logs have prefixes between own item and whole ranking.
        found += [f"order-{m}" for m in ORDERS if m < K]
    elif "prefix" in ratios.supports and K > 1 and not (modelled and found):
        # Not beside models: prefixes have a bias of their own, as people do not only read downwards.
        found.append("rips")
    if "joint" in ratios.supports and (K > 1 or "iips" not in found):
        found.append("ips")
    return tuple([MODELS, *found] if modelled and found else found)


def weights_of(view: View, members: tuple[str, ...], limit: float) -> dict[str, Floats]:
    """Return each member's weights (n, K), those of own positions cut at `limit`."""
    ratios, out = view.ratios, {}
    whole, orders = np.ones((view.batch.K, view.batch.K), bool), {f"order-{m}": m for m in ORDERS}
    for name in members:
        if name == MODELS:
            out[name] = np.ones(view.batch.action.shape)
        elif name == "iips":
            out[name] = np.minimum(ratios.position(), limit)
        elif name == "rips":
            out[name] = ratios.prefix()
        elif name == "ips":
            out[name] = ratios.full()
        else:
            out[name] = ratios.ordered(whole, orders[name])
    return out


def covered(weights: Floats | None, ratios: Ratios, limit: float) -> Floats:
    """Return sums and numbers of cut weights (2, 2): of single items, and of three neighbours.

    Whole weights have a mean of one; what is missing of it is the share of the target that the log
    does not reach. Neighbours stand for all threes of a page, and only independent positions have
    weights of them.
    """
    shown, out = ratios.batch.action >= 0, np.zeros((2, 2))
    if weights is not None:
        out[0] = (weights * shown).sum(), shown.sum()
    if ratios.kind == "factored":
        K = ratios.rho.shape[1]
        width = min(K, 3)
        near = [slice(j, K - width + 1 + j) for j in range(width)]
        # Padding stands at the end, so that threes of shown items end with a shown item.
        within = shown[:, near[-1]]
        product = reduce(np.multiply, [ratios.rho[:, at] for at in near])
        out[1] = (np.minimum(product, limit) * within).sum(), within.sum()
    return out


def tails_of(view: View, members: tuple[str, ...], draws: Ints | None) -> tuple[Floats, int]:
    """Return sums over rows, by member (2, J), and the number of rows; none where the policies do not say.

    They are the expected squares of weights, and the target's mass without support. Since
    E_0[w^2] = E_pi[w], the effect of heavy weights on a variance follows from the policies, whether or not
    such weights occurred: exactly from whole distributions, else from draws of the target.
    """
    batch = view.batch
    if batch.n:
        logging, wanted = (whole_distribution(batch, name) for name in (LOGGING, view.target))
        # Ratios come last in this condition, because they may cost more than all the rest.
        if logging is not None and wanted is not None and view.ratios.kind == "factored":
            return _exact(batch, members, logging, wanted), batch.n
        if draws is not None and isinstance(batch.propensity, Policy):
            return _drawn(view, members, draws), batch.n
    return np.zeros((2, len(members))), 0


def squares_of(members: tuple[str, ...], excess: Floats, shown: Bools) -> Floats:
    """Return the members' sums of E[w_k^2 | x] over rows and shown positions (J,), zero where it is not known.

    With v_k = E[rho_k^2 | x] - 1 (n, K), the `excess` of independent positions, it is
    (1 + v_k) sum_{j<m} e_j(v without k) for order m, because the terms of the expansion are
    uncorrelated, and prod_l (1 + v_l) for whole rankings. A log rarely shows the tails of products of
    many ratios, but it does show those of single ratios.
    """
    v = np.where(shown, excess, 0.0)
    one, two = kernels.of_others(v)
    with np.errstate(over="ignore"):
        known = {
            "order-2": (1.0 + v) * (1.0 + one),
            "order-3": (1.0 + v) * (1.0 + one + two),
            "ips": (1.0 + v).prod(axis=1, keepdims=True),
        }
        sums = {name: float(np.where(shown, each, 0.0).sum()) for name, each in known.items()}
    return np.array([sums.get(name, 0.0) for name in members])


def _exact(batch: RankingLog, members: tuple[str, ...], logging: Floats, wanted: Floats) -> Floats:
    square = squares_of(members, kernels.excess_squares(logging, wanted), batch.action >= 0)
    # Target mass on items that the logger never shows there: no member's weights reach it.
    missing = float(np.where(logging > 0, 0.0, wanted).sum(axis=2).mean(axis=1).sum())
    return np.stack([square, np.full(len(members), missing)])


def _drawn(view: View, members: tuple[str, ...], draws: Ints) -> Floats:
    """Return the same from rankings of the target (n, S, K), since E_0[w^2] = E_pi[w]."""
    batch, policy = view.batch, view.batch.target(view.target)
    assert isinstance(policy, Policy) and isinstance(batch.propensity, Policy)
    n, S, K = draws.shape
    # Draw by draw, so that the rows of a policy with many items are not copied.
    flat = draws.transpose(1, 0, 2).reshape(S * n, K)
    above, below = (
        own.prefix_log_probs(draws).swapaxes(0, 1).reshape(S * n, K)
        for own in (policy, batch.propensity)
    )
    shown = flat >= 0
    last = np.maximum(shown.sum(axis=1) - 1, 0)
    supported = np.isfinite(below)
    with np.errstate(over="ignore"):
        prefix = np.where(
            shown & supported,
            np.exp(np.minimum(above - np.where(supported, below, 0.0), 700.0)),
            0.0,
        )
    # The weight of a whole ranking counts once for each position, as in the sums of other members.
    whole = prefix[np.arange(n * S), last] * shown.sum(axis=1)
    missing = ~supported[np.arange(n * S), last]
    sums = {"rips": prefix.sum(), "ips": whole.sum()}
    found = [(sums[name], missing.sum()) if name in sums else (0.0, 0.0) for name in members]
    return np.asarray(np.array(found).T / S)


def add_second_phase(
    columns: Floats, totals: Floats, exact: tuple[Floats, Floats], rows: Ints, rate: float
) -> None:
    """Add the change that the models make on `rows`, divided by their rate, to cheap members of all rows.

    Columns (K, 1 + J, n) and totals (1 + J + M, n) are those with a mean as the model, `exact` those of the
    rows and of the members that models correct. Other members stay cheap: models would reduce their
    variance by a few percent, but reading a part of the rows only would multiply it.
    """
    J, kept = columns.shape[1] - 1, exact[0].shape[1]
    columns[:, :kept, rows] += (exact[0] - columns[:, :kept, rows]) / rate
    at = np.ix_([*range(kept), *range(1 + J, len(totals))], rows)
    totals[at] += (exact[1] - totals[at]) / rate


def calibration(earned: Floats, rows: Ints, rate: float) -> Floats:
    """Return the controls (I / p - 1) and (I / p - 1) y (2, n), y the logged reward of a row."""
    excess = np.full(len(earned), -1.0)
    excess[rows] += 1.0 / rate
    return np.stack([excess, excess * earned])
