"""Registrations: an applied configuration remains in force until it is replaced."""

import grpc
import pytest
from structlog.testing import capture_logs

from licorne.v1 import session_pb2 as sp
from licorne.v1.admin_pb2 import ForgetRmRequest
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_core.config import DEFAULT_CONFIG
from licorne_server.assembly.server import Server
from support.peers.shim import RawSession, Shim, eventually, hang_up
from support.server.configuring import BROKEN, A, Admin, B, C, D, queues


@pytest.fixture
def admin(channel: grpc.aio.Channel) -> Admin:
    """Admin calls for the RM."""
    return Admin(channel)


SAID = "registration"
STEPS = {
    "said again": ("A A", (A, 1, SAID)),
    "another text": ("A A B", (B, 2, SAID)),
    "none": ("-", (DEFAULT_CONFIG, 1, "built-in")),
    "none again": ("- A -", (DEFAULT_CONFIG, 3, "built-in")),
    "another text than the applied one": ("A +B C", (C, 3, SAID)),
    "the old text after another": ("A +B C A", (A, 4, SAID)),
    "the old text after none": ("A +B - A", (B, 2, "operator")),
    "a first text after none": ("- +B - A", (A, 3, SAID)),
    "none after a rollback": ("A +B < -", (A, 3, "rollback")),
    "the default applied": ("A +B +", (DEFAULT_CONFIG, 3, "built-in")),
    "a text after the default applied": ("A +B + A", (A, 4, SAID)),
    "a refused text is not said": ("A +B ! A", (B, 2, "operator")),
}
"""Each letter registers with a text, ``-`` with none, ``!`` with a refused one; ``+`` applies the text after
it or the default, ``<`` rolls back."""


@pytest.mark.parametrize(("steps", "expected"), STEPS.values(), ids=STEPS)
async def test_the_configuration_in_force(
    shim: Shim, admin: Admin, steps: str, expected: tuple[str, int, str]
) -> None:
    """An applied configuration remains in force until a new text replaces it."""
    texts = {"A": A, "B": B, "C": C, "-": "", "": ""}
    for step in steps.split():
        if step == "<":
            await admin.roll_back()
        elif step == "!":
            with pytest.raises(grpc.aio.AioRpcError):
                await shim.register(BROKEN)
        elif step.startswith("+"):
            await admin.apply(texts[step[1:]])
        else:
            await shim.register(texts[step])
    assert await admin.in_force() == expected
    assert len(await admin.history()) == expected[1]


@pytest.mark.parametrize("again", [A, B, ""], ids=["same", "applied", "none"])
async def test_an_applied_configuration_survives_registrations(
    server: Server, shim: Shim, admin: Admin, again: str
) -> None:
    """The previous text, the text in force, or no text leave the applied one in force."""
    await shim.register(A)
    await admin.apply(B)
    with capture_logs() as lines:
        await shim.register(again)
    assert await admin.in_force() == (B, 2, "operator")
    assert queues(server) == ("root.b",)
    [line] = [line for line in lines if line["event"] == "applied configuration stays in force"]
    assert (line["rm_id"], line["revision"], line["source"]) == ("rm", 2, "operator")


async def test_sessions_follow_the_same_rule(
    server: Server, session: RawSession, channel: grpc.aio.Channel, admin: Admin
) -> None:
    """A session keeps the applied configuration, whether it is resumed or registered again."""
    shim = Shim(channel)
    await shim.register(A)
    await admin.apply(B)
    call, _ = await session.begin()
    assert await admin.in_force() == (B, 2, "operator")
    await hang_up(server, call)
    await session.begin(instance=2)
    assert await admin.in_force() == (B, 2, "operator")


async def test_an_applied_configuration_survives_the_absence_of_its_rm(
    server: Server, shim: Shim, session: RawSession, admin: Admin
) -> None:
    """An RM that unregisters and returns has the applied configuration."""
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
    """Eviction by an operator deletes the applied configuration."""
    await shim.register(A)
    await admin.apply(B)
    await AdminStub(channel).ForgetRm(ForgetRmRequest(rm_id="rm"))
    await shim.register(A)
    assert await admin.in_force() == (A, 1, "registration")


async def test_each_rm_has_its_own_applied_configuration(channel: grpc.aio.Channel) -> None:
    """A configuration applied to one RM does not affect another."""
    shims = [Shim(channel, name) for name in ("one", "two")]
    one, two = (Admin(channel, shim.rm_id) for shim in shims)
    for shim in shims:
        await shim.register(A)
    await one.apply(D)
    for shim in shims:
        await shim.register(A)
    assert await one.in_force() == (D, 2, "operator")
    assert await two.in_force() == (A, 1, "registration")
