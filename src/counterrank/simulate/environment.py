"""The parameters of a simulated world of rankings: contexts, behaviours, rewards and two policies."""

import hashlib
import math
from dataclasses import dataclass, field, fields
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from counterrank.errors import ConfigError
from counterrank.policies import Bools, Floats

if TYPE_CHECKING:
    from counterrank.simulate.draw import SimulatedLog

RewardModel = Literal["pairwise", "binary", "triple", "multiplicative"]
BaseContext = Literal["own", "other", "slip"]
LoggingKind = Literal["factored", "plackett-luce"]
Which = Literal["logging", "target"]

#: The name of the evaluated policy in every simulated log.
TARGET = "new"


@dataclass(frozen=True, slots=True)
class Linear:
    """One linear function of the context per action, f(x, a) = coef_a . x + bias_a.

    `coef` (A, d); `bias` (A,), or (K, A) when it also depends on the position.
    """

    coef: Floats
    bias: Floats

    def __call__(self, context: Floats) -> Floats:
        """Return f(x, a): (n, A), or (n, K, A) with a bias per position.

        >>> Linear(np.ones((2, 1)), np.array([0.0, 1.0]))(np.array([[2.0]]))
        array([[2., 3.]])
        """
        score: Floats = context @ self.coef.T
        return score + self.bias if self.bias.ndim == 1 else score[:, None, :] + self.bias


@dataclass(frozen=True, slots=True, eq=False)
class Environment:
    """Everything that defines the simulated world (Kiyohara et al., KDD 2023, section 4.1).

    x ~ N(0, I_d); behaviour z ~ softmax(lam_z |behavior_coef_z . x|) with relevance mask masks_z
    (K, K); q_k = base(x, a_k) + sum over l != k with masks_z[k, l] of interaction[a_k, a_l], plus
    `triple` or another link; logging policy: softmax of `logging`; target: epsilon-greedy on the
    least logging score, or softmax of `target`.

    `sigmoid_base`: base = 1 + sigmoid(linear) instead of the linear function itself.
    `base_context`: "own" row's context, an "other" independent one, or "slip": that of row i // K.
    `noise_shared`: one reward noise draw for all positions of a ranking.
    """

    name: str
    masks: Bools  # (M, K, K)
    behavior_names: tuple[str, ...]
    behavior_coef: Floats  # (M, d)
    lam: Floats  # (M,)
    base: Linear
    interaction: Floats  # (A, A)
    logging: Linear
    target: Linear | None = None
    triple: Floats | None = None  # (A, A, A), symmetric in the last two
    epsilon: float = 0.3
    sigma: float = 0.5
    noise_shared: bool = False
    sigmoid_base: bool = False
    base_context: BaseContext = "own"
    reward_model: RewardModel = "pairwise"
    logging_kind: LoggingKind = "factored"
    fingerprint: str = field(init=False, default="")

    def __post_init__(self) -> None:
        """Check that shapes and options belong together."""
        _check_options(self)
        _check_shapes(self)
        object.__setattr__(self, "fingerprint", _fingerprint(self))

    @property
    def K(self) -> int:  # noqa: N802
        """Positions in a ranking."""
        return int(self.masks.shape[1])

    @property
    def A(self) -> int:  # noqa: N802
        """Actions to choose from at each position."""
        return int(self.interaction.shape[0])

    @property
    def d(self) -> int:
        """Context features."""
        return int(self.base.coef.shape[1])

    @property
    def M(self) -> int:  # noqa: N802
        """Behaviours."""
        return int(self.masks.shape[0])

    @property
    def factored(self) -> bool:
        """Whether positions are drawn independently given the context."""
        return self.logging_kind == "factored"

    @property
    def propensity_kind(self) -> str:
        """What the numbers of a written log are: one a position, or given the items above."""
        return "factored" if self.factored else "prefix"

    def draw(
        self, n: int, rng: np.random.Generator, *, policy: Which = "logging"
    ) -> "SimulatedLog":
        """Return n rankings shown by the logging policy, or by the target."""
        from counterrank.simulate.draw import draw

        return draw(self, n, rng, policy=policy)

    def draw_on_policy(self, n: int, rng: np.random.Generator) -> "SimulatedLog":
        """Return n rankings shown by the target policy."""
        from counterrank.simulate.draw import draw

        return draw(self, n, rng, policy="target")


