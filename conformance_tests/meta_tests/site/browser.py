"""A page in Chromium without a window, driven by Playwright: what it asks for, and what it complains of."""

import shutil
from pathlib import Path
from typing import Self

from playwright.sync_api import ConsoleMessage, Page, Request

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
"""The browser that is installed here, if there is one."""

OPTIONS = [
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
    "--no-sandbox",
]
"""Options of a browser that asks nobody but the page, and that a container without privileges can start."""

PATIENCE = 300_000.0
"""Milliseconds after which an answer is no longer waited for: axe takes a minute for a long page on a busy machine."""


class Visit:
    """One page of a browser, and what it asked for and complained of since it was opened.

    Attributes:
        page: the page.
        requests: the addresses that it asked for.
        refused: why requests failed, by the browser's own words.
        complaints: errors and warnings of scripts, of the network and of the security policy.
    """

    def __init__(self, page: Page) -> None:
        self.page = page
        self.requests: list[str] = []
        self.refused: list[str | None] = []
        self.complaints: list[str] = []
        page.set_default_timeout(PATIENCE)
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("requestfailed", self._refuse)
        page.on("console", self._note)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _refuse(self, request: Request) -> None:
        self.refused.append(request.failure)

    def _note(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.text} {message.location['url']}")

    def open(self, address: str | Path) -> Self:
        """Load a page, by its address or its file, and wait until it stands."""
        for heard in (self.requests, self.refused, self.complaints):
            heard.clear()
        self.page.goto(address.as_uri() if isinstance(address, Path) else address)
        self.page.wait_for_timeout(50)
        return self
