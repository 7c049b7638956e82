"""`licorne.v1.State`: reads of the core's state between the core's turns."""

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from itertools import dropwhile, islice
from time import monotonic
from typing import Any, NamedTuple, TypeVar

import grpc
from google.protobuf.message import Message

from licorne.v1 import state_pb2 as pb
from licorne_core.messages.reports import Explanation
from licorne_core.values.errors import NotFound, shown
from licorne_core.values.ids import DEFAULT_PARTITION, AppId, NodeId, PartitionName, RmId, rm_of
from licorne_core.views import Views
from licorne_server.process.fair import TimeSlices, walked
from licorne_server.reads import explaining
from licorne_server.reads.findings import examined_for
from licorne_server.reads.paging import (
    MAX_PAGE_SIZE,
    PAGE_SIZE,
    Page,
    filled,
    place_of_reservation,
    place_token,
    queues_after,
    read_preemption_token,
    reservations_after,
)
from licorne_server.reads.reasons import reason_to_wait, summed_reasons
from licorne_server.reads.reports import (
    allocation_message,
    application_message,
    ask_message,
    budget_message,
    node_message,
    partition_message,
    preemption_message,
    queue_message,
    reservation_message,
    rm_message,
    usage_messages,
)
from licorne_server.reads.resource_hours import Wanted
from licorne_server.reads.sources import Sources
from licorne_server.rms.registry import Rms
from licorne_server.security.access import Access
from licorne_server.services.calls import unary_handler
from licorne_server.wire.errors import invalid_argument
from licorne_server.wire.features import Listed, table

T = TypeVar("T")
M = TypeVar("M", bound=Message)

STATES = ("active", "completed", "rejected")
KINDS = {pb.USAGE_OF_USERS: "user", pb.USAGE_OF_GROUPS: "group"}

SHOWN_RESERVATIONS = 16
"""Maximum number of reservations in the message of a node: very many asks may require the same node."""


