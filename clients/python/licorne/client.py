"""The client: the interface of a resource manager (RM) to the scheduler of its cluster.

`Handlers` calls a function for each kind of event, as an alternative to iterating over the events.
"""

import inspect
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from licorne import wire
from licorne.addresses import Target
from licorne.admin_client import AdminCalls
from licorne.cache import Cache
from licorne.callbacks import (
    Callbacks,
    ClassBy,
    FailMode,
    JudgeVictims,
    OnContainerStates,
    OnEvents,
    OnPreemptionNotices,
    OnStateDump,
    Predicates,
)
from licorne.calls import Calls
from licorne.channel import Dialer
from licorne.client_context import ClientContext
from licorne.connection import Connection
from licorne.errors import CallFailed, LicorneError, NotFound, RegistrationInvalid
from licorne.events import Event, application_of
from licorne.fields import check_registration
from licorne.model import DEFAULT_PARTITION, Allocation, Application, Ask, Node, Termination
from licorne.options import Confirm, GangOptions, Limits, RetryConfig, TlsConfig, Token
from licorne.outgoing import MAX_JOIN_WINDOW, Packer
from licorne.preemption_calls import PreemptionCalls
from licorne.session import Session, Stats
from licorne.state_client import StateCalls
from licorne.v1.state_pb2 import ExplainResponse
from licorne.values import seconds


