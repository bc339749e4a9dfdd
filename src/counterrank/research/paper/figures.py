"""The figures and tables of the paper: number, caption, which parameter varies, for which estimators.

One table, read by the command line for its names: nothing heavy is loaded here. Figures 1 and 8 and
table 1 hold no results: a drawing of the tree, one of a web page, and the names of the estimators.
"""

import re
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

#: The six of the main figures, in the paper's order, then ours.
ESTIMATORS = ("ips", "iips", "rips", "aips (true)", "aips (oracle)", "aips", "aips-pairs", "auto")
#: Searches of a tree: Algorithm 1 as printed, the authors', all splits.
GROWTHS = ("printed", "published", "exhaustive")

#: What a figure may vary.
Parameter = Literal["n", "K", "delta", "sigma", "epsilon", "lam"]
Kind = Literal["accuracy", "distribution", "runtime", "toy", "real-world"]


@dataclass(frozen=True, slots=True)
class Setting:
    """The parameters of one point: rankings and the world's options.

    `lam` None is the world's own.
    """

    n: int = 8000
    K: int = 8
    delta: float = 0.6
    sigma: float = 0.5
    epsilon: float = 0.3
    lam: float | None = None

    @property
    def world(self) -> dict[str, Any]:
        """The options of the world."""
        options = {name: value for name, value in asdict(self).items() if value is not None}
        del options["n"]
        return options


