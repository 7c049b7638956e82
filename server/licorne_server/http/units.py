"""Common forms of REST answers: units, names, and errors (spec §§ 12.4, 14).

An error has each of its keys in two spellings: that of the older core, and that of its web page.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import cache
from http import HTTPStatus
from math import isfinite
from typing import Any, TypeVar

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler
from google.protobuf.message import Message

from licorne_core.messages.operators import OperatorMark
from licorne_core.values.errors import NotFound
from licorne_core.values.ids import PartitionName, bare_partition
from licorne_core.values.names import is_queue_name
from licorne_core.values.resources import Resources
from licorne_core.views import Views
from licorne_core.views.fields import Moment, Share, Source, Span, Unit, renamed, types_of
from licorne_core.views.nodes import NodeReport
from licorne_core.views.partitions import RmReport
from licorne_server.http.stream import JsonObject, Rows, Verbatim, send_json, slice_for
from licorne_server.reads.sources import SOURCES
from licorne_server.wire.caps import MAX_CONFIG_BYTES
from licorne_server.wire.errors import CallError
from licorne_server.wire.features import Reports, table
from licorne_server.wire.responses import nanoseconds

USAGE_RANGES = 10
"""Number of equal ranges of usage by which nodes are counted."""


R = TypeVar("R")


def rest_form(
    report: type[R], names: Mapping[str, Source], *, without: str = "", optional: str = ""
) -> Callable[[R], dict[str, object]]:
    """Create the function that converts a report to JSON under the names of the older core.

    A field that is not in `names` is named in ``camelCase``, unless it is in `without`. Names in `optional`
    are left out for empty values.
    """
    sources = (item[0] if isinstance(item, tuple) else item for item in names.values())
    read = {item.partition(".")[0] for item in sources if isinstance(item, str)}
    known = read.union(without.split())
    own = {_camel_case(name): name for name in types_of(report) if name not in known}
    units: dict[Any, Unit] = {Moment: nanoseconds, Span: duration, Share: _with_an_end}
    return renamed(report, {**own, **names}, units, dict, optional.split())


def reports_of(extensions: str) -> dict[str, Source]:
    """Fields of those extensions that have reports of their own, by their names in REST."""
    reports: Mapping[str, Reports] = table(extensions)
    return {
        name: (item.field, item.unit(rest_form(item.report, {}, without=item.without)))
        for name, item in reports.items()
    }


def message_json(message: Message) -> JsonObject:
    """A message of State with all its fields, under its JSON names; whole numbers of 64 bits are numbers."""
    return {shown: of(getattr(message, name)) for shown, name, of in _fields(message.DESCRIPTOR)}


@cache
def _fields(kind: Any) -> list[tuple[str, str, Callable[[Any], object]]]:
    """JSON name, name and conversion of each field of a message."""
    return [(field.json_name, field.name, _conversion(field)) for field in kind.fields]


def _conversion(field: Any) -> Callable[[Any], object]:
    kind = field.message_type
    if kind is None:
        return list if field.is_repeated else lambda value: value
    if kind.GetOptions().map_entry:
        return dict
    return (lambda values: list(map(message_json, values))) if field.is_repeated else message_json


def _with_an_end(share: float) -> float | None:
    """A share, or null if it is infinite, as JSON has no such number."""
    return share if isfinite(share) else None


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def milliseconds(seconds: float) -> int:
    """Unix seconds in milliseconds."""
    return round(seconds * 1e3)


def duration(seconds: float) -> str:
    """A duration of `seconds` in the older core's format: ``1h0m0s``, ``30s``, ``1.5s``, ``250ms``."""
    if 0 < seconds < 1:
        return f"{_number(seconds * 1e3)}ms"
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    if hours:
        return f"{hours}h{minutes}m{_number(rest)}s"
    return f"{minutes}m{_number(rest)}s" if minutes else f"{_number(rest)}s"


def _number(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".")


def mark_json(mark: OperatorMark | None, unit: Callable[[float], int] = nanoseconds) -> JsonObject | None:
    """The JSON of an operator's mark; `unit` converts its time."""
    return None if mark is None else {"by": mark.by, "time": unit(mark.time), "message": mark.message}


