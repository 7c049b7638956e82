"""Nodes that are added, cordoned, drained and deleted: their pods, and those of DaemonSets."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from support.kube.cluster import NODE, Cluster
from support.kube.workloads import daemon_set, deployment

pytestmark = [pytest.mark.kube, pytest.mark.asyncio(loop_scope="session")]

FIRST, ADDED = "node-00000", "node-00009"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def placing(cluster: Cluster) -> AsyncIterator[Cluster]:
    """The control plane with Licorne: four nodes of four cores."""
    async with cluster.scheduled():
        yield cluster


async def test_a_daemon_set_has_a_pod_on_every_node(placing: Cluster) -> None:
    """A DaemonSet has a pod on every node, also where other pods wait for room, and on a new node."""
    async with placing.namespace("daemons") as name:
        await placing.api.create(
            f"/apis/apps/v1/namespaces/{name}/deployments", deployment("many", 32, cpu="900m")
        )
        await placing.ledger.until(lambda: len(placing.running(name, "many")) == 16, "all nodes are full")
        await placing.api.create(f"/apis/apps/v1/namespaces/{name}/daemonsets", daemon_set("agent"))
        await placing.ledger.until(lambda: len(placing.running(name, "agent")) == 4, "it is on every node")
        await placing.check()
        await placing.plane.add_nodes(1, first=9, capacity=NODE)
        await placing.ledger.until(lambda: len(placing.running(name, "agent")) == 5, "it is on the new node")
        await placing.ledger.until(lambda: len(placing.running(name, "many")) == 20, "others are there, too")
        await placing.check()
        await _delete_node(placing, ADDED)


async def test_a_node_is_cordoned_and_drained(placing: Cluster) -> None:
    """No pod is placed on a cordoned node, evicted ones run on others, and later pods use it again."""
    async with placing.namespace("drained") as name:
        path = f"/apis/apps/v1/namespaces/{name}/deployments"
        await placing.api.create(path, deployment("some", 12))
        await placing.ledger.until(lambda: len(placing.running(name)) == 12, "the pods run")
        await placing.api.patch(f"/api/v1/nodes/{FIRST}", {"spec": {"unschedulable": True}})
        evicted = placing.on(FIRST)
        assert evicted
        await asyncio.gather(*(_evict(placing, name, one) for one in evicted))
        await placing.ledger.until(lambda: not placing.on(FIRST), "the node is empty")
        await placing.api.patch(f"{path}/some", {"spec": {"replicas": 32}})
        await placing.ledger.until(lambda: len(placing.running(name)) == 24, "the other nodes are full")
        assert not placing.on(FIRST)
        await placing.check()
        await placing.api.patch(f"/api/v1/nodes/{FIRST}", {"spec": {"unschedulable": None}})
        await placing.ledger.until(lambda: len(placing.running(name)) == 32, "it has pods again")
        await placing.check()


async def test_a_node_is_deleted(placing: Cluster) -> None:
    """The pods of a deleted node are created again, and run on others."""
    async with placing.namespace("gone") as name:
        await placing.plane.add_nodes(1, first=9, capacity=NODE)
        await placing.api.create(
            f"/apis/apps/v1/namespaces/{name}/deployments", deployment("some", 8, cpu="2")
        )
        await placing.ledger.until(lambda: len(placing.running(name)) == 8, "the pods run")
        await placing.api.patch(
            f"/apis/apps/v1/namespaces/{name}/deployments/some", {"spec": {"replicas": 10}}
        )
        await placing.ledger.until(lambda: len(placing.running(name)) == 10, "all nodes are full")
        await placing.check()
        await _delete_node(placing, ADDED)
        await placing.api.patch(
            f"/apis/apps/v1/namespaces/{name}/deployments/some", {"spec": {"replicas": 8}}
        )
        await placing.ledger.until(lambda: len(placing.running(name)) == 8, "they run elsewhere")
        await placing.check()


async def _evict(cluster: Cluster, namespace: str, name: str) -> None:
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
    }
    await cluster.api.create(f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", eviction)


async def _delete_node(cluster: Cluster, name: str) -> None:
    """Delete a node and its pods, because the controller for it waits most of a minute."""
    await cluster.api.delete(f"/api/v1/nodes/{name}")
    for one in [pod for pod in cluster.ledger.pods.values() if pod["spec"].get("nodeName") == name]:
        metadata = one["metadata"]
        await cluster.api.delete(
            f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}", gracePeriodSeconds=0
        )
    await cluster.ledger.until(lambda: not cluster.on(name), f"no pod is on {name}")