def _check_options(env: Environment) -> None:
    for name, value, allowed in (
        ("reward_model", env.reward_model, get_args(RewardModel)),
        ("base_context", env.base_context, get_args(BaseContext)),
        ("logging_kind", env.logging_kind, get_args(LoggingKind)),
    ):
        if value not in allowed:
            raise ConfigError(f"{name} is {value!r}; choose one of {', '.join(allowed)}")
    between("epsilon", env.epsilon, 0.0, 1.0, meaning="a probability, between 0 and 1")
    between("sigma", env.sigma, 0.0, meaning="a noise level, 0 or more")
    if env.reward_model == "triple" and env.triple is None:
        raise ConfigError(
            "reward_model 'triple' needs the three-way effects: pass triple=(A, A, A)"
        )
    if not env.factored and env.A < env.K:
        raise ConfigError(
            f"Plackett-Luce draws without replacement: {env.A} actions cannot fill {env.K} "
            "positions; use at least as many actions as positions"
        )
    if not env.factored and env.target is None:
        raise ConfigError(
            "Plackett-Luce logging needs a target that also draws without replacement: pass "
            "target=Linear"
        )


def _check_shapes(env: Environment) -> None:
    if env.masks.ndim != 3 or env.masks.shape[1] != env.masks.shape[2]:
        raise ConfigError(f"masks have shape {env.masks.shape}; they are (behaviours, K, K)")
    expected: list[tuple[str, tuple[int, ...], tuple[int, ...]]] = [
        ("behavior_names", (len(env.behavior_names),), (env.M,)),
        ("behavior_coef", env.behavior_coef.shape, (env.M, env.d)),
        ("lam", env.lam.shape, (env.M,)),
        ("base.coef", env.base.coef.shape, (env.A, env.d)),
        ("base.bias", env.base.bias.shape, (env.A,)),
        ("interaction", env.interaction.shape, (env.A, env.A)),
    ]
    if env.triple is not None:
        expected.append(("triple", env.triple.shape, (env.A, env.A, env.A)))
    for name, policy in (("logging", env.logging), ("target", env.target)):
        if policy is not None:
            positional = env.factored and policy.bias.ndim == 2
            expected.append((f"{name}.coef", policy.coef.shape, (env.A, env.d)))
            expected.append(
                (
                    f"{name}.bias",
                    policy.bias.shape,
                    (env.K, env.A) if positional else (env.A,),
                )
            )
    for name, seen, wanted in expected:
        if seen != wanted:
            raise ConfigError(f"{name} has shape {seen}, but the other parameters ask for {wanted}")


def _fingerprint(env: Environment) -> str:
    digest = hashlib.sha256()
    for item in fields(env):
        if item.name in ("name", "fingerprint"):
            continue
        value = getattr(env, item.name)
        for part in (value.coef, value.bias) if isinstance(value, Linear) else (value,):
            if isinstance(part, np.ndarray):
                digest.update(repr(part.shape).encode() + np.ascontiguousarray(part).tobytes())
            else:
                digest.update(repr(part).encode())
            digest.update(b"|")
    return digest.hexdigest()[:16]


def between(name: str, value: Any, low: float, high: float = math.inf, *, meaning: str) -> float:
    """Return a finite number within [low, high]; `meaning` says in the error what it is.

    >>> between("epsilon", 0.3, 0, 1, meaning="a probability, between 0 and 1")
    0.3
    """
    if not isinstance(value, Real) or not math.isfinite(value) or not low <= float(value) <= high:
        raise ConfigError(f"{name} is {value!r}; it is {meaning}")
    return float(value)


def whole(name: str, value: Any, least: int) -> int:
    """Return a whole number that is `least` or more.

    >>> whole("seed", 7, 0)
    7
    """
    if not isinstance(value, Integral) or value < least:
        raise ConfigError(f"{name} is {value!r}; it is a whole number, {least} or more")
    return int(value)