class Client:
    """One resource manager's connection to the scheduler.

    The client stores all items, and sends them again after a restart of the server. Every method is
    idempotent by key: nodes by id, applications by partition and id, asks by key. A method returns when its
    items are queued for the stream, or stored for the next session. It waits only while more than
    `Limits.outgoing` items are queued.

    Every method raises the error that has ended the client, if one has: `SessionFenced`, `Unauthorized`,
    `ConfigInvalid`, `RegistrationInvalid`, `ProtocolError`, `ConnectionLost` or `Closed`. It raises
    `Rejected` for an item that cannot be sent, and TypeError for an argument of the wrong type; then no
    part of the call is carried out.

    ::

        async with Client("localhost:7070", rm_id="rm1") as rm:
            await rm.add_nodes([Node(node_id="n1", capacity={"vcore": 4000})])
            await rm.submit_applications([Application(application_id="a1", user="ann")])
            await rm.ask([Ask(key="k1", application_id="a1", resources={"vcore": 100})])
            async for event in rm.events():
                ...
    """

    def __init__(
        self,
        target: Target,
        *,
        rm_id: str,
        config: str = "",
        extra_config: Mapping[str, str] | None = None,
        policy_group: str = "",
        version: str = "",
        build_info: Mapping[str, str] | None = None,
        tls: TlsConfig | None = None,
        token: Token | None = None,
        retry: RetryConfig | None = None,
        limits: Limits | None = None,
        join_window: float = MAX_JOIN_WINDOW,
        instance: int | None = None,
        predicates: Predicates | None = None,
        judge_victims: JudgeVictims | None = None,
        predicate_deadline: float = 2.0,
        fail_mode: FailMode = FailMode.CLOSED,
        class_by: ClassBy = ClassBy.ASK,
        confirm: Confirm = Confirm.PLACEHOLDERS,
        resubmit: bool = False,
        on_container_states: OnContainerStates | None = None,
        on_preemption_notices: OnPreemptionNotices | None = None,
        on_events: OnEvents | None = None,
        on_state_dump: OnStateDump | None = None,
    ) -> None:
        """Create a client; it connects when it is entered with ``async with``.

        `target` is ``host:port``, or several addresses of one deployment, separated by commas or as a list.
        They are tried in turn, and so are the addresses of other members that the server names.

        `config` is the YAML text of the queues; empty means the server's default. `instance` must rise with
        every start of the RM's process, because the server refuses a lower number; by default it is the time
        in nanoseconds.

        `token` is a bearer token that identifies an RM without a certificate: a file, or a function that
        returns the token. Without `tls` it is sent only to this machine.

        `join_window` is the time in seconds (up to 0.002) for which items wait to be sent with others in one
        message. They wait only under load, so single asks are sent immediately. With 0 no item waits.

        `predicates` selects nodes for the asks of this RM. It gets a `PredicateCheck` and returns the nodes
        that it refuses, each with the reason. An async function runs as a task, a plain function in a thread.
        `fail_mode` decides a check if the function fails, or has no answer after `predicate_deadline` seconds
        (0.01 to 60). `class_by` groups asks that share results.

        `judge_victims` selects victims of preemption. It gets a `PreemptionCheck` and returns the nodes where
        the ask can run, each with the position of the last victim that has to be stopped. It needs
        `predicates`, and runs in the same way. Without `judge_victims` only resources decide on victims.

        `confirm` selects the allocations whose end the client confirms by itself on the scheduler's request.
        With `resubmit` the client submits the dropped members of a ``Soft`` gang again.

        `on_container_states`, `on_preemption_notices` and `on_events` run in the loop, and get lists in
        order. Items that arrive while such a function runs wait for its next call.

        `on_state_dump` is called for each state dump of the server. Its result becomes a part of the dump: a
        value that JSON can represent, or a text that is JSON, up to 1 MiB. An async function runs as a task,
        and a plain one in the loop. It may take 5 seconds.

        Raises ValueError for an argument that cannot be sent, and for a token that would be sent without TLS.
        """
        limits = limits or Limits()
        instance = time.time_ns() if instance is None else instance
        check_registration(instance=instance)
        callbacks = Callbacks(
            predicates=predicates,
            judge_victims=judge_victims,
            deadline=predicate_deadline,
            fail_mode=fail_mode,
            class_by=class_by,
            container_states=on_container_states,
            preemption_notices=on_preemption_notices,
            events=on_events,
            state_dump=on_state_dump,
        )
        registration = wire.registration(
            rm_id=rm_id,
            version=version,
            policy_group=policy_group,
            build_info=build_info or {},
            config=config,
            extra_config=extra_config or {},
        )
        session = Session(rm_id, instance, registration, resend=limits.resend, callbacks=callbacks.wire())
        self.rm_id = rm_id
        self._context = ClientContext(
            session, limits, callbacks, GangOptions(confirm=confirm, resubmit=resubmit), _checked(join_window)
        )
        dialer = Dialer(target, tls, token)
        retry = retry or RetryConfig()
        self._connection = Connection(self._context, dialer, retry)
        self._calls = Calls(dialer)
        self.cache: Cache = self._context.cache
        """The client's state of the cluster, to be read and not changed."""
        self.stats: Stats = self._context.stats
        """Counts of streams, resumptions and replays."""
        known = partial(application_of, self.cache.asks)
        self.state = StateCalls(self._calls, rm_id, known, retry)
        """The server's state of this RM; see `State`."""
        self.admin = AdminCalls(self._calls, rm_id)
        """Operators' calls for this RM, of which the RM itself may make some; see `Admin`."""
        self.preemption = PreemptionCalls(self._context)
        """Answers to notices of preemption, and checkpoints."""

    async def __aenter__(self) -> Self:
        """Begin to connect in the background."""
        self._connection.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Call `close`; the RM remains registered."""
        await self.close()

    async def close(self, *, unregister: bool = False) -> None:
        """Send queued messages and a goodbye, then end. This takes at most 10 seconds.

        Nothing is sent without a connection: if necessary, await `ready` first. The server retains the state
        of this RM for its next instance. With `unregister` the server removes the RM and all its items.
        """
        await self._connection.close(unregister=unregister)
        await self._calls.close()

    async def ready(self) -> None:
        """Wait until the server has the client's whole state and schedules this RM."""
        await self._context.live.wait()
        self._context.check()

    # ---- Nodes ----

    async def add_nodes(self, nodes: Iterable[Node]) -> None:
        """Add nodes; for an existing node the capacity is updated.

        Answered by NodeAccepted or NodeRejected.
        """
        await self._context.send(Packer.nodes, self.cache.add_nodes(nodes))

    async def update_node(self, node_id: str, capacity: Mapping[str, int]) -> None:
        """Change the capacity of a node, but not its allocations. Raises Rejected for an unknown node."""
        await self._context.send(Packer.nodes, self.cache.update_node(node_id, capacity))

    async def drain_node(self, node_id: str) -> None:
        """Stop new allocations on a node; others are not affected. Raises Rejected for an unknown node."""
        await self._context.send(Packer.nodes, self.cache.set_drained(node_id, drained=True))

    async def undrain_node(self, node_id: str) -> None:
        """Allow new allocations on a drained node again. Raises Rejected for an unknown node."""
        await self._context.send(Packer.nodes, self.cache.set_drained(node_id, drained=False))

    async def remove_node(self, node_id: str) -> None:
        """Remove a node. Answered by Released for each of its allocations."""
        await self._context.send(Packer.nodes, self.cache.remove_node(node_id))

    # ---- Applications ----

    async def submit_applications(
        self, applications: Iterable[Application], *, placeholders: bool = True
    ) -> None:
        """Submit applications, and ask for the placeholders of their task groups.

        Existing applications are unchanged.

        Without `placeholders` no placeholders are submitted: after a restart of your own program, report the
        allocated placeholders, and ask for the others yourself.

        Answered by ApplicationAccepted or ApplicationRejected, and by ApplicationStateChanged. The client
        drops an application that has ended. But if its id exists in several partitions, the client retains it
        until `remove_application`, because answers do not name the partition.
        """
        messages = self.cache.submit(applications, int(time.time()) if placeholders else None)
        # Applications and placeholders are queued without a wait between them, in which a replay could begin.
        self._context.queue(Packer.new_applications, messages.applications)
        await self._context.send(Packer.allocations, messages.placeholders)

    async def remove_application(self, application_id: str, *, partition: str = DEFAULT_PARTITION) -> None:
        """Remove an application and its asks. Answered by Released for each of its allocations."""
        messages = self.cache.remove_application((partition, application_id))
        await self._context.send(Packer.removed_applications, messages)

    # ---- Asks and allocations ----

    async def ask(self, asks: Iterable[Ask]) -> None:
        """Submit any number of asks for allocations. An existing ask is resized to the given resources.

        Answered by AskRejected, or by Allocated once the ask fits.
        """
        await self._context.send(Packer.allocations, self.cache.ask(asks, int(time.time())))

    async def report_allocations(self, allocations: Iterable[Allocation]) -> None:
        """Report running allocations, for instance after a restart of the RM.

        The server accepts them even if they exceed a quota. Answered only by AskRejected, for an unknown
        application or node.
        """
        await self._context.send(Packer.allocations, self.cache.report(allocations, int(time.time())))

    async def release(self, keys: Iterable[str], termination: Termination = Termination.STOPPED) -> None:
        """Withdraw asks, and release allocations that have ended.

        Answered by Released for each allocation. To confirm a `ReleaseRequested`, pass its `termination`; a
        confirmation has no answer. Unknown keys are ignored.
        """
        messages = self.cache.release(keys, termination)
        await self._context.send(Packer.releases, messages)

    async def explain(self, key: str) -> ExplainResponse:
        """Explain an ask: its checks while it waits, or its node.

        It may be called before the client is ready, and waits at most 10 s for an answer. Raises NotFound for
        an ask that the client or the server does not know, ConnectionLost if the server cannot be reached,
        and CallFailed if it refuses. `state` has further calls that read state.
        """
        self._context.check()
        return await self.state.explain(key)

    # ---- Configuration ----

    async def update_configuration(self, config: str, extra_config: Mapping[str, str] | None = None) -> bool:
        """Replace the queue configuration; returns False if it is already in force.

        Raises ConfigInvalid if the server refuses the queues, RegistrationInvalid if it refuses the extra
        configuration, NotFound while this RM is not registered (await `ready` first), ConnectionLost if the
        server cannot be reached, CallFailed if it refuses the call or fails, and ValueError for an argument
        that cannot be sent. After a refusal the old configuration is in force; after a lost connection or a
        failed call it may be the old or the new one.
        """
        self._context.check()
        check_registration(config=config, extra_config=extra_config or {})
        registration = self._context.session.registration
        try:
            response = await self.admin.update_configuration(
                config, extra_config=extra_config, policy_group=registration.policyGroup
            )
        except (CallFailed, NotFound) as error:
            raise _of_update(error) from error
        registration.config = config
        registration.extraConfig.update(extra_config or {})
        return response.changed

    # ---- Events ----

    async def events(self) -> AsyncIterator[Event]:
        """All events, one by one, until the client is closed.

        Only one reader may iterate at a time. An event is acknowledged when the reader requests the next one.
        While too many events are unacknowledged, the server does not schedule for this RM.
        """
        while (event := await self._context.inbox.next_event()) is not None:
            yield event

    async def batches(self) -> AsyncIterator[list[Event]]:
        """All events as lists, one for each message of the server; for many events cheaper than `events`."""
        while (batch := await self._context.inbox.next_batch()) is not None:
            yield batch


