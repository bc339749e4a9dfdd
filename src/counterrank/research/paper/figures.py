"""The figures and tables of the paper: which parameter varies, over which values, for which estimators.

One table, read by the command line for its names: nothing heavy is loaded here. Figures 1 and 8 and
table 1 hold no results: a drawing of the tree, one of a web page, and the names of the estimators.
"""

from dataclasses import dataclass
from typing import Literal, TypedDict

#: The six of the main figures, in the paper's order, then ours.
ESTIMATORS = ("ips", "iips", "rips", "aips (true)", "aips (oracle)", "aips", "auto")

#: On request only: the oracle of published runs whose logs were read back from disk.
ON_REQUEST = ("aips (oracle, cached)",)

#: What a figure may vary.
Parameter = Literal["n", "K", "delta", "sigma", "epsilon", "lam"]


class WorldOptions(TypedDict, total=False):
    """Options of a simulated world."""

    K: int
    delta: float
    sigma: float
    epsilon: float
    lam: float


@dataclass(frozen=True, slots=True)
class Setting:
    """The parameters of one point: rankings, the world's options, and the oracle's error `noise`.

    `lam` None is the world's own.
    """

    n: int = 8000
    K: int = 8
    delta: float = 0.6
    sigma: float = 0.5
    epsilon: float = 0.3
    lam: float | None = None
    noise: float = 0.3

    @property
    def world(self) -> WorldOptions:
        """The options of the world."""
        found = WorldOptions(K=self.K, delta=self.delta, sigma=self.sigma, epsilon=self.epsilon)
        if self.lam is not None:
            found["lam"] = self.lam
        return found


Algorithm = Literal["text", "code"]
Kind = Literal["accuracy", "distribution", "runtime", "toy", "real-world"]


@dataclass(frozen=True, slots=True)
class Experiment:
    """A figure: `parameter` takes `values`, everything else stands at its default.

    `about` says what it shows and where it stands in the paper (Kiyohara et al. 2023); `kind` how
    it is made: MSE over seeds ("accuracy"), or one of the others.
    """

    name: str
    about: str
    parameter: Parameter | None = None
    values: tuple[float, ...] = (0.0,)
    kind: Kind = "accuracy"
    estimators: tuple[str, ...] = ESTIMATORS
    #: real-world: log A, log B and the target, or one file of real pages; none: a simulated pair.
    logs: tuple[str, ...] = ()
    #: What is drawn: the end of a picture's name, and the estimators in it; none: one picture of all.
    pictures: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def label(self) -> str:
        """What varies, in words."""
        return "" if self.parameter is None else _LABELS[self.parameter]

    @property
    def log_x(self) -> bool:
        """Whether the axis doubles from tick to tick."""
        return self.parameter == "n"

    def setting(self, value: float) -> Setting:
        """Return all parameters at one value of the varied one."""
        match self.parameter:
            case None:
                return Setting()
            case "n":
                return Setting(n=int(value))
            case "K":
                return Setting(K=int(value))
            case "delta":
                return Setting(delta=value)
            case "sigma":
                return Setting(sigma=value)
            case "epsilon":
                return Setting(epsilon=value)
            case "lam":
                return Setting(lam=value)


@dataclass(frozen=True, slots=True)
class OracleForm:
    """How an AIPS with the oracle grows its trees, and its name in tables.

    `noise` None is the figure's own; `algorithm` "code" is how the figures were made, "text" the
    listing; `cached` the runs whose logs were read back from disk; `columns` what else nodes split
    on.

    >>> OracleForm(noise=0.1, algorithm="text", columns=("norm",)).name
    'aips (oracle .1, text, split on norm)'
    >>> OracleForm.of("aips (oracle .1, text, split on norm)").columns
    ('norm',)
    >>> OracleForm.of("aips") is None
    True
    """

    noise: float | None = None
    algorithm: Algorithm = "code"
    cached: bool = False
    columns: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The estimator's name."""
        level = "" if self.noise is None else f" {self.noise:g}".replace("0.", ".")
        parts = [f"oracle{level}"]
        parts += ["text"] if self.algorithm == "text" else []
        parts += ["cached"] if self.cached else []
        parts += [_SPLIT + column for column in self.columns]
        return f"aips ({', '.join(parts)})"

    @classmethod
    def of(cls, name: str) -> "OracleForm | None":
        """Return the form behind an estimator's name; None for all other estimators."""
        if not (name.startswith("aips (oracle") and name.endswith(")")):
            return None
        first, *others = name.removeprefix("aips (").removesuffix(")").split(", ")
        level = first.removeprefix("oracle").strip()
        return cls(
            noise=float(level) if level else None,
            algorithm="text" if "text" in others else "code",
            cached="cached" in others,
            columns=tuple(o.removeprefix(_SPLIT) for o in others if o.startswith(_SPLIT)),
        )


