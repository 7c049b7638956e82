"""The supervisor, with small programs in place of workers."""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import DEVNULL
from tempfile import TemporaryDirectory

import pytest
import structlog

from licorne_core.values.ids import RmId
from licorne_server.assembly.workers import worker
from licorne_server.assembly.workers.supervisor import STORE, Plan, Supervisor
from licorne_server.assembly.workers.worker import State, Worker
from licorne_server.process.clock import SystemClock
from licorne_server.process.coordination import MOST_LEASE, Coordination
from licorne_server.store.coordination.local import LocalStore
from licorne_server.store.coordination.local_service import LocalService, Records
from licorne_server.store.coordination.ownership import known_workers
from licorne_server.store.coordination.store import Member, MemberId
from licorne_server.store.documents.documents import StoreError, TooLarge
from licorne_server.store.documents.kept import MAX_NAME, Kept
from support.patience import PATIENCE
from support.peers.shim import eventually

LEASE = 60.0

SERVES = "print('listening grpc=', flush=True); import signal; signal.pause()"
DRAINS = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
signal.signal(signal.SIGHUP, lambda *_: open(sys.argv[1], 'a').write('hup '))
print('listening grpc=', flush=True)
while True: signal.pause()
"""
FAILS = "raise SystemExit(3)"
SERVES_ONCE = """
import os, signal, sys
if os.path.exists(sys.argv[1]): raise SystemExit(4)
open(sys.argv[1], 'w').close()
print('listening grpc=', flush=True)
while True: signal.pause()
"""


@asynccontextmanager
async def supervising(*programs: str, file: Path = Path(), stall: float = 0.0) -> AsyncIterator[Supervisor]:
    """A supervisor of workers that run these programs, each with the path of a file as its argument."""
    commands: list[Sequence[str]] = [(sys.executable, "-S", "-c", text, str(file)) for text in programs]
    with TemporaryDirectory(prefix="licorne-") as folder:
        plan = Plan(
            folder=Path(folder),
            commands=commands,
            stderr=DEVNULL,
            drain=0.0,
            stall=stall,
        )
        supervisor = Supervisor(plan)
        try:
            yield supervisor
        finally:
            supervisor.kill("the test ends")
            await supervisor.stop()


def member_of(process: Worker, run: int = 0) -> Member:
    """The member that a worker publishes."""
    return Member(id=MemberId(f"{process.name}-{run}"), name=process.name, address="unix:/nowhere")


async def test_the_rms_of_a_dead_worker_can_be_claimed_at_once() -> None:
    """The lease of a worker whose exit was noticed ends at once; the other worker keeps its lease."""
    async with supervising(SERVES, SERVES) as supervisor:
        assert await supervisor.start()
        dead, other = supervisor.workers
        socket = str(supervisor._plan.folder / STORE)
        options = Coordination(backend="local", hosts=(socket,), lease=LEASE)
        first, second = LocalStore(options), LocalStore(options)
        await first.join(member_of(dead))
        await second.join(member_of(other))
        claimed = await first.claim(RmId("rm"), member_of(dead).id, None, 0)
        dead.kill("the test wants it")
        await eventually(lambda: dead.restarts.count == 1)
        # The exit was noticed, so the lease has ended before its time.
        taken = await second.claim(RmId("rm"), member_of(other).id, claimed, 0)
        assert (taken.owner, taken.epoch) == (member_of(other).id, claimed.epoch + 1)
        await second.renew(member_of(other))
        await eventually(lambda: dead.state is State.READY)
        await first.close()
        await second.close()


async def test_a_suspended_worker_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that neither renews its lease nor ends, and still gets connections, is killed."""
    monkeypatch.setattr("licorne_server.assembly.workers.supervisor.LOOK_SECONDS", 0.05)
    async with supervising(SERVES, SERVES, stall=0.1) as supervisor:
        assert await supervisor.start()
        stopped, never_joined = supervisor.workers
        socket = str(supervisor._plan.folder / STORE)
        store = LocalStore(Coordination(backend="local", hosts=(socket,), lease=1.0))
        await store.join(member_of(stopped))
        pid = stopped.pid
        await eventually(lambda: stopped.restarts.count == 1)
        assert stopped.pid != pid
        # A worker gets time to start before it has a lease.
        assert never_joined.restarts.count == 0
        await store.close()


