"""What the rule of `auto` decided on, kept with the truth, so that rules are compared without fitting models."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, get_origin, get_type_hints
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from benchmarks.lift.cells import Truth
from counterrank.common.atomic import replacing
from counterrank.estimators.auto import rule
from counterrank.estimators.auto.rule import Summary

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """What `rule.decide` is given on a log, without what users set."""

    summary: Summary
    unknown: float
    counted: NDArray[np.bool_]
    doubted: bool = False

    def decide(self) -> rule.Decision:
        """Return what `auto` decides."""
        return rule.decide(self.summary, None, self.unknown, self.counted, doubted=self.doubted)


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """A question, the truth, and the half-width of an A/B test."""

    question: Question
    truth: Truth
    test_half_width: float


@contextmanager
def questions() -> Iterator[list[Question]]:
    """Yield a list to which every question within the block is added; questions about groups are not."""
    asked: list[Question] = []

    def decide(
        summary: Summary,
        allowance: float | None = None,
        unknown: float = 0.0,
        counted: NDArray[np.bool_] | None = None,
        follows: rule.Decision | None = None,
        doubted: bool = False,
    ) -> rule.Decision:
        if follows is None:
            every = np.ones(len(summary.models), dtype=bool)
            counts = every if counted is None else counted
            asked.append(Question(summary, unknown, counts, doubted))
        return rule.decide(summary, allowance, unknown, counted, follows, doubted)

    with mock.patch("counterrank.estimators.auto.solution.decide", decide):
        yield asked


def save(path: Path, recorded: Recorded) -> None:
    """Write it as plain arrays (.npz)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary, temporary.open("wb") as sink:
        np.savez_compressed(sink, **dict(flat(recorded, "log")))


def read(path: Path) -> Recorded:
    """Return what `save` wrote."""
    with np.load(path, allow_pickle=False) as arrays:
        return rebuilt(Recorded, arrays, "log")


def flat(value: Any, name: str) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the arrays of a dataclass, nested ones by dotted names."""
    if is_dataclass(value):
        for item in fields(value):
            yield from flat(getattr(value, item.name), f"{name}.{item.name}")
    else:
        yield name, np.asarray(value)


def rebuilt(kind: type[Made], arrays: Any, name: str) -> Made:
    """Return a dataclass of this kind from the arrays that `flat` made of one."""
    hints = get_type_hints(kind)
    parts: dict[str, Any] = {}
    for item in fields(kind):  # type: ignore[arg-type]
        inner, key = hints[item.name], f"{name}.{item.name}"
        if isinstance(inner, type) and is_dataclass(inner):
            parts[item.name] = rebuilt(inner, arrays, key)
        elif get_origin(inner) is tuple:
            parts[item.name] = tuple(arrays[key].tolist())
        else:
            array = arrays[key]
            parts[item.name] = array.item() if inner in (int, float, bool, str) else array
    return kind(**parts)
