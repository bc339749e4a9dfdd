"""The value of a policy from effects of single items and of pairs: steady where products are not."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterrank.behavior.settings import COMMON_EVIDENCE
from counterrank.weights.ratios import Ratios

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class PairEstimate:
    """V_k = m_k + mean of b_k (r_k - m_k), plus the effects e_kl of the other items l on reward k.

    e_kl = mean of b_k (r_k - m_k) (rho_l - 1). b_k is the weight of the item itself, rho_k; where
    positions depend on those above, that of the items down to k, and then only items below have an
    effect of their own. rho_l - 1 has mean zero, and e_kl too unless item l matters at k; so a
    constant taken off the reward, `centre` m (K,), changes nothing but the noise.

    Each effect counts as trust_kl e_kl + (1 - trust_kl) e: the log's own word for it, and the
    average effect for the rest. `trust` (K, K) is between zero and one; `common` (K, K) are the
    weights of the average; `possible` (K, K) tells which items have an effect where. With a trust
    of one everywhere, V_k is the estimate of interaction order 2.
    """

    centre: Floats
    trust: Floats
    common: Floats
    possible: NDArray[np.bool_]

    def contributions(self, ratios: Ratios) -> Floats:
        """Return what each row adds at each position (n, K)."""
        rest = ratios.rho - 1.0
        centred = base_weights(ratios) * (ratios.batch.reward - self.centre)
        average = np.einsum("nk,nk->n", centred @ self.common, rest)
        doubted = np.where(self.possible, 1.0 - self.trust, 0.0).sum(axis=1)
        out: Floats = centred * (1.0 + rest @ self.trust.T) + self.centre
        out += np.outer(average, doubted)
        return out


def base_weights(ratios: Ratios) -> Floats:
    """Return b (n, K): the ratio at each position, or the product down to it."""
    if ratios.kind in ("factored", "position"):
        return ratios.rho
    down: Floats = np.cumprod(ratios.rho, axis=1, dtype=np.float64)
    return down


def fit_pairs(ratios: Ratios) -> PairEstimate:
    """Return the estimate whose centres and trust suit these rows.

    Effects are taken as draws around their average with one variance tau^2, that by which they
    differ more than their errors s explain; an effect deserves a trust of tau^2 / (tau^2 + s^2).
    The average is drawn towards zero, all the way unless it is many errors away: with heavy weights
    few rows make all effects alike.
    """
    base, reward, n = base_weights(ratios), ratios.batch.reward, max(ratios.batch.n, 1)
    weight = base.sum(axis=0)
    centre = np.divide(
        np.einsum("nk,nk->k", base, reward), weight, out=np.zeros(len(weight)), where=weight > 0
    )
    centred, rest, possible = base * (reward - centre), ratios.rho - 1.0, _possible(ratios)
    # Effects beyond all numbers are not known, and get no trust.
    with np.errstate(over="ignore", invalid="ignore"):
        effect = centred.T @ rest / n
        error = np.maximum((centred**2).T @ rest**2 / n - effect**2, 0.0) / n
    trust, common = np.zeros_like(effect), np.zeros_like(effect)
    known = possible & (error > 0) & np.isfinite(error)
    if known.any():
        found, noise = effect[known], error[known]
        precise = noise.min() / noise
        mean = float(precise @ found / precise.sum())
        tau = max(float(precise**2 @ ((found - mean) ** 2 - noise)) / float(precise @ precise), 0.0)
        trust[known] = tau / (tau + noise)
        doubt = COMMON_EVIDENCE.value * float(noise.min() / precise.sum())
        share = max(1.0 - doubt / mean**2, 0.0) if mean else 0.0
        common[known] = share * precise / precise.sum()
    return PairEstimate(centre, trust, common, possible)


def _possible(ratios: Ratios) -> NDArray[np.bool_]:
    """Return which items may have an effect on which reward (K, K)."""
    length = ratios.rho.shape[1]
    if ratios.kind == "factored":
        return ~np.eye(length, dtype=bool)
    below = np.tri(length, k=-1, dtype=bool).T
    return below if ratios.kind in ("prefix", "policy") else np.zeros_like(below)
