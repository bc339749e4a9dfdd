"""The documentation opened from disk, without a server or a network: its search answers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.browser


def test_the_search_works_from_disk(tmp_path, browser, visit):
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "-q", "-d", str(tmp_path)], cwd=ROOT, check=True,
        timeout=250, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    context = browser.new_context(offline=True)
    faults = []

    def listen(page):
        page.on("pageerror", lambda fault: faults.append(fault))

    page = visit(context, (tmp_path / "index.html").as_uri(), listen)
    page.click("input[name=query]")
    page.keyboard.type("examination")
    expect(page.locator(".md-search-result__item a").first).to_be_visible()
    assert faults == []
    context.close()
