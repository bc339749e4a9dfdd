"""Estimators in one sentence and one formula each."""

from counterrank.estimators import Form, parse

_TABLE = {
    "auto": (
        "the recommended estimator: chooses from the log how many items to look at together, and "
        "corrects a reward model where the log allows it",
        "chosen along the order path; see the documentation of auto",
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
        "reweights the items that matter to each user, found by a tree of behaviours "
        "(Kiyohara et al. 2023)",
        "V = 1/n Σᵢ Σₖ αₖ wₖ(c(xᵢ)) rᵢₖ,  wₖ(c) = Π_{l: c[k,l]} π(a_l|x) / π₀(a_l|x)",
    ),
    "cascade-dr": (
        "reward model corrected from the top down (Kiyohara et al. 2022)",
        "V = 1/n Σᵢ Σₖ w₁..ₖ (rₖ − Qₖ) + w₁..ₖ₋₁ E_π[Qₖ]",
    ),
    "dm": ("reward model only; no weights, as wrong as the model is", "V = 1/n Σᵢ E_π[Q(xᵢ, a)]"),
    "pi": (
        "pseudo-inverse: for one reward a ranking that is a sum over items",
        "V = 1/n Σᵢ Rᵢ (1 + Σ_l (ρ_l − 1))",
    ),
}

#: Forms of any estimator with weights; its name stands in the braces.
_FORMS = {
    Form.RATIO: ("{} divided by the mean weight: a little bias for much less "
                 "variance", "V = Σᵢ wᵢ rᵢ / Σᵢ wᵢ"),
    Form.CONTROL: ("{} with the weights, whose mean is known, as control "
                   "variate", "V = mean(w r) − β (mean(w) − 1)"),
    Form.DR: ("a reward model corrected by the weights of {}: right if either is",
           "V = 1/n Σᵢ E_π[Q(xᵢ, a)] + Σₖ wₖ (rᵢₖ − Qₖ)"),
    Form.CLIPPED: ("{} with weights cut at a limit: biased towards less, with lighter "
                   "tails", "f(w) = min(w, limit)"),
    Form.SHRUNK: ("{} with large weights shrunk smoothly", "f(w) = λ w / (w² + λ),  λ = limit²"),
    Form.SWITCHED: ("{} where weights are small, a reward model where they are large",
               "V = 1/n Σᵢ E_π[Q] + Σₖ wₖ 1{wₖ ≤ limit} (rᵢₖ − Qₖ)"),
}  # fmt: skip


def describe(name: str) -> tuple[str, str] | None:
    """Return (sentence, formula) of an estimator, None when it is not known here.

    >>> describe("snips")[0]
    'ips divided by the mean weight: a little bias for much less variance'
    """
    if name in _TABLE:
        return _TABLE[name]
    parsed = parse(name)
    if parsed.order is not None and parsed.form in (Form.PLAIN, Form.DR):
        model = "" if parsed.plain else ", around a reward model"
        sentence = f"unbiased when effects involve at most {parsed.order} items at a time{model}"
        return (
            sentence,
            f"wₖ = ρₖ Σ over sets T of other items, |T| ≤ {parsed.order - 1}, of Π_{{l∈T}} (ρ_l − "
            "1)",
        )
    if parsed.form not in _FORMS:
        return None
    sentence, formula = _FORMS[parsed.form]
    return sentence.format(parsed.weights), formula
