"""Applied configurations across restarts, with and without a state directory."""

import asyncio
import resource
import signal
import sqlite3
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import grpc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from licorne.v1.admin_pb2 import ForgetRmRequest
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_core.config import DEFAULT_CONFIG
from licorne_core.values.rm_caps import RmCaps
from licorne_server.process.bounds import RmBounds
from support.patience import PATIENCE
from support.peers.shim import Shim, connected, serving
from support.server.configuring import BROKEN, A, Admin, B, C, D, queues, refusal, text, write
from support.server.server_process import ServerProcess
from support.server.settings_file import settings_file

RM_IDS = ("one", "two")
TEXTS = ("", A, B, C)
STEPS = st.one_of(
    st.tuples(st.just("register"), st.sampled_from(RM_IDS), st.sampled_from(TEXTS)),
    st.tuples(st.just("apply"), st.sampled_from(RM_IDS), st.sampled_from((A, B, C, D))),
    st.tuples(st.just("roll back"), st.sampled_from(RM_IDS), st.integers(1, 4)),
    st.tuples(st.just("restart"), st.just(""), st.just("")),
)


class Expected:
    """A model of the rule for one RM: an applied configuration remains until it is replaced."""

    def __init__(self) -> None:
        """Start without a registration."""
        self.running = ""
        self.applied = False
        self.said = ""
        self.texts: list[str] = []
        self.registered = False

    def register(self, config: str) -> None:
        """Register with a text, or without one."""
        says_news = config not in ("", self.said, self.running)
        if not self.applied or says_news:
            self._run(config or DEFAULT_CONFIG)
            self.applied = False
        self.said = config or self.said
        self.registered = True

    def apply(self, config: str) -> None:
        """Apply a text as an operator or by a rollback."""
        self._run(config)
        self.applied = True

    def _run(self, config: str) -> None:
        self.running = config


