"""Plain-language warnings, each with a short stable name first."""

from counterrank.diagnostics import weights
from counterrank.moments import Moments

LOW_ESS = 100
HEAVY_TAIL = 0.7
LARGE_SHARE = 0.1
ONE_UNIT = "one-unit: a single ranking or unit shows no spread; there is no standard error"


def units(moments: Moments) -> int:
    """Return the number of independent parts: buckets of units when rows are clustered, else rows."""
    return moments.n if moments.buckets is None else int((moments.buckets[:, -1] > 0).sum())


def weight_flags(moments: Moments) -> tuple[str, ...]:
    """Return what a careful analyst would say about these weights."""
    found = []
    if units(moments) < 2:
        found.append(ONE_UNIT)
    elif (ess := weights.effective_rows(moments)) < LOW_ESS:
        found.append(f"low-ess: only {ess:.0f} of {moments.n} rows carry information; the interval may be too short")
    tail = weights.tail_index(moments)
    if tail > HEAVY_TAIL:
        found.append(f"heavy-tail: the weights' tail index is {tail:.2f} (above 0.7); rare rows can move the estimate")
    share = weights.largest_weight_share(moments)
    if share > LARGE_SHARE and moments.n > 1 / LARGE_SHARE:
        found.append(f"one-row: a single ranking carries {share:.0%} of the weight")
    test = weights.mean_weight_test(moments)
    if not test.passed:
        worst = int(abs(test.z).argmax())
        found.append(
            f"mean-weight: weights average {test.mean[worst]:.3g} instead of 1 at position {worst + 1} "
            f"(z = {test.z[worst]:.1f}); propensities or target probabilities may be wrong"
        )
    return tuple(found)
