"""Kinds of users, as a reward model with classes found them: coinciding classes joined, each put
into words.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank import behavior as masks
from counterrank.report.numbers import known
from counterrank.report.reading import rows, whole_matrix

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

#: Classes whose numbers differ by less than this share of the scale coincide.
SAME = 0.15
#: Kinds rarer than this are "others": what so few users see is mostly noise.
RARE = 0.01
#: What counts less than this share of the scale everywhere is not seen at all.
NOTHING = 0.25
#: Share of pairs of positions on which what is seen must agree with a simple model to be called so.
ALIKE = 0.9
#: Larger numbers are damage.
_LARGEST = 1e9


@dataclass(frozen=True, slots=True)
class Kind:
    """Users who see the same: their share of the rankings, how far they see (K, K), 1 = average,
    and what, in words.
    """

    share: float
    sees: tuple[tuple[float, ...], ...]
    looks_at: str


@dataclass(frozen=True, slots=True)
class Kinds:
    """The kinds, most common first; the share of all others; the largest number, which a colour
    scale ends at.
    """

    found: tuple[Kind, ...]
    others: float
    scale: float


def kinds(regression: Mapping[str, Any]) -> Kinds | None:
    """Return the kinds of users of a model's details, or None where it has no classes or damaged
    ones.

    >>> everything, nothing = [[0, 2], [2, 0]], [[0, 0.01], [0, 0]]
    >>> classes = [{"share": s, "sees": m} for s, m in ((0.5, everything), (0.3, nothing), (0.2, everything))]
    >>> [(round(kind.share, 2), kind.looks_at) for kind in kinds({"behaviors": classes}).found]
    [(0.7, 'everything'), (0.3, 'the item itself only')]
    """
    classes = list(_classes(regression.get("behaviors")))
    if not classes or len({sees.shape for _, sees in classes}) > 1:
        return None
    # A class hardly anybody is of may hold any numbers: it has no say in the scale.
    common = [sees for share, sees in classes if share >= RARE]
    scale = float(max((np.abs(sees).max() for sees in common), default=0.0))
    if scale <= 0.0:
        return None
    joined = sorted(_joined(classes, scale), key=lambda one: -one[0])
    found = [
        Kind(share, tuple(tuple(row) for row in sees.tolist()), looks_at(sees, scale))
        for share, sees in joined
        if share >= RARE
    ]
    return Kinds(tuple(found), sum((share for share, _ in joined if share < RARE), 0.0), scale)


def _classes(given: Any) -> Iterator[tuple[float, Floats]]:
    """Yield share and matrix of every class that has both, whole."""
    for row in rows(given):
        share, sees = row.get("share"), whole_matrix(row.get("sees"))
        if not known(share) or not 0.0 <= share <= 1.0 or len(sees) < 2:
            continue
        if np.abs(sees).max() < _LARGEST:
            yield float(share), np.array(sees) * ~np.eye(len(sees), dtype=bool)


def _joined(classes: list[tuple[float, Floats]], scale: float) -> list[tuple[float, Floats]]:
    """Return classes with those that coincide made one: shares added, numbers averaged."""
    out: list[tuple[float, Floats]] = []
    for share, sees in sorted(classes, key=lambda one: -one[0]):
        same = next((j for j, (_, other) in enumerate(out) if _coincide(sees, other, scale)), None)
        if same is None:
            out.append((share, sees))
        else:
            total = out[same][0] + share
            mean = (
                (out[same][0] * out[same][1] + share * sees) / total
                if total > 0.0
                else out[same][1]
            )
            out[same] = (total, mean)
    return out


def _coincide(one: Floats, other: Floats, scale: float) -> bool:
    """Return whether all numbers are close, or the same items are seen and the numbers are close on
    average.

    A rare class's numbers are noisy: one of them may be far off where the others leave no doubt.
    """
    apart = np.abs(one - other) / scale
    return bool(
        apart.max() < SAME
        or (apart.mean() < SAME and (seen(one, scale) == seen(other, scale)).all())
    )


def seen(sees: Floats, scale: float) -> Bools:
    """Return which other items are seen from where (K, K): at least half as far as those seen best.

    >>> seen(np.array([[0.0, 1.4], [0.1, 0.0]]), 1.5).tolist()
    [[False, True], [False, False]]
    """
    off = ~np.eye(len(sees), dtype=bool)
    # The mean of K - 1 numbers, not the largest alone: one outlier must not hide all the others.
    best = float(np.sort(sees[off])[-(len(sees) - 1) :].mean())
    if best < NOTHING * scale:
        return np.zeros_like(off)
    return np.asarray((sees >= 0.5 * best) & off)


def looks_at(sees: Floats, scale: float) -> str:
    """Return what is seen, in words that follow "look at": the simple behaviour model that agrees
    best, or how much.

    >>> looks_at(np.tri(4, k=-1), 1.0), looks_at(np.eye(4, k=1) + np.eye(4, k=-1), 1.0)
    ('what stands above', 'direct neighbours')
    """
    length = len(sees)
    shown = seen(sees, scale)
    off = ~np.eye(length, dtype=bool)
    agreement = {words: float((shown == mask)[off].mean()) for words, mask in _simple(length)}
    best = max(agreement, key=lambda words: agreement[words])
    if agreement[best] >= ALIKE:
        return best
    words = {
        0.3: "few things here and there",
        0.6: "some things here and there",
        np.inf: "most things, with gaps",
    }
    return next(name for most, name in words.items() if shown[off].mean() < most)


def _simple(length: int) -> Iterator[tuple[str, Bools]]:
    """Yield simple behaviour models in words, the plainest first: of two that agree equally, it is
    named.
    """
    yield "everything", masks.standard(length)
    yield "the item itself only", masks.independent(length)
    yield "what stands above", masks.cascade(length)
    yield "what stands below", masks.inverse_cascade(length)
    yield "direct neighbours", masks.neighbors(length, 1)
    for h in range(1, length - 1):
        items = f"{h} items" if h > 1 else "1 item"
        yield f"what stands above and {items} below", masks.cascade(length, h)
        yield f"what stands below and {items} above", masks.cascade(length, h).T
        yield f"{items} just above", masks.window_above(length, h)
        yield f"{items} just below", masks.window_above(length, h).T
        yield f"the first {items}" if h > 1 else "the first item", masks.first_items(length, h)
        if h > 1:
            yield f"neighbours up to {h} away", masks.neighbors(length, h)
