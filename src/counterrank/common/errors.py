"""Everything that can go wrong, as a tree.

::

 CounterrankError (also a ValueError)
 |- LogError              the log itself: a value, a row, a column
 |   `- MissingColumnError   a column that a user named
 |- PropensityError       what the propensities are or cannot support
 |- PolicyError           a policy that is malformed or lacks a capability
 |- BehaviorError         a behaviour model or tree that does not fit
 |- EstimatorError        an estimator that cannot run on this log
 |- EngineError           a partition or worker that failed
 |- ConfigError           options, column mappings, configuration files
 |- UnknownNameError      a target or estimator that a result does not have (also a KeyError)
 |- OutputError           a result that could not be written
 `- MissingExtraError     an optional dependency that is not installed (also an ImportError)

CounterrankWarning (a UserWarning): statistical doubts, never exceptions
"""

import importlib
import re
from types import ModuleType
from typing import Self


class CounterrankError(ValueError):
    """Base of every error this package raises on purpose.

    Parameters
    ----------
    said
        What is wrong, and where.
    remedy
        What to do about it.

    Examples
    --------
    >>> problem = LogError("reward is missing in row 3", remedy="drop the row")
    >>> str(problem), problem.said, problem.remedy
    ('reward is missing in row 3; drop the row', 'reward is missing in row 3', 'drop the row')
    """

    def __init__(self, said: str = "", *, remedy: str = "") -> None:
        """Keep what is wrong apart from what to do about it."""
        super().__init__(f"{said}; {remedy}" if remedy else said)
        self.said, self.remedy = said, remedy

    def about(self, what: str) -> Self:
        """Return this error with the name of what it is about in front."""
        return type(self)(f"{what}: {self.said}", remedy=self.remedy)


class LogError(CounterrankError):
    """A log that cannot be used as it is."""


class MissingColumnError(LogError):
    """A column that a user named and that is not there."""


class PropensityError(CounterrankError):
    """Propensities that are wrong, or that cannot support what was asked."""


class PolicyError(CounterrankError):
    """A policy that is malformed or lacks a capability."""


class BehaviorError(CounterrankError):
    """A behaviour model, candidate set or tree that does not fit the log."""


class EstimatorError(CounterrankError):
    """An estimator that is unknown or cannot run on this log."""


class EngineError(CounterrankError):
    """A partition, file or worker that failed during a distributed pass."""


class ConfigError(CounterrankError):
    """Options, column mappings or configuration files that make no sense."""


class UnknownNameError(CounterrankError, KeyError):
    """A name that a result does not have."""

    # A KeyError would show the message in quotes, as if it were the key.
    __str__ = Exception.__str__


class OutputError(CounterrankError):
    """A result that could not be written."""


class MissingExtraError(CounterrankError, ImportError):
    """An optional dependency that is not installed."""


class CounterrankWarning(UserWarning):
    """A statistical doubt worth telling, not worth stopping for.

    Examples
    --------
    >>> issubclass(CounterrankWarning, UserWarning)
    True
    """


#: How libraries that are not loaded, and threads that do not start, say that there is no memory for them.
_NO_MEMORY = re.compile(
    "failed to map segment|cannot allocate memory|bad_alloc|worker thread|start new thread",
    re.IGNORECASE,
)


def out_of_memory(problem: BaseException | None) -> bool:
    """Return whether memory has run out, in whatever words and however deep below an error.

    >>> out_of_memory(ImportError("libblas.so: failed to map segment from shared object"))
    True
    """
    while problem is not None:
        if isinstance(problem, MemoryError) or _NO_MEMORY.search(str(problem)):
            return True
        problem = problem.__cause__ or problem.__context__
    return False


def require(module: str, *, extra: str) -> ModuleType:
    """Import an optional dependency, or say which extra brings it.

    >>> require("json", extra="models").__name__
    'json'
    """
    try:
        return importlib.import_module(module)
    except ImportError as problem:
        if out_of_memory(problem):
            raise MemoryError from problem
        name = module.partition(".")[0]
        raise MissingExtraError(
            f"this needs {name}, which is not installed; run: pip install 'counterrank[{extra}]'"
        ) from None
