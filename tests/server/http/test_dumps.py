"""State dumps, stacks, and other views of the process, for operators."""

import asyncio
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from support.core.builders import RM, app, apps, ask, asks, config, node, nodes, register
from support.patience import PATIENCE
from support.peers.shim import eventually
from support.server.http_site import Site

DUMP = "/ws/v1/fullstatedump"
LEAF = config("[{name: a}]")
KEYS = {
    "timestamp", "partitions", "applications", "appHistory", "nodes", "clusterInfo",
    "containerHistory", "queues", "rmDiagnostics", "logLevel", "config", "placementRules",
    "eventStreams",
}  # fmt: skip


@pytest.fixture
def busy(site: Site) -> Site:
    """Two RMs with a node each; the first has an application in each state."""
    site.driver.do(register(LEAF), apps(app("one", "root.a"), app("done", "root.a")))
    site.driver.do(apps(app("bad", "root.nowhere")), nodes(node("n0", vcore=10)))
    site.driver.do(asks(ask("one", "k", vcore=4)))
    site.driver.do(register(LEAF, rm="rm2"), nodes(node("m0", vcore=20), rm="rm2"))
    return site


@pytest.mark.row(166)
@pytest.mark.parametrize("path", [DUMP, "/debug/fullstatedump"])
async def test_a_dump_without_rms_has_all_keys(site: Site, path: str) -> None:
    """The dump of a server without RMs has every key, under the newer path and the older one."""
    shown = await site.get(path)
    assert set(shown) == KEYS
    assert shown["timestamp"] == 1_000_000_000_000_000
    assert shown["logLevel"] == "INFO"
    assert shown["rmDiagnostics"] == shown["config"] == {}
    for key in KEYS - {"timestamp", "logLevel", "rmDiagnostics", "config"}:
        assert shown[key] == [], key


@pytest.mark.row(166)
async def test_a_dump_equals_the_answers_of_other_paths(busy: Site) -> None:
    """Every part of the dump equals the answer of its own path."""
    shown = await busy.get(DUMP)
    partition = "/ws/v1/partition/default/"
    assert set(shown) == KEYS
    assert shown["partitions"] == await busy.get("/ws/v1/partitions")
    assert shown["clusterInfo"] == await busy.get("/ws/v1/clusters")
    assert shown["queues"][0] == await busy.get(partition + "queues")
    assert shown["nodes"][0] == {
        "partitionName": "default", "nodesInfo": await busy.get(partition + "nodes")
    }  # fmt: skip
    rules = await busy.get(partition + "placementrules")
    assert shown["placementRules"][0] == {"partition": "default", "rules": rules}
    for state in ("active", "rejected"):
        for row in await busy.get(partition + f"applications/{state}"):
            assert row in shown["applications"]
    names = {(row["applicationID"], row["applicationState"]) for row in shown["applications"]}
    assert names == {("one", "Running"), ("done", "New"), ("bad", "Rejected")}
    _, _, running = await busy.ask("/ws/v1/config", Accept="application/json")
    assert shown["config"][RM] == json.loads(running)
    assert shown["eventStreams"] == [{"rmId": RM, "readers": 0}, {"rmId": "rm2", "readers": 0}]


@pytest.mark.row(166)
async def test_a_dump_has_the_state_of_rms(busy: Site) -> None:
    """The part that an RM has sent is under its id, verbatim."""
    busy.states[RM] = '{"pods": [1, 2]}'
    assert (await busy.get(DUMP))["rmDiagnostics"] == {RM: {"pods": [1, 2]}, "rm2": None}


async def test_a_dump_of_one_rm(busy: Site) -> None:
    """With `rm` the dump has nothing of other RMs, and an unknown RM is a 404."""
    shown = await busy.get(DUMP + "?rm=rm2")
    assert [row["partitionName"] for row in shown["nodes"]] == ["[rm2]default"]
    assert set(shown["config"]) == set(shown["rmDiagnostics"]) == {"rm2"}
    assert shown["applications"] == []
    answer = await busy.refused(DUMP + "?rm=rm3")
    assert (answer["status_code"], answer["message"]) == (404, "RM rm3 is not registered")


async def test_one_dump_runs_at_a_time(busy: Site) -> None:
    """A second dump is refused while one is running, and accepted afterwards."""
    busy.answering.clear()
    first = asyncio.create_task(busy.get(DUMP))
    await eventually(lambda: busy.asked)
    answer = await busy.refused(DUMP)
    assert (answer["status_code"], answer["message"]) == (503, "a state dump is being sent already")
    busy.answering.set()
    assert set(await first) == KEYS
    assert set(await busy.get(DUMP)) == KEYS


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


async def test_the_stack_has_tasks_and_threads(site: Site) -> None:
    """Tasks that wait at the same place are grouped, and each thread is separate."""
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
        "test_the_stack_has_tasks_and_threads.<locals>.waits_in_vain",
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
async def test_older_paths_redirect_to_newer_ones(site: Site, old: str, new: str) -> None:
    """Older paths are answered with 301, and their query is kept."""
    async with site.client.get(site.address + old, allow_redirects=False) as answer:
        assert (answer.status, answer.headers["Location"]) == (301, new)


async def test_the_command_line_and_the_index_of_profiles(site: Site) -> None:
    """Words of the command line end with zero bytes, and the index lists the profiles."""
    shown = await text(site, "/debug/pprof/cmdline")
    assert shown.split("\0") == sys.orig_argv
    for path in ("/debug/pprof", "/debug/pprof/"):
        assert "/debug/pprof/goroutine" in await text(site, path)
    assert "thread MainThread" in await text(site, "/debug/pprof/goroutine")
