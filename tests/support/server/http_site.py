"""A client of the HTTP listener, a viewer of the page's feed, and the core that they query."""

import asyncio
import io
import json
import re
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from yarl import URL

from licorne_server.assembly.server import Server
from licorne_server.process.fair import TimeSlices
from licorne_server.reads.history.recorder import Recorder, Sample
from licorne_server.reads.history.tracks import STEP_SECONDS
from licorne_server.reads.sources import Figures, RmFigures, Status
from licorne_server.rms.event_log import EventLogs
from licorne_server.store.configurations.revisions import Revisions
from support.core.driver import Driver


@dataclass
class Site:
    """The core, the server's state, and a client of the listener."""

    driver: Driver
    status: Status
    client: aiohttp.ClientSession
    address: str
    events: EventLogs
    recorder: Recorder
    revisions: dict[str, Revisions]
    """The configurations of RMs, with the acts of operators."""

    figures: Figures = field(default_factory=Figures)
    history: deque[Sample] = field(default_factory=deque)
    states: dict[str, str] = field(default_factory=dict)
    """The RMs' parts of a dump."""

    asked: list[str] = field(default_factory=list)
    """The RMs whose part was requested."""
    answering: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when they may answer."""
    time_slices: TimeSlices = field(default_factory=lambda: TimeSlices(lambda: False))
    """The time slices of all readers."""

    paths: list[str] = field(default_factory=list)
    """Each served path; one with parameters is a regular expression."""

    def record(self, seconds: float = 0.0) -> None:
        """Advance the time, and take all samples that are due meanwhile."""
        end = self.driver.now + seconds
        while True:
            list(self.recorder.record(self.driver.now))
            if self.driver.now >= end:
                return
            self.driver.wait(min(float(STEP_SECONDS), end - self.driver.now))

    async def rm_state(self, rm_id: str) -> str:
        """The part of a dump for an RM."""
        self.asked.append(rm_id)
        await self.answering.wait()
        return self.states.get(rm_id, "null")

    async def ask(
        self,
        path: str,
        *,
        method: str = "GET",
        body: bytes | None = None,
        follow: bool = True,
        **headers: str,
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body, for a path that is sent unchanged.

        Without `follow` a redirection is returned itself.
        """
        names = {"Accept-Encoding": "identity"}
        names |= {name.replace("_", "-"): value for name, value in headers.items()}
        url = URL(self.address + path, encoded=True)
        data = None if body is None else io.BytesIO(body)
        async with self.client.request(
            method, url, data=data, headers=names, allow_redirects=follow
        ) as answer:
            return answer.status, dict(answer.headers), await answer.read()

    async def get(self, path: str) -> Any:
        """The JSON body of a successful answer."""
        status, headers, body = await self.ask(path)
        assert status == 200, body
        assert headers["Content-Type"] == "application/json; charset=utf-8"
        return json.loads(body)

    async def refused(self, path: str, *, method: str = "GET", body: bytes | None = None) -> Any:
        """The JSON of an error, its status under ``status_code``."""
        status, headers, raw = await self.ask(path, method=method, body=body)
        assert headers["Content-Type"].startswith("application/json")
        answer = json.loads(raw)
        assert answer["status_code"] == answer["StatusCode"] == status
        assert answer["message"] == answer["Message"] != ""
        assert answer["description"] == answer["Description"] != ""
        return answer

    async def metrics(self, accept: str = "") -> dict[str, float]:
        """Every sample of a scrape by its name with sorted labels: ``name{a="1",b="2"}``."""
        status, _, body = await self.ask("/metrics", Accept=accept)
        assert status == 200
        samples: dict[str, float] = {}
        for line in body.decode().splitlines():
            if not line.startswith("#"):
                sample, value = line.rsplit(" ", 1)
                name, _, labels = sample.partition("{")
                pairs = sorted(re.findall(r'\w+="(?:[^"\\]|\\.)*"', labels))
                key = f"{name}{{{','.join(pairs)}}}" if pairs else name
                assert key not in samples, f"{key} is there twice"
                samples[key] = float(value)
        return samples


def routes(server: Server) -> list[list[tuple[str, str]]]:
    """Method and path of all routes of a server, by address: the main one, then that of metrics."""
    assert server._http is not None
    return [
        [
            (route.method, route.resource.canonical)
            for route in listener._runner.app.router.routes()
            if route.resource and route.method != "HEAD"
        ]
        for listener in server._http._listeners
    ]


def read_openmetrics(text: str) -> list[Metric]:
    """The metrics of a text, by a strict parser of OpenMetrics."""
    return list(text_string_to_metric_families(text))  # type: ignore[no-untyped-call]


async def post(url: str, body: bytes) -> Any:
    """The JSON answer to a JSON body."""
    async with aiohttp.ClientSession() as client, client.post(url, data=body) as answer:
        return await answer.json()


API = "/ui/api"
MINE = f"{API}/partition/default"


def happened(site: Site) -> None:
    """Let the feed see that the core has processed a command."""
    known = [RmFigures(rm_id=rm.rm_id, connected=True, since=5.0) for rm in site.driver.views.rms()]
    site.figures = Figures(rms=tuple(known), commands=site.figures.commands + 1)


class Viewer:
    """Reads server-sent events."""

    def __init__(self, content: Any) -> None:
        """Read the body of an answer."""
        self._content = content

    async def next(self) -> tuple[str, dict[str, Any]]:
        """The name of the next event, and its data."""
        text = (await self._content.readuntil(b"\n\n")).decode()
        name, data = text.strip().split("\n")
        return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))

    async def change(self) -> dict[str, Any]:
        """The data of the next change; heartbeats are skipped."""
        while True:
            name, data = await self.next()
            if name == "change":
                return data
            assert name in ("hello", "beat"), data


@asynccontextmanager
async def viewing(site: Site, *, patient: bool = False) -> AsyncIterator[Viewer]:
    """A viewer of the feed; a patient one retries while the server has too many viewers."""
    while True:
        answer = await site.client.get(f"{site.address}{API}/feed")
        if answer.status != 503 or not patient:
            break
        answer.close()
    async with answer:
        assert answer.status == 200, await answer.text()
        assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        yield Viewer(answer.content)


class Board:
    """All rows sent to a viewer of a feed, by kind and name."""

    def __init__(self, viewer: Viewer) -> None:
        """Start without rows."""
        self._viewer = viewer
        self.rows: dict[str, dict[Any, Any]] = {}

    async def until(self, seen: Callable[["Board"], bool]) -> None:
        """Read changes until a condition holds."""
        while not seen(self):
            change = await self._viewer.change()
            if change["whole"]:
                self.rows = {}
            for kind, rm, partition, name in change.get("gone", ()):
                self.rows.get(kind, {}).pop(name or partition or rm, None)
            for kind, key in (("rms", "id"), ("partitions", "name"), ("findings", "id")):
                for row in change.get(kind, ()):
                    self.rows.setdefault(kind, {})[row[key]] = row
            for row in change.get("queues", ()):
                self.rows.setdefault("queues", {})[row["partition"], row["path"]] = row

    def names(self, kind: str) -> set[Any]:
        """The names of a kind."""
        return set(self.rows.get(kind, ()))


@asynccontextmanager
async def watching(server: Server, **headers: str) -> AsyncIterator[Board]:
    """A viewer of a server's feed."""
    url = f"http://{server.http_address}{API}/feed"
    async with aiohttp.ClientSession() as client, client.get(url, headers=headers) as answer:
        assert answer.status == 200
        yield Board(Viewer(answer.content))
