"""The browser of the tests of the site: Playwright's, which starts the Chromium that the system has."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser

from conformance_tests.meta_tests.site.browser import OPTIONS, PATIENCE, PROGRAM, Visit


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any]) -> dict[str, Any]:
    """Return how Playwright starts the browser, or skip where there is none."""
    if PROGRAM is None:
        pytest.skip("this runs in Chromium, which is not installed here")
    return browser_type_launch_args | {"executable_path": PROGRAM, "args": OPTIONS, "timeout": PATIENCE}


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visit]:
    """A fresh page, which remembers nothing of another test."""
    with browser.new_page() as page:
        yield Visit(page)
