"""The self-contained page: one file, no request to anywhere, enforced by its own security policy.

And the same in a notebook cell.
"""

import base64
import hashlib
import json
from collections.abc import Callable, Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from markupsafe import Markup

from counterrank._version import __version__
from counterrank.report import metrics, sentences
from counterrank.report.behavior import behavior, visibility
from counterrank.report.estimates import agreement, order_path, values
from counterrank.report.numbers import count, percent, plain, span
from counterrank.report.parts import Section, tag
from counterrank.report.provenance import provenance
from counterrank.report.reading import Reading, family
from counterrank.report.trust import audit, planning, weights
from counterrank.report.where import positions, segments

if TYPE_CHECKING:
    from jinja2 import Environment

    from counterrank.evaluation import Evaluation

#: In the order of reading.
SECTIONS: tuple[Callable[[Reading], Section | None], ...] = (
    metrics.metrics, values, agreement, order_path, positions, segments, visibility, behavior, weights,
    audit, planning, provenance,
)  # fmt: skip


def render(result: "Evaluation", *, back: str | None = None) -> str:
    """Return the whole report as one HTML page that needs nothing else; `back` links to a list of reports."""
    reading = Reading(result)
    return page(
        "page.html.j2",
        title=title(reading),
        decision=_decision(reading),
        back=back,
        logged=sentences.logged(reading),
        cards=sentences.cards(reading),
        targets=reading.targets,
        sections=[section for make in SECTIONS if (section := make(reading)) is not None],
        data=_embedded(result),
    )


def title(reading: Reading) -> str:
    """Return the title of the page: the decision where there is more than one metric."""
    return metrics.headline(reading) if metrics.several(reading) else sentences.headline(reading)


def _decision(reading: Reading) -> list[str]:
    """Return the reasons of the decision, none where one metric speaks for itself."""
    return metrics.reasons(reading) if metrics.several(reading) else []


def page(template: str, **values: object) -> str:
    """Return a page of this package's look, with style, script and security policy filled in."""
    script = asset("script.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src "
        "data:; base-uri 'none'; form-action 'self'"
    )
    # Both come from this package, never from a user; the digest pins the script to the byte.
    fixed = {
        "style": Markup(asset("style.css")),
        "script": Markup(script),
        "policy": policy,
        "version": __version__,
    }
    return environment().get_template(template).render(**fixed, **values)


@cache
def environment() -> "Environment":
    """Return the templates, which escape everything they are given."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("counterrank.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip


@cache
def asset(name: str) -> str:
    """Return a file shipped beside the templates."""
    return (
        resources.files("counterrank.report")
        .joinpath("templates", name)
        .read_text(encoding="utf-8")
    )


def _embedded(result: "Evaluation") -> Markup:
    """The numbers travel with the page; `<` is escaped so that no text can end the element."""
    text = json.dumps(result.to_dict(), ensure_ascii=False, default=str)
    for char, code in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        text = text.replace(char, code)
    return Markup(text)


def fragment(result: "Evaluation") -> str:
    """Return a fragment in the notebook's own colours, and below it, folded, the whole page in a frame of its own."""
    reading = Reading(result)
    return environment().get_template("notebook.html.j2").render(
        logged=sentences.logged(reading), cards=sentences.cards(reading), level=sentences.level(reading),
        groups=[(target, _lines(reading, target)) for target in reading.targets], whole=framed(render(result)),
        decision=title(reading) if metrics.several(reading) else "", reasons=_decision(reading),
        metrics=metrics.summary_rows(reading) if metrics.several(reading) else [],
    )  # fmt: skip


def framed(page: str) -> Markup:
    """Return a page for a notebook, folded, in a frame of its own.

    The frame is sandboxed: the page may run its script and save files, and knows nothing of the
    notebook.
    """
    style = "width:100%;height:760px;border:1px solid #8884;border-radius:10px"
    inner = tag(
        "iframe", title="The whole report", sandbox="allow-scripts allow-downloads", srcdoc=page, style=style,
    )  # fmt: skip
    return tag("details", tag("summary", "The whole report"), inner, style="margin-top:.8em")


def in_short(lines: Sequence[str], page: str) -> str:
    """Return sentences, the first of them bold, and below them the whole page."""
    first, *rest = lines
    told = (tag("p", line, style="margin:.2em 0") for line in (tag("b", first), *rest))
    return str(tag("div", *told, framed(page), style="max-width:60em;line-height:1.45"))


def _lines(reading: Reading, target: str) -> list[dict[str, object]]:
    lines = []
    for index, e in enumerate(reading.of(target)):
        # As in the report: one column, one number of digits.
        error = reading.error(target, e)
        spread = reading.lift(target).stderr or e.lift.stderr
        lines.append(
            {
                "best": index == 0,
                "dim": family(e.estimator) == "biased",
                "estimator": e.estimator,
                "value": plain(e.value, error),
                "lift": plain(e.lift.value, spread, sign=True),
                "interval": span(e.lift.low, e.lift.high, spread, sign=True),
                "relative": percent(e.lift.relative, sign=True),
                "ess": count(e.ess),
                "flags": e.flags,
            }
        )
    return lines
