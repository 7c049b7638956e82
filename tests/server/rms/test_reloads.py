"""Reloads of the default configuration's file, on request and after changes."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import grpc
import pytest
from structlog.testing import capture_logs

from licorne_core.config import load
from licorne_core.values.rm_caps import RmCaps
from licorne_server.assembly.server import Server
from licorne_server.process.bounds import RmBounds
from licorne_server.rms import reloading
from licorne_server.store.configurations import default_file
from licorne_server.store.configurations.default_file import INTERVAL
from licorne_server.testing import VirtualClock
from support.peers.shim import Shim, connected, eventually, serving
from support.server.configuring import BROKEN, A, Admin, B, C, queues, refusal, remove, text, write


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file of the default configuration."""
    path = tmp_path / "queues.yaml"
    write(path, A)
    return path


@asynccontextmanager
async def reading(
    file: Path, clock: VirtualClock | None = None, **settings: Any
) -> AsyncIterator[tuple[Server, grpc.aio.Channel]]:
    """A server started with the file."""
    async with (
        serving(clock=clock, default_config=load(A), config_file=file, **settings) as server,
        connected(server) as channel,
    ):
        yield server, channel


async def test_a_reload_reaches_rms_with_the_default_only(file: Path) -> None:
    """A reload reaches present and later RMs without their own configuration, and no others."""
    async with reading(file) as (server, channel):
        for name, config in (("one", ""), ("own", C), ("applied", "")):
            await Shim(channel, name).register(config)
        await Admin(channel, "applied").apply(C)
        write(file, B)
        answer = await Admin(channel).reload()
        assert answer.changed
        assert [(rm.rm_id, rm.changed, rm.revision) for rm in answer.rms] == [("one", True, 2)]
        assert await Admin(channel, "one").in_force() == (B, 2, "file")
        assert (await Admin(channel, "one").history())[0].by == str(file)
        assert queues(server, "one") == ("root.b",)
        assert await Admin(channel, "own").in_force() == (C, 1, "registration")
        assert await Admin(channel, "applied").in_force() == (C, 2, "operator")
        await Shim(channel, "late").register()
        assert await Admin(channel, "late").in_force() == (B, 1, "file")


async def test_reload_of_the_same_file_changes_nothing(file: Path) -> None:
    """The revision is the same, and the result is unchanged."""
    async with reading(file) as (_, channel):
        await Shim(channel).register()
        answer = await Admin(channel).reload()
        assert (answer.changed, answer.checksum) == (False, load(A).checksum)
        assert [(rm.rm_id, rm.changed) for rm in answer.rms] == [("rm", False)]
        assert await Admin(channel).in_force() == (A, 1, "file")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (BROKEN, "5:9: partitions[0].queues[0].submitall: unknown key 'submitall'"),
        ("", "the default configuration is refused"),
        ("\n  \n", "the default configuration is refused"),
        ("#" * (2 * 1024 * 1024 + 1), "is larger than 2097152 bytes"),
        (None, "No such file or directory"),
    ],
    ids=["refused", "empty", "blank", "large", "gone"],
)
async def test_file_that_cannot_be_used_changes_nothing(
    file: Path, content: str | None, problem: str
) -> None:
    """An unusable file is reported; RMs and default keep the old configuration."""
    async with reading(file) as (server, channel):
        await Shim(channel).register()
        if content is None:
            remove(file)
        else:
            write(file, content)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await Admin(channel).reload()
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert problem in (refused.value.details() or "")
        assert await Admin(channel).in_force() == (A, 1, "file")
        await Shim(channel, "late").register()
        assert await Admin(channel, "late").in_force() == (A, 1, "file")
        reloader = server.changes.reloader
        assert (reloader.reloads, reloader.failures) == (0, 1)
        write(file, B)
        assert (await Admin(channel).reload()).changed
        assert (reloader.reloads, reloader.failures) == (1, 1)


async def test_a_refusal_of_one_rm_does_not_affect_others(file: Path) -> None:
    """An RM that refuses the file keeps its configuration and is named; other RMs get the new one."""
    caps = RmBounds(each=RmCaps(queues=3))
    async with reading(file, rms=caps) as (_, channel):
        for name in ("one", "two"):
            await Shim(channel, name).register()
        many = text("b").replace("{name: b}", "{name: b}, {name: c}, {name: d}")
        write(file, many)
        answer = await Admin(channel).reload()
        assert [(rm.rm_id, rm.changed, rm.revision) for rm in answer.rms] == [
            ("one", False, 1),
            ("two", False, 1),
        ]
        assert all("at most 3 are allowed" in rm.refusal for rm in answer.rms)
        assert await Admin(channel, "one").in_force() == (A, 1, "file")
        write(file, B)
        answer = await Admin(channel).reload()
        assert [(rm.changed, rm.refusal) for rm in answer.rms] == [(True, ""), (True, "")]


