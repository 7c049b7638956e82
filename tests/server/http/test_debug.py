"""What operators see of the process itself, and where older paths lead (spec § 12.4)."""

import asyncio
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from support.peers.shim import PATIENCE
from support.server.http_site import Site


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
        assert "/debug/pprof/goroutine" in await text(site, path)
    assert "thread MainThread" in await text(site, "/debug/pprof/goroutine")
