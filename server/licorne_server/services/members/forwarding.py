"""`State` and `Admin` on every member for the RMs of all members.

A request that names an RM is passed to its owner. A request without an RM is sent to all members, or means
the RM with the first id. The answers of all members are merged; a page ends where the shortest page of a
member ends, so that its token is valid at each member without any state. A call that another member has
passed on is not forwarded.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import grpc
import structlog
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from licorne.v1 import admin_pb2, state_pb2
from licorne_core.values.errors import NotFound, shown
from licorne_core.values.ids import DEFAULT_PARTITION, PartitionName, RmId, rm_of
from licorne_core.views import Views
from licorne_server.reads.paging import MAX_PAGE_BYTES, MAX_PAGE_SIZE, PAGE_SIZE
from licorne_server.reads.reasons import merged_reasons
from licorne_server.reads.reports import merged_budgets
from licorne_server.reads.resource_hours import merged_hours
from licorne_server.reads.verdict import merged_health, note_silent
from licorne_server.rms.registry import Rms
from licorne_server.security.access import Access, Caller
from licorne_server.services.admin.operations import MAX_WANTED
from licorne_server.services.calls import parsed, send_metadata, unary_handler
from licorne_server.services.members.packing import SERVICE
from licorne_server.services.members.passing import Passing
from licorne_server.store.coordination.ownership import Ownership
from licorne_server.store.coordination.pb import members_pb2 as pb
from licorne_server.store.coordination.store import Member
from licorne_server.wire.errors import CallError, Malformed, unavailable
from licorne_server.wire.items import parse

log = structlog.get_logger("core.coordination.forwarding")

ANSWER_SECONDS = 5.0
"""Seconds within which another member has to answer a request to all members."""

MOST_ASKED = 64
"""Maximum number of members that one request asks at a time."""

RESOLVE = f"/{SERVICE}/Resolve"

_SILENT = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNIMPLEMENTED})
"""Codes of members that do not answer, or do not support the request yet."""

M = TypeVar("M", bound=Message)

Serve = Callable[[bytes, Any], Awaitable[bytes]]
"""A method of this server, for its own RMs."""

Merge = Callable[[Any, Sequence[Any]], Message]
"""Merges the answers of all members to a request; the answer of this member is first."""


class Route(NamedTuple):
    """The way in which a method finds the member that answers it."""

    request: type[Message]
    answer: type[Message]
    field: str
    """The field that names an RM or its partition; empty if there is none."""
    merge: Merge | None
    """Merges the answers of all members if no RM is named. If None, the request is about the first RM or, if
    `means_first` is false, this server answers it."""
    means_first: bool
    """True if a request without a name means the first RM."""


def page_of_all(field: str, most: int, usual: int, request: Any, answers: Sequence[Any]) -> Message:
    """A page of rows by RM id, merged from one page of each member; at most `most` rows, `usual` by default.

    Rows after the end of any member's page are left for the next page.
    """
    whole: Message = answers[0]
    rows = {row.rm_id: row for answer in reversed(answers) for row in getattr(answer, field)}
    ends = [answer.next_page_token for answer in answers if answer.next_page_token]
    ids = sorted(rows)
    if ends:
        ids = ids[: bisect_right(ids, min(ends))]
    token = min(ends, default="")
    size, spent, count = min(request.page_size or usual, most), 0, 0
    while count < min(len(ids), size) and spent < MAX_PAGE_BYTES:
        spent += rows[ids[count]].ByteSize()
        count += 1
    if count < len(ids):
        token = ids[count - 1]
    whole.ClearField(field)
    getattr(whole, field).extend(rows[rm_id] for rm_id in ids[:count])
    whole.next_page_token = token  # type: ignore[attr-defined]  # every list in pages has it
    return whole


def _partitions(_: Any, answers: Sequence[state_pb2.ListPartitionsResponse]) -> Message:
    """Partitions in order of their RMs' ids; partitions of one RM in its owner's order."""
    by_rm: dict[str, dict[str, state_pb2.Partition]] = {}
    for answer in answers:
        seen = set(by_rm)
        for row in answer.partitions:
            if row.rm_id not in seen:
                by_rm.setdefault(row.rm_id, {})[row.name] = row
    return state_pb2.ListPartitionsResponse(
        partitions=[row for rm_id in sorted(by_rm) for row in by_rm[rm_id].values()]
    )


def _reloaded(_: Any, answers: Sequence[admin_pb2.ReloadConfigurationResponse]) -> Message:
    """The results for the RMs of all members, with the checksum of this member's file."""
    rms = sorted((rm for answer in answers for rm in answer.rms), key=lambda rm: rm.rm_id)
    changed = any(answer.changed for answer in answers)
    return admin_pb2.ReloadConfigurationResponse(changed=changed, checksum=answers[0].checksum, rms=rms)


