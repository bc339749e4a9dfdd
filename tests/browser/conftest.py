"""A real browser: Debian's chromium through Playwright, offline."""

import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import TimeoutError as PlaywrightTimeout
from playwright.sync_api import expect, sync_playwright

CHROMIUM = "/usr/bin/chromium"
#: Nothing the browser might want from the network on its own.
ARGUMENTS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage"
).split()
#: A loaded machine may take its time; an assertion that holds is not slowed by this.
expect.set_options(timeout=60_000)


def unavailable(reason: str) -> None:
    """Skip on a developer's machine; in CI a missing browser is a failure, not a gap."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    path = shutil.which("chromium") or (CHROMIUM if os.path.exists(CHROMIUM) else None)
    if path is None:
        unavailable("no chromium: install Debian's package chromium")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield found
        found.close()


@pytest.fixture
def visit() -> Callable[..., Any]:
    """Return a way to open an address in a new page of a context: tried again when the browser does
    not answer.
    """

    def opened(context: Any, address: str, prepare: Callable[[Any], None]) -> Any:
        for attempts_left in (2, 1, 0):
            page = context.new_page()
            page.set_default_timeout(120_000)
            prepare(page)
            try:
                page.goto(address, timeout=60_000)
            except PlaywrightTimeout:
                page.close()
                if not attempts_left:
                    raise
                continue
            return page
        raise AssertionError

    return opened