@dataclass(frozen=True, slots=True)
class Picture:
    """One figure or table of the paper: its number, what it shows, and the estimators in it (none: all)."""

    number: str
    caption: str
    estimators: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Number and caption."""
        return f"{self.number}. {self.caption}"

    @property
    def stem(self) -> str:
        """Name of its files without the ending."""
        return self.number.lower().replace(" ", "-")


@dataclass(frozen=True, slots=True)
class Experiment:
    """What one run makes: `parameter` takes `values`, everything else stands at its default.

    `kind` says how it is made: MSE over seeds ("accuracy"), or one of the others; `pictures` what it
    is in the paper (Kiyohara et al. 2023).
    """

    name: str
    pictures: tuple[Picture, ...]
    parameter: Parameter | None = None
    values: tuple[float, ...] = (0.0,)
    kind: Kind = "accuracy"
    estimators: tuple[str, ...] = ESTIMATORS

    @property
    def label(self) -> str:
        """What varies, in words."""
        return "" if self.parameter is None else _LABELS[self.parameter]

    @property
    def title(self) -> str:
        """The numbers and the caption of the first picture."""
        numbers = ", ".join(picture.number for picture in self.pictures)
        return f"{numbers}. {self.pictures[0].caption}"

    def setting(self, value: float) -> Setting:
        """Return all parameters at one value of the varied one."""
        if self.parameter is None:
            return Setting()
        varied: dict[str, Any] = {
            self.parameter: int(value) if self.parameter in ("n", "K") else value
        }
        return Setting(**varied)


#: Error of the bias that the oracle of the main figures tells.
ORACLE_NOISE = 0.3


def told(name: str) -> tuple[str, float] | None:
    """Return how an AIPS that is told the bias grows its tree, and the error of what it is told; None for others.

    Without the name of a search it is the tree of the published runs, told what these were.

    >>> told("aips (oracle .1)"), told("aips (oracle)"), told("aips (oracle printed)"), told("aips")
    (('', 0.1), ('', 0.3), ('printed', 0.3), None)
    """
    match = re.fullmatch(rf"aips \(oracle ?({'|'.join(GROWTHS)}|) ?([\d.]*)\)", name)
    return None if match is None else (match[1], float(match[2] or ORACLE_NOISE))


_LABELS: dict[Parameter, str] = {
    "n": "number of rankings n",
    "K": "length of the ranking K",
    "delta": "behaviour parameter delta",
    "sigma": "reward noise sigma",
    "epsilon": "randomness of the evaluation policy epsilon",
    "lam": "identifiability of behaviour lambda",
}
_SHARES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
_VALUES: dict[Parameter, tuple[float, ...]] = {
    "n": (1000, 2000, 4000, 8000, 16000, 32000),
    "K": (4, 6, 8, 10, 12, 14),
    "delta": _SHARES,
    "sigma": _SHARES,
    "epsilon": _SHARES,
    "lam": (0.0, 1.0, 2.0, 4.0, 8.0, 16.0),
}
_CLASSIC = ("ips", "iips", "rips")
_NOISES = ("aips (oracle .1)", "aips (oracle .3)", "aips (oracle .5)")


def _accuracy(name: str, number: int, parameter: Parameter) -> Experiment:
    picture = Picture(f"Figure {number}", f"Error of the estimators over the {_LABELS[parameter]}")
    return Experiment(name, (picture,), parameter, _VALUES[parameter])


#: What figures 2 to 4 show beside: the searches from the log alone ("aips" is the exhaustive one), and told the truth.
_SEARCHES = (
    "aips (printed)",
    "aips (published)",
    "aips (oracle printed)",
    "aips (oracle exhaustive)",
)


def _main(name: str, number: int, parameter: Parameter) -> Experiment:
    """Figures 2 to 4: the searches of the tree stand side by side."""
    return replace(_accuracy(name, number, parameter), estimators=(*ESTIMATORS, *_SEARCHES))


def _noise(name: str, number: int, parameter: Parameter) -> Experiment:
    over = f"over the {_LABELS[parameter]}"
    pictures = (
        Picture(f"Figure {number}", f"AIPS with three errors of the told bias {over}", _NOISES),
        Picture(
            f"Figure {number + 3}",
            f"Error of the estimators {over}, error of the told bias .1",
            (*_CLASSIC, _NOISES[0]),
        ),
        Picture(
            f"Figure {number + 6}",
            f"Error of the estimators {over}, error of the told bias .5",
            (*_CLASSIC, _NOISES[2]),
        ),
    )
    return Experiment(
        name, pictures, parameter, _VALUES[parameter], estimators=(*_CLASSIC, *_NOISES)
    )


def _other(name: str, number: str, caption: str, kind: Kind, parameter: Parameter) -> Experiment:
    estimators = ESTIMATORS if kind == "runtime" else ()
    return Experiment(
        name, (Picture(number, caption),), parameter, _VALUES[parameter], kind, estimators
    )


_TABLE = (
    _main("data-size", 2, "n"),
    _main("slate-size", 3, "K"),
    _main("behavior", 4, "delta"),
    Experiment(
        "real-world",
        (Picture("Figure 5", "Squared errors on an A/B log: CDF and CVaR"),),
        kind="real-world",
        estimators=("ips", "iips", "rips", "aips (pasif)", "aips", "auto"),
    ),
    _other("distribution-delta", "Figure 6", "Behaviours by delta", "distribution", "delta"),
    _other("distribution-lambda", "Figure 7", "Behaviours by lambda", "distribution", "lam"),
    _accuracy("reward-noise", 9, "sigma"),
    _accuracy("epsilon", 10, "epsilon"),
    _accuracy("identifiability", 11, "lam"),
    _noise("noise-data-size", 12, "n"),
    _noise("noise-slate-size", 13, "K"),
    _noise("noise-behavior", 14, "delta"),
    Experiment(
        "toy", (Picture("Table 2", "Strategic variance reduction"),), kind="toy", estimators=()
    ),
    _other("runtime-data-size", "Table 3", f"Run time over the {_LABELS['n']}", "runtime", "n"),
    _other("runtime-slate-size", "Table 4", f"Run time over the {_LABELS['K']}", "runtime", "K"),
)

#: What each figure is in the paper, by name.
FIGURES = {experiment.name: experiment.title for experiment in _TABLE}


def get(name: str) -> Experiment:
    """Return the experiment behind a figure's name.

    >>> get("slate-size").values
    (4, 6, 8, 10, 12, 14)
    """
    return next(experiment for experiment in _TABLE if experiment.name == name)
