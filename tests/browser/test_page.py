"""The page in a real browser: drawn, silent, self-contained, alive."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from playwright.sync_api import expect
from tests.report import sample

from counterrank.report.document import Document, Paragraph
from counterrank.report.html import page

pytestmark = pytest.mark.browser

EVIL = "\"><img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"


@dataclass
class Shown:
    """A page and everything it did that it should not."""

    page: Any
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@pytest.fixture
def show(browser: Any, visit: Callable[..., Any], tmp_path: Path) -> Iterator[Callable[..., Shown]]:
    contexts = []

    def opened(model: dict[str, Any], *, width: int = 1200, scheme: str = "light") -> Shown:
        path = tmp_path / "report.html"
        path.write_text(sample.page(model), encoding="utf-8")
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, accept_downloads=True
        )
        contexts.append(context)
        shown = Shown(None)

        def gate(route: Any) -> None:
            url = route.request.url
            if url == path.as_uri():
                route.continue_()
            else:
                shown.requests.append(url)
                route.abort()

        def watch(page: Any) -> None:
            page.on(
                "console",
                lambda message: shown.complaints.append(f"{message.type}: {message.text}"),
            )
            page.on("pageerror", lambda error: shown.complaints.append(str(error)))
            page.route("**/*", gate)

        shown.page = visit(context, path.as_uri(), watch)
        shown.page.eval_on_selector_all(
            "details.more", "all => all.forEach(one => { one.open = true; })"
        )
        return shown

    yield opened
    for context in contexts:
        context.close()


@pytest.fixture
def model() -> dict[str, Any]:
    return sample.model()


def test_charts_are_drawn_without_a_word_or_a_request(
    show: Callable[..., Shown], model: dict[str, Any]
) -> None:
    shown = show(model)
    # Marks with a size, not just elements: two targets, every kind of chart.
    sizes = shown.page.eval_on_selector_all(
        ".dot, .span",
        "all => all.map(one => one.getBoundingClientRect()).filter(b => b.width > 0)",
    )
    assert len(sizes) > 100
    for name in (
        "values",
        "estimators",
        "order",
        "positions",
        "segments",
        "weights",
    ):
        assert shown.page.locator(f"#{name} svg").count() >= 1, name
    assert shown.complaints == [] and shown.requests == []


def test_marks_stand_in_the_order_of_their_values(
    show: Callable[..., Shown], model: dict[str, Any]
) -> None:
    page = show(model).page
    script = (
        "all => all.map(one => { const b = one.getBoundingClientRect(); return b.left + "
        "b.width / 2; })"
    )
    # The first chart has the lifts, the second the values.
    lifts, values = (
        page.eval_on_selector_all(f"#values figure:nth-of-type({n}) .mark .dot", script)
        for n in (1, 2)
    )
    assert lifts[1] < lifts[0]
    today, good, bad = values
    assert bad < today < good
    # 1.08, 1.2 and 1.3 on one linear axis.
    assert (today - bad) / (good - today) == pytest.approx(0.12 / 0.10, rel=0.02)


def test_hover_focus_and_escape(show: Callable[..., Shown], model: dict[str, Any]) -> None:
    shown = show(model)
    page, tip = shown.page, expect(shown.page.locator("#tip"))
    tip.to_be_hidden()
    page.locator("#estimators .mark").first.hover()
    tip.to_be_visible()
    tip.to_contain_text("effective rows")
    tip.to_contain_text("auto")
    page.mouse.move(2, 2)
    tip.to_be_hidden()
    page.locator("#order .chart").first.focus()
    page.keyboard.press("ArrowRight")
    tip.to_contain_text("each item alone")
    page.keyboard.press("ArrowRight")
    tip.to_contain_text("the whole ranking")
    page.keyboard.press("Escape")
    tip.to_be_hidden()
    assert shown.complaints == []


def test_a_scroll_told_late_leaves_the_text_of_the_mark_under_the_mouse(
    show: Callable[..., Shown], model: dict[str, Any]
) -> None:
    page = show(model).page
    page.locator("#estimators .mark").first.hover()
    page.evaluate("document.dispatchEvent(new Event('scroll'))")
    expect(page.locator("#tip")).to_contain_text("effective rows")
    # The mark leaves; the mouse stays.
    page.evaluate("window.scrollTo(0, 0)")
    page.mouse.move(2, 2)
    page.evaluate("document.dispatchEvent(new Event('scroll'))")
    expect(page.locator("#tip")).to_be_hidden()


def test_dark_follows_the_system_and_the_button(
    show: Callable[..., Shown], model: dict[str, Any]
) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    light = show(model).page.evaluate(paper)
    dark = show(model, scheme="dark").page
    assert dark.evaluate(paper) != light
    dark.click("#theme")
    assert dark.evaluate(paper) == light


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast(show: Callable[..., Shown], model: dict[str, Any], scheme: str) -> None:
    """WCAG 2.2, 1.4.3: at least 4.5 to 1 for text, 1.4.11: 3 to 1 for marks."""
    page = show(model, scheme=scheme).page
    colours = page.evaluate(
        """() => {
          const box = document.createElement("div"); document.body.append(box);
          const get = (name) => {
            box.style.color = `var(${name})`;
            return getComputedStyle(box).color.match(/[\\d.]+/g).map(Number);
          };
          const names = ["paper", "card", "ink", "soft", "good", "good-bg", "mid", "mid-bg", "bad", "bad-bg", "faint",
                         "t0", "t1", "t2", "t3", "t4", "t5", "today"];
          return Object.fromEntries(names.map((name) => [name, get("--" + name)]));
        }"""
    )
    pairs = [("ink", "paper"), ("soft", "paper"), ("soft", "card"), ("soft", "faint"), ("ink", "faint"),
             ("good", "good-bg"), ("mid", "mid-bg"), ("bad", "bad-bg")]  # fmt: skip
    for front, back in pairs:
        assert contrast(colours[front], colours[back]) >= 4.5, (front, back)
    for mark in ("t0", "t1", "t2", "t3", "t4", "t5", "today"):
        assert contrast(colours[mark], colours["card"]) >= 3, mark


def contrast(one: list[float], two: list[float]) -> float:
    bright, dim = sorted((luminance(one), luminance(two)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def luminance(colour: list[float]) -> float:
    parts = [
        c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4
        for c in colour[:3]
    ]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


@pytest.mark.parametrize("width", [320, 700, 1800])
def test_nothing_scrolls_sideways(
    show: Callable[..., Shown], model: dict[str, Any], width: int
) -> None:
    model = json.loads(
        json.dumps(model).replace("personalised", "a_very_long_name_without_any_space_" * 3)
    )
    page = show(model, width=width).page
    page.eval_on_selector_all("details", "all => all.forEach(one => { one.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_no_table_is_cut_on_a_phone(show: Callable[..., Shown], model: dict[str, Any]) -> None:
    page = show(model, width=400).page
    page.eval_on_selector_all("details", "all => all.forEach(one => { one.open = true; })")
    wider = page.eval_on_selector_all(
        ".scroll", "all => all.filter(one => one.scrollWidth > one.clientWidth).length"
    )
    tables = page.locator("table")
    assert tables.count() > 3 and wider == 0
    # Below each other, each cell says what it is.
    first = page.locator("table.wide td").first
    assert first.evaluate("one => getComputedStyle(one, '::before').content") not in ("none", "")


def test_hostile_names_are_inert(show: Callable[..., Shown], model: dict[str, Any]) -> None:
    shown = show(json.loads(json.dumps(model).replace("clickbait", json.dumps(EVIL)[1:-1])))
    page = shown.page
    page.locator("#estimators .mark").last.hover()
    expect(page.locator("#tip")).to_be_visible()
    assert "taken" not in page.title().split("·")[1]
    assert page.locator("img").count() == 0
    assert page.locator("h2", has_text="<img src=x").count() == 1
    assert shown.complaints == [] and shown.requests == []


def test_the_policy_stops_what_escaping_missed(
    show: Callable[..., Shown], model: dict[str, Any]
) -> None:
    shown = show(model)
    shown.page.evaluate(
        """() => {
          const script = document.createElement("script");
          script.textContent = "window.taken = true";
          const image = new Image();
          image.src = "https://example.org/x.png";
          document.body.append(script, image);
        }"""
    )
    # The browser reports what it refused on its own time; a round trip lets such messages in.
    for _ in range(200):
        if any("Content Security Policy" in text for text in shown.complaints):
            break
        shown.page.wait_for_timeout(50)
    assert any("Content Security Policy" in text for text in shown.complaints)
    assert shown.page.evaluate("window.taken") is None
    assert shown.requests == []


def test_the_numbers_can_be_saved(show: Callable[..., Shown], model: dict[str, Any]) -> None:
    page = show(model).page
    with page.expect_download() as waiting:
        page.click("#json")
    assert json.loads(Path(waiting.value.path()).read_text()) == sample.result(model).to_dict()


def test_paper_shows_every_section(show: Callable[..., Shown], model: dict[str, Any]) -> None:
    page = show(model, scheme="dark").page
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("nav").is_hidden() and page.locator("#json").is_hidden()
    assert page.locator("#order .track").first.is_visible()
    whole = page.pdf(format="A4")
    page.eval_on_selector_all("details.more", "all => all.forEach(one => { one.open = false; })")
    summary = page.pdf(format="A4")
    assert summary.startswith(b"%PDF") and len(summary) < len(whole)


def test_every_chart_can_be_saved_as_a_picture_of_its_own(show, tmp_path: Path):
    shown = show(sample.model())
    figures = shown.page.locator("figure:has(.chart)")
    assert figures.count() > 5
    meets = """figure => {
      const range = document.createRange();
      range.selectNodeContents(figure.querySelector("h3"));
      const save = figure.querySelector(".save").getBoundingClientRect();
      return [...range.getClientRects()].some(r => r.right > save.left && r.top < save.bottom);
    }"""
    for width in (1300, 500):
        shown.page.set_viewport_size({"width": width, "height": 900})
        titles = [one.locator("h3").inner_text() for one in figures.all() if one.evaluate(meets)]
        assert titles == []  # the buttons cover no title
    first = figures.first
    first.hover()
    for kind in ("SVG", "PNG"):
        with shown.page.expect_download() as download:
            first.get_by_role("button", name=f"Save this chart as {kind}").click()
        path = tmp_path / f"saved.{kind.lower()}"
        download.value.save_as(path)
        assert download.value.suggested_filename.endswith(path.suffix)
    text = (tmp_path / "saved.svg").read_text()
    root = ElementTree.fromstring(text)
    assert root.tag.endswith("svg") and "foreignObject" not in text
    words = "".join(root.itertext())
    assert "no change" in words
    # The label of the highest tick lies half above its strip.
    inner = [one for one in root.iter("{http://www.w3.org/2000/svg}svg") if one is not root]
    assert inner and all("overflow: visible" in one.attrib["style"] for one in inner)
    png = (tmp_path / "saved.png").read_bytes()
    assert png.startswith(b"\x89PNG")
    width, height = (int.from_bytes(png[at : at + 4]) for at in (16, 20))
    assert (width, height) == (2 * int(root.attrib["width"]), 2 * int(root.attrib["height"]))
    saved = []
    for figure in figures.all()[:8]:
        figure.hover()
        with shown.page.expect_download() as download:
            figure.get_by_role("button", name="Save this chart as SVG").click()
        saved.append(download.value.suggested_filename)
    assert len(set(saved)) == len(saved)  # names say what is drawn, not only of whom
    assert shown.complaints == []


def test_a_page_without_a_list_of_sections_has_its_whole_width(browser: Any, tmp_path: Path):
    path = tmp_path / "short.html"
    path.write_text(page(Document("A title", [Paragraph("A sentence.")])), encoding="utf-8")
    shown = browser.new_page(viewport={"width": 1280, "height": 900})
    shown.goto(path.as_uri())
    assert shown.locator("main").bounding_box()["width"] > 1000
    shown.close()