def _checked(join_window: float) -> float:
    """The validated window in seconds. Raises ValueError if it is out of range."""
    if problem := seconds("join_window", join_window, 0, MAX_JOIN_WINDOW):
        raise ValueError(problem)
    return join_window


def _of_update(error: CallFailed | NotFound) -> LicorneError:
    """The error that `Client.update_configuration` raises for a refusal by the server."""
    if isinstance(error, NotFound):
        return NotFound(f"{error}; the client registers when it connects: await `ready` first")
    return RegistrationInvalid(str(error)) if error.reason == "INVALID_ARGUMENT" else error


E = TypeVar("E", bound=Event)
Handler = Callable[[E], Awaitable[None] | None]


class Handlers:
    """Functions that are called for events, plain or async, in the order in which they were added.

    ::

        handlers = Handlers()

        @handlers.on(Allocated)
        async def start(event: Allocated) -> None: ...

        await handlers.run(rm)
    """

    def __init__(self) -> None:
        """Start without handlers."""
        self._handlers: defaultdict[type, list[Handler[Any]]] = defaultdict(list)

    def on(self, kind: type[E]) -> Callable[[Handler[E]], Handler[E]]:
        """Register the decorated function for this kind of event."""

        def register(handler: Handler[E]) -> Handler[E]:
            self._handlers[kind].append(handler)
            return handler

        return register

    async def run(self, client: Client) -> None:
        """Pass every event to its handlers until the client is closed.

        An exception of a handler ends the run, and its event is not acknowledged.
        """
        async for event in client.events():
            for handler in self._handlers[type(event)]:
                result = handler(event)
                if inspect.isawaitable(result):
                    await result
