"""The page itself: its files and their security headers, its feed, and its search by name."""

import gzip
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib.resources import files
from itertools import chain
from typing import NamedTuple

from aiohttp import web

from licorne_core.values.errors import NotFound
from licorne_core.values.ids import PartitionName, rm_of
from licorne_core.views import Views
from licorne_server.http.identity import role_of, visible_to
from licorne_server.http.pages import ACT, API, Maker, wanted
from licorne_server.http.places import parts_of
from licorne_server.http.routes import APP_STATES
from licorne_server.http.stream import (
    BY_MEMBER,
    CALLER,
    JsonObject,
    accepts_gzip,
    reader_of,
    send_json,
    send_live,
)
from licorne_server.http.ui import details, lists, times
from licorne_server.http.ui.acts import act
from licorne_server.http.ui.feed import EVERYBODY, Audience, Feed, TooManyViewers, farewell
from licorne_server.http.ui.mirrors import Mirrors
from licorne_server.http.units import milliseconds
from licorne_server.reads.sources import SOURCES, Sources

CONTENT_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""Content types of the page's files, by suffix."""

INDEX = "index.html"
FOLDER = files("licorne_server.http.ui") / "static"

STATIC = {
    f"/ui/static/{file.name}": file
    for file in sorted(FOLDER.iterdir(), key=lambda file: file.name)
    if file.name.endswith(tuple(CONTENT_TYPES))
}
"""Files of the page by path. The list is fixed at the start, so that no path leads to another file."""


HITS = 20
"""Maximum number of displayed hits of a kind."""

PART = 64
"""Names that are compared in one step."""

MAX_NAMES = 500_000
"""Maximum number of names that are read for one search. Beyond them the answer is marked as incomplete."""


async def search(request: web.Request) -> web.StreamResponse:
    """Up to 20 objects of each kind whose names contain the text `q`; case does not matter.

    Each has its state; an application also has its queue and user, and an ended application its end time.
    """
    text = wanted(request)
    if not text:
        raise web.HTTPBadRequest(text="q: nothing to look for")
    visible = visible_to(request)
    search = Search(request.app[SOURCES].views, text, lambda rm_id: visible is None or visible(rm_id))
    await Maker.of(request).all(search.steps())
    parts = await parts_of(request, _read_hits)
    if parts is not None:
        for hits, complete in (*parts.before, *parts.after):
            search.add(hits, complete=complete)
        search.complete = search.complete and not parts.missing
    answer: JsonObject = {"hits": search.hits, "complete": search.complete}
    return await send_json(request, answer)


def _read_hits(body: bytes) -> tuple[list[JsonObject], bool]:
    """The hits of another member, and whether they are complete; raises ValueError or KeyError."""
    answer = json.loads(body)
    hits = [{name: hit[name] for name in HIT} for hit in answer["hits"]]
    return hits, answer["complete"] is True


HIT = ("kind", "partition", "name", "id", "state", "queue", "user", "finished")
"""The members of a hit. For an ended application `id` is that of the RM, and `name` its unique name here."""