def _own(_: Any, answers: Sequence[Message]) -> Message:
    """The answer of this member."""
    return answers[0]


MERGES: Mapping[str, Merge] = {
    "GetHealth": merged_health,
    "ListRms": partial(page_of_all, "rms", MAX_PAGE_SIZE, PAGE_SIZE),
    "ListPartitions": _partitions,
    "ListReasons": merged_reasons,
    "ListResourceHours": merged_hours,
    "ListBudgets": merged_budgets,
    "ReloadConfiguration": _reloaded,
    "GetLogLevels": partial(page_of_all, "wanted", MAX_WANTED, MAX_WANTED),
    "SetLogLevel": _own,
}
"""Methods that all members answer, unless an RM is named."""

OF_ALL = frozenset({"ListResourceHours"})
"""Methods that all members answer even if an RM is named: each has the hours in which it served the RM."""

_NAMING = ("rm_id", "partition", "compare_rm_id")
"""Fields of requests that name an RM. With an RM, the partition is a bare name of that RM."""


def _routes(service: ServiceDescriptor) -> Iterator[tuple[str, Route]]:
    """The routes of a service, by path, without methods that this server answers itself."""
    for method in service.methods:
        merge, fields = MERGES.get(method.name), method.input_type.fields_by_name
        field = next((name for name in _NAMING if name in fields and method.name not in OF_ALL), "")
        if field or merge is not None:
            yield (
                f"/{service.full_name}/{method.name}",
                Route(
                    GetMessageClass(method.input_type),
                    GetMessageClass(method.output_type),
                    field,
                    merge,
                    means_first=service.name == "State" and merge is None,
                ),
            )


ROUTES = dict(
    (
        *_routes(state_pb2.DESCRIPTOR.services_by_name["State"]),
        *_routes(admin_pb2.DESCRIPTOR.services_by_name["Admin"]),
    )
)
"""The methods that other members may have to answer, by path. Budgets are shared through the store."""


class Names:
    """Finds the first RM for requests that name none."""

    def __init__(self, access: Access, rms: Rms, views: Views) -> None:
        """Find the first RM among those of this server."""
        self._access = access
        self._rms = rms
        self._views = views

    def handler(self) -> grpc.GenericRpcHandler:
        """The call `Resolve`, for other members."""
        methods = {"Resolve": unary_handler(pb.ResolveRequest, self._resolve)}
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    async def _resolve(self, request: pb.ResolveRequest, context: Any) -> Message:
        return pb.ResolveResponse(rm_id=self.first(request.partition, context))

    def first(self, partition: str, context: Any) -> str:
        """The first RM id of this server with the partition, among those that the caller may see.

        An empty partition name stands for any partition. The result is empty if there is no such RM.
        """
        caller: Caller = self._access.caller(context)
        for rm_id in sorted(rm.rm_id for rm in self._rms.all()):
            if self._access.may_read(caller, rm_id) and self._has(rm_id, partition):
                return rm_id
        return ""

    def _has(self, rm_id: RmId, partition: str) -> bool:
        try:
            return not partition or bool(self._views.resolve(f"[{rm_id}]{partition}"))
        except NotFound:
            return False


