"""The page itself: its files, its feed, and the headers that keep it safe."""

import gzip
import hashlib
from typing import NamedTuple

from aiohttp import web

from licorne_server.http.identity import role_of, visible_to
from licorne_server.http.sources import Sources
from licorne_server.http.stream import CALLER, accepts_gzip, reader_of, send_live
from licorne_server.http.ui.details import DetailReads
from licorne_server.http.ui.feed import Feed, TooManyViewers, farewell
from licorne_server.http.ui.finding import SearchReads
from licorne_server.http.ui.happened import EventPages
from licorne_server.http.ui.lists import ListReads
from licorne_server.http.ui.paths import API, CONTENT_TYPES, INDEX, STATIC
from licorne_server.http.ui.renderings import EVERYBODY, Audience

HEADERS = {
    # Nothing runs and nothing is loaded but what the page itself brings, and no text becomes HTML.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""The headers of the page's files."""


class _File(NamedTuple):
    """A file of the page, as it is sent."""

    content_type: str
    plain: bytes
    compressed: bytes
    tag: str


class Page:
    """Serves the page and its requests."""

    def __init__(self, sources: Sources) -> None:
        """Over these; the files are read once."""
        self._sources = sources
        self._feed = Feed(sources)
        self._files = {path: _read(path) for path in STATIC}

    def add_to(self, app: web.Application) -> None:
        """Serve all paths of the page."""
        app.add_routes(
            [
                web.get("/", self.home),
                web.get("/ui/", self.home),
                web.get("/ui", self.file),
                *(web.get(path, self.file) for path in STATIC),
                web.get(API + "/feed", self.feed),
                *ListReads(self._sources).routes(),
                *DetailReads(self._sources).routes(),
                *SearchReads(self._sources).routes(),
                *EventPages(self._sources).routes(),
            ]
        )
        app.on_shutdown.append(self._stop)

    async def home(self, request: web.Request) -> web.StreamResponse:
        """Lead to the page. The way there is relative, so that a proxy may put a path in front."""
        raise web.HTTPFound("ui" if request.path == "/" else "../ui", headers=HEADERS)

    async def file(self, request: web.Request) -> web.StreamResponse:
        """One of the page's files."""
        path = f"/ui/static/{INDEX}" if request.path == "/ui" else request.path
        file = self._files[path]
        headers = {
            **HEADERS,
            "Content-Type": file.content_type,
            "ETag": f'"{file.tag}"',
            "Cache-Control": "no-cache",
            "Vary": "Accept-Encoding",
        }
        if any(tag.value == file.tag for tag in request.if_none_match or ()):
            return web.Response(status=304, headers=headers)
        if accepts_gzip(request.headers.get("Accept-Encoding", "")):
            headers["Content-Encoding"] = "gzip"
            return web.Response(body=file.compressed, headers=headers)
        return web.Response(body=file.plain, headers=headers)

    async def feed(self, request: web.Request) -> web.StreamResponse:
        """Server-sent events of the feed, for as long as the viewer is there."""

        def is_there() -> bool:
            return request.transport is not None and not request.transport.is_closing()

        messages = self._feed.messages(_audience(request), role_of(request), is_there)
        try:
            with self._feed.watched_by(reader_of(request)):
                kind = "text/event-stream; charset=utf-8"
                return await send_live(request, kind, messages, farewell)
        except TooManyViewers as error:
            raise web.HTTPServiceUnavailable(text=str(error)) from None

    async def _stop(self, app: web.Application) -> None:
        await self._feed.close()


def _audience(request: web.Request) -> Audience:
    """The audience of a viewer."""
    visible = visible_to(request)
    if visible is None:
        return EVERYBODY
    caller = request[CALLER]
    return Audience(caller, caller.peer, visible)


def _read(path: str) -> _File:
    file = STATIC[path]
    plain = file.read_bytes()
    kind = CONTENT_TYPES["." + file.name.rpartition(".")[2]]
    tag = hashlib.sha256(plain).hexdigest()[:16]
    return _File(kind, plain, gzip.compress(plain, mtime=0), tag)
