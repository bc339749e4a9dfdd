"""The six behaviours of the paper's experiments, and how often each occurs."""

import numpy as np

from counterrank import behavior as models
from counterrank.errors import ConfigError
from counterrank.policies import Bools, Floats
from counterrank.simulate.bounds import between

#: lambda_z = exp((2 delta - 1) gamma_z), from the most to the least complex behaviour (section 4.1).
GAMMA = (1.5, 0.9, 0.3, -0.3, -0.9, -1.5)


def behavior_weight(delta: float | None, lam: float | None) -> Floats:
    """Return lambda_z of the six behaviours: exp((2 delta - 1) gamma_z), or the constant `lam` for all.

    >>> behavior_weight(0.6, None).round(3).tolist()
    [1.35, 1.197, 1.062, 0.942, 0.835, 0.741]
    """
    if lam is not None:
        return np.full(len(GAMMA), between("lam", lam, 0.0, 1e6, meaning="a sharpness, between 0 and a million"))
    if delta is None:
        raise ConfigError("neither delta nor lam is given; pass one of them, for instance delta=0.6")
    share = between("delta", delta, 0.0, 1.0, meaning="a complexity, between 0 (simple) and 1 (complex)")
    weight: Floats = np.exp((2 * share - 1) * np.array(GAMMA))
    return weight


def scattered(K: int, h: int, rng: np.random.Generator, *, replace: bool) -> Bools:
    """Return k itself and h random others; drawn with replacement, some coincide and fewer remain."""
    if not replace:
        return models.random(K, h, rng)
    mask = np.eye(K, dtype=bool)
    for k in range(K if K > 1 else 0):
        mask[k, rng.choice(np.delete(np.arange(K), k), size=h)] = True
    return mask


def six(K: int, rng: np.random.Generator, *, as_published: bool) -> tuple[tuple[str, ...], Bools]:
    """Return names and masks (6, K, K): S R6 R3 C2 C1 I1 of the text, or the code's C3 C2 in their place."""
    far = 3 if as_published else 2
    masks = (
        models.standard(K),
        scattered(K, 6, rng, replace=as_published),
        scattered(K, 3, rng, replace=as_published),
        models.cascade(K, far),
        models.cascade(K, far - 1),
        models.neighbors(K, 1),
    )
    return ("S", "R6", "R3", f"C{far}", f"C{far - 1}", "I1"), np.stack(masks)
