"""An RM's asks, running allocations and ended ones, which are the true state of its cluster."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from support.patience import PATIENCE

VCORE = 100
"""The size of every ask."""


class SoakFailed(Exception):
    """The two sides differ, or an item was rejected or never answered."""


class Ledger:
    """The ledger of one RM: all its asks have the same size, all keys and ids are new.

    Every allocation is checked: none runs twice, and no node is overbooked.
    """

    def __init__(self, rm_id: str) -> None:
        """Start without objects."""
        self.rm_id = rm_id
        self.running: dict[str, str] = {}
        """The node of every running allocation."""
        self.waiting: set[str] = set()
        """Asks without an allocation."""
        self.applications: dict[str, str] = {}
        """The queue of every application."""
        self.nodes: dict[str, int] = {}
        """The capacity of every node."""
        self.used: dict[str, int] = {}
        """The used amount of every node."""
        self.ending: set[str] = set()
        """Allocations whose release was requested."""
        self.ended = 0
        """The number of ended allocations so far."""
        self.placed = 0
        """The number of allocations so far."""
        self.failure = ""
        """The first failure, which ends the work of the RM."""
        self._changed = asyncio.Event()

    def add(self, node_ids: Iterable[str], vcore: int) -> None:
        """Add nodes of one size."""
        for node_id in node_ids:
            self.nodes[node_id], self.used[node_id] = vcore, 0

    def take_away(self, node_id: str) -> None:
        """Remove a node whose allocations are released."""
        del self.nodes[node_id]

    def want(self, keys: Iterable[str]) -> None:
        """Add asks."""
        self.waiting |= set(keys)

    def end(self, keys: Iterable[str]) -> None:
        """End the running allocations of these asks, and withdraw the pending ones."""
        keys = set(keys)
        self.waiting -= keys
        self.ending |= self.running.keys() & keys

    def allocated(self, key: str, node_id: str) -> None:
        """Record that the server has placed an ask."""
        if key in self.running:
            self.fail(f"{key} is on {self.running[key]} and was placed on {node_id}")
        if node_id not in self.nodes:
            self.fail(f"{key} was placed on {node_id}, which is not there")
        self.placed += 1
        self.running[key] = node_id
        self.waiting.discard(key)
        self.used[node_id] = self.used.get(node_id, 0) + VCORE
        if self.used[node_id] > self.nodes.get(node_id, 0):
            self.fail(f"{node_id} has {self.nodes.get(node_id)} and bears {self.used[node_id]} with {key}")

    def released(self, key: str) -> None:
        """Record that the server has acknowledged an end, or has requested it."""
        node_id = self.running.pop(key, None)
        if node_id is not None:
            self.used[node_id] -= VCORE
        self.ending.discard(key)
        self.ended += 1

    def fail(self, problem: str) -> None:
        """Record a failure; only the first one counts."""
        self.failure = self.failure or problem
        self.changed()

    def start(self, listening: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start the task that listens to the server. An error that ends it fails the RM."""
        task = asyncio.create_task(listening)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(f"the client has ended: {error!r}")

    def changed(self) -> None:
        """Wake tasks that wait for a condition."""
        self._changed.set()

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until a condition holds.

        Raises:
            SoakFailed: It did not hold in time, or an item was rejected meanwhile.
        """
        try:
            async with asyncio.timeout(PATIENCE):
                while not condition():
                    if self.failure:
                        break
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise SoakFailed(
                f"{self.rm_id} waited {PATIENCE:.0f} s for {what}: {len(self.running)} run, "
                f"{len(self.waiting)} wait{self.state()}"
            ) from None
        if self.failure:
            raise SoakFailed(f"{self.rm_id}: {self.failure}")

    def state(self) -> str:
        """More text for the error of a failed wait."""
        return ""