class Search:
    """A search of the page and its hits."""

    def __init__(self, views: Views, text: str, visible: Callable[[str], bool]) -> None:
        """Search for a lower-case text in the partitions of RMs that are `visible`."""
        self.hits: list[JsonObject] = []
        self.complete = True
        self._views = views
        self._text = text
        self._found: dict[str, int] = {}
        self._names = chain.from_iterable(
            self._names_of(name) for name in views.partition_names() if visible(rm_of(name))
        )
        self._looked_at = 0

    def steps(self) -> Iterator[None]:
        """Compare the names; the reader may pause at every step."""
        for kind, partition, name in self._names:
            if name is not None:
                self._looked_at += 1
                if self._looked_at > MAX_NAMES:
                    self.complete = False
                    return
                if self._text in name.lower():
                    self._find(kind, partition, name)
            if name is None or not self._looked_at % PART:
                yield

    def add(self, hits: Iterable[JsonObject], *, complete: bool) -> None:
        """Add the hits of another member; `complete` is False if there are more."""
        for hit in hits:
            if self._has_room(str(hit["kind"])):
                self.hits.append(hit)
        self.complete = self.complete and complete

    def _find(self, kind: str, partition: PartitionName, name: str) -> None:
        """Add a hit with its distinguishing fields; a removed object is skipped."""
        if self._has_room(kind):
            with suppress(NotFound):
                more = self._more_of(kind, partition, name)
                hit = {"kind": kind, "partition": partition, "name": name, "id": name}
                self.hits.append({**dict.fromkeys(HIT, ""), **hit, "finished": 0, **more})

    def _has_room(self, kind: str) -> bool:
        """Count a hit of this kind; returns True if it may be added."""
        count = self._found[kind] = self._found.get(kind, 0) + 1
        self.complete = self.complete and count <= HITS
        return count <= HITS

    def _more_of(self, kind: str, partition: PartitionName, name: str) -> JsonObject:
        views = self._views
        if kind == "queue":
            return {"state": views.queue(partition, name).state}
        if kind == "node":
            return {"state": "" if views.node(partition, name).schedulable else "unschedulable"}
        if kind != "application":
            return {}
        app = views.application(partition, name)
        about: JsonObject = {"id": app.app_id, "state": app.state, "queue": app.queue, "user": app.user}
        return {**about, "finished": milliseconds(app.finished_time)}

    def _names_of(self, partition: PartitionName) -> Iterator[tuple[str, PartitionName, str | None]]:
        """All names in a partition, with None where the reader may pause."""
        views = self._views
        yield "", partition, None
        with suppress(NotFound):
            for path in views.level_by_level(partition):
                yield "queue", partition, path
            for state in APP_STATES:
                for app in views.app_ids_in_order(partition, state=state):
                    yield "application", partition, app
            for node in views.node_ids_in_order(partition):
                yield "node", partition, node
            for kind in ("user", "group"):
                for name in views.usage_names_in_order(partition, kind):
                    yield kind, partition, name


HEADERS = {
    # The browser loads and runs only the page's own files, and treats no text as HTML.
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
    """A file of the page, plain and compressed."""

    content_type: str
    plain: bytes
    compressed: bytes
    tag: str


class Page:
    """Serves the page and its requests."""

    PUBLIC = frozenset({"/", "/ui", "/ui/", *STATIC})
    """Paths without data of RMs, which need no token."""

    def __init__(self, sources: Sources) -> None:
        """Answer from `sources`; the files are read once."""
        self._sources = sources
        self._own = Feed(sources)
        members = sources.members
        self._feed = self._own if members is None else Feed(sources, Mirrors(members, sources.time_slices))
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
                *lists.ROUTES,
                *times.ROUTES,
                *details.routes(self._sources),
                web.get(API + "/search", search),
                web.post(ACT, act),
            ]
        )
        app.on_shutdown.append(self._stop)

    async def home(self, request: web.Request) -> web.StreamResponse:
        """Redirect to the page. The path is relative, as a proxy may add a prefix."""
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
        """Server-sent events of the feed, until the viewer disconnects.

        Another member gets only events of RMs that this member serves.
        """
        feed = self._own if BY_MEMBER in request else self._feed

        def is_there() -> bool:
            return request.transport is not None and not request.transport.is_closing()

        messages = feed.messages(_audience(request), role_of(request), is_there)
        try:
            with feed.watched_by(reader_of(request)):
                kind = "text/event-stream; charset=utf-8"
                return await send_live(request, kind, messages, farewell)
        except TooManyViewers as error:
            raise web.HTTPServiceUnavailable(text=str(error)) from None

    async def _stop(self, app: web.Application) -> None:
        await self._feed.close()
        await self._own.close()


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
