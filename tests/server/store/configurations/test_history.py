"""`Admin` and revisions: history, compare-and-set, rollback, and permissions."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from structlog.testing import capture_logs

from licorne_server.assembly.server import Server
from support.peers.shim import Shim, connected, serving
from support.peers.tls import Bearing
from support.server.configuring import A, Admin, B, C, D, queues, refusal, text


@pytest.fixture
async def admin(shim: Shim, channel: grpc.aio.Channel) -> Admin:
    """Admin calls, for an RM that has registered with text A."""
    await shim.register(A)
    return Admin(channel)


async def test_applying_the_running_text_creates_one_revision(
    server: Server, shim: Shim, admin: Admin
) -> None:
    """Applying the text of the RM makes it an applied configuration, and changes nothing else.

    It remains in force if the RM registers without a text. Applied again, it creates no new revision.
    """
    answer = await admin.apply(A, comment="keep it")
    assert (answer.changed, answer.revision) == (False, 2)
    assert await admin.in_force() == (A, 2, "operator")
    await shim.register("")
    assert await admin.in_force() == (A, 2, "operator")
    assert queues(server) == ("root.a",)
    answer = await admin.apply(A)
    assert (answer.changed, answer.revision) == (False, 2)


async def test_a_rollback_to_the_running_text_keeps_it(shim: Shim, admin: Admin) -> None:
    """A rollback to the revision in force makes it an applied one."""
    await admin.roll_back(to=1)
    await shim.register("")
    assert await admin.in_force() == (A, 2, "rollback")


async def test_an_extra_configuration_stays_with_the_applied_one(shim: Shim, admin: Admin) -> None:
    """A new registration keeps the extra configuration, until the RM sends another one."""
    await shim.register(A, extraConfig={"service.a": "1"})
    await admin.apply(B, extra={"event.requestCapacity": "7"})
    for said in ({}, {"service.a": "1"}):
        await shim.register(A, extraConfig=said)
        assert dict((await admin.get()).extra_config) == {"event.requestCapacity": "7"}
    await shim.register(A, extraConfig={"service.a": "2"})
    running = await admin.get()
    assert (running.config, dict(running.extra_config)) == (B, {"service.a": "2"})
    assert (running.source, running.revision) == ("operator", 4)


async def test_one_of_many_concurrent_changes_is_accepted(server: Server, admin: Admin) -> None:
    """Of many changes with the same base one is accepted."""
    texts = [text(f"q{number}") for number in range(8)]
    results = await asyncio.gather(*(admin.apply(config, base=1) for config in texts), return_exceptions=True)
    won = [index for index, result in enumerate(results) if not isinstance(result, Exception)]
    assert len(won) == 1
    lost = [refusal(result) for result in results if isinstance(result, grpc.aio.AioRpcError)]
    assert {item.reason for item in lost} == {"STALE_REVISION"}
    assert await admin.in_force() == (texts[won[0]], 2, "operator")
    assert queues(server) == (f"root.q{won[0]}",)


async def test_registration_counts_as_a_change(shim: Shim, admin: Admin) -> None:
    """A base from before a registration with another text is refused."""
    await shim.register(B)
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await admin.apply(C, base=1)
    assert refusal(error.value).metadata == {"revision": "2"}


async def test_the_number_of_revisions_is_bounded(admin: Admin) -> None:
    """The last 50 revisions are stored, with rising numbers."""
    for number in range(60):
        await admin.apply((B, C)[number % 2])
    history = await admin.history()
    assert [item.revision for item in history] == list(range(61, 11, -1))


@pytest.mark.parametrize(
    ("comment", "problem"),
    [
        ("x" * 1025, "comment has 1025 bytes, at most 1024 are allowed"),
        ("two\nlines", "comment holds control characters: two\\nlines"),
    ],
    ids=["long", "lines"],
)
async def test_comments_are_bounded(admin: Admin, comment: str, problem: str) -> None:
    """A comment that is too long, or has line breaks, is refused."""
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await admin.apply(B, comment=comment)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert refused.value.details() == problem


async def test_a_change_without_its_caller_is_complete(server: Server, shim: Shim, admin: Admin) -> None:
    """A change whose caller disconnects is in force with its revision, or not at all."""
    for config in (B, C, D, B, C, D):
        call = asyncio.ensure_future(admin.apply(config))
        for _ in range(3):
            await asyncio.sleep(0)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        running, revision, _ = await admin.in_force()
        assert queues(server) == (f"root.{dict(zip((A, B, C, D), 'abcd', strict=True))[running]}",)
        latest = (await admin.history(with_config=True))[0]
        assert (latest.revision, latest.config) == (revision, running)


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Server]:
    """A server that requires tokens."""
    for name in ("rm", "other", "operator"):
        (tmp_path / name).write_text(f"token-of-{name * 4}\n")
    tokens: dict[str, Any] = {
        "rm_tokens": {name: (tmp_path / name,) for name in ("rm", "other")},
        "operator_tokens": (tmp_path / "operator",),
    }
    async with serving(**tokens) as server:
        yield server


async def test_an_rm_changes_its_own_configuration_and_operators_all(guarded: Server) -> None:
    """An RM can neither read nor change another's configuration; only operators reload."""
    async with connected(guarded) as channel:
        bearers: dict[str, Any] = {
            name: Bearing(channel, f"Bearer token-of-{name * 4}") for name in ("rm", "other", "operator")
        }
        shim = Shim(bearers["rm"])
        await shim.register(A)
        stranger = Admin(bearers["other"])
        for call in (
            stranger.get(),
            stranger.history(),
            stranger.apply(B),
            stranger.roll_back(to=1),
            Admin(bearers["rm"]).reload(),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await call
            assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
        own, operator = Admin(bearers["rm"]), Admin(bearers["operator"])
        await own.apply(B)
        assert await own.in_force() == (B, 2, "rm")
        await shim.register(B)
        assert await own.in_force() == (B, 3, "registration")
        await operator.apply(C)
        await shim.register(B)
        assert await own.in_force() == (C, 4, "operator")
        assert (await own.history())[0].by.startswith("token ")


async def test_an_update_by_the_rm_is_its_own_text(guarded: Server) -> None:
    """A registration with the first text after an update by the RM itself counts as a new text.

    Such an update is no applied configuration.
    """
    async with connected(guarded) as channel:
        bearer: Any = Bearing(channel, "Bearer " + "token-of-" + "rm" * 4)
        shim, admin = Shim(bearer), Admin(bearer)
        await shim.register(A)
        await admin.apply(B)
        await shim.register(A)
        assert await admin.in_force() == (A, 3, "registration")


async def test_changes_are_logged(admin: Admin) -> None:
    """Each change has a line with RM, revision and author."""
    with capture_logs() as lines:
        await admin.apply(B, comment="why")
    [line] = [line for line in lines if line["event"] == "configuration updated"]
    assert (line["rm_id"], line["revision"], line["by"]) == ("rm", 2, "127.0.0.1")
