"""Failures in every output with findings, recorded in ``data/recorded/bad_days``."""

import json
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import aiohttp
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]

from licorne.v1 import state_pb2 as pb
from licorne.v1.state_pb2_grpc import StateStub
from licorne_cli.output import marks
from licorne_core.config import load
from licorne_core.messages.commands import Hold, SetHold
from licorne_core.values.ids import RmId
from licorne_server.assembly.server import Server
from licorne_server.store.configurations.default_file import DefaultFileError
from licorne_server.store.coordination.ownership import STATUS, Known
from licorne_server.store.coordination.store import Gone, Member, MemberId
from licorne_server.store.coordination.store import Ownership as Record
from licorne_server.store.documents.documents import Document
from licorne_server.store.documents.encoding import encode
from licorne_server.testing import FakeRM, VirtualClock
from licorne_server.testing.serving import START
from support.members import Table, member
from support.peers.shim import LOOPBACK, connected, eventually, serving
from support.peers.town import Shell
from support.recorded import compare
from support.server.http_site import watching

LEAF = "{name: prod, resources: {guaranteed: {vcore: 2}}}"
CONFIG = f"partitions: [{{name: default, queues: [{{name: root, submitacl: '*', queues: [{LEAF}]}}]}}]"


class Town(NamedTuple):
    """A server with the RM `blue`; a member of a deployment if there is a table."""

    server: Server
    blue: FakeRM
    shell: Shell
    files: Path
    table: Table


Day = Callable[[Town], AsyncGenerator[None, None]]  # the begin of a failure, a pause, and its end


async def said(town: Town) -> list[str]:
    """The present text of each output, which must have the same findings in the same words."""
    async with connected(town.server) as channel, aiohttp.ClientSession() as client:

        async def get(path: str) -> tuple[int, str]:
            async with client.get(f"http://{town.server.http_address}{path}") as answer:
                return answer.status, (await answer.text()).strip()

        state = await StateStub(channel).GetHealth(pb.GetHealthRequest())
        service = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        probes = [f"{path}: {await get(path)}" for path in ("/livez", "/readyz")]
        rest = json.loads((await get("/ws/v1/scheduler/healthcheck"))[1])
    found = {(one.text, one.severity) for one in state.findings}

    def agrees(rows: Iterable[dict[str, Any]]) -> bool:
        return {(one["text"], one["severity"]) for one in rows} == found

    assert agrees(rest["Findings"])
    async with watching(town.server) as page:
        await page.until(lambda board: bool(board.rows) and agrees(board.rows.get("findings", {}).values()))
    screen = await town.shell("status")
    failed = [one for one in rest["HealthChecks"] if not one["Succeeded"]]
    assert (rest["Severity"], screen.code) == (state.severity, 6 if failed else 0)
    return [
        f"State: {state.severity}, {state.scope}",
        *(
            f"  {one.severity} {one.concern} {one.name!r} {one.since // 10**9 % int(START)} s {one.member}"
            for one in state.findings
        ),
        *(f"REST: {one['Name']}: {one['DiagnosisMessage']}" for one in failed),
        *(f"status: {line}" for line in screen.out.partition("   version")[0].splitlines()),
        *probes,
        f"gRPC: {health_pb2.HealthCheckResponse.ServingStatus.Name(service.status)}",
    ]


async def rm_leaves(town: Town) -> AsyncGenerator[None, None]:
    """An RM closes its connection, and returns later."""
    await town.blue.close()
    yield
    async with FakeRM(town.server.grpc_address, rm_id="blue"):
        yield


async def no_room(town: Town) -> AsyncGenerator[None, None]:
    """A queue is below its guarantee, until a node is added."""
    await town.blue.submit("shop", queue="root.prod", user="ann")
    await town.blue.ask("shop", 1)
    views = town.server.scheduler.views
    await eventually(lambda: views.partition(views.resolve("[blue]default")).pending_asks)
    yield
    await town.blue.add_nodes(1)
    await town.blue.allocated(1)


async def unreadable_file(town: Town) -> AsyncGenerator[None, None]:
    """A file of queues is left incomplete, and completed."""
    for text in ("partitions: [{name: default", CONFIG):
        (town.files / "queues.yaml").write_text(text)
        with suppress(DefaultFileError):
            await town.server.changes.reloader.reload()
        yield


async def lost_disk(town: Town) -> AsyncGenerator[None, None]:
    """The state directory is missing at the next write."""
    (town.files / "other.yaml").write_text(CONFIG.replace("vcore: 2", "vcore: 3"))
    (town.files / "state").rename(town.files / "gone")
    await town.shell("config", "apply", str(town.files / "other.yaml"), "--rm", "blue", "--yes")
    yield


