"""The store in etcd over TLS, and as a user of etcd."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from etcd3aio import Etcd3Client, PermissionType

from licorne_server.process.coordination import Coordination
from licorne_server.process.settings import SettingsError
from licorne_server.store.coordination.etcd import EtcdStore
from licorne_server.store.documents.documents import Conflict, StoreError
from support.coordination.backends import member, present, rm, until, watching
from support.coordination.etcd import EtcdServer
from support.patience import PATIENCE
from support.peers.tls import FILES

pytestmark = pytest.mark.needs("etcd")

A = member("a")
PREFIX = "guarded"


@asynccontextmanager
async def opened(options: Coordination, patience: float = PATIENCE / 4) -> AsyncIterator[EtcdStore]:
    """A member's store, closed at the end."""
    store = EtcdStore(options, reread=0.2, patience=patience)
    try:
        yield store
    finally:
        await store.close()


@pytest.fixture(scope="module")
def over_tls() -> Iterator[EtcdServer]:
    """An etcd that asks for certificates."""
    with EtcdServer(tls=True) as server:
        yield server


def with_certificate(server: EtcdServer, name: str) -> Coordination:
    """The options of a member with the certificate of that name."""
    return replace(
        server.options(), ca=FILES / "ca.pem", cert=FILES / f"{name}.pem", key=FILES / f"{name}.key"
    )


async def test_a_member_with_a_certificate_is_served(over_tls: EtcdServer) -> None:
    """Calls, renewals and the watch use TLS, with the member's certificate."""
    async with opened(with_certificate(over_tls, "rm")) as store, watching(store) as snapshots:
        await store.join(A)
        await store.renew(A)
        claimed = await store.claim(rm("one"), A.id, None, 0)
        await until(snapshots, lambda seen: seen.rms == {rm("one"): claimed})


@pytest.mark.parametrize("wrong", ["none", "plain", "stranger", "authority"])
async def test_a_member_with_another_certificate_is_refused(over_tls: EtcdServer, wrong: str) -> None:
    """Without a certificate of etcd's authority no call is answered."""
    options = with_certificate(over_tls, "stranger" if wrong == "stranger" else "rm")
    if wrong == "none":
        options = replace(options, cert=None, key=None)
    elif wrong == "plain":
        options = over_tls.options()
    elif wrong == "authority":
        # A certificate that has not signed that of etcd.
        options = replace(options, ca=FILES / "stranger.pem")
    async with opened(options, patience=1.0) as store:
        with pytest.raises(StoreError):
            await store.join(A)


async def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    """A missing certificate or password is an error of the settings that names the file."""
    options = Coordination(backend="etcd", hosts=("127.0.0.1:1",))
    for wrong in (
        replace(options, ca=tmp_path / "none.pem"),
        replace(options, ca=FILES / "ca.pem", cert=tmp_path / "none.pem", key=FILES / "rm.key"),
        replace(options, user="licorne", password=tmp_path / "none.pem"),
    ):
        with pytest.raises(SettingsError, match=r"none\.pem"):
            EtcdStore(wrong)


@pytest.fixture(scope="module")
def guarded() -> Iterator[EtcdServer]:
    """An etcd with users: root, and one with rights to the keys of one deployment."""
    with EtcdServer(flags=("--bcrypt-cost=4",)) as server:
        asyncio.run(_guard(server))
        yield server


async def _guard(server: EtcdServer) -> None:
    async with Etcd3Client([server.target]) as client:
        assert client.auth is not None
        await client.auth.user_add("root", "root's")
        await client.auth.role_add("root")
        await client.auth.user_grant_role("root", "root")
        await client.auth.user_add("licorne", "first")
        await client.auth.role_add("licorne")
        await client.auth.role_grant_permission(
            "licorne", f"{PREFIX}/", f"{PREFIX}0", perm_type=PermissionType.READWRITE
        )
        await client.auth.user_grant_role("licorne", "licorne")
        await client.auth.auth_enable()


@pytest.fixture
def user(guarded: EtcdServer, tmp_path: Path) -> Coordination:
    """The options of a member with a user and a password."""
    file = tmp_path / "password"
    file.write_text("first\n")
    return replace(guarded.options(PREFIX), user="licorne", password=file)


@asynccontextmanager
async def as_root(server: EtcdServer) -> AsyncIterator[Etcd3Client]:
    """A client with all rights."""
    async with Etcd3Client([server.target]) as client:
        assert client.auth is not None
        client.set_token((await client.auth.authenticate("root", "root's")).token)
        yield client


async def test_expired_tokens_are_replaced(guarded: EtcdServer, user: Coordination) -> None:
    """Tokens that etcd has forgotten, or that became invalid, are replaced without an error."""
    async with opened(user) as store, watching(store) as snapshots:
        await store.join(A)
        claimed = await store.claim(rm("one"), A.id, None, 0)
        await until(snapshots, lambda seen: seen.rms == {rm("one"): claimed})
        # A change of users invalidates all tokens.
        async with as_root(guarded) as root:
            assert root.auth is not None
            await root.auth.user_add("another", "x")
        await store.renew(replace(A, draining=True))
        claimed = await store.claim(rm("one"), A.id, claimed, 0)
        await until(snapshots, lambda seen: seen.rms == {rm("one"): claimed})
        # etcd keeps its tokens in memory.
        await asyncio.to_thread(guarded.restart)
        await until(snapshots, lambda seen: seen.rms == {rm("one"): claimed})
        claimed = await store.claim(rm("one"), A.id, claimed, 0)
        await until(snapshots, lambda seen: seen.rms == {rm("one"): claimed})
        await store.renew(A)
        await store.release(claimed)
        await store.leave()


async def test_a_changed_password_is_read_from_its_file(guarded: EtcdServer, user: Coordination) -> None:
    """The password file is read with each login, so a new password needs no restart."""
    assert user.password is not None
    async with opened(user) as store:
        await store.join(A)
        async with as_root(guarded) as root:
            assert root.auth is not None
            await root.auth.user_change_password("licorne", "second")
            with pytest.raises(StoreError, match="licorne"):
                await store.read("shared/one")
            user.password.write_text("second")
            await store.renew(A)
            await store.leave()
            await root.auth.user_change_password("licorne", "first")


async def test_missing_rights_are_reported(guarded: EtcdServer, user: Coordination) -> None:
    """The error for a wrong user, no user, and foreign keys names the missing right, and is no conflict."""
    assert user.password is not None
    for wrong in (
        replace(user, user="nobody"),
        replace(user, user="", password=None),
        replace(user, prefix="of-another"),
    ):
        async with opened(wrong) as store:
            with pytest.raises(StoreError) as failed:
                await store.join(A)
            assert not isinstance(failed.value, Conflict)
            assert guarded.target in str(failed.value)
    async with opened(user) as store:
        assert A.id not in (await present(store)).members
