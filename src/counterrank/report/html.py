"""The self-contained page: one file, no request to anywhere, enforced by its own security policy."""

import base64
import hashlib
import json
from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from markupsafe import Markup

from counterrank._version import __version__
from counterrank.report import sentences
from counterrank.report.answers import cards
from counterrank.report.reading import Model, Reading
from counterrank.report.sections import (
    agreement,
    audit,
    behavior,
    numberline,
    order_path,
    planning,
    positions,
    provenance,
    segments,
    visibility,
    weights,
)
from counterrank.report.sections.parts import Section

if TYPE_CHECKING:
    from jinja2 import Environment

#: In the order of reading.
SECTIONS: tuple[Callable[[Reading], Section | None], ...] = (
    numberline.section,
    agreement.section,
    order_path.section,
    positions.section,
    segments.section,
    visibility.section,
    behavior.section,
    weights.section,
    audit.section,
    planning.section,
    provenance.section,
)


def render(model: Model, *, back: str | None = None) -> str:
    """Return the whole report as one HTML page that needs nothing else; `back` links to a list of
    reports.
    """
    reading = Reading(model)
    return page(
        "page.html.j2",
        title=sentences.headline(reading),
        back=back,
        logged=sentences.logged(reading),
        cards=cards(reading),
        targets=reading.targets,
        sections=[section for make in SECTIONS if (section := make(reading)) is not None],
        data=_embedded(model),
    )


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


def _embedded(model: Model) -> Markup:
    """The numbers travel with the page; `<` is escaped so that no text can end the element."""
    text = json.dumps(model, ensure_ascii=False, default=str)
    for char, code in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        text = text.replace(char, code)
    return Markup(text)
