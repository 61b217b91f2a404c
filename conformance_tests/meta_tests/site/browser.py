"""A browser without a window, driven over the Chrome DevTools Protocol.

Chromium speaks the protocol over two pipes: each message is JSON, ended by a zero byte. That is all
that the tests of the site need, hence no driver, no port and no package.
"""

import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
"""The browser that is installed here, if there is one."""

PATIENCE = 300.0
"""Seconds after which an answer is no longer waited for; axe takes a minute for the longest page on a busy machine."""

FORGET = "try { localStorage.clear() } catch { }"
"""Run before each page, which else keeps the scheme of the page before."""

MOUSE = "--blink-settings=primaryHoverType=2,availableHoverTypes=2,primaryPointerType=4,availablePointerTypes=4"
"""A browser without a window has no mouse either, for which the theme takes it for a telephone's."""

LAUNCH = """
import os, sys
for end, place in zip(sys.argv[1:3], (3, 4)):
    os.dup2(int(end), place)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""What becomes the browser, which finds its pipes at the numbers 3 and 4."""

Message = dict[str, Any]


class Browser:
    """One running browser with one page.

    Attributes:
        events: what the browser told of its own accord since the page was opened.
    """

    def __init__(self, to: int, heard: int) -> None:
        self._to, self._from, self._buffer, self._sent = to, heard, b"", 0
        self.events: list[Message] = []
        self._session = ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.call("Page.addScriptToEvaluateOnNewDocument", source=FORGET)

    def call(self, method: str, **parameters: Any) -> Message:
        """Send a command and wait for its answer.

        Raises:
            RuntimeError: if the browser refuses it.
        """
        self._sent += 1
        message: Message = {"id": self._sent, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._sent:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                result: Message = answer["result"]
                return result
            self.events.append(answer)

    def _next(self) -> Message:
        end = time.monotonic() + PATIENCE
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._from], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise TimeoutError(f"the browser has said nothing for {PATIENCE:g} s")
            self._buffer += os.read(self._from, 1 << 16)
        message, _, self._buffer = self._buffer.partition(b"\0")
        decoded: Message = json.loads(message)
        return decoded

    def open(self, address: str) -> Self:
        """Load a page and wait until it stands."""
        self.events = []
        self.call("Page.navigate", url=address)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())
        self.evaluate("new Promise(done => setTimeout(done, 50))")
        return self

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page, awaited if it is a promise.

        Raises:
            RuntimeError: if it throws.
        """
        done = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in done:
            raise RuntimeError(str(done["exceptionDetails"].get("exception", {}).get("description", done)))
        return done["result"].get("value")

    def told(self, method: str) -> list[Message]:
        """The parameters of the events of one kind."""
        return [event["params"] for event in self.events if event.get("method") == method]

    def requests(self) -> list[str]:
        """The addresses that the page asked for."""
        return [str(event["request"]["url"]) for event in self.told("Network.requestWillBeSent")]

    def complaints(self) -> list[str]:
        """Errors and warnings in the console: of scripts, of the network, of the security policy."""
        logged = [e["entry"] for e in self.told("Log.entryAdded")]
        said = [f"{e['text']} {e.get('url', '')}" for e in logged if e["level"] in ("error", "warning")]
        said += [str(e["args"]) for e in self.told("Runtime.consoleAPICalled") if e["type"] in ("error", "warning")]
        return said + [str(e["exceptionDetails"]) for e in self.told("Runtime.exceptionThrown")]

    def dress(self, width: int, height: int = 900, scheme: str = "light") -> None:
        """Take a size of the window and a preference for light or dark pages."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """A browser that keeps its files in the folder ``profile``, and ends with the block."""
    assert PROGRAM is not None
    (to_read, to_write), (from_read, from_write) = os.pipe(), os.pipe()
    theirs = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (to_read, from_write)]
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-pipe", MOUSE)
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", LAUNCH, *map(str, theirs), PROGRAM, *options, f"--user-data-dir={profile}"],
        pass_fds=theirs,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    for end in (to_read, from_write, *theirs):
        os.close(end)
    try:
        yield Browser(to_write, from_read)
    finally:
        os.close(to_write)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(from_read)