async def test_server_without_a_file_has_nothing_to_read() -> None:
    """A reload without a file is refused."""
    async with serving() as server, connected(server) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await Admin(channel).reload()
        assert refusal(refused.value).reason == "NO_CONFIGURATION_FILE"


async def test_registrations_during_a_reload_get_the_new_content(file: Path) -> None:
    """RMs that register during a reload end with the new content."""
    async with reading(file) as (_, channel):
        names = [f"rm-{number}" for number in range(12)]
        write(file, B)
        work = [Shim(channel, name).register() for name in names]
        await asyncio.gather(*work[:6], Admin(channel).reload(), *work[6:])
        for name in names:
            assert (await Admin(channel, name).get()).config == B


async def test_changed_file_is_noticed(file: Path) -> None:
    """A changed file is in force two checks later, without a request."""
    clock = VirtualClock()
    async with reading(file, clock, watch_config=True) as (server, channel):
        await Shim(channel).register()
        await clock.advance(3 * INTERVAL)
        assert server.changes.reloader.reloads == 0
        write(file, B)
        await clock.advance(3 * INTERVAL)
        await eventually(lambda: queues(server) == ("root.b",))
        assert server.changes.reloader.reloads == 1


async def test_swapped_links_are_noticed(file: Path, tmp_path: Path) -> None:
    """A file behind swapped links, as of mounted config maps, is followed."""
    for name, content in (("..first", A), ("..second", B)):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "queues.yaml", content)
    data = tmp_path / "..data"
    data.symlink_to("..first")
    mounted = tmp_path / "mounted.yaml"
    mounted.symlink_to("..data/queues.yaml")
    clock = VirtualClock()
    async with reading(mounted, clock, watch_config=True) as (server, channel):
        await Shim(channel).register()
        beside = tmp_path / "..data_tmp"
        beside.symlink_to("..second")
        os.replace(beside, data)
        await clock.advance(3 * INTERVAL)
        await eventually(lambda: queues(server) == ("root.b",))


async def test_unusable_content_is_logged_once(file: Path) -> None:
    """Each unusable content is logged once."""
    clock = VirtualClock()
    async with reading(file, clock, watch_config=True) as (server, channel):
        await Shim(channel).register()
        with capture_logs() as lines:
            write(file, BROKEN)
            await clock.advance(20 * INTERVAL)
            remove(file)
            await clock.advance(20 * INTERVAL)
        told = [line for line in lines if line["log_level"] == "error"]
        assert [line["event"] for line in told] == ["default configuration not read"] * 2
        assert "unknown key 'submitall'" in told[0]["reason"]
        assert "No such file" in told[1]["reason"]
        assert server.changes.reloader.failures == 2
        assert await Admin(channel).in_force() == (A, 1, "file")


@pytest.mark.parametrize(("room", "where"), [(reloading, "load"), (default_file, "_digest")])
async def test_the_file_is_watched_after_an_error(
    file: Path, monkeypatch: pytest.MonkeyPatch, room: ModuleType, where: str
) -> None:
    """After an unexpected error, which is logged, new content is still read."""
    clock = VirtualClock()
    async with reading(file, clock, watch_config=True) as (server, channel):
        await Shim(channel).register()

        def fail(*_: object, **__: object) -> None:
            raise RuntimeError("planted")

        with monkeypatch.context() as planted, capture_logs() as lines:
            planted.setattr(room, where, fail)
            write(file, B)
            await clock.advance(4 * INTERVAL)
            await eventually(lambda: lines)
        assert lines[0]["event"].startswith("default configuration not ")
        assert lines[0]["log_level"] == "error"
        assert queues(server) == ("root.a",)
        write(file, C)
        await clock.advance(4 * INTERVAL)
        await eventually(lambda: queues(server) == ("root.c",))


async def test_a_file_is_not_read_while_it_is_written(file: Path) -> None:
    """Content that changes between checks is not used."""
    clock = VirtualClock()
    async with reading(file, clock, watch_config=True) as (server, channel):
        await Shim(channel).register()
        for number in range(5):
            write(file, text(f"half{number}"))
            await clock.advance(INTERVAL)
        assert server.changes.reloader.reloads == 0
        assert await Admin(channel).in_force() == (A, 1, "file")


async def test_the_file_is_watched_on_request_only(file: Path) -> None:
    """Without the option the file is read on request only."""
    clock = VirtualClock()
    async with reading(file, clock) as (server, channel):
        await Shim(channel).register()
        write(file, B)
        await clock.advance(10 * INTERVAL)
        assert await Admin(channel).in_force() == (A, 1, "file")
        server.reload()
        await eventually(lambda: queues(server) == ("root.b",))
