"""Results read back from their files, whichever command wrote them."""

from __future__ import annotations

import json
import os
from typing import Any

from counterrank import stores
from counterrank.audit import Audit
from counterrank.errors import ConfigError
from counterrank.evaluation import ABTest, Evaluation, Validation
from counterrank.exploration import ExplorationPlan
from counterrank.learning import Certificate
from counterrank.records import Json, Result

#: The class of each schema.
KINDS: dict[str, Any] = {
    kind.SCHEMA: kind
    for kind in (Evaluation, Audit, ABTest, Validation, ExplorationPlan, Certificate)
}


def load(path: str | os.PathLike[str]) -> Result:
    """Return the result of any command from its JSON file.

    Parameters
    ----------
    path
        A file of `--json` or of `result.save(path)`; also a policy file of `learn` or `plan`, which
        has its result inside.

    Returns
    -------
    Result
        With `summary()`, `table`, `plot()`, `to_html(path)` and `save(path)`, as the command returned it.

    Raises
    ------
    ConfigError
        The file cannot be read, is damaged, or holds no result.

    Examples
    --------
    >>> import counterrank as cr
    >>> print(cr.load("result.json").summary())  # doctest: +SKIP
    """
    name = os.fspath(path)
    try:
        return result_of(json.loads(stores.read_bytes(path)))
    except ConfigError as problem:
        raise ConfigError(f"{name}: {problem}") from None
    except OSError as problem:
        raise ConfigError(f"cannot read {name}: {problem.strerror or problem}") from None
    except (ValueError, RecursionError) as problem:
        raise ConfigError(f"{name} is not valid JSON: {problem}") from None


def result_of(found: Any) -> Result:
    """Return the result of a JSON object, or of the one inside a policy file."""
    data: Json = found if isinstance(found, dict) else {}
    inside = data.get("result")
    schema = str((inside if isinstance(inside, dict) else data).get("schema"))
    if schema not in KINDS:
        raise ConfigError(
            f"this is no result: its schema is {schema!r}, known are {', '.join(KINDS)}"
        )
    result: Result = KINDS[schema].from_dict(inside if isinstance(inside, dict) else data)
    return result
