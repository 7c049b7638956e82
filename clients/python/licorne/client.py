"""The client: what a resource manager (RM) uses to have its cluster scheduled."""

import time
from collections.abc import AsyncIterator, Iterable, Mapping
from types import TracebackType
from typing import Self

import grpc
from grpc import aio

from licorne.cache import Cache
from licorne.callbacks import Callbacks, FailMode, OnContainerStates, OnEvents, Predicates
from licorne.channel import registration_error, text_of
from licorne.connection import Connection
from licorne.errors import ConnectionLost
from licorne.events import Event
from licorne.fields import check_registration
from licorne.model import (
    DEFAULT_PARTITION,
    Allocation,
    Application,
    Ask,
    Node,
    Termination,
)
from licorne.options import Limits, RetryConfig, TlsConfig
from licorne.packer import Packer
from licorne.session import Session
from licorne.si.v1 import si_pb2 as si
from licorne.state import ClientState
from licorne.stats import Stats
from licorne.v1.admin_pb2 import UpdateConfigurationRequest
from licorne.v1.admin_pb2_grpc import AdminStub


class Client:
    """One resource manager's connection to the scheduler.

    Everything told to it is kept, and told again by itself when a stream was lost or the server
    restarted. Every method is idempotent by key: nodes by id, applications by partition and id,
    asks by key. A method returns when what it says is on its way, or is noted for the time when
    there is a connection; it waits only while too much waits before it. Each of them raises what
    has ended the client (`SessionFenced`, `Unauthorized`, `ConfigInvalid`, `RegistrationInvalid`,
    `ProtocolError`, `ConnectionLost` or `Closed`), and, without having done anything, `Rejected`
    for an item that cannot be sent at all and TypeError for an argument of the wrong type.

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
        target: str,
        *,
        rm_id: str,
        config: str = "",
        extra_config: Mapping[str, str] | None = None,
        policy_group: str = "",
        version: str = "",
        build_info: Mapping[str, str] | None = None,
        tls: TlsConfig | None = None,
        retry: RetryConfig | None = None,
        limits: Limits | None = None,
        instance: int | None = None,
        predicates: Predicates | None = None,
        predicate_deadline: float = 2.0,
        fail_mode: FailMode = FailMode.CLOSED,
        on_container_states: OnContainerStates | None = None,
        on_events: OnEvents | None = None,
    ) -> None:
        """Connects nothing yet.

        `target` is ``host:port``. `config` is the YAML text of the queues; empty means the
        server's default. `instance` must rise with every start of the RM's process and
        fences lower ones; by default it is the time in nanoseconds.

        With `predicates` this RM decides which nodes its asks may go to: the function gets a
        `Question` and returns the nodes that it refuses, each with the reason. An async one runs
        as a task, a plain one in a thread of its own. What it has not answered within
        `predicate_deadline` seconds (0.01 to 60), or failed on, counts by `fail_mode`.
        `on_container_states` and `on_events` are called with lists, in order, in the loop; a
        slow one finds more waiting.

        Raises ValueError for an argument that cannot be sent.
        """
        limits = limits or Limits()
        instance = time.time_ns() if instance is None else instance
        check_registration(
            rm_id=rm_id,
            config=config,
            extra_config=extra_config or {},
            policy_group=policy_group,
            version=version,
            build_info=build_info or {},
            instance=instance,
        )
        callbacks = Callbacks(
            predicates=predicates,
            deadline=predicate_deadline,
            fail_mode=fail_mode,
            container_states=on_container_states,
            events=on_events,
        )
        registration = si.RegisterResourceManagerRequest(
            rmID=rm_id,
            version=version,
            policyGroup=policy_group,
            buildInfo=build_info,
            config=config,
            extraConfig=extra_config,
        )
        session = Session(
            rm_id,
            instance,
            registration,
            resend=limits.resend,
            callbacks=callbacks.wire(),
        )
        self.rm_id = rm_id
        self._state = ClientState(session, limits, callbacks)
        self._connection = Connection(self._state, target, tls, retry or RetryConfig())

    async def __aenter__(self) -> Self:
        """Begin to connect, without waiting for it."""
        self._connection.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close in good order."""
        await self.close()

    async def close(self, *, unregister: bool = False) -> None:
        """Send what waits, say goodbye and end; takes a few seconds at the most.

        Without a connection nothing is sent: whoever wants to be sure awaits `ready` before. The
        server keeps the books of this RM for its next instance, unless `unregister` tells
        it to forget the RM with all it has.
        """
        await self._connection.close(unregister=unregister)

    async def ready(self) -> None:
        """Wait until there is a session, its replay is complete and this RM is scheduled."""
        await self._state.live.wait()
        self._state.check()

    @property
    def cache(self) -> Cache:
        """All that was told and heard; to look at, not to change."""
        return self._state.cache

    @property
    def stats(self) -> Stats:
        """Counters of streams, resumptions and replays."""
        return self._state.stats

    # ---- Nodes ----

    async def add_nodes(self, nodes: Iterable[Node]) -> None:
        """Nodes that come; for known ones, their capacity as it is now.

        Answered by NodeAccepted or NodeRejected.
        """
        await self._state.send(Packer.nodes, self.cache.add_nodes(nodes))

    async def update_node(self, node_id: str, capacity: Mapping[str, int]) -> None:
        """A node has another capacity; what runs on it goes on."""
        await self._state.send(Packer.nodes, self.cache.update_node(node_id, capacity))

    async def drain_node(self, node_id: str) -> None:
        """Have nothing new placed on a node; what runs on it goes on."""
        await self._state.send(Packer.nodes, self.cache.set_drained(node_id, drained=True))

    async def undrain_node(self, node_id: str) -> None:
        """Open a drained node again."""
        await self._state.send(Packer.nodes, self.cache.set_drained(node_id, drained=False))

    async def remove_node(self, node_id: str) -> None:
        """A node goes. Answered by Released for what ran on it."""
        await self._state.send(Packer.nodes, self.cache.remove_node(node_id))

    # ---- Applications ----

    async def submit_applications(self, applications: Iterable[Application]) -> None:
        """Applications that come; known ones are there already.

        Answered by ApplicationAccepted or ApplicationRejected, and by ApplicationStateChanged.
        """
        await self._state.send(Packer.new_applications, self.cache.submit(applications))

    async def remove_application(
        self, application_id: str, *, partition: str = DEFAULT_PARTITION
    ) -> None:
        """An application goes with its asks. Answered by Released for what ran of it."""
        messages = self.cache.remove_application((partition, application_id))
        await self._state.send(Packer.removed_applications, messages)

    # ---- Asks and allocations ----

    async def ask(self, asks: Iterable[Ask]) -> None:
        """Asks that come, as many at once as you like; a known one is resized.

        Answered by Allocated sooner or later, or by AskRejected.
        """
        await self._state.send(Packer.allocations, self.cache.ask(asks, int(time.time())))

    async def report_allocations(self, allocations: Iterable[Allocation]) -> None:
        """What runs already, for instance when the RM itself was restarted.

        It is taken even where it exceeds a quota; AskRejected comes only for an application
        or a node that the server does not know.
        """
        await self._state.send(Packer.allocations, self.cache.report(allocations, int(time.time())))

    async def release(
        self, keys: Iterable[str], termination: Termination = Termination.STOPPED
    ) -> None:
        """Asks that are not wanted any more, or allocations that have ended.

        Answered by Released for what ran. A `ReleaseRequested` is confirmed with its own
        `termination`, which has no answer.
        """
        messages = self.cache.release(keys, termination)
        await self._state.send(Packer.releases, messages)

    # ---- Configuration ----

    async def update_configuration(
        self, config: str, extra_config: Mapping[str, str] | None = None
    ) -> bool:
        """Replace the queue configuration; False when it was in force already.

        Raises ConfigInvalid, or RegistrationInvalid for the extra configuration, and the old one
        stays in force; ConnectionLost; or ValueError for an argument that cannot be sent.
        """
        self._state.check()
        check_registration(config=config, extra_config=extra_config or {})
        registration = self._state.session.registration
        request = UpdateConfigurationRequest(
            rm_id=self.rm_id,
            policy_group=registration.policyGroup,
            config=config,
            extra_config=extra_config,
        )
        try:
            response = await AdminStub(self._connection.channel()).UpdateConfiguration(request)
        except aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.INVALID_ARGUMENT:
                raise registration_error(error) from error
            raise ConnectionLost(text_of(error)) from error
        registration.config = config
        registration.extraConfig.update(extra_config or {})
        return response.changed

    # ---- Events ----

    async def events(self) -> AsyncIterator[Event]:
        """All events, one by one, until the client is closed.

        One reader at a time. An event counts as dealt with, and is acknowledged, when the reader
        comes back for the next; a reader that stays away makes the server hold this RM.
        """
        while (event := await self._state.inbox.next_event()) is not None:
            yield event

    async def batches(self) -> AsyncIterator[list[Event]]:
        """The same events as they came, all those of one message together: cheaper in bulk."""
        while (batch := await self._state.inbox.next_batch()) is not None:
            yield batch
