"""The grammar of estimator names: a form around weights, "snrips", "dr-order-2", "clip-aips".

    name    = word | form weights
    form    = "" | "sn" | "cv-" | "dr-" | "clip-" | "shrink-" | "switch-"
    weights = "ips" | "iips" | "rips" | "aips" | "order-" number | any other word, after "dr-"
    word    = "auto" | "dm" | "pi" | "cascade-dr" | what a plug-in calls itself

Everything that must know what a name says asks here; nothing else takes names apart.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

#: Weights that are known by one word.
PLAIN = ("ips", "iips", "rips", "aips")
#: Words for estimators in which a reward model speaks.
_MODELS = ("auto", "dm", "pbm", "click-model")


class Form(StrEnum):
    """What is done with the weights; the value is the prefix that says so."""

    PLAIN = ""
    RATIO = "sn"
    CONTROL = "cv-"
    DR = "dr-"
    CLIPPED = "clip-"
    SHRUNK = "shrink-"
    SWITCHED = "switch-"
    #: The reward model's telescope down the ranking: "cascade-dr", with the weights of RIPS.
    CASCADE = "cascade-dr"
    #: A word without weights of its own: "auto", "dm", "pi", a plug-in.
    WORD = "word"


#: The forms that are another aggregate of the same weights.
AGGREGATE_FORMS = {"mean": Form.PLAIN, "ratio": Form.RATIO, "control": Form.CONTROL}
_WEIGHED = re.compile(
    rf"(?P<form>|sn|cv-|dr-|clip-|shrink-|switch-)(?P<weights>{'|'.join(PLAIN)}|order-(?P<order>[0-9]+))"
)


@dataclass(frozen=True, slots=True)
class EstimatorName:
    """A name taken apart.

    `weights` is the word for them ("rips", "order-2", a mask), empty for names without; `order` is
    m of "order-m".
    """

    text: str
    form: Form
    weights: str = ""
    order: int | None = None

    def __str__(self) -> str:
        return self.text

    @property
    def uses_model(self) -> bool:
        """Whether a reward model speaks in the estimate."""
        return self.form in (Form.DR, Form.SWITCHED, Form.CASCADE) or self.text in _MODELS


@lru_cache(maxsize=256)
def parse(text: str) -> EstimatorName:
    """Take a name apart; one that nobody knows is a word without weights.

    >>> parse("dr-order-2")
    EstimatorName(text='dr-order-2', form=<Form.DR: 'dr-'>, weights='order-2', order=2)
    >>> parse("cv-ips").form.name, parse("auto").form.name, parse("dr-pairs").weights
    ('CONTROL', 'WORD', 'pairs')
    """
    if text == Form.CASCADE:
        return EstimatorName(text, Form.CASCADE, "rips")
    match = _WEIGHED.fullmatch(text)
    if match:
        order = None if match["order"] is None else int(match["order"])
        return EstimatorName(text, Form(match["form"]), match["weights"], order)
    if text.startswith(
        Form.DR
    ):  # around other masks and projected weights, which `auto` knows by a word
        return EstimatorName(text, Form.DR, text.removeprefix(Form.DR))
    return EstimatorName(text, Form.WORD, text)


def weights_word(weights: Any) -> str:
    """Return the word for weights given as a value: an interaction order, a word, or a mask.

    >>> weights_word(2), weights_word("rips"), weights_word([[True]])
    ('order-2', 'rips', 'mask')
    """
    if isinstance(weights, int):
        return f"order-{weights}"
    return weights if isinstance(weights, str) else "mask"
