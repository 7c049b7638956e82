"""Sources of pods, which are placed once, where there is room, in their queues."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from licorne import State
from licorne_tools.kube.api import STRATEGIC, Json
from support.kube.cluster import Cluster
from support.kube.workloads import deployment, job, pod

pytestmark = [pytest.mark.kube, pytest.mark.asyncio(loop_scope="session")]

QUEUES = """
partitions:
  - name: default
    preemption: {enabled: true}
    placementrules:
      - {name: provided, create: false}
      - {name: tag, value: namespace, create: true, parent: {name: fixed, value: root.spaces}}
    queues:
      - name: root
        submitacl: '*'
        queues:
          - {name: spaces, parent: true}
          - {name: small, resources: {max: {vcore: 1}}}
          - {name: greedy}
          - name: fair
            resources: {guaranteed: {vcore: 4}}
            properties: {preemption.delay: 1s}
"""
GANG = json.dumps([{"name": "worker", "minMember": 4, "minResource": {"cpu": "1", "memory": "100Mi"}}])


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def placing(cluster: Cluster) -> AsyncIterator[Cluster]:
    """The control plane with Licorne and these queues: 16 cores on four nodes."""
    async with cluster.scheduled(QUEUES):
        yield cluster


async def test_deployments_run_and_change_their_size(placing: Cluster) -> None:
    """All pods of Deployments run, also after scaling; those beyond the room wait until others end."""
    ledger = placing.ledger
    async with placing.namespace("deployments") as name:
        path = f"/apis/apps/v1/namespaces/{name}/deployments"
        for one in ("first", "second"):
            await placing.api.create(path, deployment(one, 6))
        await ledger.until(lambda: len(placing.running(name)) == 12, "twelve pods run")
        await placing.check()
        await placing.api.patch(f"{path}/first", {"spec": {"replicas": 40}})
        await ledger.until(lambda: len(placing.running(name)) == 32, "as many pods run as have room")
        await placing.check()
        await placing.api.delete(f"{path}/second")
        await ledger.until(lambda: len(placing.running(name, "first")) == 32, "others take their room")
        await placing.check()


async def test_jobs_run_and_end(placing: Cluster) -> None:
    """The pods of a Job run, although not all fit at once, and Licorne has none of them in the end."""
    async with placing.namespace("jobs") as name:
        await placing.api.create(f"/apis/batch/v1/namespaces/{name}/jobs", job("large", 24, cpu="2"))
        await placing.ledger.until(
            lambda: [one["status"]["phase"] for one in placing.all_of(name)] == ["Succeeded"] * 24,
            "all pods have ended",
        )
        await placing.check()


async def test_queues_of_the_config_map_have_their_maxima(placing: Cluster) -> None:
    """A queue of the config map has its maximum, and another one after a change of the config map."""
    async with placing.namespace("queues") as name:
        path = f"/apis/apps/v1/namespaces/{name}/deployments"
        await placing.api.create(path, deployment("some", 4, queue="root.small"))
        await placing.ledger.until(
            lambda: len(placing.running(name)) == 2, "as many run as the queue may have"
        )
        await placing.settle(name)
        assert len(placing.running(name)) == 2
        await placing.check()
        await placing.configure(QUEUES.replace("max: {vcore: 1}", "max: {vcore: 1500m}"))
        await placing.ledger.until(lambda: len(placing.running(name)) == 3, "one more runs")
        await placing.check()
        await placing.configure(QUEUES)


async def test_namespaces_have_their_quotas(placing: Cluster) -> None:
    """A namespace has a queue of its own, whose maximum is the annotation of the namespace."""
    async with placing.namespace("quotas", namespace_quota='{"cpu": "1", "memory": "4Gi"}') as name:
        path = f"/apis/apps/v1/namespaces/{name}/deployments"
        await placing.api.create(path, deployment("first", 4))
        await placing.ledger.until(lambda: len(placing.running(name)) == 2, "as many run as the quota has")
        await placing.settle(name)
        assert len(placing.running(name)) == 2
        await placing.check()
        async with State(placing.scheduler.target) as state:
            maxima = {queue.path: dict(queue.max) for queue in await state.queues()}
        assert maxima[f"root.spaces.{name}"] == {"vcore": 1000, "memory": 4 * 1024**3}


async def test_gangs_run_together(placing: Cluster) -> None:
    """No member of a gang runs before there is room for all; then all run, and no placeholder remains."""
    annotations = {"task-group-name": "worker", "task-groups": GANG}
    async with placing.namespace("gangs") as name:
        deployments = f"/apis/apps/v1/namespaces/{name}/deployments"
        await placing.api.create(deployments, deployment("filler", 14, cpu="1"))
        await placing.ledger.until(lambda: len(placing.running(name)) == 14, "the filler runs")
        for member in range(4):
            item = pod(f"member-{member}", "1", app="gang", annotations=annotations)
            await placing.api.create(f"/api/v1/namespaces/{name}/pods", item)
        await placing.ledger.until(lambda: len(placing.running(name, "tg-gang")) == 2, "two placeholders run")
        await placing.settle(name)
        assert not placing.running(name, "member")
        await placing.api.patch(f"{deployments}/filler", {"spec": {"replicas": 2}})
        await placing.ledger.until(lambda: len(placing.running(name, "member")) == 4, "the gang runs")
        await placing.ledger.until(lambda: not placing.all_of(name, "tg-gang"), "the placeholders have gone")
        await placing.check()


async def test_a_queue_reclaims_its_guarantee(placing: Cluster) -> None:
    """A queue reclaims its guarantee, and no more, from pods of no higher priority."""
    for priority, value in (("low", 0), ("high", 1000)):
        of_class = {"metadata": {"name": priority}, "value": value}
        await placing.api.create("/apis/scheduling.k8s.io/v1/priorityclasses", of_class)
    async with placing.namespace("preemption") as name:
        path = f"/api/v1/namespaces/{name}/pods"
        for number in range(8):
            priority = "high" if number % 2 else "low"
            item = pod(f"{priority}-{number}", "2", queue="root.greedy", app="greedy")
            item["spec"]["priorityClassName"] = priority
            await placing.api.create(path, item)
        await placing.ledger.until(lambda: len(placing.running(name)) == 8, "all nodes are full")
        for number in range(3):
            await placing.api.create(path, pod(f"fair-{number}", "2", queue="root.fair", app="fair"))
        await placing.ledger.until(lambda: len(placing.running(name, "fair")) == 2, "two pods have room")
        await placing.settle(name)
        await placing.check()
        assert [len(placing.running(name, kind)) for kind in ("high", "low", "fair")] == [4, 2, 2]


async def test_pods_are_deleted_while_they_wait_and_run(placing: Cluster) -> None:
    """A pod that is deleted while it waits or runs leaves nothing, and its room is free."""
    async with placing.namespace("deleted") as name:
        path = f"/api/v1/namespaces/{name}/pods"
        for number in range(11):
            await placing.api.create(path, pod(f"one-{number}", "2", app="pods"))
        await placing.ledger.until(lambda: len(placing.running(name)) == 8, "all nodes are full")
        runs = placing.running(name)
        waits = [
            one["metadata"]["name"] for one in placing.all_of(name) if one["metadata"]["name"] not in runs
        ]
        await asyncio.gather(*(placing.api.delete(f"{path}/{one}") for one in [*waits[:1], *runs[:3]]))
        await placing.ledger.until(lambda: len(placing.all_of(name)) == 7, "they have gone")
        await placing.ledger.until(lambda: len(placing.running(name)) == 7, "the others run")
        await placing.check()


async def test_foreign_pods_use_room_on_their_node(placing: Cluster) -> None:
    """Foreign pods on a node count there until they end."""
    async with placing.namespace("foreign") as name:
        path = f"/api/v1/namespaces/{name}/pods"
        others = pod("other", "3", nodeName="node-00000", schedulerName="another")
        await placing.api.create(path, others)
        await placing.api.create(
            f"/apis/apps/v1/namespaces/{name}/deployments", deployment("ours", 8, cpu="2")
        )
        await placing.ledger.until(lambda: len(placing.running(name, "ours")) == 6, "six have room")
        await placing.check()
        await placing.api.delete(f"{path}/other")
        await placing.ledger.until(lambda: len(placing.running(name, "ours")) == 8, "all have room")
        await placing.check()


async def test_a_resized_pod_is_resized_in_licorne(placing: Cluster) -> None:
    """A larger running pod has more in Licorne, and less remains for others."""
    async with placing.namespace("resized") as name:
        path = f"/api/v1/namespaces/{name}/pods"
        await placing.api.create(path, pod("grows", "1", app="grows"))
        await placing.ledger.until(lambda: placing.running(name) == ["grows"], "the pod runs")
        # A status that a kubelet sets, without which the API server allows no change.
        await placing.api.patch(
            f"{path}/grows/status", {"status": {"containerStatuses": [_sized("1")]}}, STRATEGIC
        )
        await placing.api.patch(f"{path}/grows/resize", {"spec": {"containers": [_sized("3")]}}, STRATEGIC)
        await placing.api.patch(
            f"{path}/grows/status", {"status": {"containerStatuses": [_sized("3")]}}, STRATEGIC
        )
        await placing.check()
        await placing.api.create(
            f"/apis/apps/v1/namespaces/{name}/deployments", deployment("ours", 8, cpu="2")
        )
        await placing.ledger.until(lambda: len(placing.running(name, "ours")) == 6, "six have room")
        await placing.check()


def _sized(cpu: str) -> Json:
    return {"name": "main", "resources": {"requests": {"cpu": cpu}}}
