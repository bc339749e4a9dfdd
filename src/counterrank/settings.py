"""Tuned numbers in the open: what each counts, why it is there, and what its value was set on."""

from dataclasses import dataclass
from typing import Generic, TypeVar

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Setting(Generic[Value]):
    """A number that somebody chose.

    >>> Setting(0.05, "of the target", "from here on a flag tells", "reasoned").value
    0.05
    """

    value: Value
    unit: str
    why: str
    set_on: str