class StateService:
    """The calls that read and never change anything."""

    name = "licorne.v1.State"

    def __init__(self, sources: Sources, rms: Rms, now: Callable[[], float]) -> None:
        """Serve the reports of the core, and the registered RMs.

        `now` returns the time in unix seconds.
        """
        self._rms = rms
        self._sources = sources
        self._budgets = sources.budgets
        self._views: Views = sources.views
        self._access: Access = sources.access
        self._time_slices: TimeSlices = sources.time_slices
        self._lists = {
            name: (listed.request, ListCall(listed, sources, self._partition, now))
            for name, listed in table("LISTS").items()
        }
        self._calls = {
            name: (request, make(sources, self._partition))
            for name, (request, make) in table("PAGED").items()
        }
        self._now = now

    def handler(self) -> grpc.GenericRpcHandler:
        """The methods by name, bytes in and bytes out."""
        return grpc.method_handlers_generic_handler(
            self.name,
            {
                "GetHealth": unary_handler(pb.GetHealthRequest, self._health),
                "ListRms": unary_handler(pb.ListRmsRequest, self._list_rms),
                "ListPartitions": unary_handler(pb.ListPartitionsRequest, self._partitions),
                "ListQueues": unary_handler(pb.ListQueuesRequest, self._queues),
                "ListApplications": unary_handler(pb.ListApplicationsRequest, self._applications),
                "GetApplication": unary_handler(pb.GetApplicationRequest, self._application),
                "ListNodes": unary_handler(pb.ListNodesRequest, self._nodes),
                "Explain": unary_handler(pb.ExplainRequest, self._explain),
                "ListUsage": unary_handler(pb.ListUsageRequest, self._usage),
                "ListReasons": unary_handler(pb.ListReasonsRequest, self._reasons),
                "ListResourceHours": unary_handler(pb.ListResourceHoursRequest, self._resource_hours),
                "ListPreemptions": unary_handler(pb.ListPreemptionsRequest, self._preemptions),
                "ListBudgets": unary_handler(pb.ListBudgetsRequest, self._list_budgets),
                "ListReservations": unary_handler(pb.ListReservationsRequest, self._reservations),
                **{name: unary_handler(request, answer) for name, (request, answer) in self._calls.items()},
                **{
                    name: unary_handler(request, call.answer) for name, (request, call) in self._lists.items()
                },
            },
        )

    async def _health(self, request: pb.GetHealthRequest, context: Any) -> Message:
        """The verdict on this server, or on one RM."""
        if request.rm_id:
            self._access.check_read(context, request.rm_id)
        caller = self._access.caller(context)
        return await examined_for(self._sources, caller, request)

    async def _list_rms(self, request: pb.ListRmsRequest, context: Any) -> Message:
        """A page of the RMs that the caller may see, by id; its token is the last id."""
        caller = self._access.caller(context)
        ids = sorted(rm.rm_id for rm in self._rms.all() if self._access.may_read(caller, rm.rm_id))

        def row(rm_id: RmId) -> pb.ResourceManager | None:
            rm = self._rms.find(rm_id)
            return None if rm is None else rm_message(rm, self._views.rm(rm_id), self._views.caps)

        behind = islice(ids, bisect_right(ids, request.page_token), None)
        page = await self._filled(Page(behind, row, size=request.page_size), context)
        return pb.ListRmsResponse(rms=page.rows, next_page_token=page.last or "")

    async def _list_budgets(self, request: pb.ListBudgetsRequest, context: Any) -> Message:
        """A page of the budgets, parents before children; its token is the last name."""
        may_see = self._may_see(context)
        budgets = iter(self._budgets())
        if request.page_token:
            budgets = islice(dropwhile(lambda budget: budget.name != request.page_token, budgets), 1, None)
        page = await self._filled(
            Page(budgets, lambda budget: budget_message(budget, may_see), size=request.page_size), context
        )
        return pb.ListBudgetsResponse(budgets=page.rows, next_page_token=page.last.name if page.last else "")

    def _may_see(self, context: Any) -> Callable[[str], bool]:
        return partial(self._access.may_read, self._access.caller(context))

    async def _partitions(self, request: pb.ListPartitionsRequest, context: Any) -> Message:
        """Partitions of one RM, or of all RMs that the caller may see."""
        if request.rm_id:
            self._access.check_read(context, request.rm_id)
        caller = self._access.caller(context)

        names = self._views.partition_names(RmId(request.rm_id) if request.rm_id else None)

        response = pb.ListPartitionsResponse()

        def steps() -> Iterator[None]:
            for name in names:
                with suppress(NotFound):
                    if self._access.may_read(caller, rm_of(name)):
                        response.partitions.append(partition_message(self._views.partition(name)))
                yield

        await walked(steps(), partial(self._slice, context))
        return response

    async def _queues(self, request: pb.ListQueuesRequest, context: Any) -> Message:
        """A page of the tree; its token is the path of the last queue."""
        partition = self._partition(request.partition, context)
        queues = queues_after(self._views, partition, request.page_token)
        page = await self._filled(Page(queues, queue_message, size=request.page_size), context)
        token = page.last.path if page.last else ""
        return pb.ListQueuesResponse(queues=page.rows, next_page_token=token)

    async def _applications(self, request: pb.ListApplicationsRequest, context: Any) -> Message:
        """A page of applications by id; its token is the last id."""
        state = request.state or STATES[0]
        if state not in STATES:
            raise invalid_argument(f"state {shown(state)} is none of {', '.join(STATES)}", "state")
        partition, text = self._partition(request.partition, context), request.reason.casefold()

        def row(name: AppId) -> pb.Application | None:
            report = self._views.application(partition, name)
            reason = reason_to_wait(self._views, partition, name, report) if text else ""
            moved_on = bool(report.finished_time) == (state == "active")
            if moved_on or text not in reason.casefold():
                return None
            message = application_message(report)
            if text:
                message.reason = reason
            return message

        async with self._slice(context):
            names = self._views.app_ids_in_order(partition, queue=request.queue, state=state)
        behind = names.behind(request.page_token)
        page = await self._filled(Page(behind, row, size=request.page_size), context)
        return pb.ListApplicationsResponse(applications=page.rows, next_page_token=page.last or "")

    async def _application(self, request: pb.GetApplicationRequest, context: Any) -> Message:
        """An application with the first of its asks and allocations."""
        _check_given("application_id", request.application_id)
        partition = self._partition(request.partition, context)
        limit = min(request.limit or PAGE_SIZE, MAX_PAGE_SIZE)
        name = request.application_id

        async with self._slice(context):
            message = application_message(self._views.application(partition, name))
            waiting = self._views.asks(partition, name)
            running = self._views.allocations(partition, name)
        asks = await self._filled(Page(waiting, ask_message, size=limit), context)
        message.asks.extend(asks.rows)
        page = await self._filled(Page(running, allocation_message, size=limit), context)
        message.allocations.extend(page.rows)
        return message

    async def _nodes(self, request: pb.ListNodesRequest, context: Any) -> Message:
        """A page of nodes by id; its token is the last id."""
        partition = self._partition(request.partition, context)

        def row(node_id: NodeId) -> pb.Node:
            report = self._views.node(partition, node_id)
            first = self._views.first_reservations(partition, node_id, SHOWN_RESERVATIONS)
            return node_message(report, first)

        async with self._slice(context):
            ids = self._views.node_ids_in_order(partition)
        behind = ids.behind(request.page_token)
        page = await self._filled(Page(behind, row, size=request.page_size), context)
        return pb.ListNodesResponse(nodes=page.rows, next_page_token=page.last or "")

    async def _explain(self, request: pb.ExplainRequest, context: Any) -> Message:
        _check_given("application_id", request.application_id)
        partition = self._partition(request.partition, context)

        def row(report: Explanation) -> pb.ExplainResponse:
            return explaining.answer(self._views, partition, report, self._may_see(context))

        steps = self._views.explain(partition, request.application_id, request.allocation_key)
        page = await self._filled(Page(steps, row, size=1), context)
        [message] = page.rows
        with suppress(NotFound):
            for explained in self._sources.explained:
                await walked(explained(partition, message, self._now()), partial(self._slice, context))
        return message

    async def _usage(self, request: pb.ListUsageRequest, context: Any) -> Message:
        """A user or group, or a page of them by name, whose token is the last name."""
        kind = KINDS.get(request.kind)
        if kind is None:
            known = ", ".join(map(pb.UsageKind.Name, KINDS))
            raise invalid_argument(f"kind {request.kind} is none of {known}", "kind")
        partition = self._partition(request.partition, context)

        if request.name:
            found = self._views.usage(partition, kind, request.name)
        else:
            async with self._slice(context):
                names = self._views.usage_names_in_order(partition, kind)
            found = self._views.usages(partition, kind, names.behind(request.page_token))

        def row(message: pb.Usage) -> pb.Usage:
            return message

        items = usage_messages(found)
        page = await self._filled(Page(items, row, size=request.page_size), context)
        token = page.last.name if page.last else ""
        return pb.ListUsageResponse(usages=page.rows, next_page_token=token)

    async def _reservations(self, request: pb.ListReservationsRequest, context: Any) -> Message:
        """A page of reservations by node and time; its token names the last reservation."""
        partition = self._partition(request.partition, context)
        found = reservations_after(self._views, partition, request.page_token)
        page = await self._filled(Page(found, reservation_message, size=request.page_size), context)
        token = place_token(page.last, place_of_reservation)
        return pb.ListReservationsResponse(reservations=page.rows, next_page_token=token)

    async def _preemptions(self, request: pb.ListPreemptionsRequest, context: Any) -> Message:
        """A page of victims, the latest first; its token names the last victim on the page."""
        partition = self._partition(request.partition, context)
        app_id, key = request.application_id, request.allocation_key
        before = read_preemption_token(request.page_token)
        behind = self._views.preemptions(partition, app_id, key, before=before)
        to_row = partial(preemption_message, partition)
        page = await self._filled(Page(behind, to_row, size=request.page_size), context)
        token = str(page.last.number) if page.last else ""
        return pb.ListPreemptionsResponse(preemptions=page.rows, next_page_token=token)

    async def _reasons(self, request: pb.ListReasonsRequest, context: Any) -> Message:
        """The reasons why asks wait, in one partition or in all that the caller may see."""
        if request.partition:
            names = [self._partition(request.partition, context)]
        else:
            may_see = self._may_see(context)
            names = [name for name in self._views.partition_names() if may_see(rm_of(name))]
        slices = partial(self._slice, context)
        return await summed_reasons(self._sources.reasons, names, request.queue, self._now(), slices)

    async def _resource_hours(self, request: pb.ListResourceHoursRequest, context: Any) -> Message:
        """A page of totals over hours; its token names the last total."""
        since, until = request.since / 1e9, request.until / 1e9
        wanted = Wanted.of(request.by, since, until, request.partition, self._now())
        return await wanted.page(
            await self._sources.hours(),
            self._may_see(context),
            partial(self._slice, context),
            token=request.page_token,
            size=request.page_size,
        )

    def _slice(self, context: Any) -> AbstractAsyncContextManager[Callable[[], bool]]:
        """A time slice of the caller, for a read in one piece."""
        return self._time_slices.slice(self._access.caller(context).peer)

    async def _filled(self, page: Page[T, M], context: Any) -> Page[T, M]:
        """The same page, filled in time slices of the caller."""
        return await filled(page, partial(self._slice, context))

    def _partition(self, name: str, context: Any) -> PartitionName:
        """The partition of a request.

        A bare name means the partition of the first RM that has one of this name; for a caller that may not
        see all RMs, it means the partition of the caller's own RM.

        Raises:
            NotFound: there is no such partition.
            CallError: the caller may not see such a partition, whether it exists or not.
        """
        name = name or DEFAULT_PARTITION
        caller = self._access.caller(context)
        if caller.sees_all:
            return self._views.resolve(name)
        if name.startswith("["):
            self._access.check_read(context, rm_of(PartitionName(name)))
            return self._views.resolve(name)
        for rm_id in self._access.own_rms(caller):
            try:
                return self._views.resolve(f"[{rm_id}]{name}")
            except NotFound:
                continue
        raise NotFound(f"partition {name} not found")


