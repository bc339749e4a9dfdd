"""The page in a real browser: drawn, silent, self-contained, alive."""

import json
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from playwright.sync_api import expect
from tests.report import commands, sample

from counterrank.report.document import Document, Paragraph
from counterrank.report.history import record, write_history
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

    def opened(model: dict[str, Any] | str, *, width: int = 1200, scheme: str = "light") -> Shown:
        path = tmp_path / "report.html"
        text = model if isinstance(model, str) else sample.page(model)
        path.write_text(text, encoding="utf-8")
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
    assert len(sizes) > 90
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


def test_marks_stand_where_their_values_are_on_the_axis(
    show: Callable[..., Shown], model: dict[str, Any]
) -> None:
    page = show(model).page
    middle = "all => all.map(one => { const b = one.getBoundingClientRect(); return b.left + b.width / 2; })"
    good, bad = page.eval_on_selector_all(".forest .plot .dot", middle)
    lines = page.eval_on_selector_all(".forest tbody tr:first-child .ground .zero", middle)
    lifts = [100 * sample.result(model).estimate(target).lift.relative for target in sample.TARGETS]
    # +8.3 and -10.0 per cent on one linear axis with zero between them.
    assert bad < lines[0] < good
    assert (good - lines[0]) / (lines[0] - bad) == pytest.approx(-lifts[0] / lifts[1], rel=0.02)
    today, first, second = page.eval_on_selector_all("#values .dot", middle)
    assert second < today < first


def test_hover_focus_and_escape(show: Callable[..., Shown], model: dict[str, Any]) -> None:
    shown = show(model)
    page, tip = shown.page, expect(shown.page.locator("#tip"))
    tip.to_be_hidden()
    page.locator("#estimators [data-tip]").first.hover()
    tip.to_be_visible()
    tip.to_contain_text("effective rows")
    tip.to_contain_text("auto")
    page.mouse.move(2, 2)
    tip.to_be_hidden()
    page.locator("#order .chart").first.focus()
    page.keyboard.press("ArrowRight")
    tip.to_contain_text("each item alone")
    # A line has a mark for each policy.
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    tip.to_contain_text("the whole ranking")
    page.keyboard.press("Escape")
    tip.to_be_hidden()
    assert shown.complaints == []


def test_a_scroll_told_late_leaves_the_text_of_the_mark_under_the_mouse(
    show: Callable[..., Shown], model: dict[str, Any]
) -> None:
    page = show(model).page
    page.locator("#estimators [data-tip]").first.hover()
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


#: Text that is small, faint, outside of the page, or lies on other text; WCAG 2.2, 1.4.3: 4.5 to 1.
FAULTS = """() => {
  const faults = [], width = document.documentElement.clientWidth, texts = [];
  if (document.documentElement.scrollWidth > width) faults.push("the page scrolls sideways");
  const light = (colour) => {
    const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map((x) => {
      x /= 255;
      return x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (; element; element = element.parentElement) {
      const colour = getComputedStyle(element).backgroundColor;
      if (colour !== "rgba(0, 0, 0, 0)") return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode, element = node.parentElement;
    if (!node.data.trim() || element.closest("script, style, .unseen, .skip, #tip")) continue;
    if (!element.checkVisibility()) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const box = range.getBoundingClientRect(), style = getComputedStyle(element);
    if (!box.width || !box.height) continue;
    const name = node.data.trim().slice(0, 40);
    if (parseFloat(style.fontSize) < 12) faults.push(`small: ${style.fontSize} ${name}`);
    if (box.left < -0.5 || box.right > width + 0.5) faults.push(`outside: ${name}`);
    const front = element.tagName === "text" ? style.fill : style.color;
    const [dark, bright] = [light(front), light(behind(element))].sort((a, b) => a - b);
    if ((bright + 0.05) / (dark + 0.05) < 4.5) faults.push(`faint: ${name}`);
    // Lines of a name that is cut after the second are not shown, nor those that a long table scrolls to.
    const frame = style.overflow === "hidden" ? element : element.closest(".scroll.long");
    const end = frame ? frame.getBoundingClientRect().bottom - 2 : Infinity;
    for (const line of range.getClientRects()) if (line.top < end) texts.push([line, name, node]);
  }
  texts.forEach(([a, name, node], index) => {
    for (const [b, other, second] of texts.slice(index + 1)) {
      const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (node !== second && across > 1.5 && down > 4) faults.push(`overlap: ${name} | ${other}`);
    }
  });
  return faults.slice(0, 15);
}"""


