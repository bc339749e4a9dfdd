"""What every page is made with: templates, style, script and the security policy that forbids requests."""

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from markupsafe import Markup

from counterrank._version import __version__
from counterrank.report.parts import tag

if TYPE_CHECKING:
    from jinja2 import Environment


def filled(template: str, **values: object) -> str:
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
