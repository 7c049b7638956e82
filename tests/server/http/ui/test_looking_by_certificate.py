"""Access to the page by certificates, and over plain HTTP beside them."""

import asyncio
import shutil
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest

from licorne_server.assembly.server import Server
from licorne_server.http.identity import NO_CERTIFICATE
from licorne_server.http.ui import page
from support.patience import PATIENCE
from support.peers.shim import LOOPBACK, Shim, serving
from support.peers.tls import FILES, SPIFFE, connected_as, https, tls
from support.server.http_site import API, Viewer

IDENTITIES = {"rm": frozenset({SPIFFE})}
OPERATORS = frozenset({"operator"})
OF_PARTITION = ["applications", "nodes", "heat", "usage", "preemptions", "queue/root"]
MINE = [
    *(f"{API}/partition/[rm]default/{name}" for name in OF_PARTITION),
    f"{API}/config?rm=rm",
    f"{API}/events?rm=rm",
]
OTHERS = [path.replace("[rm]", "[operator]").replace("rm=rm", "rm=operator") for path in MINE]
FILTERED = [f"{API}/feed", f"{API}/search?q=root"]


@dataclass(frozen=True)
class Browser:
    """A browser with a certificate, or with none."""

    base: str
    certificate: ssl.SSLContext | None = None

    async def ask(self, path: str) -> tuple[int, str]:
        """The status, and the text of a refusal."""
        async with (
            aiohttp.ClientSession() as client,
            client.get(self.base + path, ssl=self.certificate or True) as answer,
        ):
            refused = answer.status >= 400
            return answer.status, (await answer.json())["message"] if refused else ""

    async def statuses(self, asked: list[str]) -> set[int]:
        """The statuses of these paths."""
        return {(await self.ask(path))[0] for path in asked}

    async def first_change(self) -> tuple[str, Any]:
        """The role in the feed, and its first entries."""
        async with (
            asyncio.timeout(PATIENCE),
            aiohttp.ClientSession() as client,
            client.get(f"{self.base}{API}/feed", ssl=self.certificate or True) as answer,
        ):
            viewer = Viewer(answer.content)
            _, hello = await viewer.next()
            return hello["role"], await viewer.change()


async def registered(server: Server) -> None:
    """Two RMs register, each by its certificate."""
    for name in ("rm", "operator"):
        async with connected_as(name, server) as channel:
            await Shim(channel, name).register()


@pytest.fixture
async def secure() -> AsyncIterator[Server]:
    """A server that identifies an RM and an operator, both registered, by their certificates."""
    async with serving(http=LOOPBACK, tls=tls(), rm_identities=IDENTITIES, operators=OPERATORS) as server:
        await registered(server)
        yield server


def browser(server: Server, name: str = "") -> Browser:
    """A browser with the certificate of that name."""
    return Browser(f"https://{server.http_address}", https(name))


async def test_only_files_are_served_without_a_certificate(secure: Server) -> None:
    """The page's files are open, and its data is refused with the missing credential."""
    nobody = browser(secure)
    assert await nobody.statuses(["/ui", *page.STATIC]) == {200}
    for path in (*MINE, *FILTERED):
        assert await nobody.ask(path) == (403, NO_CERTIFICATE), path


async def test_an_rm_sees_its_own_data_by_its_certificate(secure: Server) -> None:
    """Data of other RMs is refused, and is neither in the feed nor found."""
    rm = browser(secure, "rm")
    assert await rm.statuses([*MINE, FILTERED[1]]) == {200}
    for path in (*OTHERS, f"{API}/config", f"{API}/events"):
        assert await rm.ask(path) == (403, "this certificate does not allow it"), path
    role, shown = await rm.first_change()
    assert (role, [row["id"] for row in shown["rms"]]) == ("rm", ["rm"])
    assert {row["partition"] for row in shown["queues"]} == {"[rm]default"}


async def test_an_operator_sees_all_rms_by_its_certificate(secure: Server) -> None:
    """The operator sees all RMs."""
    operator = browser(secure, "operator")
    assert await operator.statuses([*MINE, *OTHERS]) == {200}
    role, shown = await operator.first_change()
    assert (role, {row["id"] for row in shown["rms"]}) == ("operator", {"rm", "operator"})


async def test_plain_http_beside_certificates_shows_everything_to_everybody() -> None:
    """No caller has an identity, so the role is that of a viewer."""
    async with serving(
        http=LOOPBACK, http_insecure=True, tls=tls(), rm_identities=IDENTITIES, operators=OPERATORS
    ) as server:
        await registered(server)
        anybody = Browser(f"http://{server.http_address}")
        assert await anybody.statuses([*MINE, *OTHERS, FILTERED[1]]) == {200}
        role, shown = await anybody.first_change()
        assert (role, {row["id"] for row in shown["rms"]}) == ("viewer", {"rm", "operator"})


@pytest.fixture
async def directory(tmp_path: Path) -> AsyncIterator[Server]:
    """A server whose clients have names in a directory among their alternative names."""
    for name in ("server.pem", "server.key"):
        shutil.copy(FILES / name, tmp_path)
    signers = [FILES / f"{name}.pem" for name in ("ca", "directory", "directory-only")]
    (tmp_path / "ca.pem").write_text("".join(signer.read_text() for signer in signers))
    async with serving(
        http=LOOPBACK, tls=tls(tmp_path), rm_identities=IDENTITIES, operators=OPERATORS
    ) as server:
        await registered(server)
        yield server


async def test_alternative_names_of_other_kinds_are_ignored(directory: Server) -> None:
    """Names of other kinds are ignored beside a valid name, and give no identity by themselves."""
    both = browser(directory, "directory")
    assert await both.statuses(MINE) == {200}
    assert await both.statuses(OTHERS) == {403}
    alone = browser(directory, "directory-only")
    for path in (*MINE, *OTHERS, "/metrics", "/debug/stack"):
        assert await alone.ask(path) == (403, "this certificate does not allow it"), path
    role, shown = await alone.first_change()
    assert (role, "rms" in shown) == ("rm", False)


async def test_alternative_names_of_other_kinds_are_no_identity_over_grpc(directory: Server) -> None:
    """gRPC joins all alternative names into one text, which is no RM's name."""
    for name in ("directory", "directory-only"):
        async with connected_as(name, directory) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await Shim(channel, "other types of SAN").register()
            assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
    async with connected_as("directory", directory) as channel:
        await Shim(channel, "rm").register()