@pytest.mark.parametrize("name", ["plain", "six", "refused", "hostile"])
@pytest.mark.parametrize(
    ("width", "scheme"), [(1280, "light"), (1024, "light"), (400, "dark"), (320, "light")]
)
def test_no_text_is_small_faint_cut_or_on_other_text(
    show: Callable[..., Shown], name: str, width: int, scheme: str
) -> None:
    models = {
        "plain": sample.model,
        "six": sample.six,
        "refused": sample.refused,
        "hostile": hostile,
    }
    page = show(models[name](), width=width, scheme=scheme).page
    assert page.evaluate(FAULTS) == []
    page.eval_on_selector_all("details", "all => all.forEach(one => { one.open = true; })")
    assert page.evaluate(FAULTS) == []


def long_rankings(monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the page of rankings of 20 positions."""
    monkeypatch.setattr(sample, "K", 20)
    return sample.page(sample.model())


def history(folder: Path) -> str:
    """Return the page of two runs, one of which a test has measured."""
    runs = folder / "runs"
    runs.mkdir()
    for day, today in ((1, 1.2), (2, 1.25)):
        model = sample.model(today)
        path = runs / f"2026-03-{day:02d}.json"
        path.write_text(json.dumps(model), encoding="utf-8")
    record(runs / "2026-03-01.json", 1.1, 0.01, "personalised")
    write_history(runs, folder / "history.html")
    return (folder / "history.html").read_text(encoding="utf-8")


def texts_on_pages(pdf: bytes) -> list[int]:
    """Return how many pieces of text each page of a printed document has."""
    streams = {
        number: zlib.decompress(packed).count(b" Tj") + zlib.decompress(packed).count(b"TJ")
        for number, packed in re.findall(
            rb"(\d+) 0 obj\n<<[^>]*/FlateDecode[^>]*>> stream\n(.*?)\nendstream", pdf, flags=re.S
        )
    }
    pages = re.findall(rb"/Type /Page\n.*?/Contents (\d+) 0 R", pdf, flags=re.S)
    return [streams[number] for number in pages]


@pytest.mark.parametrize(
    "name",
    ["A/B test", "learned policy", "plan", "validation", "history", "long rankings"],
)
def test_the_page_of_every_command_is_readable_on_screens_and_on_paper(
    show: Callable[..., Shown], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    if name == "history":
        text = history(tmp_path)
    elif name == "long rankings":
        text = long_rankings(monkeypatch)
    else:
        text = commands.results()[name].to_html()
    shown = show(text, width=1280)
    page = shown.page
    for width in (1280, 400):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(FAULTS) == [], width
        page.eval_on_selector_all("details", "all => all.forEach(one => { one.open = true; })")
        assert page.evaluate(FAULTS) == [], width
    assert shown.complaints == [] and shown.requests == []
    page.eval_on_selector_all("details", "all => all.forEach(one => { one.open = false; })")
    printed = texts_on_pages(page.pdf(format="A4"))
    # The answer is on the first page, and no page has a last line alone.
    assert printed[0] > 15 and min(printed) > 5, printed


def hostile() -> dict[str, Any]:
    """A policy whose name is markup, and one that is long and has no space."""
    text = json.dumps(sample.model()).replace("clickbait", json.dumps(EVIL)[1:-1])
    found: dict[str, Any] = json.loads(
        text.replace("personalised", "a_very_long_name_without_any_space_" * 3)
    )
    return found


#: What axe-core checks of a page like this, by the rules' names there.
BARRIERS = """() => {
  const faults = [], all = (selector) => [...document.querySelectorAll(selector)];
  if (!document.documentElement.lang) faults.push("html-has-lang");
  if (all("h1").length !== 1) faults.push("page-has-heading-one");
  let level = 0;
  for (const head of all("h1, h2, h3, h4")) {
    const now = Number(head.tagName[1]);
    if (now > level + 1) faults.push(`heading-order: ${head.textContent}`);
    level = now;
  }
  const ids = all("[id]").map((one) => one.id);
  if (new Set(ids).size !== ids.length) faults.push("duplicate-id");
  for (const one of all("button, a[href], summary")) {
    if (!(one.getAttribute("aria-label") || one.textContent).trim()) faults.push("button-name");
  }
  for (const one of all("svg")) {
    const named = one.getAttribute("aria-label") || one.closest("svg svg, [aria-hidden=true]");
    if (!named) faults.push("svg-img-alt");
  }
  for (const one of all("table")) if (!one.caption) faults.push("table without a caption");
  for (const one of all("th")) if (!one.scope) faults.push(`th without scope: ${one.textContent}`);
  for (const row of all("[role=row]")) {
    const inner = [...row.children].map((one) => one.getAttribute("role"));
    if (inner.some((role) => !["cell", "columnheader", "rowheader"].includes(role))) {
      faults.push("aria-required-children");
    }
  }
  for (const one of all("main > *")) if (!["SECTION"].includes(one.tagName)) faults.push("region");
  for (const one of all("dl, ul")) {
    if ([...one.children].some((child) => child.tagName !== "LI")) faults.push("list");
  }
  return faults;
}"""


@pytest.mark.parametrize("name", ["model", "six", "refused"])
def test_readers_of_any_kind_find_their_way(show: Callable[..., Shown], name: str) -> None:
    assert show(getattr(sample, name)()).page.evaluate(BARRIERS) == []


def test_six_policies_and_five_metrics_fit_side_by_side_and_stack(
    show: Callable[..., Shown],
) -> None:
    wide = show(sample.six(), width=1280).page
    box = wide.locator(".forest").first.bounding_box()
    assert box["width"] <= 1280 and wide.locator(".forest thead th").count() == 6
    tops = {
        one.bounding_box()["y"]
        for one in wide.locator(".forest tbody tr").first.locator("td").all()
    }
    assert len(tops) == 1
    assert wide.locator(".forest .badge").count() == 6
    narrow = show(sample.six(), width=400).page
    tops = [
        one.bounding_box()["y"]
        for one in narrow.locator(".forest tbody tr").first.locator("td").all()
    ]
    assert tops == sorted(set(tops)) and len(tops) == 6


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
    page.locator("#estimators [data-tip]").last.hover()
    expect(page.locator("#tip")).to_be_visible()
    assert "taken" not in page.title().split("·")[1]
    assert page.locator("img").count() == 0
    assert page.locator(".forest b", has_text="<img src=x").count() == 1
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
    assert page.locator("#json").is_hidden()
    assert page.locator("#order .track").first.is_visible()
    whole = page.pdf(format="A4")
    page.eval_on_selector_all("details.more", "all => all.forEach(one => { one.open = false; })")
    summary = page.pdf(format="A4")
    assert summary.startswith(b"%PDF") and len(summary) < len(whole)


def test_every_chart_can_be_saved_as_a_picture_of_its_own(show, tmp_path: Path):
    shown = show(sample.model())
    figures = shown.page.locator("figure:has(.chart)")
    assert figures.count() > 3
    meets = """figure => {
      const save = figure.querySelector(".save").getBoundingClientRect();
      const names = [...figure.querySelectorAll("caption, th, figcaption, text")];
      return names.map(name => name.getBoundingClientRect())
        .some(box => box.width > 1 && box.right > save.left && box.top < save.bottom - 4);
    }"""
    for width in (1300, 500):
        shown.page.set_viewport_size({"width": width, "height": 900})
        covered = [one.inner_text()[:40] for one in figures.all() if one.evaluate(meets)]
        assert covered == []  # the buttons cover no title
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
    assert "today" in words and "Ship" in words
    # White words of a badge have its ground behind them.
    fills = {one.attrib.get("fill") for one in root.iter("{http://www.w3.org/2000/svg}rect")}
    assert "rgb(10, 94, 168)" in fills
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
