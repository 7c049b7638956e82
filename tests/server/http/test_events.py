"""Events over REST (spec §§ 12.2, 14): batches by id, and a stream of lines."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from licorne_core.values.ids import RmId
from licorne_server.http import events
from licorne_server.rms.event_log import EventLog
from support.core.builders import RM, START, happened, register, reload
from support.patience import PATIENCE
from support.peers.shim import LOOPBACK, Shim, connected, eventually, serving
from support.server.http_site import Site

BATCH = "/ws/v1/events/batch"
STREAM = "/ws/v1/events/stream"
CONFIG = "partitions: [{name: default, queues: [{name: a, submitacl: '*'}]}]"


def begin(site: Site, rm: str = RM, **extra: str) -> EventLog:
    """Register an RM."""
    keys = {f"event.{name}": value for name, value in extra.items()}
    site.driver.do(register(CONFIG, rm, keys))
    site.events.begin(RmId(rm))
    return site.events.get(rm)


def change(site: Site, **extra: str) -> None:
    """Change the extra configuration of the RM."""
    keys = {f"event.{name}": value for name, value in extra.items()}
    site.driver.do(reload(CONFIG, extra=keys))
    site.events.follow(RmId(RM))


def play(site: Site, first: int, count: int, rm: str = RM, *, time: float = START) -> None:
    """Record this number of events."""
    site.events.get(rm).append(happened(rm, first, count, time=time).facts)


def subjects(records: list[Any]) -> list[int]:
    """The numbers of the applications in the events."""
    return [int(record["objectID"].removeprefix("app-")) for record in records]


class Lines:
    """A stream, read line by line."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        """Read this answer."""
        self.answer = answer

    async def next(self) -> Any:
        """The next line, or None at the end."""
        async with asyncio.timeout(PATIENCE):
            line = await self.answer.content.readline()
        return json.loads(line) if line else None

    async def take(self, count: int) -> list[Any]:
        """This number of lines."""
        return [await self.next() for _ in range(count)]


@asynccontextmanager
async def stream(site: Site, query: str = "") -> AsyncIterator[Lines]:
    """An open stream."""
    async with site.client.get(f"{site.address}{STREAM}{query}") as answer:
        assert answer.status == 200, await answer.read()
        assert answer.headers["Content-Type"] == "application/json; charset=utf-8"
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Accel-Buffering"] == "no"
        yield Lines(answer)


async def test_a_stream_has_the_instance_and_then_the_events(site: Site) -> None:
    """The first line has the instance; each later event is sent at once, in order."""
    log = begin(site)
    play(site, 0, 3)
    async with stream(site) as lines:
        assert await lines.next() == {"InstanceUUID": log.instance}
        play(site, 3, 2)
        assert subjects(await lines.take(2)) == [3, 4]
        play(site, 5, 5000)
        assert subjects(await lines.take(5000)) == list(range(5, 5005))


@pytest.mark.parametrize(("count", "found"), [("2", [2, 3]), ("99", [1, 2, 3]), ("0", [])])
async def test_a_stream_may_begin_with_past_events(site: Site, count: str, found: list[int]) -> None:
    """`count` past events come first, as far as they are stored."""
    begin(site, ringBufferCapacity="3")
    play(site, 0, 4)
    async with stream(site, f"?count={count}") as lines:
        assert subjects((await lines.take(len(found) + 1))[1:]) == found
        play(site, 4, 1)
        assert subjects(await lines.take(1)) == [4]


@pytest.mark.row(162)
async def test_streams_and_batches_have_the_same_records(site: Site) -> None:
    """The lines of a stream are the records of a batch from the same id on."""
    begin(site)
    async with stream(site) as lines:
        await lines.next()
        play(site, 0, 300)
        streamed = await lines.take(300)
    assert (await site.get(f"{BATCH}?start=0"))["EventRecords"] == streamed


@pytest.mark.row(6)
async def test_each_rm_has_its_own_events(site: Site) -> None:
    """`rm` selects an RM; the default is the one that registered first."""
    begin(site)
    begin(site, "rm2")
    play(site, 0, 1)
    play(site, 100, 2, "rm2")
    for query, found in (("", [0]), ("?rm=rm1", [0]), ("?rm=rm2", [100, 101])):
        assert subjects((await site.get(BATCH + query))["EventRecords"]) == found
    async with stream(site, "?rm=rm2&count=9") as lines:
        assert subjects((await lines.take(3))[1:]) == [100, 101]


async def test_events_of_unknown_rms_are_not_found(site: Site) -> None:
    """The answer is 404 for an unknown RM, and without any RM."""
    for path in (BATCH, STREAM):
        answer = await site.refused(path)
        message = "no RM is registered, so there are no events"
        assert (answer["status_code"], answer["message"]) == (404, message)
    begin(site)
    answer = await site.refused(f"{BATCH}?rm=x")
    assert (answer["status_code"], answer["message"]) == (404, "RM x is not registered")


async def test_events_without_tracking_are_refused(site: Site) -> None:
    """The answer is 500 with the documented text; open streams continue once tracking is on again."""
    begin(site)
    async with stream(site) as lines:
        await lines.next()
        change(site, trackingEnabled="false")
        for path in (BATCH, STREAM):
            answer = await site.refused(path)
            assert (answer["status_code"], answer["message"]) == (500, "Event tracking is disabled")
        change(site, trackingEnabled="true")
        play(site, 0, 1)
        assert subjects(await lines.take(1)) == [0]
    assert subjects((await site.get(BATCH))["EventRecords"]) == [0]


async def test_the_number_of_streams_is_bounded(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """One stream too many gets 503, until another has closed, even one without events."""
    monkeypatch.setattr(events, "LOOK_SECONDS", 0.01)
    log = begin(site, maxStreams="1")
    async with stream(site):
        answer = await site.refused(STREAM)
        assert (answer["status_code"], answer["message"]) == (503, "Too many streaming connections")
    await eventually(lambda: not log.watchers)
    async with stream(site) as lines:
        await lines.next()


async def test_the_streams_of_one_host_are_bounded(site: Site) -> None:
    """The bound for one host is below that for all."""
    begin(site, maxStreamsPerHost="2")
    async with stream(site), stream(site):
        assert (await site.refused(STREAM))["status_code"] == 503


async def test_a_stream_that_falls_behind_is_ended(site: Site) -> None:
    """The last line is an error with the first id that is stored."""
    begin(site, ringBufferCapacity="10")
    async with stream(site) as lines:
        await lines.next()
        play(site, 0, 1000)
        play(site, 1000, 1, time=START + 10.5)
        last = await lines.next()
        assert await lines.next() is None
    assert last["status_code"] == 503
    assert last["message"].endswith("the first event that is kept is 991")


async def test_a_prompt_reader_gets_a_burst_larger_than_the_ring(site: Site) -> None:
    """A reader that reads promptly is not cut off."""
    begin(site, ringBufferCapacity="10")
    async with stream(site) as lines:
        await lines.next()
        play(site, 0, 20_000)
        assert subjects(await lines.take(20_000)) == list(range(20_000))


async def test_a_registration_ends_the_streams_of_its_rm(site: Site) -> None:
    """When its RM registers again or leaves, the last line says so, after all earlier events."""
    for end, status in ((site.events.begin, 503), (site.events.forget, 404)):
        begin(site)
        async with stream(site) as lines:
            await lines.next()
            play(site, 0, 1)
            end(RmId(RM))
            assert subjects(await lines.take(1)) == [0]
            assert (await lines.next())["status_code"] == status
            assert await lines.next() is None


@pytest.mark.row(19)
async def test_a_stop_of_the_server_ends_streams() -> None:
    """The last line of a stream has the status 503, and later requests get no answer."""
    async with (
        serving(http=LOOPBACK) as server,
        connected(server) as channel,
        aiohttp.ClientSession() as client,
    ):
        await Shim(channel).register()
        url = f"http://{server.http_address}{STREAM}"
        async with client.get(url) as lines:
            assert b"InstanceUUID" in await lines.content.readline()
            stopping = asyncio.ensure_future(server.stop())
            *_, last = [line async for line in lines.content]
            assert b'"status_code":503' in last
        await stopping
        with pytest.raises(aiohttp.ClientError):
            await client.get(url)


async def test_head_opens_no_stream(site: Site) -> None:
    """HEAD is answered with headers only."""
    log = begin(site)
    status, headers, body = await site.ask(STREAM, method="HEAD")
    assert (status, body) == (200, b"")
    assert headers["Content-Type"] == "application/json; charset=utf-8"
    assert not log.watchers
    assert (await site.ask(BATCH, method="HEAD"))[0] == 200
