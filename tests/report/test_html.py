"""The page: complete, self-contained, inert to hostile names, tolerant of missing parts."""

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.report import sample

from counterrank.common.errors import ConfigError
from counterrank.report import evaluation, html
from counterrank.report.html import asset

SECTIONS = (
    "segments reads health details reasons values estimators order positions behavior "
    "weights planning method"
).split()
EVIL = "\"><script>alert(1)</script><img src=x onerror=alert(2)>'</style></script>"


class Page(HTMLParser):
    """Collects tags, attributes and whether elements nest."""

    VOID = frozenset("meta link input br img".split())

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.open: list[str] = []
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)


@pytest.fixture
def model() -> dict[str, Any]:
    return sample.model()


def test_every_section_is_there_in_order(model: dict[str, Any]) -> None:
    page = Page(sample.page(model))
    assert [v for tag, name, v in page.attributes if tag == "section" and name == "id"] == [
        "answer",
        *SECTIONS,
    ]
    assert page.open == []


def test_every_figure_has_an_aid_and_ids_are_unique(model: dict[str, Any]) -> None:
    text = sample.page(model)
    page = Page(text)
    figures = text.split("<figure")[1:]
    assert len(figures) == page.tags.count("figure") > 5
    assert all(
        re.search("<figcaption|<caption", figure.split("</figure>")[0]) for figure in figures
    )
    # What to see stands above a picture or below it.
    told = sum(text.count(f'class="{style}"') for style in ("aid", "legend", "lead"))
    assert told >= page.tags.count("figure")
    # A picture is a table with its numbers; nothing has to be opened for them.
    drawn = [figure for figure in figures if 'class="reading"' not in figure[:20]]
    assert len(drawn) > 5 and all("<table" in figure for figure in drawn)
    assert page.tags.count("details") == page.tags.count("summary") > 5
    ids = [value for _, name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))


def test_nothing_points_outside(model: dict[str, Any]) -> None:
    page = Page(sample.page(model))
    outward = [
        (t, n, v)
        for t, n, v in page.attributes
        if n in ("src", "href", "action", "data", "poster", "srcset")
    ]
    assert all(v.startswith("#") or v == "data:," for _, _, v in outward)
    assert "url(" not in asset("style.css") and "@import" not in asset("style.css")
    assert not re.search(r"fetch|XMLHttpRequest|WebSocket|innerHTML|eval", asset("script.js"))


