"""Access to a cluster: service accounts, kubeconfigs, and messages without them."""

import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from licorne_server.process.coordination import Coordination, read_coordination
from licorne_server.process.settings import SettingsError
from licorne_server.store.coordination.kubernetes import KubernetesStore
from licorne_server.store.coordination.kubernetes.access import ClusterAccess
from licorne_server.store.coordination.secret import deployment_secret
from licorne_server.store.documents.documents import Document, StoreError
from support.coordination.api_cluster import NAMESPACE
from support.coordination.api_server import TOKEN, ApiServer, served
from support.coordination.backends import member
from support.coordination.kubernetes import KubernetesBackend, kubeconfig
from support.peers.tls import FILES


def account(folder: Path) -> Path:
    """The folder of a pod's service account."""
    (folder / "token").write_text(TOKEN)
    (folder / "ca.crt").write_bytes((FILES / "ca.pem").read_bytes())
    (folder / "namespace").write_text(f"{NAMESPACE}\n")
    return folder


def of(prefix: str = f"{NAMESPACE}/test") -> Coordination:
    """The store at this address."""
    return Coordination(backend="kubernetes", prefix=prefix, lease=60.0)


async def test_a_pod_uses_its_service_account(tmp_path: Path) -> None:
    """Token, authority and namespace are those mounted into the pod."""
    async with served(ApiServer(), (FILES / "server.pem", FILES / "server.key")) as url:
        parts = urlsplit(url)
        environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(parts.port)}
        store = KubernetesStore(of("test"), ClusterAccess(account=account(tmp_path), environ=environ))
        revision = await store.compare_and_set("shared/one", b"1", 0)
        assert await store.read("shared/one") == Document(value=b"1", revision=revision)
        await store.close()


async def test_another_authority_is_refused(tmp_path: Path) -> None:
    """A member only connects to a server of its cluster's authority."""
    async with served(ApiServer(), (FILES / "server.pem", FILES / "server.key")) as url:
        environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(urlsplit(url).port)}
        folder = account(tmp_path)
        (folder / "ca.crt").write_bytes((FILES / "stranger.pem").read_bytes())
        store = KubernetesStore(of("test"), ClusterAccess(account=folder, environ=environ))
        with pytest.raises(StoreError, match="certificate"):
            await store.read("shared/one")
        await store.close()


async def test_a_replaced_token_is_read_again(tmp_path: Path) -> None:
    """After 401 the next call reads the token again."""
    api = ApiServer()
    async with served(api) as url:
        store = KubernetesStore(of(), ClusterAccess(environ={"KUBECONFIG": str(kubeconfig(tmp_path, url))}))
        await store.read("shared/one")
        api.tokens = {"the-next-one"}
        with pytest.raises(StoreError, match="401"):
            await store.read("shared/one")
        kubeconfig(tmp_path, url, "the-next-one")
        assert await store.read("shared/one") == Document()
        await store.close()


async def test_an_unreadable_kubeconfig_is_an_error_of_the_call(tmp_path: Path) -> None:
    """A kubeconfig that is damaged while the member runs is an error of the call."""
    file = tmp_path / "kubeconfig"
    file.write_text("no: kubeconfig")
    store = KubernetesStore(of(), ClusterAccess(environ={"KUBECONFIG": str(file)}))
    with pytest.raises(StoreError, match="no way into Kubernetes"):
        await store.read("shared/one")
    await store.close()


async def test_a_missing_namespace_is_named(tmp_path: Path) -> None:
    """The error of a member that starts in a missing namespace names the namespace."""
    async with served(ApiServer()) as url:
        access = ClusterAccess(environ={"KUBECONFIG": str(kubeconfig(tmp_path, url))})
        store = KubernetesStore(of("nowhere/test"), access)
        for write in (store.join(member("a")), store.compare_and_set("shared/one", b"1", 0)):
            with pytest.raises(StoreError, match='namespaces "nowhere" not found') as failure:
                await write
            assert type(failure.value) is StoreError
        await store.close()


async def test_the_secret_of_the_members_is_not_in_a_config_map(
    kubernetes_backend: KubernetesBackend, api: ApiServer
) -> None:
    """A reader of the namespace's config maps cannot read the members' shared secret."""
    one, other = kubernetes_backend.open(), kubernetes_backend.open()
    secret = await deployment_secret(one)
    assert await deployment_secret(other) == secret
    assert {plural for plural, _ in api.cluster.objects} == {"secrets"}
    assert {call for call in api.calls if call[1] == "secrets"} == {("get", "secrets"), ("create", "secrets")}
    await one.close()
    await other.close()


def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has the package to install."""
    monkeypatch.setitem(sys.modules, "kubernetes_asyncio", None)
    with pytest.raises(SettingsError, match="pip install kubernetes-asyncio"):
        KubernetesStore(of(), ClusterAccess(environ={"KUBECONFIG": str(kubeconfig(tmp_path, "http://x"))}))


def test_a_pod_without_a_token_gets_a_message(tmp_path: Path) -> None:
    """The message about a missing token says that the chart mounts it, and what others have to do."""
    environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    with pytest.raises(SettingsError, match="automountServiceAccountToken"):
        KubernetesStore(of(), ClusterAccess(account=tmp_path, environ=environ))


def test_missing_credentials_are_reported(tmp_path: Path) -> None:
    """Outside of a cluster the message asks for a kubeconfig."""
    with pytest.raises(SettingsError, match="there is no kubeconfig"):
        KubernetesStore(of(), ClusterAccess(environ={"KUBECONFIG": str(tmp_path / "none")}))


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("kubernetes://licorne/Queues", "the name must have lower-case"),
        ("kubernetes://licorne/a/b", "the namespace must have lower-case"),
        ("kubernetes://licorne", "NAMESPACE/NAME was expected outside of a pod"),
    ],
)
def test_an_invalid_address_is_refused(tmp_path: Path, address: str, message: str) -> None:
    """The address of the store is checked before a call is made."""
    access = ClusterAccess(environ={"KUBECONFIG": str(kubeconfig(tmp_path, "http://127.0.0.1:1"))})
    with pytest.raises(SettingsError, match=message):
        KubernetesStore(read_coordination(address), access)