def _check_given(field: str, value: str) -> None:
    if not value:
        raise invalid_argument(f"{field} is empty", field)


FRESH_SECONDS = 1.0
"""Seconds for which the answer of a `ListCall` is reused."""


class _Answer(NamedTuple):
    """An answer, and the times of the server's and the process' clock at which its computation began."""

    times: tuple[float, float]
    making: asyncio.Task[Message]

    def is_wanted(self, times: tuple[float, float]) -> bool:
        """True if the answer is being computed, or is a computed one that did not fail and is still fresh."""
        if not self.making.done():
            return True
        is_fresh = all(now - time < FRESH_SECONDS for now, time in zip(times, self.times, strict=True))
        return is_fresh and not self.making.cancelled() and not self.making.exception()


class ListCall:
    """A call that lists reports of an extension, with its last answer.

    The answer is long and computed without a pause, so only one at a time is computed, for all callers.
    """

    def __init__(
        self,
        listed: Listed,
        sources: Sources,
        resolve: Callable[[str, Any], PartitionName],
        now: Callable[[], float],
    ) -> None:
        """`resolve` returns the partition with a name, if the caller may see it; `now` is in unix seconds."""
        self._listed, self._sources, self._resolve = listed, sources, resolve
        # The clock of a test may stand still, or be moved by an hour at once.
        self._times: Callable[[], tuple[float, float]] = lambda: (now(), monotonic())
        self._answers: dict[PartitionName, _Answer] = {}

    async def answer(self, request: Any, context: Any) -> Message:
        """The list of a partition; it may be up to `FRESH_SECONDS` old, by the clock that is ahead."""
        partition = self._resolve(request.partition, context)
        times = self._times()
        self._answers = {name: made for name, made in self._answers.items() if made.is_wanted(times)}
        made = self._answers.get(partition)
        if made is None:
            peer = self._sources.access.caller(context).peer
            made = self._answers[partition] = _Answer(times, asyncio.create_task(self._make(partition, peer)))
        # This caller may be cancelled while other callers wait for the same answer.
        return await asyncio.shield(made.making)

    async def _make(self, partition: PartitionName, peer: str) -> Message:
        found = self._sources.views.listed(self._listed.name, partition)
        slices = partial(self._sources.time_slices.slice, peer)
        page = await filled(Page(found, self._listed.row, size=MAX_PAGE_SIZE), slices)
        return self._listed.response(page.rows)
