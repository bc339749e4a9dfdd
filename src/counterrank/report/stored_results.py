"""Results read back from their files, whichever command wrote them."""

from __future__ import annotations

import json
import os
from typing import Any

from counterrank.checks import Audit
from counterrank.common import stores
from counterrank.common.errors import ConfigError
from counterrank.common.records import Result
from counterrank.evaluation import ABTest, Evaluation, Validation
from counterrank.exploration import ExplorationPlan
from counterrank.learning import Certificate

#: The class of each schema that is written.
KINDS: dict[str, Any] = {
    kind.SCHEMA: kind
    for kind in (Evaluation, Audit, ABTest, Validation, ExplorationPlan, Certificate)
}
#: The class of each schema that can be read, those of older versions among them.
READABLE: dict[str, Any] = {schema: kind for kind in KINDS.values() for schema in kind.schemas()}


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
        data: Any = json.loads(stores.read_bytes(path))
    except OSError as problem:
        raise ConfigError(f"cannot read {name}: {problem.strerror or problem}") from None
    except (ValueError, RecursionError) as problem:
        raise ConfigError(f"{name} is not valid JSON: {problem}") from None
    data = data if isinstance(data, dict) else {}
    data = data["result"] if isinstance(data.get("result"), dict) else data
    schema = str(data.get("schema"))
    if schema not in READABLE:
        raise ConfigError(
            f"{name}: this is no result: its schema is {schema!r}, known are {', '.join(KINDS)}"
        )
    try:
        result: Result = READABLE[schema].from_dict(data)
    except ConfigError as problem:
        raise ConfigError(f"{name}: {problem}") from None
    return result
