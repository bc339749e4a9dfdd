"""Messages as data: a code for scripts, words for people, and how an option is written.

A flag of an estimate, a note of a log and the reason of a skipped estimator are a `Message`; errors
carry a remedy apart from what is wrong. Nothing here or elsewhere reads its own sentences again.
Codes are stable; docs/reference/results.md lists them.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Self

from counterrank.common.options import BY_FLAG, COMMANDS, NESTED, Kind

#: The command that messages are written for, None in Python, and whether a job file runs it. Threads that read
#: rows take it with them.
_COMMAND: ContextVar[str | None] = ContextVar("command", default=None)
_JOB: ContextVar[bool] = ContextVar("job", default=False)


class Message(str):
    """Words for people that begin with a code for scripts.

    >>> flag = Message("low-ess", "only 12 of 900 rows carry information")
    >>> flag.code, flag.text, str(flag)
    ('low-ess', 'only 12 of 900 rows carry information', 'low-ess: only 12 of 900 rows carry information')
    """

    __slots__ = ("code", "text")

    code: str
    text: str

    def __new__(cls, code: str, text: str) -> Self:
        """Return the message whose words are "code: text"."""
        message = super().__new__(cls, f"{code}: {text}")
        message.code, message.text = code, text
        return message

    @classmethod
    def read(cls, code: str, words: str) -> Self:
        """Return the message that was written down as its code and its words.

        >>> Message.read("low-ess", "low-ess: only 12 of 900 rows carry information").text
        'only 12 of 900 rows carry information'
        """
        return cls(code, words[len(code) + len(": ") :])

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override] # how it is copied
        return self.code, self.text

    def __repr__(self) -> str:
        return f"Message({self.code!r}, {self.text!r})"


def code_of(text: str) -> str:
    """Return the code of a message; none of words that somebody else wrote.

    >>> code_of(Message("one-row", "...")), code_of("measured twice")
    ('one-row', '')
    """
    return text.code if isinstance(text, Message) else ""


def has(messages: Iterable[str], code: str) -> bool:
    """Return whether a message with this code is among them."""
    return any(code_of(message) == code for message in messages)


def say(option: str, value: str = "", python: str | None = None) -> str:
    """Return how an option is given: on the command line, and in Python for those who write it.

    >>> say("--logger", "top")
    "--logger top (logger='top' in Python)"
    >>> say("--encode-actions", python="encode_actions=True")
    '--config encode_actions=true (encode_actions=True in Python)'
    >>> with for_command("check"):
    ...     say("--logger", "top"), say("--decimal", ",")
    ('--logger top', '--config decimal=,')
    >>> with for_command("evaluate", job=True):
    ...     say("--columns", "unit=user"), say("--time", "day"), say("--within", "1 hour")
    ('unit = "user" in [columns]', 'time = "day"', 'within = "1 hour" in [events]')
    """
    if _JOB.get():
        return _in_job(option, value)
    written_for = _COMMAND.get()
    command = _spelled(option, value, written_for or "")
    if written_for is not None:
        return command
    key = option.lstrip("-").replace("-", "_")
    return f"{command} ({python or f'{key}={value!r}'} in Python)"


def _spelled(flag: str, value: str, command: str) -> str:
    """Return how an option is given to a command: by its name, or as a key of its job file.

    >>> _spelled("--missing-reward", "zero", "evaluate"), _spelled("--missing-reward", "zero", "check")
    ('--missing-reward zero', '--config missing_reward=zero')
    """
    option = BY_FLAG.get(flag)
    entry = COMMANDS.get(command)
    takers = [entry] if option and entry and option.name in entry.options else COMMANDS.values()
    if option is None or any(option.name in candidate.on_line for candidate in takers):
        return f"{flag} {value}".rstrip()
    return f"--config {option.keys[-1]}={value or 'true'}"


def _in_job(flag: str, value: str) -> str:
    """Return how an option is given in a job file: a key, its value and the table it stands in."""
    option = BY_FLAG.get(flag)
    if option is None:
        return f"{flag} {value}".rstrip()
    key, table = option.keys[-1].replace("_", "-"), ""
    for name, keys in NESTED.items():
        for inner, stands_for in keys.items():
            if stands_for == option.name:
                key, table = inner, f" in [{name}]"
    if option.name == "scores_join":
        key, table = "join", " in [scores]"
    if option.kind in (Kind.COLUMNS, Kind.PAIRS, Kind.METRICS, Kind.POLICIES) and "=" in value:
        table = table or f" in [{option.name}]"
        pairs = (pair.partition("=") for pair in value.split(","))
        return ", ".join(f"{name} = {_in_toml(text)}" for name, _, text in pairs) + table
    if option.kind is Kind.SWITCH:
        value = value or "true"
    elif option.kind in (Kind.LIST, Kind.MANY) and "," in value:
        value = f"[{', '.join(map(_in_toml, value.split(',')))}]"
    elif value and option.kind not in (Kind.NUMBER, Kind.WHOLE):
        value = _in_toml(value)
    return f"{key} = {value}{table}" if value else f"{key}{table}"


def _in_toml(text: str) -> str:
    """Return a text as TOML has it; a shell's quotes around it are left out."""
    inner = text.strip()
    if len(inner) > 1 and inner[0] == inner[-1] and inner[0] in "'\"":
        inner = inner[1:-1]
    return json.dumps(inner, ensure_ascii=False)


