"""Methods of the bench: estimators under the names that results give them, and what they say of a trial."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from counterrank.common.errors import ConfigError, CounterrankError
from counterrank.data.source import MemorySource
from counterrank.estimators import AIPS, AIPSPairs, Estimator, Workspace, get_estimator
from counterrank.estimators.behavior import BehaviorTree, Oracle, mse_estimate
from counterrank.research.bench.worlds import Trial, imported
from counterrank.research.paper import figures
from counterrank.research.paper.replay import oracle_assignment

#: A name, an import path or an object; several of them, or by names of the user's own.
Listed = str | Estimator
Estimators = Listed | Sequence[Listed] | Mapping[str, Listed]
#: Estimators with a behaviour tree.
_TREES = {"aips": AIPS, "aips-pairs": AIPSPairs}


@dataclass(frozen=True, slots=True, eq=False)
class Method:
    """An estimator under a name; without an estimator it is made for each trial, from what only a simulator knows.

    Names beyond those of `counterrank estimators`: "aips (true)" knows each row's behaviour; "aips
    (oracle)" and "aips (oracle .1)" grow the paper's trees on published runs, "aips (oracle printed)" those
    of its Algorithm 1 and "aips (oracle exhaustive)" those of an exhaustive search, told the true bias with an error
    of .3, or of another one as in "aips (oracle printed .1)";
    "aips (truth)" searches exhaustively with the true bias, "aips (pasif)" minimises another MSE
    estimate, "aips (printed)" and "aips (published)" search as Algorithm 1 and as the authors' code. The
    last four also exist of `aips-pairs`.

    Parameters
    ----------
    name
        How results call the method.
    estimator
        The estimator; None if it is made for each trial.
    source
        What names it in a protocol file: a name or an import path, or a description of an object.

    Examples
    --------
    >>> Method.from_name("aips (pasif)").estimator.name
    'aips'
    """

    name: str
    estimator: Estimator | None = None
    source: str = ""

    @classmethod
    def from_name(cls, name: str) -> "Method":
        """Return the method of a name or of an import path; one that is unknown raises."""
        word, _, form = name.removesuffix(")").partition(" (")
        if ":" in name:
            return cls.from_estimator(_imported_estimator(name), source=name)
        if name == "aips (true)":
            return cls(name, AIPS(behavior="log"), name)
        if figures.told(name) or (word in _TREES and form == "truth"):
            return cls(name, source=name)
        if word not in _TREES or not form:
            return cls(name, get_estimator(name), name)
        if form in figures.GROWTHS:
            return cls(name, _TREES[word](behavior=BehaviorTree(growth=form)), name)
        return cls(name, _TREES[word](behavior=BehaviorTree(mse=mse_estimate(form))), name)

    @classmethod
    def from_estimator(cls, estimator: Any, name: str = "", source: str = "") -> "Method":
        """Return the method of an object, under its own name unless another is given."""
        if not isinstance(estimator, Estimator):
            where = f"'{name}' is" if name else "one of the estimators is"
            raise ConfigError(
                f"{where} a {type(estimator).__name__}, not an estimator; give a name, an import path "
                "package.module:Estimator, or an object"
            )
        return cls(name or estimator.name, estimator, source or describe(estimator))

    def estimator_for(self, trial: Trial) -> Estimator:
        """Return the estimator for a trial."""
        if self.estimator is not None:
            return self.estimator
        word = self.source or self.name
        growth, noise = figures.told(word) or ("exhaustive", 0.0)
        if not growth and trial.run is not None:
            return AIPS(behavior=oracle_assignment(trial.run, trial.log, noise))
        if not growth or trial.values is None:
            where = "published runs" if trial.values is not None else "simulated worlds"
            raise ConfigError(f"'{self.name}' is told the truth of {where}; this is none")
        oracle = Oracle(values=trial.values, noise=noise)
        if not noise:
            return _TREES[word.partition(" (")[0]](behavior=BehaviorTree(mse=oracle))
        candidates = "paper" if trial.run is None else "published"
        return AIPS(behavior=BehaviorTree(candidates=candidates, mse=oracle, growth=growth))


def describe(estimator: Estimator) -> str:
    """Return the import path of an estimator whose class makes an equal one, otherwise what it is.

    >>> from counterrank.estimators import IPS
    >>> describe(IPS()), describe(IPS(aggregate="ratio"))
    ('counterrank.estimators.masked:IPS', "IPS(aggregate='ratio', on_missing='error', name='ips')")
    """
    cls = type(estimator)
    try:
        if repr(cls()) == repr(estimator) and "." not in cls.__qualname__:
            return f"{cls.__module__}:{cls.__qualname__}"
    except TypeError:  # a class that needs arguments
        pass
    return repr(estimator)


def methods(estimators: Estimators) -> list[Method]:
    """Return methods by name, by import path (package.module:Estimator) or from objects.

    Parameters
    ----------
    estimators
        One, several, or a mapping from names to them.

    Returns
    -------
    list of Method

    Raises
    ------
    ConfigError
        Something is no estimator, or two have one name.

    Examples
    --------
    >>> [method.name for method in methods({"whole rankings": "ips"})]
    ['whole rankings']
    """
    if isinstance(estimators, str | Estimator):
        estimators = [estimators]
    if isinstance(estimators, Mapping):
        return [_method(listed, name) for name, listed in estimators.items()]
    selected = [_method(listed) for listed in estimators]
    names = [method.name for method in selected]
    if twins := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise ConfigError(
            f"{names.count(twins[0])} estimators are called '{twins[0]}', and results go by name; give "
            f'names of your own, as in {{"{twins[0]} (mine)": ...}}'
        )
    return selected


def _method(listed: Any, name: str = "") -> Method:
    if not isinstance(listed, str):
        return Method.from_estimator(listed, name)
    method = Method.from_name(listed)
    return Method(name or method.name, method.estimator, method.source)


def _imported_estimator(path: str) -> Estimator:
    """Return the estimator at package.module:Name, a class or an object."""
    estimator = imported(path, "an estimator")
    if isinstance(estimator, type):
        try:
            estimator = estimator()
        except Exception as problem:
            raise ConfigError(
                f"'{path}' cannot be loaded: {type(problem).__name__}: {problem}; give the import path of "
                "an estimator, package.module:Name"
            ) from problem
    if not isinstance(estimator, Estimator):
        raise ConfigError(f"'{path}' is a {type(estimator).__name__}, not a counterrank Estimator")
    return estimator


def run_trial(
    trial: Trial, selected: Iterable[Method], *, refuse: bool = True
) -> list[dict[str, Any]]:
    """Return a row for each method: its value, interval, the truth and its CPU seconds.

    Parameters
    ----------
    trial
        The log and its truth.
    selected
        The methods.
    refuse
        Whether a method that refuses the log raises; otherwise it has no value there, and `reason` says why.

    Returns
    -------
    list of dict
    """
    rows = []
    for method in selected:
        started = time.process_time()
        try:
            # The tree, where there is one, is part of what is timed.
            value, low, high, reason = _estimate(trial, method)
        except CounterrankError as problem:
            if refuse:
                raise
            value = low = high = np.nan
            reason = str(problem)
        except Exception as problem:
            problem.add_note(f"estimator '{method.name}', seed {trial.seed} of the bench")
            raise
        rows.append(
            {
                "estimator": method.name,
                "value": value,
                "low": low,
                "high": high,
                "truth": trial.truth,
                "truth_stderr": trial.truth_stderr,
                "seconds": time.process_time() - started,
                "drawing": trial.drawing,
                "reason": reason,
            }
        )
    return rows


def _estimate(trial: Trial, method: Method) -> tuple[float, float, float, str]:
    """Return value and interval, and why there is none where the log has no evidence."""
    workspace = Workspace(MemorySource(trial.log, threads=1), trial.target, seed=trial.seed)
    fitted = method.estimator_for(trial).fit(workspace)
    state = workspace.source.reduce(fitted.sums)
    estimate = fitted.estimate(state)
    if not estimate.estimable and method.name != "auto" and estimate.moments is not None:
        # The mean of w r is zero where no weight is left. A report says instead that there is no
        # evidence; the paper's figures average what the formulas give.
        total = fitted.solution(state).total
        return total.value, *total.interval(0.95), ""
    return estimate.value, *estimate.interval(0.95), estimate.not_estimable
