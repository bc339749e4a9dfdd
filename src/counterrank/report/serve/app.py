"""A small server for past results: loopback only, reading only, known names only."""

import sys
import webbrowser
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from os import PathLike
from typing import Any
from urllib.parse import parse_qs, urlsplit

from counterrank.errors import ConfigError
from counterrank.report.serve import pages
from counterrank.report.serve.store import Store

HOST = "127.0.0.1"
HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    # The pages carry the rest of their policy themselves; framing can only be forbidden here.
    "Content-Security-Policy": "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Server(ThreadingHTTPServer):
    """The server and the store it shows."""

    # Ctrl-C does not wait for a browser that keeps its connection open.
    daemon_threads = True
    #: Connections that wait to be taken: a team that opens its morning report at once. The default
    #: of 5 lets others time out.
    request_queue_size = 512

    def __init__(self, store: Store, port: int) -> None:
        self.store = store
        super().__init__((HOST, port), Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A reader who hangs up is no error; anything else is told as usual."""
        if not isinstance(sys.exception(), (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)

    @property
    def url(self) -> str:
        """Where the list of results is."""
        return f"http://{HOST}:{self.server_port}/"


class Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD for the list, a report and a comparison; everything else is refused."""

    server: Server
    server_version = "counterrank"
    # Nobody needs to know which Python answers.
    sys_version = ""
    #: Seconds that a connection may stay silent; a half-open one would hold its thread for ever.
    timeout = 10

    def do_GET(self) -> None:
        """Send the page that was asked for."""
        status, page = self._answer()
        body = page.encode("utf-8")
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815 - the name http.server calls

    def _answer(self) -> tuple[HTTPStatus, str]:
        if not self._local():
            text = "This page answers only to 127.0.0.1 and localhost."
            return HTTPStatus.FORBIDDEN, pages.problem("Not from here", text)
        try:
            parts = urlsplit(self.path)
        except ValueError:
            return HTTPStatus.BAD_REQUEST, pages.problem(
                "Not understood", "This is no address of a page here."
            )
        store = self.server.store
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if parts.path == "/":
            return HTTPStatus.OK, pages.listing(
                store.entries(), store.folder.name, store.others(), older=store.older()
            )
        if parts.path == "/history":
            return HTTPStatus.OK, pages.history(store.entries(), store.outcomes())
        if parts.path == "/report":
            return self._report(query.get("name", ""))
        if parts.path == "/compare":
            return self._compare(query.get("a", ""), query.get("b", ""))
        return _missing("There is no such page.")

    def _local(self) -> bool:
        """Another site's name that resolves to this machine must not read these pages (DNS rebinding)."""
        names = {f"{name}:{self.server.server_port}" for name in (HOST, "localhost")}
        return self.headers.get("Host", "") in names

    def _report(self, name: str) -> tuple[HTTPStatus, str]:
        entry = self.server.store.get(name)
        if entry is None:
            return _missing(f"There is no result '{name}'.")
        if entry.result is None:
            # Its schema is ours and its content is not: edited by hand, or cut and mended.
            return HTTPStatus.INTERNAL_SERVER_ERROR, pages.problem(
                "Cannot be shown", f"'{name}' is damaged; write it anew."
            )
        return HTTPStatus.OK, pages.report(entry)

    def _compare(self, a: str, b: str) -> tuple[HTTPStatus, str]:
        known = {entry.name: entry for entry in self.server.store.entries()}
        first, second = known.get(a), known.get(b)
        if first is None or second is None:
            return _missing("Choose two evaluations on the list to compare them.")
        return HTTPStatus.OK, pages.compare(first, second)

    def log_message(self, format: str, *args: Any) -> None:
        """Stay quiet: names of files are nobody's business on stderr."""


def _missing(text: str) -> tuple[HTTPStatus, str]:
    return HTTPStatus.NOT_FOUND, pages.problem("Not found", text)


def make_server(directory: "str | PathLike[str]", port: int = 0) -> Server:
    """Return a server bound to 127.0.0.1, not yet serving; port 0 picks a free one."""
    store = Store.of(str(directory))
    try:
        return Server(store, port)
    except (OSError, OverflowError) as problem:
        raise ConfigError(
            f"cannot listen on port {port} of {HOST}: {problem}; try --port 0"
        ) from problem


def run(directory: "str | PathLike[str]", port: int = 0, open_browser: bool = False) -> None:
    """Serve until interrupted."""
    with make_server(directory, port) as server:
        print(f"Results in {directory}: {server.url} (Ctrl-C to stop)", flush=True)
        if open_browser:
            webbrowser.open(server.url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()
