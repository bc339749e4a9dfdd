"""How it was made: each estimator in one sentence and one formula, what was run on what, how to repeat it."""

import json
from typing import Any

from counterrank.estimators import Form, parse
from counterrank.report.document import Block, Note, Paragraph, Table, section
from counterrank.report.evaluation_view import Reading

_TABLE = {
    "auto": (
        "the recommended estimator: models of users, corrected by weights as far as these can be "
        "trusted, with an interval that allows for bias",
        "from the models along the order path to whole rankings; see the documentation of auto",
    ),
    "ips": (
        "reweights whole rankings; unbiased whatever users do, with the largest variance",
        "V = 1/n Σᵢ w(xᵢ, aᵢ) Σₖ αₖ rᵢₖ,  w = Πₖ π(aₖ|x) / π₀(aₖ|x)",
    ),
    "iips": (
        "reweights each item alone; unbiased only if no item acts on another",
        "V = 1/n Σᵢ Σₖ αₖ wₖ rᵢₖ,  wₖ = π(aₖ|x) / π₀(aₖ|x)",
    ),
    "rips": (
        "reweights each item and those above it; unbiased if users read from the top",
        "V = 1/n Σᵢ Σₖ αₖ w₁..ₖ rᵢₖ,  w₁..ₖ = Π_{l≤k} π(a_l|x) / π₀(a_l|x)",
    ),
    "aips": (
        "AIPS of Kiyohara et al. (2023): reweights the items that matter to each user, found by a "
        "tree of behaviours, and nothing else",
        "V = 1/n Σᵢ Σₖ αₖ wₖ(c(xᵢ)) rᵢₖ,  wₖ(c) = Π_{l: c[k,l]} π(a_l|x) / π₀(a_l|x)",
    ),
    "aips-pairs": (
        "AIPS moved towards the value from pairs of items, by the share that minimises the "
        "estimated error",
        "V = V_c + s (V₂ − V_c),  V_c of aips, V₂ of order-2",
    ),
    "cascade-dr": (
        "reward model corrected from the top down (Kiyohara et al. 2022)",
        "V = 1/n Σᵢ Σₖ w₁..ₖ (rₖ − Qₖ) + w₁..ₖ₋₁ E_π[Qₖ]",
    ),
    "dm": ("reward model only; no weights, as wrong as the model is", "V = 1/n Σᵢ E_π[Q(xᵢ, a)]"),
    "pbm": (
        "clicks are examination of the position times relevance of the item; for loggers that "
        "hardly vary",
        "V = 1/n Σᵢ Σₖ αₖ E_π[θₖ γ(xᵢ, aₖ)]",
    ),
    "click-model": (
        "the model of clicks given what was clicked above, alone; for loggers that hardly vary",
        "V = 1/n Σᵢ Σₖ αₖ E_π[rₖ | xᵢ, a, clicks above]",
    ),
    "pi": (
        "pseudo-inverse: for one reward per ranking that is a sum over items",
        "V = 1/n Σᵢ Rᵢ (1 + Σ_l (ρ_l − 1))",
    ),
}

#: Forms of any estimator with weights; its name stands in the braces.
_FORMS = {
    Form.RATIO: (
        "{} divided by the mean weight: a little bias for much less variance",
        "V = Σᵢ wᵢ rᵢ / Σᵢ wᵢ",
    ),
    Form.CONTROL: (
        "{} with the weights, whose mean is known, as control variate",
        "V = mean(w r) − β (mean(w) − 1)",
    ),
    Form.DR: (
        "a reward model corrected by the weights of {}: right if either is",
        "V = 1/n Σᵢ E_π[Q(xᵢ, a)] + Σₖ wₖ (rᵢₖ − Qₖ)",
    ),
    Form.CLIPPED: (
        "{} with weights cut at a limit: biased towards less, with lighter tails",
        "f(w) = min(w, limit)",
    ),
    Form.SHRUNK: ("{} with large weights shrunk smoothly", "f(w) = λ w / (w² + λ),  λ = limit²"),
    Form.SWITCHED: (
        "{} where weights are small, a reward model where they are large",
        "V = 1/n Σᵢ E_π[Q] + Σₖ wₖ 1{wₖ ≤ limit} (rᵢₖ − Qₖ)",
    ),
}


def describe(name: str) -> tuple[str, str] | None:
    """Return (sentence, formula) of an estimator, None when it is not known here.

    >>> describe("snips")[0]
    'ips divided by the mean weight: a little bias for much less variance'
    """
    if name in _TABLE:
        return _TABLE[name]
    parsed = parse(name)
    if parsed.order is not None and parsed.form in (Form.PLAIN, Form.DR):
        model = "" if parsed.form is Form.PLAIN else ", around a reward model"
        sentence = f"unbiased when effects involve at most {parsed.order} items at a time{model}"
        sets = f"sets T of other items, |T| ≤ {parsed.order - 1}"
        return sentence, f"wₖ = ρₖ Σ over {sets}, of Π_{{l∈T}} (ρ_l − 1)"
    if parsed.form not in _FORMS:
        return None
    sentence, formula = _FORMS[parsed.form]
    return sentence.format(parsed.weights), formula


#: Shown in a place of their own.
_ELSEWHERE = ("options", "command", "fingerprint", "estimators")


def method(reading: Reading) -> list[Block]:
    """Return the estimators in words and formulas, versions, options, fingerprint, and the command."""
    names = dict.fromkeys(e.estimator for e in reading.estimates)
    methods = [
        Note(description[0], name=name, details=(description[1],))
        for name in names
        if (description := describe(name))
    ]
    command = reading.result.provenance.command
    facts = [
        ("data fingerprint", reading.log.fingerprint),
        *made_with(reading).items(),
    ]
    table = Table("What was run on what", ("what", "value"), facts, texts=2)
    repeat = (
        [Paragraph("The command that repeats it:"), Paragraph(command, "code")] if command else []
    )
    lead = "The same command on the same data gives the same numbers."
    return section("Method and provenance", "method", *methods, table, *repeat, lead=lead)


def made_with(reading: Reading) -> dict[str, str]:
    """Return versions and options in words; those that were not given are left out."""
    provenance = reading.result.provenance.to_dict()
    told = {k: v for k, v in provenance.items() if k not in _ELSEWHERE and v is not None}
    options = provenance["options"]
    told |= {k: v for k, v in options.items() if k not in provenance and v not in (None, [], "")}
    return {str(name).replace("_", " "): _text(value) for name, value in told.items()}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)) and all(map(_short, value)):
        return ", ".join(map(str, value))
    if isinstance(value, dict) and all(map(_short, value.values())):
        return ", ".join(f"{name} {item}" for name, item in value.items())
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list)) else str(value)


def _short(item: Any) -> bool:
    return isinstance(item, (str, int, float))
