"""Who wins when an RM registers: an applied configuration stays until another one comes."""

import grpc
import pytest
from structlog.testing import capture_logs

from licorne.v1 import session_pb2 as sp
from licorne.v1.admin_pb2 import ForgetRmRequest
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_core.config import DEFAULT_CONFIG
from licorne_server.serving.app import Server
from support.peers.shim import RawSession, Shim, eventually, hang_up
from support.server.configuring import BROKEN, A, Admin, B, C, D, queues


@pytest.fixture
def admin(channel: grpc.aio.Channel) -> Admin:
    """The calls for the RM."""
    return Admin(channel)


async def test_first_registration_is_the_first_revision(shim: Shim, admin: Admin) -> None:
    """Revision 1 is the text that the RM brought; nothing rises when it says the same again."""
    await shim.register(A)
    assert await admin.in_force() == (A, 1, "registration")
    await shim.register(A)
    assert await admin.in_force() == (A, 1, "registration")
    await shim.register(B)
    assert await admin.in_force() == (B, 2, "registration")


async def test_rm_without_text_has_the_built_in_configuration(shim: Shim, admin: Admin) -> None:
    """Who brings none gets the built-in one, and it is said where that comes from."""
    await shim.register()
    assert await admin.in_force() == (DEFAULT_CONFIG, 1, "built-in")
    await shim.register(A)
    await shim.register()
    assert await admin.in_force() == (DEFAULT_CONFIG, 3, "built-in")


@pytest.mark.parametrize("again", [A, B, ""], ids=["same", "applied", "none"])
async def test_applied_configuration_outlives_a_registration(
    server: Server, shim: Shim, admin: Admin, again: str
) -> None:
    """An RM that says what it said before, what is in force, or nothing, goes on with it."""
    await shim.register(A)
    await admin.apply(B)
    with capture_logs() as lines:
        await shim.register(again)
    assert await admin.in_force() == (B, 2, "operator")
    assert queues(server) == ("root.b",)
    [line] = [line for line in lines if line["event"] == "applied configuration goes on"]
    assert (line["rm_id"], line["revision"], line["source"]) == ("rm", 2, "operator")


async def test_new_text_of_the_rm_replaces_an_applied_one(server: Server, shim: Shim, admin: Admin) -> None:
    """An RM that says something else than before brings its text into force."""
    await shim.register(A)
    await admin.apply(B)
    await shim.register(C)
    assert await admin.in_force() == (C, 3, "registration")
    assert queues(server) == ("root.c",)
    await shim.register(A)
    assert await admin.in_force() == (A, 4, "registration")


async def test_nothing_said_is_not_something_new(shim: Shim, admin: Admin) -> None:
    """A registration without text does not make the RM's old text a new one."""
    await shim.register(A)
    await admin.apply(B)
    await shim.register()
    await shim.register(A)
    assert await admin.in_force() == (B, 2, "operator")


async def test_text_after_none_is_new(shim: Shim, admin: Admin) -> None:
    """An RM that never said a text replaces an applied one with its first."""
    await shim.register()
    await admin.apply(B)
    await shim.register()
    assert (await admin.in_force())[0] == B
    await shim.register(A)
    assert await admin.in_force() == (A, 3, "registration")


async def test_rollback_is_an_applied_one(shim: Shim, admin: Admin) -> None:
    """What was rolled back to stays in force as well."""
    await shim.register(A)
    await admin.apply(B)
    await admin.roll_back()
    assert await admin.in_force() == (A, 3, "rollback")
    await shim.register("")
    assert await admin.in_force() == (A, 3, "rollback")


async def test_applying_nothing_gives_the_default_back(shim: Shim, admin: Admin) -> None:
    """An empty text stands for the server's default, and is no applied one."""
    await shim.register(A)
    await admin.apply(B)
    await admin.apply("")
    assert await admin.in_force() == (DEFAULT_CONFIG, 3, "built-in")
    await shim.register(A)
    assert await admin.in_force() == (A, 4, "registration")


async def test_refused_registration_is_not_what_the_rm_said(shim: Shim, admin: Admin) -> None:
    """A text that cannot be used leaves the history and the rule as they were."""
    await shim.register(A)
    await admin.apply(B)
    with pytest.raises(grpc.aio.AioRpcError):
        await shim.register(BROKEN)
    await shim.register(A)
    assert await admin.in_force() == (B, 2, "operator")
    assert len(await admin.history()) == 2


async def test_sessions_follow_the_same_rule(
    server: Server, session: RawSession, channel: grpc.aio.Channel, admin: Admin
) -> None:
    """An RM over a session keeps what was applied, whether it resumes or registers anew."""
    shim = Shim(channel)
    await shim.register(A)
    await admin.apply(B)
    call, _ = await session.begin()
    assert await admin.in_force() == (B, 2, "operator")
    await hang_up(server, call)
    await session.begin(instance=2)
    assert await admin.in_force() == (B, 2, "operator")


async def test_applied_configuration_waits_for_an_rm_that_is_gone(
    server: Server, shim: Shim, session: RawSession, admin: Admin
) -> None:
    """An RM that has unregistered and comes back goes on with what was applied."""
    await shim.register(A)
    await admin.apply(B)
    call, _ = await session.begin()
    await session.send(call, goodbye=sp.Goodbye(unregister=True))
    await eventually(lambda: server.rms.find("rm") is None)
    assert await admin.in_force() == (B, 2, "operator")
    assert not (await admin.get()).registered
    await shim.register(A)
    assert await admin.in_force() == (B, 2, "operator")
    assert queues(server) == ("root.b",)


async def test_forgotten_rm_starts_over(shim: Shim, channel: grpc.aio.Channel, admin: Admin) -> None:
    """Who has an RM forgotten has what was applied to it forgotten as well."""
    await shim.register(A)
    await admin.apply(B)
    await AdminStub(channel).ForgetRm(ForgetRmRequest(rm_id="rm"))
    await shim.register(A)
    assert await admin.in_force() == (A, 1, "registration")


async def test_each_rm_has_its_own(channel: grpc.aio.Channel) -> None:
    """What is applied to one RM is nothing to another."""
    shims = [Shim(channel, name) for name in ("one", "two")]
    one, two = (Admin(channel, shim.rm_id) for shim in shims)
    for shim in shims:
        await shim.register(A)
    await one.apply(D)
    for shim in shims:
        await shim.register(A)
    assert await one.in_force() == (D, 2, "operator")
    assert await two.in_force() == (A, 1, "registration")
