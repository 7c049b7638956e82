"""A run: a scheduler starts, pods are created and bound, the cluster idles, and all objects are deleted."""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from licorne_tools.bench.driver import BenchError, Progress, limited
from licorne_tools.bench.kube.calls import Calls, dispatched, failed, requests
from licorne_tools.bench.kube.lines import Line
from licorne_tools.bench.programs import process_of
from licorne_tools.bench.report import Run
from licorne_tools.kube.api import ApiRefused, Json
from licorne_tools.kube.plane import Plane, PlaneOptions, running_plane, write_kubeconfig
from licorne_tools.kube.programs import API_SERVER, CONTROLLERS, ETCD, KWOK, LOAD, built
from licorne_tools.kube.schedulers import NAMESPACE, Scheduler, SchedulerKind, begin

USER, GROUP = "bench-scheduler", "bench-schedulers"
"""User and group of the schedulers. The user's calls are counted under a FlowSchema of the same name."""
TAIL_SECONDS = 5.0
"""Seconds after the last binding for which CPU is counted, because statuses and events follow. After the same
time again the cluster counts as idle.
"""
POLL_SECONDS = 0.5
PATIENCE_SECONDS = 60
"""Seconds without a bound pod after which a run ends."""
ZONE, TAINT = "topology.kubernetes.io/zone", "licorne.dev/bench"
PRIORITIES = {"bench-low": 100, "bench-middle": 1_000, "bench-high": 10_000}
"""Priority classes by name, with their values. `kubeload` uses these names."""
PODS = "/api/v1/namespaces/default/pods"
MADE = (
    "/apis/apps/v1/namespaces/default/deployments",
    "/apis/apps/v1/namespaces/default/replicasets",
    PODS,
    "/api/v1/namespaces/default/events",
)
"""The kinds of created objects, owners before the objects that they own."""
DELETERS = 16
DELETED_AT_ONCE = 1_000
CLEAN_SECONDS = 600.0
SERVER_ERROR = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A control plane with nodes, the kubeconfig of the schedulers, and the program of the load."""

    plane: Plane
    kubeconfig: Path
    load: Path


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a run: figures, and calls per pod by verb and resource, without those of the load."""

    figures: Run
    calls: dict[str, float]


@asynccontextmanager
async def prepared(line: Line, progress: Progress) -> AsyncIterator[Bench]:
    """A control plane with the nodes of a row, for the duration of the block.

    Raises:
        BenchError: a program cannot be built, or does not start.
    """
    token = secrets.token_hex(16)
    options = PlaneOptions(
        flags={API_SERVER: [f"--delete-collection-workers={DELETERS}"]}, tokens={token: (USER, GROUP)}
    )
    load = (await asyncio.to_thread(built, [LOAD], progress))[LOAD]
    progress.step("starting the control plane")
    async with running_plane(options, progress) as plane:
        progress.step("adding nodes")
        await plane.add_nodes(line.nodes)
        await dress(plane, line)
        await plane.api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        await allow(plane)
        config = write_kubeconfig(plane.folder / USER, plane.url, plane.authority, USER, token)
        yield Bench(plane=plane, kubeconfig=config, load=load)


async def dress(plane: Plane, line: Line) -> None:
    """Add zones and the taints of the shape to the nodes, and create the priority classes."""
    names = [node["metadata"]["name"] for node in (await plane.api.get("/api/v1/nodes"))["items"]]
    taints = [{"key": TAINT, "effect": "NoSchedule"}] if line.shape == "tolerations" else []

    async def one(number: int, name: str) -> None:
        labels = {"metadata": {"labels": {ZONE: f"zone-{number % line.zones}"}}}
        await plane.api.patch(f"/api/v1/nodes/{name}", {**labels, "spec": {"taints": taints}})

    # The client's connection pool limits the number of concurrent calls.
    await asyncio.gather(*(one(number, name) for number, name in enumerate(names)))
    for name, value in PRIORITIES.items():
        await plane.api.create(
            "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": name}, "value": value}
        )


async def allow(plane: Plane) -> None:
    """Allow the schedulers' user everything; its calls are counted separately, and never wait for others."""
    rbac = "rbac.authorization.k8s.io"
    binding = {
        "metadata": {"name": GROUP},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": rbac, "kind": "Group", "name": GROUP}],
    }
    await plane.api.create(f"/apis/{rbac}/v1/clusterrolebindings", binding)
    everything = ["*"]
    rule: Json = {
        "subjects": [{"kind": "User", "user": {"name": USER}}],
        "resourceRules": [
            {
                "verbs": everything,
                "apiGroups": everything,
                "resources": everything,
                "clusterScope": True,
                "namespaces": everything,
            }
        ],
        "nonResourceRules": [{"verbs": everything, "nonResourceURLs": everything}],
    }
    schema = {
        "metadata": {"name": USER},
        "spec": {
            "matchingPrecedence": 2,
            "priorityLevelConfiguration": {"name": "exempt"},
            "rules": [rule],
        },
    }
    await plane.api.create("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas", schema)


