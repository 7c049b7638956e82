"""A resource manager with a ledger: its asks, running allocations, and ended ones."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Self

from licorne import (
    Allocated,
    Application,
    ApplicationRejected,
    Ask,
    AskDropped,
    AskRejected,
    Client,
    Node,
    NodeRejected,
    Released,
    RetryConfig,
)
from soak.ledger import VCORE, Ledger, SoakFailed
from support.patience import PATIENCE
from support.server.reports import read_books

QUICK = RetryConfig(initial=0.02, maximum=0.2)
QUEUE = "root.work"
SHOWN = 10
"""The number of differences that an error names."""
SMALL = "root.small"
"""A queue in which only one ask fits, so that others wait."""


class SoakRm(Ledger):
    """One RM with a client."""

    def __init__(self, target: str, rm_id: str, config: str) -> None:
        """Start without a connection."""
        super().__init__(rm_id)
        self.client = Client(target, rm_id=rm_id, config=config, retry=QUICK)
        self._listener: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Connect, and wait until the server schedules for this RM."""
        await self.client.__aenter__()
        self._listener = self.start(self._listen())
        async with asyncio.timeout(PATIENCE):
            await self.client.ready()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close; the server keeps the state."""
        await self.close()

    async def close(self, *, unregister: bool = False) -> None:
        """Say goodbye, and unregister if requested."""
        await self.client.close(unregister=unregister)
        if self._listener is not None:
            await asyncio.wait([self._listener])

    # ---- Messages to the server ----

    async def add_nodes(self, node_ids: Iterable[str], vcore: int) -> None:
        """Add nodes of one size."""
        nodes = [Node(node_id=node_id, capacity={"vcore": vcore}) for node_id in node_ids]
        self.add((node.node_id for node in nodes), vcore)
        await self.client.add_nodes(nodes)

    async def remove_node(self, node_id: str) -> None:
        """Remove a node; its allocations are released."""
        self.take_away(node_id)
        await self.client.remove_node(node_id)

    async def submit(self, application_ids: Iterable[str], queue: str = QUEUE) -> None:
        """Submit applications, each of a user of its own."""
        new = [
            Application(application_id=app_id, queue=queue, user=f"user-of-{app_id}")
            for app_id in application_ids
        ]
        self.applications |= {app.application_id: queue for app in new}
        await self.client.submit_applications(new)

    async def remove(self, application_ids: Iterable[str]) -> None:
        """Remove applications without running or pending asks."""
        for app_id in application_ids:
            del self.applications[app_id]
            await self.client.remove_application(app_id)

    async def ask(self, application_id: str, keys: Sequence[str]) -> None:
        """Ask for one allocation for each key."""
        self.want(keys)
        await self.client.ask(
            Ask(key=key, application_id=application_id, resources={"vcore": VCORE}) for key in keys
        )

    async def release(self, keys: Iterable[str]) -> None:
        """End running allocations and withdraw pending ones; does not wait for the answer."""
        keys = list(keys)
        self.end(keys)
        await self.client.release(keys)

    # ---- Events from the server ----

    @property
    def epoch(self) -> int:
        """The epoch of the last message that the client has accepted."""
        return self.client._context.session.stamp[0]

    async def all_run(self) -> None:
        """Wait until only asks without room are pending."""
        await self.until(lambda: not self.waiting, "allocations")

    def state(self) -> str:
        """The state of the client."""
        return f", {self.client.stats}"

    async def _listen(self) -> None:
        async for batch in self.client.batches():
            for event in batch:
                self._hear(event)
            self.changed()

    def _hear(self, event: object) -> None:
        match event:
            case Allocated(key=key, node_id=node_id):
                self.allocated(key, node_id)
            case Released(key=key):
                self.released(key)
            case AskRejected() | AskDropped() | NodeRejected() | ApplicationRejected():
                self.fail(f"refused: {event}")


async def compare(rm: Ledger, target: str) -> None:
    """Compare the RM's ledger with the server's state while no message is in flight.

    Raises:
        SoakFailed: They differ; the error has the items that only one side has.
    """
    books = await read_books(target, rm.rm_id, only="default")
    usage: dict[str, int] = dict.fromkeys(rm.nodes, 0)
    for node_id in rm.running.values():
        usage[node_id] = usage.get(node_id, 0) + VCORE
    both: dict[str, tuple[Mapping[str, object], Mapping[str, object]]] = {
        "allocations": (rm.running, books.allocations),
        "asks that wait": (dict.fromkeys(rm.waiting), dict.fromkeys(books.pending)),
        "applications": (
            rm.applications,
            {app_id: queue for app_id, (queue, _) in books.applications.items()},
        ),
        "usage of nodes": (
            usage,
            {name: used.get("vcore", 0) for name, (_, _, used) in books.nodes.items()},
        ),
        "usage and need of the root": (
            {"allocated": len(rm.running) * VCORE, "pending": len(rm.waiting) * VCORE},
            {
                word: amounts.get("vcore", 0)
                for word, amounts in zip(("allocated", "pending"), books.queues["root"], strict=True)
            },
        ),
    }
    for what, (ours, theirs) in both.items():
        if ours != theirs:
            raise SoakFailed(
                f"{what} of {rm.rm_id}: only the RM has {_only_in(ours, theirs)}, "
                f"only the server has {_only_in(theirs, ours)}"
            )


def _only_in(one: Mapping[str, object], other: Mapping[str, object]) -> list[tuple[str, object]]:
    """The first items that the other side lacks, or has with other values."""
    return [item for item in one.items() if item not in other.items()][:SHOWN]
