"""A web server that shows the built site."""

import functools
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from conformance_tests.meta_tests.site.site import Site


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A handler that reports no requests."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def served(site: Site) -> Iterator[str]:
    """Serve a site, and give its address."""
    handler = functools.partial(Quiet, directory=str(site.folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
