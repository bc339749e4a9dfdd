"""The documentation opened from disk, without a server or a network: its search answers."""

import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.browser


def test_the_search_works_from_disk(tmp_path, browser, visit):
    subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-b", "html", "docs", str(tmp_path)],
        cwd=ROOT, check=True, timeout=250,
    )  # fmt: skip
    context = browser.new_context(offline=True)
    faults = []

    def listen(page):
        page.on("pageerror", lambda fault: faults.append(fault))

    page = visit(context, (tmp_path / "index.html").as_uri(), listen)
    page.goto((tmp_path / "search.html").as_uri() + "?q=examination")
    expect(page.locator("#search-results li a").first).to_be_visible()
    assert faults == []
    context.close()
