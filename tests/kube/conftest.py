"""One control plane for all tests, each of which has namespaces of its own."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from support.kube.cluster import Cluster, running_cluster


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    """A control plane with four nodes and without a scheduler."""
    async with running_cluster(tmp_path_factory.mktemp("kube")) as running:
        yield running
