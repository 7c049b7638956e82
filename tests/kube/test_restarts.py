"""Programs that are killed or stopped for a time: all pods are placed afterwards, each once."""

import asyncio
import signal
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from licorne_tools.kube.programs import API_SERVER, SHIM
from licorne_tools.kube.schedulers import LICORNE
from support.kube.cluster import Cluster
from support.kube.workloads import deployment, pod

pytestmark = [pytest.mark.kube, pytest.mark.asyncio(loop_scope="session")]

AWAY_SECONDS = 20.0
"""Seconds of the API server's outage: longer than a client waits before it tries again."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def placing(cluster: Cluster) -> AsyncIterator[Cluster]:
    """The control plane with Licorne."""
    async with cluster.scheduled():
        yield cluster


@pytest.mark.parametrize("killed", [(SHIM,), (LICORNE,), (SHIM, LICORNE)], ids=" and ".join)
async def test_pods_are_placed_after_kills(placing: Cluster, killed: tuple[str, ...]) -> None:
    """Pods that are created and that end while programs are dead are placed and removed later."""
    ledger, processes = placing.ledger, placing.plane.processes
    async with placing.namespace(f"killed-{len(killed)}-{killed[0]}") as name:
        path = f"/apis/apps/v1/namespaces/{name}/deployments"
        for one, replicas in (("stays", 4), ("goes", 4), ("grows", 8)):
            await placing.api.create(path, deployment(one, replicas))
        # Some pods are placed at this moment, and some are not yet.
        await ledger.until(lambda: len(placing.running(name)) >= 4, "four pods run")
        for program in killed:
            await processes.stop(program, kill=True)
        await placing.api.delete(f"{path}/goes")
        await placing.api.patch(f"{path}/grows", {"spec": {"replicas": 16}})
        await ledger.until(lambda: len(ledger.of(name, "grows")) == 16, "the Deployment has grown")
        await ledger.until(lambda: not ledger.of(name, "goes"), "the pods have gone")
        # Both at once: the shim is ready only after the server.
        await asyncio.gather(*map(processes.restart, killed))
        await ledger.until(lambda: len(placing.running(name)) == 20, "all pods run")
        await placing.check()


@pytest.mark.parametrize("is_paused", [True, False], ids=["paused", "killed"])
async def test_pods_are_placed_after_an_outage_of_the_api_server(placing: Cluster, is_paused: bool) -> None:
    """Pods whose binds were in progress at the outage are placed after it."""
    ledger, processes = placing.ledger, placing.plane.processes
    async with placing.namespace("away-paused" if is_paused else "away-killed") as name:
        path = f"/api/v1/namespaces/{name}/pods"
        await asyncio.gather(*(placing.api.create(path, pod(f"first-{number}")) for number in range(24)))
        # Some pods are bound at this moment, and some are not yet.
        await ledger.until(lambda: len(placing.running(name)) >= 4, "four pods run")
        if is_paused:
            processes.signal(API_SERVER, signal.SIGSTOP)
            await asyncio.sleep(AWAY_SECONDS)
            processes.signal(API_SERVER, signal.SIGCONT)
        else:
            await processes.stop(API_SERVER, kill=True)
            await asyncio.sleep(AWAY_SECONDS)
            await processes.restart(API_SERVER)
        # Without controllers, and without KWOK: both wait long before they call the API server again.
        await asyncio.gather(*(placing.api.create(path, pod(f"later-{number}")) for number in range(4)))
        await ledger.until(lambda: len(placing.bound(name)) == 28, "all pods are bound")
        await placing.check(whole=is_paused)
