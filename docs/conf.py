"""How the documentation is built: Markdown pages by MyST, the API from docstrings."""

import re

from counterrank import __version__

project = "counterrank"
author = "The counterrank developers"
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
exclude_patterns = ["notebooks/*", "_build"]
source_suffix = {".md": "markdown"}

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
suppress_warnings = ["myst.header"]

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "undoc-members": False}
napoleon_google_docstring = False
# A name in backticks is code, as in Markdown.
default_role = "code"

html_theme = "pydata_sphinx_theme"
html_title = "counterrank"
html_theme_options = {
    "show_prev_next": True,
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,
}
# A page without a section has no menu at its side.
html_sidebars = {"gallery": []}
html_show_sourcelink = False
# Summaries are fetched page by page, which browsers refuse for a site opened from disk.
html_show_search_summary = False
html_static_path: list[str] = []
html_extra_path = ["../llms.txt"]
napoleon_use_ivar = True


def plain(app, what, name, obj, options, lines):
    """Escape what docstrings mean literally: |a| is an absolute value, x_ a prefix of columns."""
    for number, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            parts = line.split("`")
            parts[::2] = [re.sub(r"\||\b\w+_(?!\w)", _escaped, part) for part in parts[::2]]
            lines[number] = "`".join(parts)


def _escaped(found: re.Match[str]) -> str:
    return found[0][:-1] + "\\" + found[0][-1]


def setup(app):
    """Register the hook."""
    app.connect("autodoc-process-docstring", plain)
