"""What operators see of the process itself, and where older paths lead (spec § 12.4)."""

import asyncio
import gzip
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from licorne_server.http.debug import OF_GO
from licorne_server.http.profile import sampled
from licorne_server.wire import field_at, fields, varint
from support.http_site import Site
from support.shim import PATIENCE


@contextmanager
def waiting_thread() -> Iterator[threading.Event]:
    """A thread that waits in `wait_for_the_test`."""
    entered, leave = threading.Event(), threading.Event()

    def wait_for_the_test() -> None:
        entered.set()
        leave.wait()

    thread = threading.Thread(target=wait_for_the_test, name="waits-for-the-test")
    thread.start()
    assert entered.wait(PATIENCE)
    try:
        yield leave
    finally:
        leave.set()
        thread.join()


async def text(site: Site, path: str) -> str:
    """The text of a successful answer."""
    status, headers, body = await site.ask(path)
    assert (status, headers["Content-Type"]) == (200, "text/plain; charset=utf-8")
    return body.decode()


async def test_stack_shows_tasks_and_threads(site: Site) -> None:
    """Tasks that wait at the same place are shown together, each thread for itself."""
    event = asyncio.Event()

    async def waits_in_vain() -> None:
        await event.wait()

    tasks = [asyncio.create_task(waits_in_vain(), name=f"idle-{n}") for n in range(7)]
    await asyncio.sleep(0)
    with waiting_thread():
        shown = await text(site, "/debug/stack")
    event.set()
    await asyncio.gather(*tasks)
    block = next(block for block in shown.split("\n\n") if "waits_in_vain" in block)
    head, *places = block.splitlines()
    assert head == "7 tasks: idle-0, idle-1, idle-2, idle-3, idle-4, and 2 more"
    assert [place.split(" at ")[0].strip() for place in places] == [
        "test_stack_shows_tasks_and_threads.<locals>.waits_in_vain",
        "Event.wait",
    ]
    assert __file__ in places[0]
    thread = next(block for block in shown.split("\n\n") if "waits-for-the-test" in block)
    assert "wait_for_the_test" in thread
    assert "thread MainThread" in shown


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("/ws/v1/stack", "/debug/stack"),
        ("/ws/v1/fullstatedump", "/debug/fullstatedump"),
        ("/ws/v1/fullstatedump?rm=a%26b", "/debug/fullstatedump?rm=a%26b"),
    ],
)
async def test_older_paths_lead_to_the_newer(site: Site, old: str, new: str) -> None:
    """They are answered with 301, and what they ask for is kept."""
    async with site.client.get(site.address + old, allow_redirects=False) as answer:
        assert (answer.status, answer.headers["Location"]) == (301, new)


async def test_command_line_and_index_are_told(site: Site) -> None:
    """As under the older paths: words end with zero bytes, and the index names what there is."""
    shown = await text(site, "/debug/pprof/cmdline")
    assert shown.split("\0") == sys.orig_argv
    for path in ("/debug/pprof", "/debug/pprof/"):
        assert "/debug/pprof/profile?seconds=30" in await text(site, path)
    assert "thread MainThread" in await text(site, "/debug/pprof/goroutine")


@pytest.mark.parametrize("name", OF_GO)
async def test_what_only_go_has_is_said(site: Site, name: str) -> None:
    """Profiles of Go's runtime are 501, and the text says where to look instead."""
    answer = await site.refused(f"/debug/pprof/{name}")
    assert answer["status_code"] == 501
    assert answer["message"].startswith(f"{name} is a profile of Go's runtime")


@pytest.mark.parametrize("seconds", ["0", "61", "-1", "1.5", "x", "9" * 400, "%D9%A3"])
async def test_length_of_a_profile_has_bounds(site: Site, seconds: str) -> None:
    """What is no whole number of seconds from 1 to 60 is refused."""
    answer = await site.refused(f"/debug/pprof/profile?seconds={seconds}")
    assert answer["status_code"] == 400
    assert '"seconds" must be a whole number from 1 to 60' in answer["message"]


async def test_one_profile_at_a_time(site: Site) -> None:
    """A second one is refused while the first is made, and the probes answer meanwhile."""
    first = asyncio.create_task(site.ask("/debug/pprof/profile?seconds=1"))
    while (await site.ask("/debug/pprof/profile?seconds=1"))[0] != 503:
        assert first.done()  # it was over before the second began
        first = asyncio.create_task(site.ask("/debug/pprof/profile?seconds=1"))
        await asyncio.sleep(0)
    assert (await site.ask("/livez"))[0] == 200
    status, headers, body = await first
    assert (status, headers["Content-Type"]) == (200, "application/octet-stream")
    assert b"wall" in gzip.decompress(body)


def numbers(raw: bytes) -> list[int]:
    """Packed numbers."""
    found, position = [], 0
    while position < len(raw):
        number, position = varint(raw, position)
        found.append(number)
    return found


def test_profile_is_what_pprof_reads() -> None:
    """Each sample leads over places and functions to the texts that name them."""
    with waiting_thread():
        raw = gzip.decompress(sampled(0.2, threading.Event()))
    by_field: dict[int, list[bytes]] = {}
    for field in fields(raw):
        by_field.setdefault(field.number, []).append(raw[field.value : field.end])
    texts = [text.decode() for text in by_field[6]]
    assert texts[0] == ""

    def message(raw: bytes) -> dict[int, bytes]:
        return {field.number: raw[field.value : field.end] for field in fields(raw)}

    functions = {varint(f[1], 0)[0]: f for f in map(message, by_field[5])}
    places = {varint(p[1], 0)[0]: message(p[4]) for p in map(message, by_field[4])}
    for sample in map(message, by_field[2]):
        names = [
            texts[varint(functions[varint(places[place][1], 0)[0]][2], 0)[0]]
            for place in numbers(sample[1])
        ]
        count, nanoseconds = numbers(sample[2])
        assert nanoseconds == count * 10_000_000 > 0
        if any("wait_for_the_test" in name for name in names):
            break
    else:
        pytest.fail("the thread that waits is in no sample")
    assert field_at(raw, 0, len(raw)).number == 1