async def one_run(
    bench: Bench, line: Line, kind: SchedulerKind, name: str, idle_seconds: float, progress: Progress
) -> Found:
    """Start a scheduler, and make a run with it; `name` distinguishes the objects of the run.

    Raises:
        BenchError: the scheduler does not start, or the load fails.
    """
    progress.step("starting the scheduler")
    scheduler = await begin(bench.plane, kind, kubeconfig=bench.kubeconfig, progress=progress)
    try:
        return await measured(bench, line, scheduler, name, idle_seconds, progress)
    finally:
        progress.step("deleting the pods")
        await scheduler.stop(bench.plane)
        await clean(bench.plane)


async def measured(
    bench: Bench, line: Line, scheduler: Scheduler, name: str, idle_seconds: float, progress: Progress
) -> Found:
    """Run the load; returns its figures, and those of CPU and calls."""
    plane = bench.plane
    # This excludes the start of the scheduler, which lists all objects.
    await asyncio.sleep(TAIL_SECONDS)
    metrics = await plane.api.text("/metrics")
    before = spent(plane, scheduler)
    progress.step("placing")
    load = await loaded(bench, line, scheduler.name, name)
    await asyncio.sleep(TAIL_SECONDS)
    after = spent(plane, scheduler)
    progress.step("left alone")
    await asyncio.sleep(TAIL_SECONDS)
    idle = scheduler.cpu_seconds(plane)
    await asyncio.sleep(idle_seconds)
    idle = scheduler.cpu_seconds(plane) - idle
    later = await plane.api.text("/metrics")
    own = Calls(load.pop("calls"))
    bound = max(1, line.pods - load["not_bound"])
    calls = requests(later) - requests(metrics) - own
    figures: Run = {
        **load,
        "created_per_second": rate(load["created"], load["created_seconds"]),
        "bound_per_second": rate(bound, load["bound_seconds"]),
        **{name: after[name] - before[name] for name in after},
        "idle_cpu_percent": 100 * idle / idle_seconds,
        "calls_per_pod": (dispatched(later, USER) - dispatched(metrics, USER)) / bound,
        "all_calls_per_pod": calls.total() / bound,
        "failed_calls": failed(later) - failed(metrics),
    }
    return Found(figures, {name: number / bound for name, number in calls.items()})


def rate(number: float, seconds: float) -> float:
    """Rate per second; 0 if nothing was counted and no time passed."""
    return number / seconds if seconds else 0.0


def spent(plane: Plane, scheduler: Scheduler) -> dict[str, float]:
    """CPU seconds of the processes so far, by name of the figure."""
    seconds = plane.processes.cpu_seconds
    own, server = scheduler.cpu_seconds(plane), seconds(API_SERVER)
    return {
        "scheduler_cpu_seconds": own,
        "api_server_cpu_seconds": server,
        "cpu_seconds": own + server,
        "other_cpu_seconds": sum(map(seconds, (ETCD, CONTROLLERS, KWOK))),
    }


async def loaded(bench: Bench, line: Line, scheduler: str, name: str) -> Json:
    """Run the load, which creates and observes pods; returns its output.

    Raises:
        BenchError: the load fails.
    """
    words = {
        "kubeconfig": bench.plane.kubeconfig,
        "name": name,
        "scheduler": scheduler,
        "shape": line.shape,
        "pods": line.pods,
        "rate": line.rate,
        "replicas": line.replicas,
        "zones": line.zones,
        "patience": f"{PATIENCE_SECONDS}s",
    }
    options = [f"-{option}={value}" for option, value in words.items()]
    async with process_of(str(bench.load), *options) as process:
        output, _ = await process.communicate()
    if process.returncode != 0:
        raise BenchError("the load has failed")
    return json.loads(output)  # type: ignore[no-any-return]


async def clean(plane: Plane) -> None:
    """Delete all created objects, and wait until they no longer exist.

    Raises:
        BenchError: an object still exists after `CLEAN_SECONDS`.
    """
    async with limited(CLEAN_SECONDS, failure="what was made is not gone after"):
        while [path for path in MADE if (await plane.api.get(path, limit="1"))["items"]]:
            for path in MADE:
                await delete_some(plane, path)
            await asyncio.sleep(POLL_SECONDS)


async def delete_some(plane: Plane, path: str) -> None:
    """Delete some objects of a list: as many as the API server can before its timeout of one minute."""
    options = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
    try:
        await plane.api.request("DELETE", path, options, query={"limit": str(DELETED_AT_ONCE)})
    except ApiRefused as error:
        if error.status < SERVER_ERROR:
            raise