_SPLIT = "split on "

_LABELS: dict[Parameter, str] = {
    "n": "number of rankings n",
    "K": "length of the ranking K",
    "delta": "behaviour parameter delta",
    "sigma": "reward noise sigma",
    "epsilon": "randomness of the evaluation policy epsilon",
    "lam": "identifiability of behaviour lambda",
}
_SIZES = (1000, 2000, 4000, 8000, 16000, 32000)
_LENGTHS = (4, 6, 8, 10, 12, 14)
_SHARES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
_SHARPNESS = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0)
_CLASSIC = ("ips", "iips", "rips")
_NOISES = ("aips (oracle .1)", "aips (oracle .3)", "aips (oracle .5)")
#: The three errors side by side, then the smallest and the largest beside the classic estimators.
_NOISE_PICTURES = (
    ("", _NOISES),
    ("-small", (*_CLASSIC, _NOISES[0])),
    ("-large", (*_CLASSIC, _NOISES[2])),
)
_REAL = ("ips", "iips", "rips", "aips (pasif)", "aips", "auto")

_TABLE = (
    Experiment(
        "data-size", "MSE, bias and variance over the number of rankings (figure 2)", "n", _SIZES
    ),
    Experiment("slate-size", "over the length of the ranking (figure 3)", "K", _LENGTHS),
    Experiment("behavior", "over the behaviour distribution delta (figure 4)", "delta", _SHARES),
    Experiment("reward-noise", "over the reward noise sigma (figure 9)", "sigma", _SHARES),
    Experiment(
        "epsilon", "over the randomness of the evaluation policy (figure 10)", "epsilon", _SHARES
    ),
    Experiment(
        "identifiability", "over the identifiability of behaviour (figure 11)", "lam", _SHARPNESS
    ),
    Experiment(
        "noise-data-size",
        "bias errors .1, .3, .5 over the number of rankings (figures 12, 15, 18)",
        "n",
        _SIZES,
        estimators=(*_CLASSIC, *_NOISES),
        pictures=_NOISE_PICTURES,
    ),
    Experiment(
        "noise-slate-size",
        "bias errors .1, .3, .5 over the length of the ranking (figures 13, 16, 19)",
        "K",
        _LENGTHS,
        estimators=(*_CLASSIC, *_NOISES),
        pictures=_NOISE_PICTURES,
    ),
    Experiment(
        "noise-behavior",
        "bias errors .1, .3, .5 over delta (figures 14, 17, 20)",
        "delta",
        _SHARES,
        estimators=(*_CLASSIC, *_NOISES),
        pictures=_NOISE_PICTURES,
    ),
    Experiment(
        "distribution-delta",
        "how delta changes the behaviours (figure 6)",
        "delta",
        _SHARES,
        "distribution",
    ),
    Experiment(
        "distribution-lambda",
        "how lambda changes the behaviours (figure 7)",
        "lam",
        _SHARPNESS,
        "distribution",
    ),
    Experiment(
        "runtime-data-size",
        "run time over the number of rankings (table 3)",
        "n",
        _SIZES,
        "runtime",
    ),
    Experiment(
        "runtime-slate-size",
        "run time over the length of the ranking (table 4)",
        "K",
        _LENGTHS,
        "runtime",
    ),
    Experiment("toy", "strategic variance reduction (table 2)", kind="toy"),
    Experiment(
        "real-world",
        "squared errors on an A/B log: CDF and CVaR (figure 5)",
        kind="real-world",
        estimators=_REAL,
    ),
)

#: What each figure shows, by name.
FIGURES = {experiment.name: experiment.about for experiment in _TABLE}


def get(name: str) -> Experiment:
    """Return the experiment behind a figure's name.

    >>> get("slate-size").values
    (4, 6, 8, 10, 12, 14)
    """
    return next(experiment for experiment in _TABLE if experiment.name == name)
