"""Search by a part of a name: queues, applications, nodes and users of all partitions."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain

from aiohttp import web

from licorne_core.values.errors import NotFound
from licorne_core.values.ids import PartitionName, rm_of
from licorne_core.views import Views
from licorne_server.http.identity import visible_to
from licorne_server.http.routes import APP_STATES
from licorne_server.http.sources import Sources
from licorne_server.http.stream import JsonObject, send_json
from licorne_server.http.ui.pages import Maker, wanted
from licorne_server.http.ui.paths import API

HITS = 20
"""Hits of a kind that are shown at most."""

MAX_NAMES = 500_000
"""Names that are looked at for one search. Behind them the answer says that it is not complete."""


class SearchReads:
    """The path of searches."""

    def __init__(self, sources: Sources) -> None:
        """Search these sources."""
        self._views: Views = sources.views

    def routes(self) -> list[web.RouteDef]:
        """The only path."""
        return [web.get(API + "/search", self.search)]

    async def search(self, request: web.Request) -> web.StreamResponse:
        """Up to 20 of each kind whose names have the text `q` in them; case does not matter."""
        text = wanted(request)
        if not text:
            raise web.HTTPBadRequest(text="q: nothing to look for")
        visible = visible_to(request)
        search = Search(self._views, text, lambda rm_id: visible is None or visible(rm_id))
        await Maker.of(request).all(search.go_on)
        answer: JsonObject = {"hits": search.hits, "complete": search.complete}
        return await send_json(request, answer)


class Search:
    """One search under way."""

    def __init__(self, views: Views, text: str, visible: Callable[[str], bool]) -> None:
        """Search a text in lower case, in the partitions of RMs that are `visible`."""
        self.hits: list[JsonObject] = []
        self.complete = True
        self._views = views
        self._text = text
        self._found: dict[str, int] = {}
        self._names = chain.from_iterable(
            self._names_of(name) for name in views.partition_names() if visible(rm_of(name))
        )
        self._looked_at = 0

    def go_on(self, over: Callable[[], bool]) -> bool:
        """Look at names until the slice is over; returns True if there are more."""
        for kind, partition, name in self._names:
            if name is None:
                if over():
                    return True
                continue
            self._looked_at += 1
            if self._looked_at > MAX_NAMES:
                self.complete = False
                return False
            if self._text in name.lower():
                self._note(kind, partition, name)
            if not self._looked_at % 64 and over():
                return True
        return False

    def _note(self, kind: str, partition: PartitionName, name: str) -> None:
        count = self._found[kind] = self._found.get(kind, 0) + 1
        if count <= HITS:
            self.hits.append({"kind": kind, "partition": partition, "name": name})
        else:
            self.complete = False

    def _names_of(
        self, partition: PartitionName
    ) -> Iterator[tuple[str, PartitionName, str | None]]:
        """All names in a partition, and None wherever the reader may pause."""
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
