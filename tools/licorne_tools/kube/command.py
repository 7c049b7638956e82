"""`make kube`: run a control plane with a scheduler, for `kubectl` on this machine, until an interrupt."""

import argparse
import asyncio
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from licorne_cli.parsing.parser import positive
from licorne_tools.bench.driver import BenchError, Progress
from licorne_tools.commands.outcome import OK, Outcome, shown
from licorne_tools.kube.plane import Plane, running_plane
from licorne_tools.kube.programs import KUBECTL, VERSION, built, check
from licorne_tools.kube.schedulers import NAMESPACE, Scheduler, SchedulerKind, begin

NODES = 10


def told(plane: Plane, scheduler: Scheduler, kubectl: Path, nodes: int) -> str:
    """Instructions for the user of the running control plane."""
    lines = [
        f"Kubernetes {VERSION} at {plane.url}, with {nodes} nodes whose pods only seem to run.",
        "",
        "In another terminal:",
        f"  export KUBECONFIG={plane.kubeconfig} PATH={kubectl.parent}:$PATH",
        *([f"  export LICORNE_TARGET={scheduler.target}"] if scheduler.target else []),
        "  kubectl get nodes",
    ]
    if scheduler.kind is not SchedulerKind.KUBE:
        lines += [
            "",
            f"Pods with schedulerName {scheduler.name} are placed by {scheduler.kind.value}. Its queues are",
            f"in the config map yunikorn-configs of the namespace {NAMESPACE}.",
        ]
    if scheduler.target:
        lines += [
            f"The page is at {scheduler.page}/ui",
        ]
    lines += ["", f"Logs are in {plane.folder}. Ctrl-C ends all of it."]
    return "\n".join(lines)


async def run(nodes: int, kind: SchedulerKind) -> None:
    """Start everything, print instructions, and wait until a program ends.

    Raises:
        BenchError: a program is missing, does not start, or has ended by itself.
    """
    progress = Progress()
    async with AsyncExitStack() as running:
        with shown(progress):
            check()
            progress.begin("building kubectl")
            kubectl = (await asyncio.to_thread(built, [KUBECTL], progress))[KUBECTL]
            progress.begin("starting the control plane")
            plane = await running.enter_async_context(running_plane(progress=progress))
            progress.begin(f"adding {nodes} nodes")
            await plane.add_nodes(nodes)
            await plane.api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
            progress.begin("starting the scheduler")
            scheduler = await begin(plane, kind, progress=progress)
        print(told(plane, scheduler, kubectl, nodes), flush=True)
        name = await plane.processes.ended()
        raise BenchError(f"{name} has ended:\n{plane.processes.last_lines(name)}")


def main() -> int:
    """The program; returns its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--nodes", type=positive, default=NODES, metavar="N", help="so many nodes (%(default)s)")
    kinds = [kind.value for kind in SchedulerKind]
    add(
        "--scheduler",
        choices=kinds,
        default=SchedulerKind.LICORNE.value,
        help="what places pods (%(default)s)",
    )
    args = parser.parse_args()
    outcome = Outcome()
    with outcome:
        asyncio.run(run(args.nodes, SchedulerKind(args.scheduler)))
    return OK if outcome.is_interrupted else outcome.code


if __name__ == "__main__":
    sys.exit(main())
