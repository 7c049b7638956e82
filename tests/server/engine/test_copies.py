"""Copies of the core: no other work waits for them, and they leave nothing behind."""

import asyncio
import ctypes
import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import grpc
import pytest
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from structlog.testing import capture_logs

from licorne_core.scheduler import Scheduler
from licorne_core.values.ids import RmId
from licorne_server.assembly.server import Server
from licorne_server.engine.copied_process import Spent, apart
from licorne_server.engine.copies import MOST, MOST_OF_PEER, RETRY_AFTER, Copies, Pauses, Question
from licorne_server.process.fair import TimeSlices
from licorne_server.wire.errors import CallError, Defect, Stopped, failed_precondition
from support.core.builders import node, nodes, remove_apps
from support.patience import PATIENCE
from support.peers.shim import Shim, ask, connected, eventually, new_allocations, serving

RM = RmId("rm")
FREE = Pauses(0.0, lambda: 0)


def nothing() -> None:
    """Check nothing."""


class Sleeper:
    """A question that is never answered: its copy reports its process, and sleeps."""

    def __init__(self, folder: Path) -> None:
        """Write into this folder."""
        self._file = folder / "pid"

    def __call__(self, scheduler: Scheduler, now: float, spent: Spent) -> bytes:
        """Run in the copy."""
        part = self._file.with_suffix(".part")
        part.write_text(str(os.getpid()))
        part.rename(self._file)
        while True:
            signal.pause()

    async def pid(self) -> int:
        """The process id of the copy, once it sleeps."""
        await eventually(self._file.exists)
        return int(self._file.read_text())


def is_there(pid: int) -> bool:
    """True if the process exists, perhaps as a zombie."""
    return Path(f"/proc/{pid}").exists()


def asked(copies: Copies, question: Question, peer: str = "me") -> "asyncio.Task[bytes]":
    """Submit a question."""
    return asyncio.get_running_loop().create_task(copies.ask(peer, RM, question, nothing))


@pytest.fixture
def sleeper(tmp_path: Path) -> Sleeper:
    """A copy that would run for ever."""
    return Sleeper(tmp_path)


@pytest.fixture(autouse=True)
def no_file_is_left_open() -> Iterator[None]:
    """Check that the test closes all pipes that it opens."""
    before = opened()
    yield
    # The server has stopped and closed its own pipes by now.
    assert opened() <= before


def opened() -> int:
    """The number of pipes that this process has open."""
    links = (link for link in Path("/proc/self/fd").iterdir())
    return sum(pointed_at(link).startswith("pipe:") for link in links)


def pointed_at(link: Path) -> str:
    """The target of a link; empty if the file was closed meanwhile."""
    try:
        return os.readlink(link)
    except OSError:
        return ""


async def test_a_copy_has_the_core_and_no_file_of_its_parent(server: Server, shim: Shim) -> None:
    """A copy has the RM, and no open file but its own pipe: no port, no stream, no log."""
    await shim.set_up()

    def look(scheduler: Scheduler, now: float, spent: Spent) -> bytes:
        links = [pointed_at(link).partition(":")[0] for link in Path("/proc/self/fd").iterdir()]
        return f"{scheduler.views.rm('rm').rm_id} {sorted(filter(None, links))}".encode()

    assert await server.copies.ask("me", RM, look, nothing) == b"rm ['pipe']"


async def test_commands_of_a_copy_have_no_effect_outside(server: Server, shim: Shim) -> None:
    """A command that a copy carries out changes nothing in the server."""
    await shim.set_up()

    def remove(scheduler: Scheduler, now: float, spent: Spent) -> bytes:
        scheduler.handle(remove_apps("app", rm="rm"), now)
        [name] = scheduler.partitions
        return str(len(scheduler.partitions[name].applications)).encode()

    assert await server.copies.ask("me", RM, remove, nothing) == b"0"
    [report] = server.scheduler.views.partitions(RM)
    assert sum(report.applications.values()) == 1


async def test_a_copy_includes_earlier_commands(server: Server, shim: Shim) -> None:
    """A copy is made after the commands that are queued, even those without a waiting caller."""
    await shim.set_up()

    def count(scheduler: Scheduler, now: float, spent: Spent) -> bytes:
        [name] = scheduler.partitions
        return str(len(scheduler.partitions[name].nodes.by_id)).encode()

    for number in range(50):
        server.engine.post(nodes(node(f"late-{number}", vcore=1), rm="rm"))
    assert await server.copies.ask("me", RM, count, nothing) == b"51"


