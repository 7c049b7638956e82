"""A real store of each backend, and the access of members to it."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
import pytest_asyncio

from licorne_server.store.coordination.store import Store
from licorne_tools.kube.plane import Plane
from support.coordination.api_server import ApiServer, served
from support.coordination.backends import LONG, Backend
from support.coordination.etcd import EtcdBackend, EtcdServer
from support.coordination.kubernetes import KubernetesBackend, kubeconfig
from support.coordination.local_store import serving

BACKENDS = (
    pytest.param("etcd", marks=pytest.mark.needs("etcd")),
    "kubernetes",
    pytest.param("cluster", marks=pytest.mark.kube),
    "local",
)
"""Backends under the contract. Each has a fixture `NAME_backend`, which makes a `Backend`."""


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Backend:
    """A running store of each backend."""
    made: Backend = request.getfixturevalue(f"{request.param}_backend")
    return made


@pytest.fixture
async def opened(backend: Backend) -> AsyncIterator[Callable[..., Store]]:
    """Opens the access of members, with leases of a number of seconds, and closes it at the end."""
    stores: list[Store] = []

    def open_one(lease: float = LONG) -> Store:
        stores.append(backend.open(lease))
        return stores[-1]

    yield open_one
    for store in stores:
        await store.close()


@pytest.fixture
def store(opened: Callable[..., Store]) -> Store:
    """The access of one member."""
    return opened()


@pytest.fixture
def other(opened: Callable[..., Store]) -> Store:
    """The access of another member."""
    return opened()


@pytest.fixture(scope="session")
def etcd() -> Iterator[EtcdServer]:
    """An etcd that all tests share, and none may break."""
    with EtcdServer() as server:
        yield server


@pytest.fixture
def etcd_backend(etcd: EtcdServer) -> EtcdBackend:
    """A deployment in etcd."""
    return EtcdBackend(etcd)


@pytest.fixture
async def local_backend() -> AsyncIterator[Backend]:
    """The store of a supervisor."""
    async with serving() as backend:
        yield backend


@pytest.fixture
def api() -> ApiServer:
    """A played API server, without an object."""
    return ApiServer()


@pytest.fixture
async def kubernetes_backend(api: ApiServer, tmp_path: Path) -> AsyncIterator[KubernetesBackend]:
    """A deployment in a cluster of its own."""
    async with served(api) as url:
        yield KubernetesBackend(kubeconfig(tmp_path, url))


@pytest_asyncio.fixture(loop_scope="session")
async def cluster_backend(plane: Plane) -> KubernetesBackend:
    """A new deployment in a namespace of a real API server."""
    namespace = f"store-{uuid4().hex[:8]}"
    await plane.api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    return KubernetesBackend(plane.kubeconfig, namespace)