def in_command() -> bool:
    """Return whether messages are written for a command, and not for Python."""
    return _COMMAND.get() is not None


@contextmanager
def for_command(name: str, *, job: bool = False) -> Iterator[None]:
    """Write messages for a command, or for the job file that runs it: options are not spelled for Python as well."""
    tokens = _COMMAND.set(name), _JOB.set(job)
    try:
        yield
    finally:
        _COMMAND.reset(tokens[0])
        _JOB.reset(tokens[1])


#: How rows of the log are called, and the labels of items.
_Names = tuple[Callable[[int], str] | None, Sequence[str] | None]
_NAMES: ContextVar[_Names] = ContextVar("names", default=(None, None))


def row_name(row: object) -> str:
    """Return how a message calls a row of the log.

    >>> row_name(7)
    'row 7'
    >>> with naming_rows(lambda row: f"ranking 'r{row}'"):
    ...     row_name(7)
    "ranking 'r7'"
    """
    name, _ = _NAMES.get()
    return f"row {row}" if name is None else name(int(str(row)))


def item_name(item: int) -> str:
    """Return how a message calls an item: by its label where items have labels.

    >>> with naming_rows(None, ["sku7", "sku8"]):
    ...     item_name(1)
    'sku8'
    """
    _, labels = _NAMES.get()
    return labels[item] if labels and 0 <= item < len(labels) else str(item)


@contextmanager
def naming_rows(
    name: Callable[[int], str] | None, items: Sequence[str] | None = None
) -> Iterator[None]:
    """Call rows by another name, where their number in the file is not that in the log, and items by labels."""
    token = _NAMES.set((name, items))
    try:
        yield
    finally:
        _NAMES.reset(token)


MISSING_PROPENSITY = Message(
    "propensity-missing",
    "The log has no propensities; they must be estimated before anything else can be.",
)
REWARD_PER_RANKING = Message(
    "reward-per-ranking",
    "There is one reward per ranking: it is weighed and modelled by whole rankings and has no "
    "positions.",
)
MISSING_REWARD_ZERO = "missing-reward-zero"


def missing_rewards(filled: int, cells: int) -> Message:
    """Return that missing rewards were read as 0, and how many of how many."""
    text = f"Missing rewards were read as 0, as asked: {filled} of {cells}."
    return Message(MISSING_REWARD_ZERO, text)


def rewards_missing(notes: Iterable[str]) -> tuple[int, int]:
    """Return how many rewards of how many were missing and read as 0, as `missing_rewards` wrote it.

    >>> rewards_missing([missing_rewards(3, 1200), missing_rewards(1, 800)])
    (4, 2000)
    """
    note_words = [str(note).split() for note in notes if code_of(note) == MISSING_REWARD_ZERO]
    return sum(int(words[-3]) for words in note_words), sum(
        int(words[-1][:-1]) for words in note_words
    )


SINGLE_POSITION = Message(
    "single-position-rows",
    "Each row is one item at one position; values are per item shown, not per page.",
)
STANDARD_DROPPED = Message(
    "standard-rows-dropped",
    "Rows of the standard policy have no propensities and were left out.",
)
TIES_DROPPED = Message(
    "tied-rows-dropped",
    "Rows in which equal scores decide what the logger would show were left out, as asked.",
)
UNANSWERED = Message(
    "queries-without-hits", "Queries without hits show nothing to rank and were left out."
)
#: The code of propensities that were estimated from the log.
ESTIMATED = "estimated-propensity"


def what_is_possible() -> str:
    """Return what can be done with a log whose policy did not explore."""
    return (
        "What is possible: (1) if the same context was shown different lists over time, estimate "
        f"the propensities: {say('--estimate-propensity', 'by-list:COLUMNS')}; (2) show a random "
        "list, or swap neighbouring items at random, for a few percent of requests and log the "
        "probabilities; (3) an A/B test"
    )
