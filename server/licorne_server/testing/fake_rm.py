"""A fake resource manager for tests, which sends requests and waits for the answers."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from licorne import (
    Allocated,
    Application,
    Ask,
    Confirm,
    ContainerState,
    FailMode,
    LicorneError,
    Limits,
    Node,
    PreemptionNotice,
    Released,
    ReleaseRequested,
    RetryConfig,
    TaskGroup,
    Termination,
    Token,
)
from licorne_server.process.clock import Clock, SystemClock
from licorne_server.testing.parts import (
    Containers,
    Judge,
    Predicate,
    Received,
    StartAfter,
    StopAfter,
    Victims,
    WatchedClient,
    pending_asks,
)
from licorne_server.testing.serving import VirtualClock, served_at

T = TypeVar("T")

GIB = 1024**3
PATIENCE = 10.0
"""Seconds after which a missing answer fails the test."""


class FakeRM:
    """A resource manager with nodes, applications and asks, all of one size by default.

    A method that sends a request waits for the answer. The method raises `Rejected` with the server's reason,
    or `TimeoutError` with the messages that were received instead. `client`, a `licorne.Client`, has all
    other requests.
    """

    def __init__(
        self,
        target: str,
        *,
        rm_id: str = "rm1",
        config: str = "",
        retry: RetryConfig | None = None,
        limits: Limits | None = None,
        token: Token | None = None,
        patience: float | None = None,
        predicates: Predicate | None = None,
        predicate_deadline: float = 2.0,
        fail_mode: FailMode = FailMode.CLOSED,
        judge_victims: Victims | None = None,
        start_after: StartAfter = 0.0,
        stop_after: StopAfter = 0.0,
        clock: Clock | None = None,
        resubmit: bool = False,
    ) -> None:
        """Prepare the RM, which connects on ``async with``; `config` is the YAML text of the queues.

        `predicates` answers the server's predicate checks, `judge_victims` its preemption checks.

        A container starts `start_after` seconds after its allocation. It stops `stop_after` seconds after the
        scheduler's request, and its end is confirmed. Both may be functions of the event; None means never.
        Seconds are those of `clock`, by default the server's clock if the server is in this process. With
        `resubmit`, members of a gang that the server drops are submitted again. `limits` and `token` are
        passed to the client.
        """
        if clock is None:
            served = served_at(target)
            clock = SystemClock() if served is None else served.clock
        self._clock = clock
        self._changed = asyncio.Event()
        self.container_states: list[ContainerState] = []
        """Received states of asks that wait for a larger cluster."""
        self.notices: list[PreemptionNotice] = []
        """Received notices of preemption, including withdrawn ones."""
        self.judge = Judge(predicates, judge_victims, self._changed.set, clock)
        """Answers checks; see its `refusing`, `delay` and `answering`."""
        self.client = WatchedClient(
            target,
            rm_id=rm_id,
            config=config,
            retry=retry,
            limits=limits,
            token=token,
            predicates=self.judge.predicates if predicates else None,
            predicate_deadline=predicate_deadline,
            fail_mode=fail_mode,
            judge_victims=self.judge.victims if judge_victims else None,
            confirm=Confirm.NOTHING,
            resubmit=resubmit,
            on_container_states=partial(self._told, self.container_states),
            on_preemption_notices=partial(self._told, self.notices),
        )
        self.containers = Containers(start_after, stop_after, self._confirm, self._changed.set, clock)
        """Containers of the allocations; see its `running` and `stopping`."""
        self.checks, self.preemption_checks = self.judge.checks, self.judge.preemption_checks
        """Predicate checks and preemption checks so far."""
        self.answering = self.judge.answering
        """Set by default; no check is answered while it is cleared."""
        self.reading = asyncio.Event()
        """Set by default; while it is cleared, events are neither read nor acknowledged."""
        self.reading.set()
        received = self._received = Received()
        self.events, self.allocations, self.states = received.events, received.allocations, received.states
        """All events in order, the node of each allocation by key, and the last state of each application."""
        self._target = target
        self.patience = PATIENCE if patience is None else patience
        """Seconds that each wait may take; may be changed between waits."""
        self._named: Counter[str] = Counter()
        self._failure: LicorneError | None = None
        self._listener: asyncio.Task[None] | None = None
        self._runner: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Connect, and wait until the server schedules for this resource manager."""
        await self.client.__aenter__()
        self._listener = asyncio.create_task(self._listen())
        self._runner = asyncio.create_task(self.containers.run())
        if isinstance(self._clock, VirtualClock):
            self._clock.attend(self)
        try:
            await self._ready()
        except BaseException:
            await self.close()
            raise
        return self

    async def _ready(self) -> None:
        try:
            async with asyncio.timeout(self.patience):
                await self.client.ready()
        except TimeoutError:
            raise TimeoutError(
                f"waited {self.patience:g} s for {self._target} to schedule for RM "
                f"{self.client.rm_id}; it has opened {self.client.stats.streams} streams"
            ) from None

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connection."""
        await self.close()

    @property
    def is_settled(self) -> bool:
        """True if server and RM have no more work for each other until the clock is moved.

        Also True if no work is possible, because the RM has failed, or cannot reach a server of this process.
        """
        served = served_at(self._target)
        if served is None or self._failure is not None or self._listener is None or self._listener.done():
            return True
        progress = served.progress(self.client.rm_id)
        return (
            progress is not None
            and self.containers.is_idle
            and self.client.is_settled(progress, reads=self.reading.is_set(), held=self.judge.held)
        )

    def __str__(self) -> str:
        """``RM rm1``."""
        return f"RM {self.client.rm_id}"

    async def close(self, *, unregister: bool = False) -> None:
        """Close the connection; the server keeps the books unless `unregister` is set."""
        if isinstance(self._clock, VirtualClock):
            self._clock.leave(self)
        if self._runner is not None:
            self._runner.cancel()
            await asyncio.gather(self._runner, return_exceptions=True)
        await self.client.close(unregister=unregister)
        self.reading.set()
        if self._listener is not None:
            await self._listener

    async def add_nodes(
        self,
        count: int = 1,
        *,
        prefix: str = "node",
        attributes: Mapping[str, str] | None = None,
        partition: str = "default",
        **capacity: int,
    ) -> list[str]:
        """Add nodes ``node-1``, ``node-2`` and so on; returns their ids.

        Capacities are keywords: ``vcore`` in milli-cores, ``memory`` in bytes. By default a node has 10 cores
        and 10 GiB.
        """
        nodes = [
            Node(
                node_id=node_id,
                capacity=capacity or {"vcore": 10_000, "memory": 10 * GIB},
                attributes=attributes or {},
                partition=partition,
            )
            for node_id in self._names(prefix, count)
        ]
        await self.client.add_nodes(nodes)
        for node in nodes:
            await self._answered("node", node.node_id)
        return [node.node_id for node in nodes]

    async def submit(
        self,
        application_id: str,
        *,
        queue: str = "root.default",
        user: str = "test",
        groups: tuple[str, ...] = (),
        tags: Mapping[str, str] | None = None,
        partition: str = "default",
        task_groups: Sequence[TaskGroup] = (),
        gang_style: str = "",
        placeholder_timeout: float = 0,
        **fields: int | str,
    ) -> None:
        """Submit an application; with `task_groups` it is a gang, and with `gang_min` it grows.

        Placeholders have the keys of `licorne.placeholder_key`. `fields` are those of `licorne.Application`:
        `runtime`, `start_by`, `topology`, `gang_slice`, `gang_min`, `gang_max`, `gang_step`.
        """
        application = Application(
            application_id=application_id,
            queue=queue,
            user=user,
            groups=groups,
            # All shims send this tag; the default configuration places by namespace.
            tags={"namespace": "default", **(tags or {})},
            partition=partition,
            task_groups=tuple(task_groups),
            gang_style=gang_style,
            placeholder_timeout=placeholder_timeout,
            **cast(Any, fields),
        )
        self._received.forget_answer("application", application_id)
        await self.client.submit_applications([application])
        await self._answered("application", application_id)

    async def ask(
        self,
        application_id: str,
        count: int = 1,
        *,
        prefix: str = "",
        priority: int = 0,
        tags: Mapping[str, str] | None = None,
        partition: str = "default",
        task_group: str = "",
        originator: bool = False,
        allow_preempt_self: bool = False,
        allow_preempt_other: bool = False,
        required_node: str = "",
        predicate_class: str = "",
        traceparent: str = "",
        runtime: int = 0,
        start_by: int = 0,
        **resources: int,
    ) -> list[str]:
        """Submit asks of an application; returns their keys, ``<application>-1`` and so on.

        Resources are keywords as for nodes, one core and 1 GiB by default. Does not wait: the
        scheduler decides whether and when an ask is placed.
        """
        keys = self._names(prefix or application_id, count)
        size = resources or {"vcore": 1000, "memory": GIB}
        await self.client.ask(
            Ask(
                key=key,
                application_id=application_id,
                resources=size,
                priority=priority,
                tags=tags or {},
                partition=partition,
                task_group=task_group,
                originator=originator,
                allow_preempt_self=allow_preempt_self,
                allow_preempt_other=allow_preempt_other,
                required_node=required_node,
                predicate_class=predicate_class,
                traceparent=traceparent,
                runtime=runtime,
                start_by=start_by,
            )
            for key in keys
        )
        return keys

    async def allocated(self, count: int) -> dict[str, str]:
        """Wait until `count` allocations run; returns the node of each key.

        Raises Rejected once for each refused ask.
        """

        def enough() -> bool:
            self._received.check_asks()
            return len(self.allocations) >= count

        await self.until(enough, f"{count} allocations")
        return dict(self.allocations)

    async def release(self, keys: Iterable[str]) -> None:
        """Release allocations, or withdraw asks; waits until the allocations are freed."""
        keys = list(keys)
        await self.client.release(keys)
        await self.until(lambda: not any(key in self.allocations for key in keys), f"the release of {keys}")

    async def stopped(self, keys: Iterable[str]) -> None:
        """Wait until the scheduler requests the stop of allocations, and stop them immediately."""
        keys = list(keys)
        stopping = self.containers.stopping
        await self.until(lambda: all(key in stopping for key in keys), f"requests to stop {keys}")
        for key in keys:
            await self.containers.stop(key)

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until a condition holds; `what` names it in the error of a timeout.

        The error contains the messages received instead, the pending asks, and the server's
        explanation of the first pending asks.
        """
        try:
            async with asyncio.timeout(self.patience):
                while not condition():
                    if self._failure is not None:
                        raise self._failure
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise TimeoutError(
                f"waited {self.patience:g} s for {what}; there are {len(self.allocations)} "
                f"allocations, applications {self.states}, and the last events were "
                f"{self.events[-5:]}{await pending_asks(self.client)}"
            ) from None

    def _names(self, prefix: str, count: int) -> list[str]:
        first = self._named[prefix] + 1
        self._named[prefix] += count
        return [f"{prefix}-{number}" for number in range(first, first + count)]

    async def _answered(self, kind: str, name: str) -> None:
        received = self._received
        await self.until(lambda: received.is_answered(kind, name), f"the answer to {kind} {name}")

    async def _confirm(self, key: str, termination: Termination) -> None:
        self.allocations.pop(key, None)
        self._changed.set()
        await self.client.release([key], termination)

    def _told(self, so_far: list[T], items: Sequence[T]) -> None:
        so_far += items
        self._changed.set()

    async def _listen(self) -> None:
        try:
            async for batch in self.client.batches():
                await self.reading.wait()
                for event in batch:
                    self._received.take(event)
                    match event:
                        case Allocated():
                            self.containers.allocated(event)
                        case Released(key=key):
                            self.containers.gone(key)
                        case ReleaseRequested():
                            self.containers.wanted(event)
                self._changed.set()
        except LicorneError as error:
            self._failure = error
            self._changed.set()
