"""A resource manager for tests: it says what it is told to, and waits for the answers."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

from licorne import (
    Allocated,
    Application,
    ApplicationAccepted,
    ApplicationRejected,
    ApplicationStateChanged,
    Ask,
    AskRejected,
    Client,
    Confirm,
    ContainerState,
    Event,
    FailMode,
    LicorneError,
    Node,
    NodeAccepted,
    NodeRejected,
    PredicateCheck,
    PreemptionCheck,
    Rejected,
    Released,
    ReleaseRequested,
    RetryConfig,
    TaskGroup,
    Termination,
)
from licorne_server.clock import Clock
from licorne_server.testing.containers import Containers, StartAfter, StopAfter

GIB = 1024**3
PATIENCE = 10.0
"""Seconds after which an answer that did not come fails the test."""

PREDICATE_CLASS = "licorne/predicate-class"
Predicate = Callable[[str, str], str | None]
"""From the class of an ask, as tagged, and a node to the reason why not, or None."""
Victims = Callable[[PreemptionCheck], Mapping[str, int]]
"""From a check to the nodes that will do, each with the position of its last victim."""


class FakeRM:
    """A cluster with nodes, applications and asks, of one size unless told otherwise.

    A method that tells the server something waits for the answer. It raises `Rejected` with the
    server's reason, or `TimeoutError` with what came instead. For everything else there is
    `client`, a plain `licorne.Client`.
    """

    def __init__(
        self,
        target: str,
        *,
        rm_id: str = "rm1",
        config: str = "",
        retry: RetryConfig | None = None,
        patience: float = PATIENCE,
        predicates: Predicate | None = None,
        predicate_deadline: float = 2.0,
        fail_mode: FailMode = FailMode.CLOSED,
        judge_victims: Victims | None = None,
        start_after: StartAfter = 0.0,
        stop_after: StopAfter = 0.0,
        clock: Clock | None = None,
        resubmit: bool = False,
    ) -> None:
        """Connects nothing yet; `config` is the YAML text of the queues.

        With `predicates` the server asks which nodes will do, and this function says it for each.
        With `judge_victims` it asks which victims of preemption have to go as well.

        What was allocated runs `start_after` seconds later. What the scheduler wants to end stops
        `stop_after` seconds later, and is confirmed then. Either may be a function of the event,
        and None means never. The seconds are those of `clock`: give it that of the server.
        With `resubmit` members of a gang that the server drops are asked for again.
        """
        self.client = Client(
            target,
            rm_id=rm_id,
            config=config,
            retry=retry,
            predicates=self._judge if predicates else None,
            predicate_deadline=predicate_deadline,
            fail_mode=fail_mode,
            judge_victims=self._judge_victims if judge_victims else None,
            confirm=Confirm.NOTHING,
            resubmit=resubmit,
            on_container_states=self._told,
        )
        self.containers = Containers(start_after, stop_after, self._confirm, self._notify, clock)
        """What runs in the allocations: see its `running` and `stopping`."""
        self.preemption_checks: list[PreemptionCheck] = []
        """The preemption checks so far."""
        self._victims = judge_victims
        self.events: list[Event] = []
        self.checks: list[PredicateCheck] = []
        """The predicate checks so far."""
        self.answering = asyncio.Event()
        """Set; while it is cleared the checks wait for their answers."""
        self.answering.set()
        self.container_states: list[ContainerState] = []
        """Asks that would need a larger cluster, as told."""
        self._predicate = predicates
        self.allocations: dict[str, str] = {}
        """What is allocated: the node of every key."""
        self.states: dict[str, str] = {}
        """The last state that was reported of every application."""
        self._patience = patience
        self._named: Counter[str] = Counter()
        # The refusal of a node or an application, empty when it was taken.
        self._answers: dict[tuple[str, str], str] = {}
        self._failure: LicorneError | None = None
        self._changed = asyncio.Event()
        self._listener: asyncio.Task[None] | None = None
        self._runner: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Connect, and wait until the server schedules for this resource manager."""
        await self.client.__aenter__()
        self._listener = asyncio.create_task(self._listen())
        self._runner = asyncio.create_task(self.containers.run())
        try:
            await asyncio.wait_for(self.client.ready(), self._patience)
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        await self.close()

    async def close(self, *, unregister: bool = False) -> None:
        """Say goodbye; the server keeps the books, unless it shall forget this RM."""
        if self._runner is not None:
            self._runner.cancel()
            await asyncio.gather(self._runner, return_exceptions=True)
        await self.client.close(unregister=unregister)
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
        """Nodes ``node-1``, ``node-2`` and so on; returns their ids.

        Capacities are keywords: ``vcore`` in milli-cores, ``memory`` in bytes. Without any a node
        has 10 cores and 10 GiB.
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
    ) -> None:
        """An application, with `task_groups` a gang.

        The placeholders get the keys that `licorne.placeholder_key` says.
        """
        application = Application(
            application_id=application_id,
            queue=queue,
            user=user,
            groups=groups,
            # Like any shim does; the default configuration places by it.
            tags={"namespace": "default", **(tags or {})},
            partition=partition,
            task_groups=tuple(task_groups),
            gang_style=gang_style,
            placeholder_timeout=placeholder_timeout,
        )
        self._answers.pop(("application", application_id), None)
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
        **resources: int,
    ) -> list[str]:
        """Asks of an application; returns their keys, ``<application>-1`` and so on.

        Resources are keywords as for nodes, one core and 1 GiB without any. Does not wait for
        anything: whether and when an ask is placed is up to the scheduler.
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
            )
            for key in keys
        )
        return keys

    async def allocated(self, count: int) -> dict[str, str]:
        """Wait until that many allocations run; returns the node of every key.

        Raises Rejected when one of the asks is refused meanwhile.
        """

        def enough() -> bool:
            refused = [event for event in self.events if isinstance(event, AskRejected)]
            if refused:
                raise Rejected(refused[0].key, refused[0].reason)
            return len(self.allocations) >= count

        await self.until(enough, f"{count} allocations")
        return dict(self.allocations)

    async def release(self, keys: Iterable[str]) -> None:
        """End allocations, or withdraw asks; waits until those that ran are freed."""
        keys = list(keys)
        await self.client.release(keys)
        await self.until(
            lambda: not any(key in self.allocations for key in keys), f"the release of {keys}"
        )

    async def stopped(self, keys: Iterable[str]) -> None:
        """Wait until the scheduler wants these to end, and stop them at once."""
        keys = list(keys)
        stopping = self.containers.stopping
        await self.until(lambda: all(key in stopping for key in keys), f"requests to stop {keys}")
        for key in keys:
            await self.containers.stop(key)

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until something is so; `what` names it for the error when it does not come."""
        try:
            async with asyncio.timeout(self._patience):
                while not condition():
                    if self._failure is not None:
                        raise self._failure
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise TimeoutError(
                f"waited {self._patience:g} s for {what}; there are {len(self.allocations)} "
                f"allocations, applications {self.states}, and the last events were "
                f"{self.events[-5:]}"
            ) from None

    def _names(self, prefix: str, count: int) -> list[str]:
        first = self._named[prefix] + 1
        self._named[prefix] += count
        return [f"{prefix}-{number}" for number in range(first, first + count)]

    async def _answered(self, kind: str, name: str) -> None:
        answers = self._answers
        await self.until(lambda: (kind, name) in answers, f"the answer to {kind} {name}")
        if answers[kind, name]:
            raise Rejected(name, answers[kind, name])

    async def _judge(self, check: PredicateCheck) -> dict[str, str]:
        self.checks.append(check)
        self._changed.set()
        await self.answering.wait()
        tags = check.ask.tags.items() if check.ask else ()
        tag = next((value for name, value in tags if name.lower() == PREDICATE_CLASS), "")
        predicate = self._predicate
        assert predicate is not None, "nobody is asked without it"
        return {node: reason for node in check.nodes if (reason := predicate(tag, node))}

    async def _judge_victims(self, check: PreemptionCheck) -> Mapping[str, int]:
        self.preemption_checks.append(check)
        self._changed.set()
        await self.answering.wait()
        assert self._victims is not None, "nobody is asked without it"
        return self._victims(check)

    async def _confirm(self, key: str, termination: Termination) -> None:
        self.allocations.pop(key, None)
        self._changed.set()
        await self.client.release([key], termination)

    def _notify(self) -> None:
        self._changed.set()

    def _told(self, states: Sequence[ContainerState]) -> None:
        self.container_states += states
        self._changed.set()

    async def _listen(self) -> None:
        try:
            async for batch in self.client.batches():
                for event in batch:
                    self._hear(event)
                self.events += batch
                self._changed.set()
        except LicorneError as error:
            self._failure = error
            self._changed.set()

    def _hear(self, event: Event) -> None:
        match event:
            case NodeAccepted(node_id=node_id):
                self._answers["node", node_id] = ""
            case NodeRejected(node_id=node_id, reason=reason):
                self._answers["node", node_id] = reason
            case ApplicationAccepted(application_id=application_id):
                self._answers["application", application_id] = ""
            case ApplicationRejected(application_id=application_id, reason=reason):
                self._answers["application", application_id] = reason
            case ApplicationStateChanged(application_id=application_id, state=state):
                self.states[application_id] = state
            case Allocated(key=key, node_id=node_id):
                self.allocations[key] = node_id
                self.containers.allocated(event)
            case Released(key=key):
                self.allocations.pop(key, None)
                self.containers.gone(key)
            case ReleaseRequested():
                self.containers.wanted(event)
            case _:
                pass
