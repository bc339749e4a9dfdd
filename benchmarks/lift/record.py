"""What `auto` summed on a log, kept so that its rule can be tried anew without fitting models."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import numpy as np
from numpy.typing import NDArray

from benchmarks.lift.cells import TARGET, Case
from counterrank.atomic import replacing
from counterrank.data.source import MemorySource
from counterrank.estimators import Auto, View, Workspace

Made = TypeVar("Made")


def save(path: Path, case: Case) -> None:
    """Write the sums, the members' names and the truth of a log as plain arrays (.npz)."""
    log = case.log
    workspace = Workspace(MemorySource(log), TARGET, by_unit=log.unit is not None)
    plan = Auto().plan(workspace)
    state = workspace.source.reduce(
        lambda batch: plan.partial(View(batch, TARGET)).state, label="record"
    )
    arrays = dict(flat(state, "state"))
    arrays["members"] = np.array(getattr(plan, "members", ()), dtype=np.str_)
    arrays["modelled"] = np.array(getattr(plan, "nuisances", None) is not None)
    arrays["unknown"] = np.array(getattr(getattr(plan, "nuisances", None), "unknown", 0.0))
    truth = case.truth
    arrays["truth"] = np.array([truth.lift, truth.stderr, truth.base, truth.test_half_width(log.n)])
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary, temporary.open("wb") as sink:
        np.savez_compressed(sink, **arrays)


def flat(value: Any, name: str) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the arrays of a dataclass, nested ones by dotted names."""
    if is_dataclass(value):
        for item in fields(value):
            yield from flat(getattr(value, item.name), f"{name}.{item.name}")
    else:
        yield name, np.asarray(value)


def rebuilt(kind: type[Made], arrays: Any, name: str = "state") -> Made:
    """Return a dataclass of this kind from the arrays that `flat` made of one."""
    hints = get_type_hints(kind)
    parts: dict[str, Any] = {}
    for item in fields(kind):  # type: ignore[arg-type]
        inner, key = hints[item.name], f"{name}.{item.name}"
        if isinstance(inner, type) and is_dataclass(inner):
            parts[item.name] = rebuilt(inner, arrays, key)
        else:
            array = arrays[key]
            parts[item.name] = array.item() if inner in (int, float, bool, str) else array
    return kind(**parts)
