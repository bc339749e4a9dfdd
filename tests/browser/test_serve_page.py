"""The list and the comparison in a real browser."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect
from tests.report import sample

from counterrank.report.serve import make_server, record

pytestmark = pytest.mark.browser


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    for name, today in (("monday.json", 1.2), ("tuesday.json", 1.25)):
        (tmp_path / name).write_text(json.dumps(sample.model(today)))
    with make_server(tmp_path) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.url
        server.shutdown()
        thread.join()


def test_from_the_list_to_a_report_and_a_comparison(
    browser: Any, visit: Callable[..., Any], url: str
) -> None:
    context = browser.new_context(viewport={"width": 360, "height": 800})
    complaints: list[str] = []

    def watch(page: Any) -> None:
        page.on("console", lambda message: complaints.append(message.text))
        page.on(
            "request",
            lambda request: (
                complaints.append(request.url)
                if not request.url.startswith((url, "data:"))
                else None
            ),
        )

    page = visit(context, url, watch)
    page.click("text=monday.json")
    expect(page.locator("h1")).to_contain_text("personalised beats")
    page.click("text=All results")
    page.check("input[name=a][value='monday.json']")
    page.check("input[name=b][value='tuesday.json']")
    page.click("text=Compare A and B")
    expect(page.locator("h1")).to_have_text("Two evaluations")
    expect(page.locator(".rows .dot")).to_have_count(4)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert complaints == []
    context.close()


def test_history_shows_runs_over_time_and_what_was_earned(
    browser: Any, visit: Callable[..., Any], url: str, tmp_path: Path
) -> None:
    record(tmp_path / "monday.json", 1.3, 0.05, "personalised")
    context = browser.new_context(viewport={"width": 1100, "height": 900})
    complaints: list[str] = []
    page = visit(
        context,
        url,
        lambda page: page.on("console", lambda message: complaints.append(message.text)),
    )
    page.click("text=all of them over time")
    expect(page.locator("h1")).to_have_text("Runs over time")
    section = page.locator("section", has=page.locator("h2", has_text="personalised"))
    expect(section.locator(".held")).to_contain_text("interval whose outcome is known")
    expect(section.locator("tbody tr")).to_have_count(2)
    expect(section.locator("figure").first.locator(".dot")).to_have_count(2)
    section.locator("text=tuesday.json").click()
    expect(page.locator("h1")).to_contain_text("personalised beats")
    assert complaints == []
    context.close()