async def test_asks_are_placed_while_a_copy_works(server: Server, shim: Shim, sleeper: Sleeper) -> None:
    """An ask is placed although a plan never ends; a disconnecting caller ends the plan."""
    calls = await shim.set_up()
    plan = asked(server.copies, sleeper)
    pid = await sleeper.pid()
    await shim.ask(calls[0], ask("k1"))
    assert await new_allocations(calls[0], 1)
    assert is_there(pid)
    plan.cancel()
    with pytest.raises(asyncio.CancelledError):
        await plan
    assert not is_there(pid)


@pytest.fixture
def inherits() -> Iterator[None]:
    """This process inherits orphans, like the first process of a container."""
    inherit = partial(ctypes.CDLL(None).prctl, 36)  # PR_SET_CHILD_SUBREAPER
    inherit(1)
    yield
    inherit(0)


@pytest.mark.usefixtures("inherits")
async def test_copies_of_a_copy_are_reaped(server: Server, shim: Shim, sleeper: Sleeper) -> None:
    """A server that inherits the child of an ended copy, which is a copy too, reaps it as well."""
    await shim.set_up()

    def copy_again(scheduler: Scheduler, now: float, spent: Spent) -> bytes:
        return apart(lambda spent: sleeper(scheduler, now, spent), 1) or b""

    plan = asked(server.copies, copy_again)
    pid = await sleeper.pid()
    plan.cancel()
    with pytest.raises(asyncio.CancelledError):
        await plan
    assert not is_there(pid)


async def test_the_next_plan_is_made_when_one_was_given_up(
    server: Server, shim: Shim, sleeper: Sleeper
) -> None:
    """Only one copy runs at a time, and the next question is processed after its end."""
    await shim.set_up()
    plan = asked(server.copies, sleeper, "a")
    await sleeper.pid()
    second = asked(server.copies, lambda *_: b"second", "b")
    waits = asked(server.copies, lambda *_: b"third", "c")
    await eventually(lambda: server.copies.waiting == 2)
    assert server.copies.made == 1
    plan.cancel()
    assert await second == b"second"
    assert await waits == b"third"


async def test_the_caller_of_a_killed_copy_is_informed(server: Server, shim: Shim, sleeper: Sleeper) -> None:
    """The caller gets ABORTED, nothing of the killed copy remains, and the next plan is computed."""
    await shim.set_up()
    plan = asked(server.copies, sleeper)
    pid = await sleeper.pid()
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(CallError) as error:
        await plan
    assert error.value.code is grpc.StatusCode.ABORTED
    assert error.value.message == "the copy that worked the plan out was ended by SIGKILL"
    assert not is_there(pid)
    assert await server.copies.ask("me", RM, lambda *_: b"well", nothing) == b"well"


async def test_a_copy_that_fails_is_in_the_log(server: Server, shim: Shim) -> None:
    """The caller gets an id, and the log has the traceback under the same id."""
    await shim.set_up()

    def fail(scheduler: Scheduler, now: float, spent: Spent) -> bytes:
        raise RuntimeError("planted")

    with capture_logs() as lines, pytest.raises(Defect) as error:
        await server.copies.ask("me", RM, fail, nothing)
    [line] = [line for line in lines if line["event"] == "plan failed"]
    assert line["correlation_id"] == error.value.correlation_id
    assert "RuntimeError: planted" in line["traceback"]


async def test_a_copy_ends_with_the_server(server: Server, shim: Shim, sleeper: Sleeper) -> None:
    """A server that stops ends the running copy; its caller and all waiting callers get Stopped."""
    await shim.set_up()
    plan = asked(server.copies, sleeper)
    pid = await sleeper.pid()
    waits = asked(server.copies, sleeper)
    await eventually(lambda: server.copies.waiting == 1)
    await server.copies.stop()
    for task in (plan, waits, asked(server.copies, sleeper)):
        with pytest.raises(Stopped):
            await task
    assert not is_there(pid)


async def test_a_server_with_many_plans_stops(server: Server, shim: Shim, sleeper: Sleeper) -> None:
    """A server stops although the maximum number of plans waits."""
    await shim.set_up()
    plans = [asked(server.copies, sleeper)]
    await sleeper.pid()
    peers = [f"peer-{number % (MOST // MOST_OF_PEER)}" for number in range(MOST)]
    plans += [asked(server.copies, sleeper, peer) for peer in peers]
    await eventually(lambda: server.copies.waiting == MOST)
    await server.copies.stop()
    for task in plans:
        with pytest.raises(Stopped):
            await task


