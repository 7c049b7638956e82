"""Calls that read the scheduler's state: `licorne.v1.State` for programs."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from grpc import aio

from licorne.addresses import Target
from licorne.calls import TIMEOUT, Calls, Standalone, check_arguments
from licorne.channel import Dialer
from licorne.errors import NotFound
from licorne.event_calls import EventCalls
from licorne.events import AppKey
from licorne.model import DEFAULT_PARTITION
from licorne.options import RetryConfig, TlsConfig, Token
from licorne.v1 import state_pb2 as pb
from licorne.v1.state_pb2_grpc import StateStub
from licorne.values import shown

if TYPE_CHECKING:
    from licorne.v1.state_pb2_grpc import StateAsyncStub


def _stub(channel: aio.Channel) -> "StateAsyncStub":
    return StateStub(channel)


async def _usage(calls: Calls, partition: str, kind: pb.UsageKind.ValueType, name: str) -> list[pb.Usage]:
    check_arguments(name=name)
    return await calls.gathered(
        lambda channel: _stub(channel).ListUsage,
        pb.ListUsageRequest(partition=partition, kind=kind, name=name),
        lambda page: page.usages,
    )


def _owner(find: Callable[[str], AppKey | None] | None, key: str) -> AppKey:
    """Partition and application of an ask in the client's cache. Raises ValueError without a cache or key."""
    if find is None or not key:
        raise ValueError("application_id is empty: say which application is meant")
    found = find(key)
    if found is None:
        raise NotFound(f"ask {shown(key)} is not known to this client: name its application_id")
    return found


