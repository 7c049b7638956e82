"""Rights of passed requests: those of the caller, the secret of the deployment, and TLS between members."""

import asyncio
import json
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from licorne_core.values.ids import RmId
from licorne_server.assembly.server import Server
from licorne_server.reads.members import MISSING
from licorne_server.store.coordination.store import Member, MemberId
from licorne_server.store.coordination.store import Ownership as Record
from support.member_town import Town, filled, two_members
from support.members import Table, deployment, member, table_of
from support.peers.shim import Shim
from support.peers.tls import SPIFFE, connected_as, https, tls


@pytest.fixture
async def town() -> AsyncIterator[Town]:
    """Two members without identities."""
    async with two_members() as town:
        yield town


async def test_a_request_is_passed_on_once(town: Town) -> None:
    """A member answers a passed request itself, even if another member owns the RM in its view."""
    queues = "/ws/v1/partition/[left]default/queues"
    record = town.table.rms[RmId("left")]
    town.table.rms[RmId("left")] = Record(rm_id=RmId("left"), owner=MemberId("id-of-b"), epoch=9)
    assert (await town.ask(town.right, queues))[0] == 404
    assert (await town.ask(town.left, queues))[0] == 404
    assert json.loads(await of_another(town.right, queues))["queuename"] == "root"
    town.table.rms[RmId("left")] = record
    alone = json.loads(await of_another(town.left, "/ws/v1/partitions"))
    assert [row["name"] for row in alone] == ["[right]default"]
    assert "members" not in json.loads(await of_another(town.left, "/debug/fullstatedump"))


async def of_another(server: Server, path: str) -> bytes:
    """The answer of the only other member to this one."""
    assert server.members is not None
    [other] = server.members.others()
    return await server.members.whole(other, path, server.members.own_right)


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Town]:
    """Two members with tokens of an operator and of two RMs, and one with another RM's token."""
    for name in ("left", "right", "operator", "stranger"):
        (tmp_path / name).write_text(token(name))
    tokens = {name: (tmp_path / name,) for name in ("left", "right")}
    table = Table()
    async with (
        member(table, "a", operator_tokens=(tmp_path / "stranger",), rm_tokens=tokens) as left,
        member(table, "b", operator_tokens=(tmp_path / "operator",), rm_tokens=tokens) as right,
        aiohttp.ClientSession() as client,
        filled(left, "left", token=tmp_path / "left"),
        filled(right, "right", token=tmp_path / "right"),
    ):
        yield Town([left, right], client)


def token(name: str) -> str:
    """The token of an RM or an operator."""
    return f"token-of-{name}-{'x' * 12}"


async def test_the_first_member_authenticates_the_caller(guarded: Town) -> None:
    """The owner uses the caller as authenticated by the first member, even without that token."""

    async def status(server: Server, path: str, name: str, **more: str) -> int:
        return (await guarded.ask(server, path, Authorization=f"Bearer {token(name)}", **more))[0]

    left, right = guarded.left, guarded.right
    queues = "/ws/v1/partition/[left]default/queues"
    assert await status(right, queues, "operator") == 200
    assert await status(left, queues, "operator") == 401
    assert await status(right, queues, "left") == 200
    assert await status(right, queues, "right") == 403
    assert await status(right, "/ws/v1/partition/[nobody]default/queues", "right") == 403
    assert await status(right, "/ws/v1/partition/default/queues", "left") == 200
    assert await status(right, queues, "stranger") == 401
    assert await status(right, "/ws/v1/config?rm=left", "left") == 200
    assert await status(right, "/ws/v1/config?rm=left", "right") == 403
    assert await status(right, "/ws/v1/partitions", "left") == 403
    assert await status(right, "/ws/v1/partitions", "operator") == 200


async def test_a_search_shows_an_rm_its_own_names_only(guarded: Town) -> None:
    """The rights of the caller apply on all members."""
    bearer = f"Bearer {token('left')}"
    found = await guarded.get(guarded.right, "/ui/api/search?q=node-of", Authorization=bearer)
    assert [hit["name"] for hit in found["hits"]] == ["node-of-left"]


@pytest.mark.needs("openssl")
async def test_members_use_the_tls_of_the_server(tmp_path: Path) -> None:
    """A certificate is an identity on every member; a member with an unsigned one is not called."""
    identities = {"left": frozenset({SPIFFE})}
    rights: dict[str, Any] = {"rm_identities": identities, "operators": frozenset({"operator"})}
    path = "/ws/v1/partition/[left]default/queues"
    async with (
        deployment("a", "b", tls=tls(), **rights) as [left, right],
        connected_as("rm", left) as channel,
        aiohttp.ClientSession() as client,
    ):
        await Shim(channel, "left").register()

        async def status(name: str, path: str) -> int:
            async with client.get(f"https://{right.http_address}{path}", ssl=https(name)) as answer:
                return answer.status if MISSING not in answer.headers else 0

        assert [await status(name, path) for name in ("rm", "operator", "")] == [200, 200, 403]
        assert await status("operator", "/ws/v1/partitions") == 200
        # Only the CA of the other members is trusted.
        listener = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=_unsigned(tmp_path))
        host, port = listener.sockets[0].getsockname()
        false = Member(id=MemberId("c"), name="c", address=f"{host}:{port}", http="")
        table_of([left]).members[false.id] = false
        assert await status("operator", "/ws/v1/partitions") == 0
        listener.close()


def _unsigned(folder: Path) -> ssl.SSLContext:
    """The TLS context of a server whose certificate is its own authority."""
    names = ("-keyout", folder / "key.pem", "-out", folder / "cert.pem")
    words = ("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    given = ("-subj", "/CN=false", "-addext", "subjectAltName=IP:127.0.0.1")
    subprocess.run(["openssl", *words, *given, *map(str, names)], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context