@pytest.mark.slow
async def test_a_copy_that_computes_too_long_is_ended(
    server: Server, shim: Shim, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system ends a copy that ignores that its time is spent."""
    monkeypatch.setattr("licorne_server.engine.copies.CPU_SECONDS", 1)
    # The low priority would make a copy slow on a busy machine.
    monkeypatch.setattr("licorne_server.engine.copied_process._NICENESS", 0)
    monkeypatch.setattr("licorne_server.engine.copies.DEADLINE", PATIENCE)
    await shim.set_up()

    def compute(scheduler: Scheduler, now: float, spent: Spent) -> bytes:
        while True:
            pass

    with pytest.raises(CallError) as error:
        await server.copies.ask("me", RM, compute, nothing)
    assert error.value.message.endswith("was ended by SIGXCPU")


@pytest.mark.parametrize("leads", [True, False])
async def test_a_copy_that_is_silent_is_ended(
    leads: bool, server: Server, shim: Shim, sleeper: Sleeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy that neither computes nor answers is ended after a time, even if it has no process group."""
    monkeypatch.setattr("licorne_server.engine.copies.DEADLINE", 0.2)
    if not leads:
        monkeypatch.setattr("os.setpgid", Mock(side_effect=PermissionError))
    await shim.set_up()
    with pytest.raises(CallError) as error:
        await server.copies.ask("me", RM, sleeper, nothing)
    assert error.value.message == "the plan took more than 0.2 s"


async def test_no_copy_is_made_when_memory_is_short(server: Server, shim: Shim) -> None:
    """A plan is refused with the shortage of memory as the reason."""
    await shim.set_up()
    time_slices = TimeSlices(lambda: False)
    copies = Copies(server.engine, server.scheduler, time_slices, lambda _: "the process takes 2 bytes", FREE)
    with pytest.raises(CallError) as error:
        await copies.ask("me", RM, lambda *_: b"", nothing)
    assert error.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert error.value.message == "no copy is made for a plan: the process takes 2 bytes"


async def test_no_copy_is_made_if_the_check_fails(server: Server, shim: Shim) -> None:
    """The caller gets the error of the check, and no copy is made."""
    await shim.set_up()

    def refuse() -> None:
        raise failed_precondition("not now", "NOT_NOW")

    with pytest.raises(CallError) as error:
        await server.copies.ask("me", RM, lambda *_: b"", refuse)
    assert error.value.message == "not now"
    assert server.copies.made == 0


async def test_a_failed_fork_is_reported(server: Server, shim: Shim, monkeypatch: pytest.MonkeyPatch) -> None:
    """The status is RESOURCE_EXHAUSTED, and no pipe remains open."""
    await shim.set_up()

    def no_memory() -> int:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(os, "fork", no_memory)
    with pytest.raises(CallError) as error:
        await server.copies.ask("me", RM, lambda *_: b"", nothing)
    assert error.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert error.value.message == "no copy is made for a plan: Cannot allocate memory"


async def test_large_answers_are_complete(server: Server, shim: Shim) -> None:
    """An answer may be larger than the capacity of a pipe."""
    await shim.set_up()
    size = 5_000_000
    answer = await server.copies.ask("me", RM, lambda *_: b"x" * size, nothing)
    assert answer == b"x" * size


async def test_a_copy_that_exits_early_is_an_error(server: Server, shim: Shim) -> None:
    """A copy that exits before its answer is complete is reported to the caller."""
    await shim.set_up()

    def leave(scheduler: Scheduler, now: float, spent: Spent) -> bytes:
        os._exit(0)

    with pytest.raises(CallError) as error:
        await server.copies.ask("me", RM, leave, nothing)
    assert error.value.message == "the copy that worked the plan out was ended"


async def test_many_plans_of_one_peer_are_refused_with_a_hint(
    server: Server, shim: Shim, sleeper: Sleeper
) -> None:
    """A peer may have a number of waiting plans; the next is refused with a time to retry."""
    await shim.set_up()
    plans = [asked(server.copies, sleeper) for _ in range(MOST_OF_PEER + 1)]
    await sleeper.pid()
    with pytest.raises(CallError) as error:
        await server.copies.ask("me", RM, lambda *_: b"", nothing)
    assert error.value.reason == "TOO_MANY_PLANS"
    [retry] = [one for one in error.value.details if isinstance(one, RetryInfo)]
    assert retry.retry_delay.seconds == RETRY_AFTER
    for plan in plans:
        plan.cancel()
    await asyncio.wait(plans)


@pytest.fixture
def untold() -> Iterator[None]:
    """Ignore SIGCHLD, so that the system forgets a child as soon as it has ended."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGCHLD, before)


@pytest.mark.usefixtures("untold")
async def test_a_copy_that_the_system_has_forgotten_has_answered() -> None:
    """The answer of a copy counts although the system has already forgotten its process."""

    def hand_on(scheduler: Scheduler, now: float, spent: Spent) -> bytes:
        pid = os.getpid()
        if os.fork():
            os._exit(0)
        while Path(f"/proc/{pid}").exists():
            os.sched_yield()
        return b"told"

    async with serving() as server, connected(server) as channel:
        await Shim(channel).set_up()
        assert await server.copies.ask("me", RmId("rm"), hand_on, lambda: None) == b"told"