class Forwarding(grpc.aio.ServerInterceptor):
    """Passes each call to the member that can answer it."""

    def __init__(self, ownership: Ownership, passing: Passing, names: Names) -> None:
        """`ownership` has the owners of RMs, and `passing` calls the other members."""
        self._ownership = ownership
        self._passing = passing
        self.names = names

    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[Any]], handler_call_details: Any
    ) -> Any:
        """The handler of a call, wrapped if other members may have to answer it."""
        handler = await continuation(handler_call_details)
        method: str = handler_call_details.method
        route = ROUTES.get(method)
        if handler is None or route is None or self._ownership.store is None:
            return handler
        if handler.unary_stream is not None:
            return handler._replace(unary_stream=partial(self._watch, method, route, handler.unary_stream))
        return handler._replace(unary_unary=partial(self._answer, method, route, handler.unary_unary))

    async def _answer(self, method: str, route: Route, serve: Serve, raw: bytes, context: Any) -> bytes:
        request = parsed(route.request, raw)
        named = await self._named(route, request, context)
        if named or route.merge is None:
            raw = request.SerializeToString()
            owner = self._ownership.owner_of(RmId(named)) if named else None
            if owner is None:
                return await serve(raw, context)
            return await self._passing.call(owner, method, raw, context, named)
        own = await serve(raw, context)
        others, missing = await self._ask(method, raw, context, route.answer)
        merged: Any = route.merge(request, [route.answer.FromString(own), *others])
        if missing and not hasattr(merged, "missing_members"):
            raise unavailable(f"members do not answer: {', '.join(missing)}")
        if missing:
            merged.missing_members.extend(missing)
        if isinstance(merged, state_pb2.GetHealthResponse):
            note_silent(merged)
        answer: bytes = merged.SerializeToString()
        return answer

    async def _watch(self, method: str, route: Route, serve: Serve, raw: bytes, context: Any) -> None:
        request = parsed(route.request, raw)
        named = await self._named(route, request, context)
        raw = request.SerializeToString()
        owner = self._ownership.owner_of(RmId(named)) if named else None
        if owner is None:
            await serve(raw, context)
            return
        await send_metadata(context)
        await self._passing.watch(owner, method, raw, context, named)

    async def _named(self, route: Route, request: Any, context: Any) -> str:
        """The RM of a request, with its id filled in; empty if the request names none."""
        given: str = getattr(request, route.field) if route.field else ""
        if route.field != "partition":
            if not given and route.means_first:
                given = request.rm_id = await self.first("", context)
            return given
        if not given and route.merge is not None:
            return ""
        if given.startswith("["):
            return rm_of(PartitionName(given))
        name = given or DEFAULT_PARTITION
        rm_id = await self.first(name, context)
        if rm_id:
            request.partition = f"[{rm_id}]{name}"
        return rm_id

    async def first(self, partition: str, context: Any) -> str:
        """The first RM id of all members, among those of the RMs that the caller may see.

        Raises:
            CallError: UNAVAILABLE, a member that may have it does not answer.
        """
        raw = pb.ResolveRequest(partition=partition).SerializeToString()
        answers, missing = await self._ask(RESOLVE, raw, context, pb.ResolveResponse)
        if missing:
            what = f"partition {shown(partition)} is not known" if partition else "the first RM is not known"
            raise unavailable(f"{what} while members do not answer: {', '.join(missing)}; name an RM")
        found = [self.names.first(partition, context)]
        found += (answer.rm_id for answer in answers)
        return min(filter(None, found), default="")

    async def _ask(self, method: str, raw: bytes, context: Any, kind: type[M]) -> tuple[list[M], list[str]]:
        """The answers of the other members, and the names of the members that did not answer in time.

        Raises:
            CallError: a member refused the request.
        """
        places = asyncio.Semaphore(MOST_ASKED)
        others = sorted(self._ownership.others(), key=lambda member: (member.name, member.id))

        async def ask(member: Member) -> M | CallError | None:
            async with places:
                return await self._asked(member, method, raw, context, kind)

        answers = await asyncio.gather(*map(ask, others))
        for answer in answers:
            if isinstance(answer, CallError):
                raise answer
        missing = [member.name for member, answer in zip(others, answers, strict=True) if answer is None]
        return [answer for answer in answers if isinstance(answer, kind)], missing

    async def _asked(
        self, member: Member, method: str, raw: bytes, context: Any, kind: type[M]
    ) -> M | CallError | None:
        """The answer of a member, or its refusal; None if it did not answer in time."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return parse(kind, await self._passing.call(member, method, raw, context))
        except TimeoutError:
            reason = f"no answer within {ANSWER_SECONDS:g} s"
        except Malformed as error:
            reason = f"malformed answer: {error}"
        except CallError as error:
            if error.code not in _SILENT:
                return error
            reason = error.message
        log.warning("member not asked", member=member.name, method=method, reason=reason)
        return None