class StateCalls(EventCalls):
    """Calls that read the scheduler's state: the class of `Client.state` and the base class of `State`.

    Answers are the messages of ``licorne/v1/state.proto``, where every field is described: amounts are bytes,
    milli-cores or counts, times are nanoseconds since 1970. Lists are complete: the client requests all
    pages. The items of a list may be read at different times.

    A partition of the named RM is named by its bare name, any other partition as in ``[rm1]default``. If no
    RM is named, a bare name means the partition of the RM that registered first.

    Every method raises `NotFound` for a missing subject, `Unauthorized`, `ConnectionLost` if no answer
    arrives in time, `CallFailed` for any other refusal of the server, and `Closed`; TypeError for an argument
    of the wrong type, and ValueError for a number out of range.
    """

    def __init__(
        self,
        calls: Calls,
        rm_id: str = "",
        find: Callable[[str], AppKey | None] | None = None,
        retry: RetryConfig | None = None,
    ) -> None:
        """`find` returns partition and application id for the key of an ask; None if the ask is unknown."""
        super().__init__(calls, rm_id, retry)
        self._find = find

    async def server(self) -> pb.GetServerResponse:
        """Version, form (compiled or interpreted) and start time of the server."""
        return await self._calls.call(lambda channel: _stub(channel).GetServer, pb.GetServerRequest())

    async def health(self, *, audit: bool = False) -> pb.GetHealthResponse:
        """The health findings about the named RM, or of all members; the worst first.

        With `audit` the server first recounts all books.
        """
        check_arguments(audit=audit)
        request = pb.GetHealthRequest(rm_id=self.rm_id, audit=audit)
        return await self._calls.call(lambda channel: _stub(channel).GetHealth, request)

    async def rms(self) -> list[pb.ResourceManager]:
        """The registered RMs, each with its counts and limits."""
        return await self._calls.gathered(
            lambda channel: _stub(channel).ListRms, pb.ListRmsRequest(), lambda page: page.rms
        )

    async def partitions(self) -> list[pb.Partition]:
        """The partitions of the named RM, or of all RMs."""
        request = pb.ListPartitionsRequest(rm_id=self.rm_id)
        answer = await self._calls.call(lambda channel: _stub(channel).ListPartitions, request)
        return list(answer.partitions)

    async def queues(self, *, partition: str = DEFAULT_PARTITION) -> list[pb.Queue]:
        """All queues of a partition, parents before children; the first is root."""
        return await self._calls.gathered(
            lambda channel: _stub(channel).ListQueues,
            pb.ListQueuesRequest(partition=self._partition(partition)),
            lambda page: page.queues,
        )

    async def applications(
        self, *, queue: str = "", state: str = "active", reason: str = "", partition: str = DEFAULT_PARTITION
    ) -> list[pb.Application]:
        """The applications of one queue or of all queues, without their asks and allocations.

        `state` is ``active``, ``completed`` or ``rejected``. `reason` selects by a part of the reason why an
        application waits or was rejected.
        """
        check_arguments(queue=queue, state=state, reason=reason)
        request = pb.ListApplicationsRequest(
            partition=self._partition(partition), queue=queue, state=state, reason=reason
        )
        return await self._calls.gathered(
            lambda channel: _stub(channel).ListApplications, request, lambda page: page.applications
        )

    async def application(
        self, application_id: str, *, limit: int = 0, partition: str = DEFAULT_PARTITION
    ) -> pb.Application:
        """An application with its first asks and oldest allocations.

        There are at most `limit` of each: 0 means 1,000, and the maximum is 10,000.
        """
        check_arguments(application_id=application_id, limit=limit)
        request = pb.GetApplicationRequest(
            partition=self._partition(partition), application_id=application_id, limit=limit
        )
        return await self._calls.call(lambda channel: _stub(channel).GetApplication, request)

    async def nodes(self, *, partition: str = DEFAULT_PARTITION) -> list[pb.Node]:
        """All nodes of a partition, sorted by id."""
        return await self._calls.gathered(
            lambda channel: _stub(channel).ListNodes,
            pb.ListNodesRequest(partition=self._partition(partition)),
            lambda page: page.nodes,
        )

    async def topology(
        self,
        *,
        level: str = "",
        shape: Mapping[str, int] | None = None,
        partition: str = DEFAULT_PARTITION,
    ) -> pb.ListTopologyResponse:
        """Free resources by topology domain, of one or all levels, with the number of slots for `shape`.

        The default of `shape` is a member of the first pending topology gang, else the largest pending ask
        that fits on a node, else the largest pending ask. Without levels there are no domains.
        """
        check_arguments(level=level, shape={} if shape is None else shape)
        request = pb.ListTopologyRequest(partition=self._partition(partition), level=level, shape=shape)
        first = pb.ListTopologyResponse()

        def domains(page: pb.ListTopologyResponse) -> Iterable[pb.TopologyDomain]:
            if not request.page_token:
                first.levels.extend(page.levels)
                first.shape.update(page.shape)
                # The gang may be placed before the next page is read, so its shape is requested.
                request.shape.update(page.shape)
            return page.domains

        found = await self._calls.gathered(lambda channel: _stub(channel).ListTopology, request, domains)
        first.domains.extend(found)
        return first

    async def explain(
        self, key: str = "", *, application_id: str = "", partition: str = DEFAULT_PARTITION
    ) -> pb.ExplainResponse:
        """Explain an ask: the checks while it waits, the node once it is placed, or why it ended.

        Without `application_id` the ask must be in the client's cache. Without `key` the first ask of the
        application is explained.

        Raises ValueError if the application cannot be determined.
        """
        check_arguments(key=key, application_id=application_id)
        if not application_id:
            partition, application_id = _owner(self._find, key)
        request = pb.ExplainRequest(
            partition=self._partition(partition),
            application_id=application_id,
            allocation_key=key,
        )
        return await self._calls.call(lambda channel: _stub(channel).Explain, request)

    async def users(self, name: str = "", *, partition: str = DEFAULT_PARTITION) -> list[pb.Usage]:
        """Usage and limits of one user or of all users, queue by queue."""
        return await _usage(self._calls, self._partition(partition), pb.USAGE_OF_USERS, name)

    async def groups(self, name: str = "", *, partition: str = DEFAULT_PARTITION) -> list[pb.Usage]:
        """Usage and limits of one group or of all groups, queue by queue."""
        return await _usage(self._calls, self._partition(partition), pb.USAGE_OF_GROUPS, name)

    async def reservations(self, *, partition: str = DEFAULT_PARTITION) -> list[pb.Reservation]:
        """Reserved nodes and their asks."""
        return await self._calls.gathered(
            lambda channel: _stub(channel).ListReservations,
            pb.ListReservationsRequest(partition=self._partition(partition)),
            lambda page: page.reservations,
        )

    async def preemptions(
        self, *, application_id: str = "", key: str = "", partition: str = DEFAULT_PARTITION
    ) -> list[pb.Preemption]:
        """Preempted allocations, with their preemptors and reasons; the latest first."""
        check_arguments(application_id=application_id, key=key)
        return await self._calls.gathered(
            lambda channel: _stub(channel).ListPreemptions,
            pb.ListPreemptionsRequest(
                partition=self._partition(partition),
                application_id=application_id,
                allocation_key=key,
            ),
            lambda page: page.preemptions,
        )

    async def calendar(
        self, *, queue: str = "", partition: str = DEFAULT_PARTITION
    ) -> list[pb.CalendarEntry]:
        """Waiting asks and gangs with a shadow start, the earliest first; those with an unknown start last.

        The result is for a partition, or for one queue and its descendants. Without backfill it is empty.
        """
        check_arguments(queue=queue)
        return await self._calls.gathered(
            lambda channel: _stub(channel).ListCalendar,
            pb.ListCalendarRequest(partition=self._partition(partition), queue=queue),
            lambda page: page.entries,
        )

    async def outstanding(self, *, partition: str = DEFAULT_PARTITION) -> list[pb.OutstandingShape]:
        """Asks that quotas admit but that fit on no node, counted by size; the largest count first."""
        request = pb.ListOutstandingRequest(partition=self._partition(partition))
        answer = await self._calls.call(lambda channel: _stub(channel).ListOutstanding, request)
        return list(answer.shapes)

    async def reasons(self, *, queue: str = "", partition: str = "") -> pb.ListReasonsResponse:
        """The number of waiting asks by the first check that blocks them, the most frequent first.

        The result is for a partition, for all partitions that the caller may see, or for one queue and its
        descendants.
        """
        check_arguments(queue=queue, partition=partition)
        named = self._partition(partition) if partition else ""
        request = pb.ListReasonsRequest(partition=named, queue=queue)
        return await self._calls.call(lambda channel: _stub(channel).ListReasons, request)

    async def resource_hours(
        self, *, by: str = "queue", since: int = 0, until: int = 0, partition: str = ""
    ) -> list[pb.ResourceHours]:
        """Resource hours (amount times hours) by queue, user or group, of one or all visible partitions.

        The result covers the hours from that of `since` up to `until`, both in nanoseconds since 1970. The
        defaults are the first retained hour, and now.
        """
        check_arguments(by=by, since=since, until=until, partition=partition)
        named = self._partition(partition) if partition else ""
        request = pb.ListResourceHoursRequest(partition=named, by=by, since=since, until=until)
        return await self._calls.gathered(
            lambda channel: _stub(channel).ListResourceHours, request, lambda page: page.rows
        )

    async def budgets(self) -> list[pb.Budget]:
        """Budgets over RMs, parents before children, with the part of each RM that the caller may see."""
        return await self._calls.gathered(
            lambda channel: _stub(channel).ListBudgets, pb.ListBudgetsRequest(), lambda page: page.budgets
        )


class State(Standalone, StateCalls):
    """The scheduler's state, for a program that is no resource manager.

    ::

        async with State("localhost:7070") as state:
            for queue in await state.queues():
                print(queue.path, dict(queue.allocated))
    """

    def __init__(
        self,
        target: Target,
        *,
        rm_id: str = "",
        tls: TlsConfig | None = None,
        token: Token | None = None,
        timeout: float = TIMEOUT,
        retry: RetryConfig | None = None,
    ) -> None:
        """Connect with the first call.

        `target` is ``host:port``, or several addresses of a deployment, separated by commas or as a list: the
        first one with a server is used. `rm_id` names the RM of the calls; without it they are about all RMs,
        or about the RM that registered first. `timeout` is in seconds, for each call. `retry` is the back-off
        of `watch_events`.

        Raises ValueError for a token that would be sent without TLS, and for an invalid timeout.
        """
        super().__init__(Calls(Dialer(target, tls, token), timeout), rm_id, retry=retry)