async def drain(town: Town) -> AsyncGenerator[None, None]:
    """The server is asked to stop, and waits for its RMs."""
    await town.server._probes.draining()
    yield


async def killed_member(town: Town) -> AsyncGenerator[None, None]:
    """A member is killed and started again; its RM does not return meanwhile."""
    other = Member(id=MemberId("7f"), name="b", address="host-2:7070", started=1.0)
    town.table.gone[other.id] = Gone(other, START)
    town.table.rms[RmId("green")] = Record(rm_id=RmId("green"), owner=other.id, epoch=3)
    yield
    town.table.gone[other.id] = Gone(other, START, is_over=True)


async def silent_member(town: Town) -> AsyncGenerator[None, None]:
    """A member renews its lease, but is unreachable until it leaves."""
    silent = Member(id=MemberId("8a"), name="c", address="127.0.0.1:9", http="http://127.0.0.1:9")
    town.table.members[silent.id] = silent
    yield
    del town.table.members[silent.id]


async def failing_worker(town: Town) -> AsyncGenerator[None, None]:
    """A worker of the host is restarted repeatedly, and recovers."""
    for looping in (True, False):
        text = encode([Known(1, "ready", 0, False), Known(2, "waiting", 9, looping)])
        town.table.documents[STATUS] = Document(value=text, revision=1)
        yield


def switched(begin: Callable[[Town], object], end: Callable[[Town], object] = lambda _: None) -> Day:
    """A failure that one call begins and another one ends."""

    async def course(town: Town) -> AsyncGenerator[None, None]:
        begin(town)
        yield
        end(town)

    return course


def halt(town: Town, *, on: bool) -> None:
    """Let the core fail in a turn of the RM, or let the RM register again."""
    town.server.engine.post(SetHold(rm_id=RmId("blue"), hold=Hold.DEFECT, on=on))


def leave_store(town: Town, *, answers: bool = True, lease: bool = True) -> None:
    """Set whether the store answers, and whether the lease lasts."""
    town.table.answers, town.table.lease_lives = answers, lease


SHUT = "the grpc address has refused connections for 10 s"
ALONE: dict[str, Day] = {
    "nothing is wrong": switched(lambda _: None),
    "an RM leaves": rm_leaves,
    "a defect halts an RM": switched(partial(halt, on=True), partial(halt, on=False)),
    "a queue gets nothing": no_room,
    "a file cannot be read": unreadable_file,
    "the disk is gone": lost_disk,
    "the journal stops": switched(lambda town: setattr(town.server.journal.state, "problem", "disk full")),
    "a stall": switched(
        lambda town: town.server.stalled("the engine has not turned for 30 s"),
        lambda town: town.server.stalled(""),
    ),
    "an address is shut": switched(lambda town: town.server.fail(SHUT, "listener")),
    "a drain": drain,
}
TOGETHER: dict[str, Day] = {
    "the store does not answer": switched(partial(leave_store, answers=False), leave_store),
    "the lease ends": switched(partial(leave_store, answers=False, lease=False), leave_store),
    "a member is killed": killed_member,
    "a member is silent": silent_member,
    "a worker fails": failing_worker,
}


@pytest.mark.parametrize("name", [*ALONE, *TOGETHER])
async def test_a_failure_is_reported_in_every_form_and_ends(
    name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    rewrite: bool,
) -> None:
    """A failure is first reported without effect; later State, REST, `status`, page and probes count it."""
    file = tmp_path / "queues.yaml"
    file.write_text(CONFIG)
    clock, table = VirtualClock(), Table()
    monkeypatch.setattr(marks, "time", SimpleNamespace(time=clock.now))
    more: dict[str, Any] = {
        "http": LOOPBACK,
        "config_file": tmp_path / "queues.yaml",
        "default_config": load(CONFIG),
    }
    if name in ALONE:
        more |= {"state_dir": tmp_path / "state", "journal": tmp_path / "journal"}
    place = serving(clock=clock, **more) if name in ALONE else member(table, "a", clock, **more)
    async with place as server, FakeRM(server.grpc_address, rm_id="blue") as blue:
        town = Town(server, blue, Shell(server.grpc_address, capsys), tmp_path, table)
        course = (ALONE | TOGETHER)[name](town)
        await anext(course)
        lines = ["at first", *await said(town)]
        clock._now += 31.0
        lines += ["", "half a minute later", *await said(town)]
        await anext(course, None)
        lines += ["", "at the end", (await said(town))[0]]
        await course.aclose()
    shown = (line.replace(str(tmp_path), "DIR") for line in lines)
    compare(f"bad_days/{name.replace(' ', '_')}", shown, rewrite=rewrite)
