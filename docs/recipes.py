"""Write the plans of docs/recipes.md: the effect of each configuration on that page, from a server.

    python docs/recipes.py            write the plans into the page
    python docs/recipes.py --check    compare only; exit 1 where they differ

All plans are for the same cluster, with the same work. The text block after a configuration has the output
of `licorne config plan`.
"""

import argparse
import asyncio
import io
import re
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory

# A plan forks the process, for which the server's package sets up gRPC, so it is imported first.
import licorne_server  # noqa: F401

# isort: split
from licorne import Application, Ask, Client, Node
from licorne_cli.commands import main as licorne
from licorne_core.partitions.agenda import AT_ONCE
from licorne_core.scheduler import Scheduler
from licorne_server.assembly.server import running
from licorne_server.process.bounds import RmBounds
from licorne_server.process.settings import Address, Settings
from licorne_server.telemetry.logs import set_up

PAGE = Path(__file__).with_name("recipes.md")
# A plan is always made, however long a busy machine takes to fork the process.
SETTINGS = Settings(listen=Address(host="127.0.0.1", port=0), http=None, rms=RmBounds(plan_pause=0.0))
PATIENCE = 240.0
GIB = 2**30

RECIPE = re.compile(r"```yaml\n(?P<config>(?:(?!```).)*)```\n\n```text\n(?P<plan>.*?)```", re.DOTALL)
"""A configuration and its plan in the page."""

BEFORE = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: ads
          - name: search
"""

WORK = (
    ("train", "search", "ann", 2, {"vcore": 8_000, "memory": 32 * GIB, "nvidia.com/gpu": 4}),
    ("index", "search", "ann", 24, {"vcore": 4_000, "memory": 16 * GIB}),
    ("crawl", "search", "ben", 8, {"vcore": 4_000, "memory": 16 * GIB}),
    ("click", "ads", "cem", 12, {"vcore": 4_000, "memory": 16 * GIB}),
)
"""Application, queue, user, number of asks, and resources of each ask."""


def nodes() -> Iterator[Node]:
    """Ten nodes with 160 cores; two of them have GPUs."""
    for number in range(10):
        gpus = {"nvidia.com/gpu": 4} if number < 2 else {}
        yield Node(node_id=f"node-{number}", capacity={"vcore": 16_000, "memory": 64 * GIB, **gpus})


def ask(application: str, number: int, size: dict[str, int], second: int) -> Ask:
    """One ask of an application; it may preempt, and be preempted."""
    return Ask(
        key=f"{application}-{number}",
        application_id=application,
        resources=size,
        tags={"creationTime": str(second)},
        allow_preempt_self=True,
        allow_preempt_other=True,
    )


@asynccontextmanager
async def cluster() -> AsyncIterator[str]:
    """The address of a server on which the queue search uses all resources, and ads waits."""
    scheduler = Scheduler()
    async with (
        running(SETTINGS, scheduler=scheduler) as server,
        Client(server.grpc_address, rm_id="prod", config=BEFORE) as client,
    ):
        await client.add_nodes(list(nodes()))
        for second, (name, queue, user, count, size) in enumerate(WORK, start=1):
            application = Application(application_id=name, queue=f"root.{queue}", user=user)
            await client.submit_applications([application])
            await client.ask([ask(name, number, size, second) for number in range(count)])
            await client.ready()
            # The core has no event for the end of its work, so it is polled.
            while scheduler.next_deadline() == AT_ONCE:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        yield server.grpc_address


async def plans(configs: list[str]) -> list[str]:
    """The output of `licorne config plan` for each configuration."""
    found = []
    async with asyncio.timeout(PATIENCE), cluster() as target:
        for config in configs:
            found.append(await asyncio.to_thread(plan, target, config))
    return found


def plan(target: str, config: str) -> str:
    """The output of `licorne config plan` for one configuration."""
    said = io.StringIO()
    with TemporaryDirectory() as folder, redirect_stdout(said):
        file = Path(folder) / "queues.yaml"
        file.write_text(config, encoding="utf-8")
        licorne(["config", "plan", str(file), "--target", target])
    return said.getvalue()


def written(page: str) -> str:
    """The page with new plans."""
    said = iter(asyncio.run(plans([found["config"] for found in RECIPE.finditer(page)])))
    return RECIPE.sub(lambda found: f"```yaml\n{found['config']}```\n\n```text\n{next(said)}```", page)


def main() -> int:
    """Write or compare the page; returns 1 if it differs."""
    parser = argparse.ArgumentParser(description="Write the plans of docs/recipes.md.")
    parser.add_argument("--check", action="store_true", help="compare only")
    check: bool = parser.parse_args().check
    set_up("warning")
    page = PAGE.read_text(encoding="utf-8")
    fresh = written(page)
    if not check:
        PAGE.write_text(fresh, encoding="utf-8")
        return 0
    if page == fresh:
        return 0
    print(f"{PAGE.name} has other plans than a server: run make picture", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
