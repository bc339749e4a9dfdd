"""The linear predictor of every slot of many rankings, each asked of the fit of its fold, in one loop.

Nothing but the result is written down: a table of columns would be several times the rankings.
"""

from typing import NamedTuple

import numpy as np

from counterrank.common.arrays import Floats, Ints
from counterrank.kernels.jit import jit, vector_jit


class Pages(NamedTuple):
    """What the loop reads of rankings.

    Numbers of items (m, K), lengths (m,), rows of `x` and `context` (m,), standardised features
    (m, K, p) and extra numbers (m, K, e), 1 and the context in which items have slopes (n, 1 + d), and
    the context that multiplies features (n, C).
    """

    item: Ints
    lengths: Ints
    row: Ints
    features: Floats
    extra: Floats
    x: Floats
    context: Floats


class FitTable(NamedTuple):
    """Coefficients by fit, F + 1 of them.

    `items` (F + 1, I + 1, 1 + d), `context` (F + 1, C or 0) where items have no slopes, `features` and
    the same by place (F + 1, 2, p), products of features and context (F + 1, p or 0, C), the place
    (F + 1,), and extra numbers and the same by place (F + 1, 2, e).
    """

    items: Floats
    context: Floats
    features: Floats
    products: Floats
    place: Floats
    extra: Floats


class RivalTable(NamedTuple):
    """Coefficients of competition (F + 1, r), and mean and one over the spread of its columns (r,)."""

    coefficients: Floats
    mean: Floats
    scale: Floats


@vector_jit
def predict(pages: Pages, fits: FitTable, fold: Ints, place: Floats, out: Floats) -> None:
    """Write the predictor of each slot (m, K) without competition into out; the padding stays as it is."""
    m, K = pages.item.shape
    width, p, e = pages.x.shape[1], fits.features.shape[2], fits.extra.shape[2]
    feature_effects = np.zeros(p)
    for i in range(m):
        f, r = fold[i], pages.row[i]
        level = 0.0
        for j in range(fits.context.shape[1]):
            level += pages.context[r, j] * fits.context[f, j]
        for j in range(p):
            total = fits.features[f, 0, j]
            if fits.products.shape[1]:
                for c in range(pages.context.shape[1]):
                    total += fits.products[f, j, c] * pages.context[r, c]
            feature_effects[j] = total
        for k in range(pages.lengths[i]):
            a, distance = pages.item[i, k], place[k]
            total = level + distance * fits.place[f]
            for j in range(width):
                total += pages.x[r, j] * fits.items[f, a, j]
            for j in range(p):
                total += pages.features[i, k, j] * (
                    feature_effects[j] + distance * fits.features[f, 1, j]
                )
            for j in range(e):
                total += pages.extra[i, k, j] * (
                    fits.extra[f, 0, j] + distance * fits.extra[f, 1, j]
                )
            out[i, k] = total


@jit
def add_rivals(
    strength: Floats,
    alike: Floats,
    lengths: Ints,
    fits: RivalTable,
    fold: Ints,
    weight: Floats,
    limits: tuple[float, float, float],
    curved: bool,
    out: Floats,
) -> None:
    """Add what the other items of a page mean for each slot to out (m, K).

    The columns are those of `competition`: strengths summed above, of the item before, the largest
    above, summed below; the rest of the page, weighted by place, where strengths are chances (`curved`);
    likeness `alike` (m, K), if there is a coefficient for it. `limits` are the largest strength, the floor
    of the rest of the page, and the largest distance from zero of a standardised column.
    """
    max_chance, floor, max_column = limits
    count, last = fits.coefficients.shape[1], 5 if curved else 4
    columns = np.zeros(6)
    for i in range(len(lengths)):
        f, length = fold[i], lengths[i]
        below, odds = 0.0, 0.0
        for k in range(length):
            below += strength[i, k]
            chance = min(strength[i, k], max_chance)
            odds += chance / (1.0 - chance) * weight[k] if curved else 0.0
        above, before, largest = 0.0, 0.0, 0.0
        for k in range(length):
            current = strength[i, k]
            below -= current
            columns[0], columns[1], columns[2], columns[3] = above, before, largest, below
            if curved:
                chance = min(current, max_chance)
                columns[4] = np.log(floor + odds - chance / (1.0 - chance) * weight[k])
            if count > last:
                columns[last] = alike[i, k]
            for c in range(count):
                value = (columns[c] - fits.mean[c]) * fits.scale[c]
                out[i, k] += min(max(value, -max_column), max_column) * fits.coefficients[f, c]
            above, before, largest = above + current, current, max(largest, current)
