"""The grammar of estimator names: a form around weights, "snrips", "dr-order-2", "clip-aips".

    name    = word | form weights
    form    = "" | "sn" | "cv-" | "dr-" | "clip-" | "shrink-" | "switch-"
    weights = "ips" | "iips" | "rips" | "aips" | "order-" number | any other word, after "dr-"
    word    = "auto" | "dm" | "pi" | "cascade-dr" | what a plug-in calls itself

Everything that must know what a name says asks here; nothing else takes names apart.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

#: Weights that are known by one word.
PLAIN = ("ips", "iips", "rips", "aips")
#: Words for models of users or rewards without any weight on what the target shows.
MODEL_ALONE = ("dm", "pbm", "click-model")


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


#: The forms that are another aggregate of the same weights (`aggregate.AGGREGATES`).
AGGREGATE_FORMS = {"mean": Form.PLAIN, "ratio": Form.RATIO, "control": Form.CONTROL}


#: Forms that leave the assumption on users as it is. Tamed weights (clip, shrink, switch) are
#: biased whatever users do.
_FAITHFUL = (Form.PLAIN, Form.RATIO, Form.CONTROL, Form.DR, Form.CASCADE)
_WEIGHED = re.compile(
    rf"(?P<form>|sn|cv-|dr-|clip-|shrink-|switch-)(?P<weights>{'|'.join(PLAIN)}|order-(?P<order>[0-9]+))"
)


@dataclass(frozen=True, slots=True)
class EstimatorName:
    """A name taken apart. Equal weights make the same assumption on how items act on each other.

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
    def plain(self) -> bool:
        """Whether these are weights alone, neither normalised nor tamed nor around a model."""
        return self.form is Form.PLAIN

    @property
    def fixed(self) -> bool:
        """Whether these are weights for which nothing is fitted or chosen, as a mean or a ratio of means."""
        return self.form in (Form.PLAIN, Form.RATIO) and self.weights != "aips"

    @property
    def uses_model(self) -> bool:
        """Whether a reward model speaks in the estimate."""
        return self.form in (Form.DR, Form.SWITCHED, Form.CASCADE) or self.text in (
            "auto",
            *MODEL_ALONE,
        )

    @property
    def model_alone(self) -> bool:
        """Whether nothing but a model judges what the target would show: the log cannot contradict it."""
        return self.text in MODEL_ALONE

    @property
    def assumption(self) -> str:
        """Whose assumption on users the estimator shares: the weights' word, or its own name.

        >>> [parse(name).assumption for name in ("snrips", "dr-order-2", "cascade-dr", "clip-ips")]
        ['rips', 'order-2', 'rips', 'clip-ips']
        """
        return self.weights if self.form in _FAITHFUL else self.text

    def interactions(self, K: int) -> int | None:
        """Return how many items at a time may act on a reward: 1 for IIPS, m for order-m, K for IPS.

        None for what does not lie on that path: other masks, tamed weights, words.

        >>> [parse(name).interactions(5) for name in ("iips", "dr-order-2", "order-9", "snips", "rips", "clip-ips")]
        [1, 2, 5, 5, None, None]
        """
        if self.form not in _FAITHFUL:
            return None
        if self.order is not None:
            return min(self.order, K)
        return {"iips": 1, "ips": K}.get(self.weights)

    def assumes_less(self, than: "EstimatorName", K: int) -> bool:
        """Return whether this makes strictly weaker assumptions on how items act on each other.

        IPS assumes nothing; the cascade and the orders contain IIPS; neither contains the other.

        >>> [parse(a).assumes_less(parse(b), 4) for a, b in (("ips", "auto"), ("rips", "iips"), ("order-2", "rips"))]
        [True, True, False]
        """
        mine, theirs = self.interactions(K), than.interactions(K)
        if mine == K:
            return theirs != K
        if self.assumption == "rips":
            return theirs == 1
        if mine is None:
            return False
        # A learnt mixture of behaviours is held against every order above pairs.
        return mine > theirs if theirs is not None else than.assumption != "rips" and mine >= 3


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


def order_path(names: Iterable[str], K: int, form: Form = Form.PLAIN) -> list[tuple[int, str]]:
    """Return the names of one form that lie on the path from IIPS to IPS, each with its interaction order, in order.

    >>> order_path(["ips", "auto", "order-2", "dr-order-2", "iips"], 4)
    [(1, 'iips'), (2, 'order-2'), (4, 'ips')]
    """
    orders = ((parse(name).interactions(K), name) for name in names if parse(name).form is form)
    return sorted((order, name) for order, name in orders if order is not None)


def weights_word(weights: Any) -> str:
    """Return the word for weights given as a value: an interaction order, a word, or a mask.

    >>> weights_word(2), weights_word("rips"), weights_word([[True]])
    ('order-2', 'rips', 'mask')
    """
    if isinstance(weights, int):
        return f"order-{weights}"
    return weights if isinstance(weights, str) else "mask"