def percentages(total: Resources, used: Resources) -> dict[str, int]:
    """Usage of each type, in whole percent from 0 to 100.

    Usage above a lowered quota is capped at 100: pages that show this number cannot display more.
    """
    return {
        name: max(0, min(100, used.get(name, 0) * 100 // amount))
        for name, amount in total.items()
        if amount > 0
    }


def usage_ranges(node: NodeReport) -> Iterator[tuple[str, int]]:
    """The number of the range of a node's usage, by resource type.

    A range includes its upper end. Allocations of other schedulers count as used.
    """
    for name, capacity in node.capacity.items():
        if capacity > 0:
            used = capacity - node.available.get(name, 0)
            yield name, max(0, min(USAGE_RANGES - 1, (USAGE_RANGES * used - 1) // capacity))


def rms_named(views: Views, rm_id: str) -> tuple[RmReport, ...]:
    """The RM of that id, or all RMs for an empty text; raises NotFound."""
    return (views.rm(rm_id),) if rm_id else views.rms()


def caller_address(request: web.Request) -> str:
    """The caller's address, as gRPC writes it."""
    peer = request.transport.get_extra_info("peername") if request.transport is not None else None
    if not isinstance(peer, tuple):
        return "unix:"
    host, port = peer[:2]
    return f"ipv6:[{host}]:{port}" if ":" in host else f"ipv4:{host}:{port}"


RM_MEANT = web.RequestKey("rm_meant", str)
"""The RM of a request that names no RM; set if several members share the RMs."""


def rm_asked(request: web.Request) -> str:
    """The RM in `rm`, or else `RM_MEANT`; empty for the RM that registered first."""
    return request.query.get("rm", "") or request.get(RM_MEANT, "")


def partition_named(views: Views, name: str) -> PartitionName:
    """The partition of a path; a bare name means the first RM's partition of that name.

    Raises:
        NotFound: the partition is unknown; the text says so if no RM has registered.
    """
    try:
        return views.resolve(name)
    except NotFound as error:
        if views.partition_names():
            raise
        raise NotFound(f"{error}: no RM has registered yet") from None


class Asked:
    """A read of REST: its request, and the partition of its path, which is empty if the path names none.

    The partition is resolved before the first await, so it is the partition for which `Identity` has
    checked the caller's rights.
    """

    def __init__(self, request: web.Request) -> None:
        """Find the partition; raises NotFound."""
        self.request = request
        self.sources = request.app[SOURCES]
        self.views = self.sources.views
        name = request.match_info.get("partition")
        self.partition = PartitionName("") if name is None else partition_named(self.views, name)

    def name(self, part: str) -> str:
        """A name in the path."""
        return self.request.match_info[part]

    def query(self, name: str) -> str:
        """A value of the query; empty if there is none."""
        return self.request.query.get(name, "")

    def queue(self) -> str:
        """The path of a queue, in lower case; there may be no such queue.

        Raises:
            HTTPBadRequest: the path holds an invalid name.
        """
        path = self.name("queue").lower()
        for name in path.split("."):
            if not is_queue_name(name):
                raise web.HTTPBadRequest(text=f"queue path {path!r} has the invalid name {name!r}")
        return path


Read = Callable[[Asked], JsonObject | Rows | Verbatim]


Merge = Callable[[web.Request, JsonObject | Rows | Verbatim], Awaitable[JsonObject | Rows | Verbatim]]
"""Adds the parts of other members to an answer."""


def in_slice(read: Read, merge: Merge | None = None) -> Handler:
    """The handler of a read. The first step of the read may be long, so it runs in a time slice.

    `merge` adds the parts of other members, if the answer has such parts.
    """

    async def handler(request: web.Request) -> web.StreamResponse:
        asked = Asked(request)
        async with slice_for(request):
            shown = read(asked)
        if merge is not None:
            shown = await merge(request, shown)
        return await send_json(request, shown)

    return handler


def rest_name(views: Views, partition: PartitionName) -> str:
    """The bare name of a partition, or its full name if the bare name means another (DESIGN § 4)."""
    bare = bare_partition(partition)
    return bare if views.bare_names and views.resolve(bare) == partition else partition


log = structlog.get_logger("core.http.errors")

MAX_BODY = MAX_CONFIG_BYTES
"""Maximum number of bytes of a request body: only configurations are sent here."""


def failure_json(status: int, message: str) -> dict[str, object]:
    """The body of an error, with each key in both spellings."""
    description = HTTPStatus(status).phrase
    return {
        "status_code": status,
        "message": message,
        "description": description,
        "StatusCode": status,
        "Message": message,
        "Description": description,
    }


def failure(status: int, message: str, headers: dict[str, str] | None = None) -> web.Response:
    """The answer for an error."""
    return web.json_response(failure_json(status, message), status=status, headers=headers)


@web.middleware
async def errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer every error in one form. An unexpected error is logged, and its text is not sent."""
    try:
        return await handler(request)
    except NotFound as error:
        return failure(404, str(error))
    except web.HTTPMethodNotAllowed as error:
        allowed = ", ".join(sorted(error.allowed_methods))
        message = f"method {request.method} is not allowed here, only {allowed}"
        return failure(405, message, {"Allow": allowed})
    except web.HTTPUnauthorized as error:
        return failure(401, _message(error), {"WWW-Authenticate": "Bearer"})
    except web.HTTPRequestEntityTooLarge:
        return failure(413, f"the request's body is longer than {MAX_BODY} bytes")
    except CallError as error:
        # The only CallError here: too many requests of the caller are waiting.
        return failure(429, str(error), {"Retry-After": "1"})
    except web.HTTPException as error:
        if error.status < 400:
            raise
        return failure(error.status, _message(error))
    except ConnectionError:
        return failure(400, "the connection was lost")
    except Exception:
        log.exception("request failed", method=request.method, path=request.path)
        return failure(500, "internal error, see the server's log")


def _message(error: web.HTTPException) -> str:
    if error.status == 404 and error.text == f"404: {error.reason}":
        return "there is no such path"
    return error.text or error.reason
