"""What a policy is really worth in an environment, with the error of that statement."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from counterrank.errors import ConfigError
from counterrank.policies import Floats
from counterrank.simulate.conditional import closed_form, enumeration, has_closed_form, n_rankings
from counterrank.simulate.environment import Environment
from counterrank.simulate.policy import Which
from counterrank.simulate.worlds import World

#: Independent scramblings of the Sobol points: enough to judge their error, few enough to keep their rate.
REPLICATES = 8
_CHUNK = 1024


@dataclass(frozen=True, slots=True)
class Truth:
    """V = sum_k V_k of one policy.

    `stderr` is the standard error of `value`: over contexts only, unless `method` is "on-policy sample".
    """

    value: float
    by_position: Floats  # (K,)
    stderr: float
    by_position_stderr: Floats  # (K,)
    method: str

    def weighted(self, position_weights: Floats) -> float:
        """Return sum_k alpha_k V_k."""
        return float(self.by_position @ position_weights)


_known: dict[tuple[str, Which, float], Truth] = {}


def true_value(env: Environment | World, policy: Which = "target", *, relative_error: float = 5e-4) -> Truth:
    """Return V and V_k of the target (or logging) policy; computed once per environment and accuracy.

    Given the contexts, actions and behaviours are summed out exactly where a formula or a small space allows;
    contexts are integrated with randomised Sobol points, doubled until stderr <= relative_error |V| or 2^19
    points. Otherwise a sample of up to 4 million rankings drawn on policy, its expected rewards averaged.

    >>> from counterrank.simulate import published
    >>> truth = true_value(published())
    >>> round(truth.value, 2), truth.method
    (6.24, 'closed form')
    """
    if policy not in ("target", "logging"):
        raise ConfigError(f"policy is {policy!r}; choose 'target' or 'logging'")
    key = (env.fingerprint, policy, relative_error)
    if key not in _known:
        _known[key] = _compute(env, policy, relative_error)
    return _known[key]


def _compute(env: Environment | World, policy: Which, relative_error: float) -> Truth:
    if isinstance(env, World):
        return _on_policy(env, policy, relative_error, rows=max(2**10, min(2**16, 2**22 // env.C)))
    if has_closed_form(env):
        return _over_contexts(env, policy, relative_error, first=12, method="closed form")
    if n_rankings(env) * env.M <= 1000:
        return _over_contexts(env, policy, relative_error, first=9, method="enumeration")
    return _on_policy(env, policy, relative_error)


def _over_contexts(env: Environment, policy: Which, relative_error: float, *, first: int, method: str) -> Truth:
    value = closed_form if method == "closed form" else enumeration
    streams = [_sobol(env, 2**first, replicate) for replicate in range(REPLICATES)]
    sums = np.zeros((REPLICATES, env.K))
    done = 0
    for power in range(first, 17):
        # Only whole powers of two are balanced point sets, so each round doubles what is there.
        while done < 2**power:
            for replicate, stream in enumerate(streams):
                context, seen = next(stream)
                sums[replicate] += value(env, context, seen, policy).sum(axis=0)
            done += len(context)
        truth = _summary(sums / done, method)
        if truth.stderr <= relative_error * abs(truth.value):
            break
    return truth


def _sobol(env: Environment, size: int, replicate: int) -> Iterator[tuple[Floats, Floats]]:
    """Yield chunks of normal contexts and of the contexts that the base reward sees."""
    from scipy.special import ndtri
    from scipy.stats import qmc

    own = env.base_context == "own"
    points = qmc.Sobol(env.d if own else 2 * env.d, rng=np.random.default_rng([replicate, 71]))
    while True:
        # A coordinate can be exactly 0 in float arithmetic; half a cell up keeps its quantile finite.
        unit = np.maximum(points.random(min(_CHUNK, size)), 2.0**-33)
        normal: Floats = ndtri(unit)
        yield normal[:, : env.d], normal[:, : env.d] if own else normal[:, env.d :]


def _on_policy(env: Environment | World, policy: Which, relative_error: float, rows: int = 2**16) -> Truth:
    rng = np.random.default_rng([REPLICATES, 72])
    means: list[Floats] = []
    truth: Truth | None = None
    while truth is None or len(means) * rows < 2**22:
        means.append(env.draw(rows, rng, policy=policy).q.mean(axis=0))
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