def test_the_policy_allows_this_script_and_no_other(model: dict[str, Any]) -> None:
    page = Page(sample.page(model))
    policy = next(
        v for t, n, v in page.attributes if t == "meta" and n == "content" and "default-src" in v
    )
    digest = base64.b64encode(hashlib.sha256(page.scripts[-1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none'")


def test_the_page_carries_its_numbers(model: dict[str, Any]) -> None:
    page = Page(sample.page(model))
    assert json.loads(page.scripts[0]) == sample.result(model).to_dict()


def test_the_page_is_small(model: dict[str, Any]) -> None:
    assert len(sample.page(model).encode()) < 400_000


#: Words of a fixed set, and names by which rows are found.
FIXED = (
    "schema",
    "status",
    "level",
    "targets",
    "target",
    "estimator",
    "recommended",
    "evidence",
    "kind",
)


def poisoned(value: Any) -> Any:
    """Every text in the model replaced by a hostile one; keys of targets follow."""
    if isinstance(value, dict):
        return {key: item if key in FIXED else poisoned(item) for key, item in value.items()}
    if isinstance(value, list):
        return [poisoned(item) for item in value]
    return EVIL if isinstance(value, str) else value


@pytest.mark.parametrize("render", [html.page, html.fragment])
def test_hostile_texts_stay_text(model: dict[str, Any], render: Any) -> None:
    clean = Page(render(sample.document(model)))
    page = Page(render(sample.document(poisoned(model))))
    assert page.tags.count("script") == clean.tags.count("script")
    assert "img" not in page.tags
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert page.open == []


def test_hostile_target_names_stay_text(model: dict[str, Any]) -> None:
    text = json.dumps(model).replace("clickbait", json.dumps(EVIL)[1:-1])
    page = Page(sample.page(json.loads(text)))
    assert "img" not in page.tags and page.tags.count("script") == 2
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]


@pytest.mark.parametrize("key", list(sample.model()))
@pytest.mark.parametrize("value", [None, [], "text"])
def test_any_part_may_be_missing_or_odd(key: str, value: Any) -> None:
    # A page with what there is, or one message that names the part.
    try:
        broken = sample.result({**sample.model(), key: value})
    except ConfigError as problem:
        assert "damaged" in str(problem) or "is expected here" in str(problem)
        return
    shown = evaluation.document(broken)
    for text in (html.page(shown), html.fragment(shown)):
        assert Page(text).open == []


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place of a model; of a list, and of a table by names of people, the first entry only."""
    if path:
        yield path
    named = any("/" in key for key in value) if isinstance(value, dict) else isinstance(value, list)
    keys = (
        range(len(value)) if isinstance(value, list) else value if isinstance(value, dict) else ()
    )
    for key in list(keys)[: 1 if named else None]:
        if key != "others":  # the same forest again
            yield from places(value[key], (*path, key))


@pytest.mark.parametrize("value", [None, 0, [1.0]], ids=repr)
def test_any_place_may_be_damaged(value: Any) -> None:
    # A page with what there is, or one message when the result is read; never anything else.
    for *above, last in places(sample.model()):
        model = sample.model()
        place: Any = model
        for key in above:
            place = place[key]
        place[last] = value
        try:
            found = sample.result(model)
        except ConfigError:
            continue
        assert Page(html.page(evaluation.document(found))).open == [], (*above, last)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_leaf_may_be_anything(data: st.DataObject) -> None:
    model = sample.model()
    place: Any = model
    for _ in range(data.draw(st.integers(1, 4))):
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            break
        key = data.draw(st.sampled_from(keys))
        if not isinstance(place[key], (dict, list)):
            break
        parent, place = place, place[key]
        last = (parent, key)
    parent, key = last if place is not model else (model, "log")
    parent[key] = data.draw(JSON)
    try:
        found = sample.result(model)
    except ConfigError:
        return
    assert Page(html.page(evaluation.document(found))).open == []


def test_insufficient_evidence_looks_insufficient(model: dict[str, Any]) -> None:
    model["verdict"]["targets"]["personalised"] = "insufficient"
    text = sample.page(model)
    assert "best guess" in text and "An A/B test would settle it without weights." in text


def test_four_sections_are_open_and_short(model: dict[str, Any]) -> None:
    text = sample.page(model)
    before, fold, _ = text.partition("For data scientists</h2>")
    words = re.sub(r"<(style|script)[^>]*>.*?</\1>|<[^>]+>", " ", before, flags=re.S).split()
    assert fold and 100 < len(words) < 900


def test_unseen_characters_of_names_are_marked(model: dict[str, Any]) -> None:
    for unseen in ("\u202e", "\x1b", "\x00", "\ud800"):
        text = json.dumps(model).replace("clickbait", json.dumps(f"a{unseen}b")[1:-1])
        page = sample.page(json.loads(text))
        assert unseen not in page and "a\ufffdb" in page
        page.encode("utf-8")


def contrast(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """Return the ratio of luminances by WCAG 2."""

    def luminance(colour: tuple[float, ...]) -> float:
        parts = [c / 255 for c in colour]
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_bars_of_intervals_have_contrast(theme: str) -> None:
    style = asset("style.css")
    block = (
        style.split("}")[0]
        if theme == "light"
        else style.split("prefers-color-scheme: dark")[1].split("}")[0]
    )
    colours = {
        name: tuple(int(code[i : i + 2], 16) for i in (0, 2, 4))
        for name, code in re.findall(r"--([\w-]+): #([0-9a-f]{6})", block)
    }
    paper = colours["paper"]
    for name in ("better", "worse", "unclear", "today", "plain"):
        # Behind a mark may lie the page, the shade around zero, or the hatching of a guardrail.
        for ground in ("paper", "band", "harm", "hatch"):
            assert contrast(colours[name], colours[ground]) >= 3.0, (name, ground)
    for name in ("ink", "soft", "better", "worse"):
        assert contrast(colours[name], paper) >= 4.5, name
    assert contrast(colours["fill"], colours["better"]) >= 4.5
    assert contrast(colours["fill"], colours["worse"]) >= 4.5


@pytest.mark.parametrize("made", [sample.model, sample.six, sample.refused])
def test_a_notebook_gets_a_light_answer_and_a_button_that_saves_the_page(made):
    result = sample.result(made())
    cell = result._repr_html_()
    assert len(cell.encode()) <= html.MOST_BYTES
    headline = re.sub("<[^>]+>", "", str(html.tag("p", *html._apart(result.document().title))))
    assert headline in re.sub("<[^>]+>", "", cell)
    # The frame may save files, and reaches nothing else.
    assert 'sandbox="allow-scripts allow-downloads"' in cell and "http" not in cell
    packed = re.search(r"atob\(&#34;([^&]+)&#34;\)", cell)[1]
    saved = zlib.decompress(base64.b64decode(packed)).decode()
    assert saved.startswith("<!doctype html>") and headline in re.sub("<[^>]+>", "", saved)
    assert 'class="forest' in saved and saved.rstrip().endswith("</html>")


def test_a_notebook_is_told_how_to_save_what_is_too_large(monkeypatch):
    monkeypatch.setattr(html, "MOST_BYTES", 1000)
    cell = sample.result()._repr_html_()
    assert "<iframe" not in cell and "result.to_html(" in cell