async def test_errors_of_the_store_have_the_same_kinds_in_a_worker() -> None:
    """A value that is too large is distinguished from an invalid one, and only the first is not retried."""
    with TemporaryDirectory(prefix="licorne-") as folder:
        service = LocalService(Records(), Kept(), SystemClock())
        await service.start(Path(folder) / STORE)
        options = Coordination(backend="local", hosts=(f"{folder}/{STORE}",), lease=MOST_LEASE + 1)
        store = LocalStore(options)
        with pytest.raises(StoreError, match="seconds up to 600") as refused:
            await store.join(Member(id=MemberId("m"), name="m", address="unix:/nowhere"))
        assert type(refused.value) is StoreError
        with pytest.raises(TooLarge, match="a key may have"):
            await store.compare_and_set("k" * (MAX_NAME + 1), b"", 0)
        await store.close()
        await service.stop()


async def test_sigterm_drains_all_workers(tmp_path: Path) -> None:
    """A stop lets every worker drain, and succeeds if each of them exits successfully."""
    async with supervising(DRAINS, DRAINS, file=tmp_path / "hups") as supervisor:
        assert await supervisor.start()
        supervisor.reload()
        await eventually(
            lambda: (tmp_path / "hups").exists() and (tmp_path / "hups").read_text() == "hup hup "
        )
        assert await supervisor.stop()
        assert [each.state for each in supervisor.workers] == [State.ENDED, State.ENDED]
        assert [each.restarts.count for each in supervisor.workers] == [0, 0]


async def test_a_worker_that_does_not_drain_is_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The supervisor ends within a bounded time, with failure after a kill."""
    monkeypatch.setattr("licorne_server.assembly.workers.supervisor.STOP_SECONDS", 0.2)
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN);" + SERVES.replace(
        "signal.pause()", ""
    )
    async with supervising(DRAINS, deaf + "\nwhile True: signal.pause()") as supervisor:
        assert await supervisor.start()
        assert not await supervisor.stop()


async def test_a_worker_that_cannot_start_ends_the_supervisor() -> None:
    """A failed first start is not repeated, so that the service manager notices the failure."""
    async with supervising(SERVES, FAILS) as supervisor:
        assert not await supervisor.start()
        assert supervisor.failed.is_set()


async def test_a_worker_that_does_not_become_ready_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that hangs before it serves is killed, and counts as a failure."""
    monkeypatch.setattr(worker, "START_SECONDS", 0.2)
    async with supervising("import signal; signal.pause()") as supervisor:
        assert not await supervisor.start()


async def test_a_restart_loop_is_reported_while_another_worker_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop is in the log, and in the document for health and metrics; the other worker continues."""
    monkeypatch.setattr(worker, "FIRST", 0.0)
    with structlog.testing.capture_logs() as lines:
        async with supervising(SERVES, SERVES_ONCE, file=tmp_path / "once") as supervisor:
            assert await supervisor.start()
            _, looping = supervisor.workers
            looping.kill("the test wants it")
            await eventually(lambda: looping.restarts.count > worker.HOPELESS)
            status = known_workers(supervisor.service.snapshot())
            assert [(one.worker, one.looping) for one in status] == [(1, False), (2, True)]
            assert status[1].restarts >= worker.HOPELESS
            assert not supervisor.failed.is_set()
            assert supervisor.workers[0].state is State.READY
    told = [line for line in lines if line["event"] == "worker restarts in a loop"]
    assert told[0]["log_level"] == "critical"
    assert {line["worker"] for line in told} == {2}
    assert {"event": "worker ended", "worker": 2, "served": False, "code": 4}.items() <= next(
        line for line in lines if line.get("code") == 4
    ).items()


async def test_the_supervisor_ends_when_every_worker_fails_repeatedly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The supervisor ends, so that the service manager notices and starts it again."""
    monkeypatch.setattr(worker, "FIRST", 0.0)
    async with supervising(SERVES_ONCE, file=tmp_path / "once") as supervisor:
        assert await supervisor.start()
        supervisor.workers[0].kill("the test wants it")
        async with asyncio.timeout(PATIENCE):
            await supervisor.failed.wait()
        assert supervisor.workers[0].restarts.count == worker.HOPELESS
