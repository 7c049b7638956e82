"""A viewer of the page's feed, for tests."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from licorne_server.http import Figures, RmFigures
from support.server.http_site import Site

API = "/ui/api"
MINE = f"{API}/partition/default"


def happened(site: Site) -> None:
    """Let the feed know that the core has worked."""
    known = [RmFigures(rm_id=rm.rm_id, connected=True, since=5.0) for rm in site.driver.views.rms()]
    site.figures = Figures(rms=tuple(known), commands=site.figures.commands + 1)


class Viewer:
    """Reads server-sent events."""

    def __init__(self, content: Any) -> None:
        """From the body of an answer."""
        self._content = content

    async def next(self) -> tuple[str, dict[str, Any]]:
        """The name of the next event, and its data."""
        text = (await self._content.readuntil(b"\n\n")).decode()
        name, data = text.strip().split("\n")
        return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))

    async def change(self) -> dict[str, Any]:
        """The next change; beats do not count."""
        while True:
            name, data = await self.next()
            if name == "change":
                return data
            assert name in ("hello", "beat"), data


@asynccontextmanager
async def viewing(site: Site, *, patient: bool = False) -> AsyncIterator[Viewer]:
    """A viewer of the feed; a patient one comes back as long as there are too many."""
    while True:
        answer = await site.client.get(f"{site.address}{API}/feed")
        if answer.status != 503 or not patient:
            break
        answer.close()
    async with answer:
        assert answer.status == 200, await answer.text()
        assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        yield Viewer(answer.content)
