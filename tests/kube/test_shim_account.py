"""The chart's account for the shim, under real RBAC, has all rights that the shim needs."""

import json
from pathlib import Path

import pytest

from licorne_tools.kube.plane import write_kubeconfig
from licorne_tools.kube.programs import SHIM
from licorne_tools.kube.schedulers import NAMESPACE
from support.kube.charts import apply, rendered, token_of
from support.kube.cluster import Cluster
from support.kube.workloads import deployment, pod

pytestmark = [pytest.mark.kube, pytest.mark.asyncio(loop_scope="session")]

VALUES = ("--set", "shim.enabled=true", "--set", "shim.image=shim", "--set", "image.repository=licorne")
OWNED = ("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
QUEUES = """
partitions:
  - name: default
    placementrules: [{name: tag, value: namespace, create: true}]
    queues: [{name: root, submitacl: '*'}]
"""


GROUPS = [{"name": "worker", "minMember": 3, "minResource": {"cpu": "1", "memory": "100Mi"}}]
GANG = {"task-group-name": "worker", "task-groups": json.dumps(GROUPS)}


async def test_the_shim_works_with_the_account_of_the_chart(cluster: Cluster, tmp_path: Path) -> None:
    """The shim lists the cluster, binds pods, and creates and deletes placeholders with this account."""
    plane = cluster.plane
    await apply(plane, NAMESPACE, [one for one in rendered(NAMESPACE, *VALUES) if one["kind"] in OWNED])
    token = await token_of(plane, NAMESPACE)
    config = write_kubeconfig(tmp_path / "kubeconfig", plane.url, plane.authority, "shim", token)
    async with cluster.scheduled(QUEUES, kubeconfig=config), cluster.namespace("account") as name:
        await plane.api.create(f"/apis/apps/v1/namespaces/{name}/deployments", deployment("web", 4))
        for number in range(3):
            member = pod(f"member-{number}", "1", app="train", annotations=GANG)
            await plane.api.create(f"/api/v1/namespaces/{name}/pods", member)
        await cluster.ledger.until(lambda: len(cluster.running(name, "web")) == 4, "the Deployment runs")
        await cluster.ledger.until(lambda: len(cluster.running(name, "member")) == 3, "the gang runs")
        await cluster.check()
        assert not await plane.processes.has_logged(SHIM, "forbidden")