@pytest.mark.slow
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(STEPS, min_size=4, max_size=14))
def test_an_applied_configuration_remains_until_it_is_replaced(
    steps: list[tuple[str, str, object]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The rule holds for any order of registrations, changes, rollbacks and restarts.

    Numbers of revisions never fall, and a number never has two texts.
    """
    asyncio.run(play(steps, tmp_path_factory.mktemp("state")))


async def play(steps: list[tuple[str, str, object]], folder: Path) -> None:
    """Carry out the steps against a server, with restarts."""
    expected = {rm_id: Expected() for rm_id in RM_IDS}
    seen: dict[tuple[str, int], str] = {}
    parts: list[list[tuple[str, str, object]]] = [[]]
    for step in steps:
        if step[0] == "restart":
            parts.append([])
        else:
            parts[-1].append(step)
    for part in parts:
        async with serving(state_dir=folder) as server, connected(server) as channel:
            for rm in expected.values():
                rm.registered = False
            for kind, rm_id, value in part:
                admin, rm = Admin(channel, rm_id), expected[rm_id]
                if kind == "register":
                    await Shim(channel, rm_id).register(str(value))
                    rm.register(str(value))
                elif not rm.registered:
                    continue
                elif kind == "apply":
                    await admin.apply(str(value))
                    rm.apply(str(value))
                else:
                    history = await admin.history(with_config=True)
                    number = int(str(value))
                    found = [item.config for item in history if item.revision == number]
                    if found:
                        await admin.roll_back(to=number)
                        rm.apply(found[0])
                running, revision, source = await admin.in_force()
                assert running == rm.running
                assert (source in ("operator", "rollback")) is rm.applied
                assert seen.setdefault((rm_id, revision), running) == running
                assert revision == max(number for name, number in seen if name == rm_id)


def connected_to(server: ServerProcess) -> grpc.aio.Channel:
    """A new channel, without state of an earlier server."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    return grpc.aio.insecure_channel(server.target, options=options)


async def comes_into_force(channel: grpc.aio.Channel, config: str) -> None:
    """Wait until a configuration is in force for the RM."""
    async with asyncio.timeout(PATIENCE):
        while True:
            if (await Admin(channel).in_force())[0] == config:
                return


async def test_configurations_survive_a_restart(tmp_path: Path) -> None:
    """After a restart the applied configuration, its extra one and the history are kept."""
    said, extra = {"service.a": "1"}, {"event.trackingEnabled": "false"}
    async with serving(state_dir=tmp_path) as server, connected(server) as channel:
        await Shim(channel).register(A, extraConfig=said)
        answer = await Admin(channel).apply(B, comment="why", extra=extra)
        assert answer.persistent
        before = await Admin(channel).history(with_config=True)
    async with serving(state_dir=tmp_path) as server, connected(server) as channel:
        await Shim(channel).register(A, extraConfig=said)
        assert await Admin(channel).in_force() == (B, 2, "operator")
        assert dict((await Admin(channel).get()).extra_config) == extra
        assert queues(server) == ("root.b",)
        assert await Admin(channel).history(with_config=True) == before
        await Shim(channel).register(C)
        assert await Admin(channel).in_force() == (C, 3, "registration")


@asynccontextmanager
async def restarted(folder: Path) -> AsyncIterator[grpc.aio.Channel]:
    """A restarted server with B applied after A, for an RM that has not registered yet."""
    async with serving(state_dir=folder) as server, connected(server) as channel:
        await Shim(channel).register(A)
        await Admin(channel).apply(B, comment="why")
    async with serving(state_dir=folder) as server, connected(server) as channel:
        yield channel


async def test_an_absent_rm_can_be_read(tmp_path: Path) -> None:
    """Configuration and history of an unregistered RM can be read, marked as not registered."""
    async with restarted(tmp_path) as channel:
        admin = Admin(channel)
        running = await admin.get()
        assert (running.config, running.revision, running.source) == (B, 2, "operator")
        assert (running.comment, running.registered) == ("why", False)
        assert [item.revision for item in await admin.history()] == [2, 1]
        await Shim(channel).register(A)
        assert (await admin.get()).registered


async def test_an_absent_rm_can_be_changed(tmp_path: Path) -> None:
    """A change of an unregistered RM takes effect at its registration, also after a restart."""
    async with restarted(tmp_path) as channel:
        admin = Admin(channel)
        answer = await admin.apply(C, base=2)
        assert (answer.changed, answer.revision, answer.registered) == (True, 3, False)
        assert answer.persistent
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await admin.apply(D, base=2)
        assert refusal(error.value).reason == "STALE_REVISION"
        assert (await admin.roll_back(to=1)).revision == 4
        assert not (await admin.apply(A)).changed
    async with serving(state_dir=tmp_path) as server, connected(server) as channel:
        await Shim(channel).register(D)
        # The RM registers with a new text.
        assert await Admin(channel).in_force() == (D, 5, "registration")
        assert [item.revision for item in await Admin(channel).history()] == [5, 4, 3, 2, 1]


async def test_an_unusable_text_is_refused_for_an_absent_rm(tmp_path: Path) -> None:
    """An unusable text is refused for an unregistered RM, too."""
    async with restarted(tmp_path) as channel:
        admin = Admin(channel)
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await admin.apply(BROKEN)
        assert refusal(error.value).reason == "CONFIG_INVALID"
        assert (await admin.get()).revision == 2
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await admin.plan(C)
        assert refusal(error.value).reason == "RM_NOT_REGISTERED"
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await Admin(channel, "nobody").apply(C)
        assert refusal(error.value).reason == "RM_NOT_REGISTERED"


async def test_an_absent_rm_can_be_forgotten(tmp_path: Path) -> None:
    """Eviction of an unregistered RM deletes its stored revisions."""
    async with restarted(tmp_path) as channel:
        await AdminStub(channel).ForgetRm(ForgetRmRequest(rm_id="rm"))
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await Admin(channel).get()
        assert refusal(error.value).reason == "RM_NOT_REGISTERED"
    with closing(sqlite3.connect(tmp_path / "state.sqlite")) as database:
        assert not [line for line in database.iterdump() if line.startswith("INSERT")]


THREE = text("b").replace("{name: b}", "{name: b}, {name: c}")


async def test_an_unusable_applied_configuration_is_replaced(tmp_path: Path) -> None:
    """If the cap is lower after a restart, the RM's own text is in force, with the reason."""
    async with serving(state_dir=tmp_path) as server, connected(server) as channel:
        await Shim(channel).register(A)
        await Admin(channel).apply(THREE)
    caps = RmBounds(each=RmCaps(queues=2))
    async with serving(state_dir=tmp_path, rms=caps) as server, connected(server) as channel:
        admin = Admin(channel)
        with capture_logs() as lines:
            await Shim(channel).register(A)
        why = "the configuration has 3 queues, at most 2 are allowed"
        [line] = [one for one in lines if one["event"] == "applied configuration cannot be used"]
        assert (line["log_level"], line["rm_id"], line["revision"]) == ("error", "rm", 2)
        assert (line["in_force"], line["by"]) == (3, "127.0.0.1")
        assert why in line["reason"]
        running = await admin.get()
        assert (running.config, running.revision, running.source) == (A, 3, "registration")
        assert running.instead_of == 2
        assert running.comment == f"revision 2 cannot be used: partitions: {why}"
        assert queues(server) == ("root.a",)
        [latest, *_] = await admin.history()
        assert (latest.instead_of, latest.comment) == (2, running.comment)
        # The RM's text is in force from now on, like any other.
        await Shim(channel).register(A)
        assert await admin.in_force() == (A, 3, "registration")
        await Shim(channel).register("")
        assert (await admin.get()).source == "built-in"
    async with serving(state_dir=tmp_path) as server, connected(server) as channel:
        await Shim(channel).register(A)
        await Admin(channel).roll_back(to=2)
        assert (await Admin(channel).get()).config == THREE


async def test_a_refusal_names_both_unusable_texts(tmp_path: Path) -> None:
    """The refusal is that of the RM's text, and names the applied text."""
    async with serving(state_dir=tmp_path) as server, connected(server) as channel:
        await Shim(channel).register(THREE)
        await Admin(channel).apply(THREE + "# x\n")
    caps = RmBounds(each=RmCaps(queues=2))
    async with serving(state_dir=tmp_path, rms=caps) as server, connected(server) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await Shim(channel).register(THREE)
        refused = refusal(error.value)
        assert refused.reason == "CONFIG_INVALID"
        assert "; revision 2, which was applied, cannot be used either: " in refused.text
        assert (await Admin(channel).get()).revision == 2


async def test_nothing_is_stored_without_a_state_directory() -> None:
    """Without a directory nothing is stored, and each change warns."""
    for _ in range(2):
        async with serving() as server, connected(server) as channel:
            await Shim(channel).register(A)
            assert await Admin(channel).in_force() == (A, 1, "registration")
            assert not (await Admin(channel).apply(B)).persistent
            assert not (await Admin(channel).roll_back()).persistent


@pytest.mark.slow
async def test_a_change_that_cannot_be_stored_is_refused(tmp_path: Path) -> None:
    """If the disk is full a change is refused; registrations continue, and so do later changes."""
    async with ServerProcess("--state-dir", str(tmp_path), stderr=DEVNULL) as server:
        async with connected_to(server) as channel:
            await Shim(channel).register(A)
            admin = Admin(channel)
            server.limit_size_of_files(0)
            for change in (admin.apply(B), admin.apply(C)):
                with pytest.raises(grpc.aio.AioRpcError) as error:
                    await change
                assert refusal(error.value).reason == "NOT_STORED"
                assert "state.sqlite: disk I/O error" in refusal(error.value).text
            assert await admin.in_force() == (A, 1, "registration")
            await Shim(channel, "late").register(D)
            server.limit_size_of_files(resource.RLIM_INFINITY)
            assert (await admin.apply(B)).revision == 2
            await Admin(channel, "late").apply(C)
        await server.restart()
        async with connected_to(server) as channel:
            for name, registered, running in (("rm", A, B), ("late", D, C)):
                await Shim(channel, name).register(registered)
                assert await Admin(channel, name).in_force() == (running, 2, "operator")


@pytest.mark.slow
async def test_a_killed_server_has_the_old_or_the_new_configuration(tmp_path: Path) -> None:
    """After kill -9 during a change the old or the new configuration is completely in force."""
    texts = [text(f"q{number}") + "# \n" * 20_000 for number in range(4)]
    async with ServerProcess("--state-dir", str(tmp_path)) as server:
        known = 0
        for round_number in range(8):
            async with connected_to(server) as channel:
                await Shim(channel).register(A)
                admin = Admin(channel)
                running, revision, _ = await admin.in_force()
                if known:
                    assert revision >= known
                wanted = texts[round_number % len(texts)]
                call = asyncio.ensure_future(admin.apply(wanted))
                if round_number % 2:
                    known = (await call).revision
                    running = wanted
                else:
                    await asyncio.sleep(0.003 * round_number)
                await server.kill()
                await asyncio.gather(call, return_exceptions=True)
            await server.start()
            async with connected_to(server) as channel:
                await Shim(channel).register(A)
                found, _, _ = await Admin(channel).in_force()
                assert found in (running, wanted)


@pytest.mark.slow
async def test_sighup_reloads_the_file(tmp_path: Path) -> None:
    """SIGHUP applies the file to RMs with the default; an unusable file changes nothing."""
    file = tmp_path / "queues.yaml"
    write(file, A)
    async with (
        ServerProcess(*settings_file(server={"config": file, "watch_config": False})) as server,
        connected_to(server) as channel,
    ):
        await Shim(channel).register()
        write(file, "partitions: 3")
        server.send(signal.SIGHUP)
        assert (await Admin(channel).in_force())[0] == A
        write(file, B)
        server.send(signal.SIGHUP)
        await comes_into_force(channel, B)
        assert await Admin(channel).in_force() == (B, 2, "file")


@pytest.mark.slow
async def test_served_file_is_watched(tmp_path: Path) -> None:
    """`licorne serve --config FILE` detects a changed file."""
    file = tmp_path / "queues.yaml"
    write(file, A)
    async with (
        ServerProcess("--config", str(file)) as server,
        connected_to(server) as channel,
    ):
        await Shim(channel).register()
        write(file, B)
        await comes_into_force(channel, B)
