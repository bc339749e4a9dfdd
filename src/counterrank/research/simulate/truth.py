"""What a policy is really worth in an environment, with the error of that statement."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from counterrank.common.arrays import Floats
from counterrank.common.errors import ConfigError
from counterrank.research.simulate.environment import (
    Environment,
    Which,
    base_reward,
    behavior_probability,
    distribution,
    expected_reward,
)
from counterrank.research.simulate.worlds import World

#: Independent scramblings of the Sobol points: enough to judge their error, few enough to keep
#: their rate.
REPLICATES = 8
_CHUNK = 1024


@dataclass(frozen=True, slots=True)
class Truth:
    """V = sum_k V_k of one policy.

    `stderr` is the standard error of `value`: over contexts only, unless `method` is "on-policy
    sample".
    """

    value: float
    by_position: Floats  # (K,)
    stderr: float
    by_position_stderr: Floats  # (K,)
    method: str


_computed: dict[tuple[str, Which, float], Truth] = {}


def true_value(
    env: Environment | World, policy: Which = "target", *, relative_error: float = 5e-4
) -> Truth:
    """Return V and V_k of the target (or logging) policy; computed once per environment and accuracy.

    Given the contexts, actions and behaviours are summed out exactly where a formula or a small
    space allows; contexts are integrated with randomised Sobol points, doubled until stderr <=
    relative_error |V| or 2^19 points. Otherwise a sample of up to 4 million rankings drawn on
    policy, its expected rewards averaged.

    >>> from counterrank.research.simulate import published
    >>> truth = true_value(published())
    >>> round(truth.value, 2), truth.method
    (6.24, 'closed form')
    """
    if policy not in ("target", "logging"):
        raise ConfigError(f"policy is {policy!r}; choose 'target' or 'logging'")
    key = (env.fingerprint, policy, relative_error)
    if key in _computed:
        return _computed[key]
    if isinstance(env, World):
        rows = max(2**10, min(2**16, 2**22 // env.C))
        truth = _on_policy(env, policy, relative_error, rows)
    elif env.reward_model != "binary":
        truth = _over_contexts(env, policy, relative_error, closed_form, first=12)
    # Every ranking and behaviour at each of 8 x 2^9 contexts and more: above a thousand a sample is
    # cheaper.
    elif env.A**env.K * env.M <= 1000:
        truth = _over_contexts(env, policy, relative_error, enumeration, first=9)
    else:
        truth = _on_policy(env, policy, relative_error, 2**16)
    _computed[key] = truth
    return truth


def _over_contexts(
    env: Environment,
    policy: Which,
    relative_error: float,
    value: Callable[[Environment, Floats, Floats, Floats], Floats],
    *,
    first: int,
) -> Truth:
    method = "closed form" if value is closed_form else "enumeration"
    streams = [_sobol(env, 2**first, replicate) for replicate in range(REPLICATES)]
    sums = np.zeros((REPLICATES, env.K))
    done = 0
    for power in range(first, 17):
        # Only whole powers of two are balanced point sets, so each round doubles what is there.
        while done < 2**power:
            for replicate, stream in enumerate(streams):
                context, reward_context = next(stream)
                dist, base = distribution(env, context, policy), base_reward(env, reward_context)
                chance = behavior_probability(env, context)
                sums[replicate] += value(env, dist, base, chance).sum(axis=0)
            done += len(context)
        truth = _summary(sums / done, method)
        if truth.stderr <= relative_error * abs(truth.value):
            break
    return truth


def _sobol(env: Environment, size: int, replicate: int) -> Iterator[tuple[Floats, Floats]]:
    """Yield chunks of normal contexts and of the contexts that the base reward sees."""
    from scipy.special import ndtri
    from scipy.stats import qmc

    width = 2 * env.d if env.as_published else env.d
    points = qmc.Sobol(width, rng=np.random.default_rng([replicate, 71]))
    while True:
        # A coordinate can be exactly 0 in float arithmetic; half a cell up keeps its quantile
        # finite.
        # Scrambled Sobol points integrate smooth functions at nearly 1/n; independent scramblings
        # measure the error, which one point set cannot.
        unit = np.maximum(points.random(min(_CHUNK, size)), 2.0**-33)
        normal: Floats = ndtri(unit)
        yield normal[:, : env.d], normal[:, -env.d :]


def _on_policy(env: Environment | World, policy: Which, relative_error: float, rows: int) -> Truth:
    rng = np.random.default_rng([REPLICATES, 72])
    means: list[Floats] = []
    truth: Truth | None = None
    while truth is None or len(means) * rows < 2**22:
        means.append(env.draw(rows, rng, policy=policy).q.mean(axis=0))
        # Looked at eight at a time: the error of a spread of two or three means would stop it too
        # soon.
        if len(means) % 8 == 0:
            truth = _summary(np.array(means), "on-policy sample")
            if truth.stderr <= relative_error * abs(truth.value):
                break
    return truth


def _summary(means: Floats, method: str) -> Truth:
    """Return the mean over independent replicates (R, K) and its standard error."""
    root = np.sqrt(len(means))
    by_position: Floats = means.mean(axis=0)
    return Truth(
        value=float(by_position.sum()),
        by_position=by_position,
        stderr=float(means.sum(axis=1).std(ddof=1) / root),
        by_position_stderr=means.std(axis=0, ddof=1) / root,
        method=method,
    )


def closed_form(env: Environment, dist: Floats, base: Floats, chance: Floats) -> Floats:
    """Return E_pi[r_k | x] for any reward model but the logit: (n, K).

    pairwise        p.base + sum_l E[c_kl | x] p' W p
    triple          the same + sum_{l<m} E[c_kl c_km | x] T(p, p, p)
    multiplicative  sum_z p(z | x) sum_u p(u) base(u) prod_{l in c_z(k)} sum_b p(b) exp W(u, b)

    From the policy's distributions, base rewards (n, A) and p(c | x) (n, M).
    """
    off = (env.masks & ~np.eye(env.K, dtype=bool)).astype(np.float64)  # (M, K, K)
    n_relevant = off.sum(axis=2)  # (M, K)
    if env.reward_model == "multiplicative":
        # Positions are alike: a product over those that a behaviour looks at is a power.
        factor = dist @ np.exp(env.interaction).T  # (n, A)
        power = factor[:, :, None, None] ** n_relevant  # (n, A, M, K)
        out: Floats = np.einsum("iu,im,iumk->ik", dist * base, chance, power, optimize=True)
        return out
    pair = np.einsum("iu,uv,iv->i", dist, env.interaction, dist, optimize=True)
    out = (dist * base).sum(axis=1)[:, None] + (chance @ n_relevant) * pair[:, None]
    if env.reward_model == "triple" and env.triple is not None:
        mean = np.einsum("iu,iv,iw,uvw->i", dist, dist, dist, env.triple, optimize=True)
        # Pairs l < m of other items that both matter.
        out += (chance @ (n_relevant * (n_relevant - 1) / 2)) * mean[:, None]
    return out


def enumeration(env: Environment, dist: Floats, base: Floats, chance: Floats) -> Floats:
    """Return E_pi[r_k | x] summed over every ranking and behaviour: (n, K). For small spaces."""
    n = len(dist)
    out = np.zeros((n, env.K))
    for ranking in np.ndindex((env.A,) * env.K):
        action = np.tile(ranking, (n, 1))
        probability = dist[:, list(ranking)].prod(axis=1)
        for z in range(env.M):
            q = expected_reward(env, action, np.full(n, z, dtype=np.int64), base)
            out += (probability * chance[:, z])[:, None] * q
    return out
