"""Acts of operators on the page: each is a call of `licorne.v1.Admin`, with its rights and its audit.

A page of another site must not act for its viewer. Such a page cannot send JSON without the permission of
this server, and its origin is refused as well, even if it may read answers (`http/identity.py`). An origin
is this server's own if it matches the header ``Host``, or is one of `access.http_hosts`, for a proxy that
uses another name. Another port of a name is another site. If callers have no identity, a site could give its
own name the address of this server: then the name must be one that no other site can have.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Any, TypeVar

import grpc
import structlog
from aiohttp import web
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError, SerializeToJsonError
from google.protobuf.message import DecodeError, Message
from google.rpc import error_details_pb2  # type: ignore[import-untyped]

from licorne.v1 import admin_pb2 as pb
from licorne_core.values.errors import shown
from licorne_server.http.identity import Hosts
from licorne_server.http.routes import BODY_SECONDS
from licorne_server.http.stream import CALLER, IDENTIFIED, JsonObject, reader_of, send_bytes
from licorne_server.http.units import caller_address
from licorne_server.reads.sources import SOURCES
from licorne_server.store.configurations.thread import Origin
from licorne_server.wire.errors import CallError, unavailable
from licorne_server.wire.features import table

log = structlog.get_logger("core.http.acts")


@dataclass(frozen=True, slots=True)
class Act:
    """A method of `Admin`, and the fields of its request under the names of the page.

    `name` and `message` are the fields that get the values of these names; empty if there are none. `fixed`
    fields are set by the act itself. Fields in `needed` must not be empty, as their empty value has a meaning
    that no user intends. An act that only `plans` is cancelled when its caller disconnects.
    """

    method: str
    request: type[Message]
    response: type[Message]
    name: str = ""
    message: str = "message"
    fixed: Mapping[str, object] = field(default_factory=dict)
    needed: str = ""
    plans: bool = False


CALLS: Mapping[str, tuple[type[Message], type[Message]]] = table("CALLS")


def _of_extension(method: str, **more: Any) -> Act:
    """Make an act of an extension from its row in the table."""
    return Act(method, *CALLS[method], **more)


ACTS: Mapping[str, Act] = {
    **{name: _of_extension(**row) for name, row in table("ACTS").items()},
    "plan": Act(
        "PlanConfiguration",
        pb.PlanConfigurationRequest,
        pb.PlanConfigurationResponse,
        message="",
        needed="config",
        plans=True,
    ),
    "try": Act("PlanStart", pb.PlanStartRequest, pb.PlanStartResponse, message="", plans=True),
    "apply": Act(
        "UpdateConfiguration",
        pb.UpdateConfigurationRequest,
        pb.UpdateConfigurationResponse,
        message="comment",
        needed="config",
    ),
    "rollback": Act(
        "RollBackConfiguration",
        pb.RollBackConfigurationRequest,
        pb.RollBackConfigurationResponse,
        message="comment",
    ),
}
"""All acts by name. Fields not listed have the same name on the page."""

STATUSES = {
    grpc.StatusCode.INVALID_ARGUMENT: HTTPStatus.BAD_REQUEST,
    grpc.StatusCode.OUT_OF_RANGE: HTTPStatus.BAD_REQUEST,
    grpc.StatusCode.UNAUTHENTICATED: HTTPStatus.UNAUTHORIZED,
    grpc.StatusCode.PERMISSION_DENIED: HTTPStatus.FORBIDDEN,
    grpc.StatusCode.NOT_FOUND: HTTPStatus.NOT_FOUND,
    grpc.StatusCode.FAILED_PRECONDITION: HTTPStatus.CONFLICT,
    grpc.StatusCode.ABORTED: HTTPStatus.CONFLICT,
    grpc.StatusCode.RESOURCE_EXHAUSTED: HTTPStatus.TOO_MANY_REQUESTS,
    grpc.StatusCode.UNIMPLEMENTED: HTTPStatus.NOT_IMPLEMENTED,
    grpc.StatusCode.UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
}
"""HTTP statuses of failed calls; all others are 500."""


SMALL = 16 * 1024
"""Maximum number of bytes that are parsed or formatted in the loop at once."""

LOOK_SECONDS = 0.25
"""Seconds between two checks whether the caller of a plan is connected."""

T = TypeVar("T")


class Refused(Exception):
    """A request that names no valid act; the text gives the reason."""


async def act(request: web.Request) -> web.StreamResponse:
    """Carry out an act: `{"act": "cordon", "rm": "rm1", "partition": "", "name": "n1", "message": "disk"}`.

    The answer is the response of the method as JSON, or `{"error", "code", "problems"}`.
    """
    refused = _refusal(request)
    if refused is not None:
        return refused
    try:
        async with asyncio.timeout(BODY_SECONDS):
            body = await request.read()
        chosen, message = await _apart(request, partial(read, body), len(body))
    except TimeoutError:
        return _error(HTTPStatus.REQUEST_TIMEOUT, f"the body took longer than {BODY_SECONDS:g} s", "SLOW")
    except Refused as error:
        return _error(HTTPStatus.BAD_REQUEST, str(error), "INVALID_ARGUMENT")
    call, path = request.app[SOURCES].call, f"/licorne.v1.Admin/{chosen.method}"
    calling = call(path, message.SerializeToString(), request[CALLER], caller_address(request))
    try:
        answer = await (_while_there(request, calling) if chosen.plans else calling)
        if answer is None:
            return _error(HTTPStatus.REQUEST_TIMEOUT, "the caller has left", "CANCELLED")
        shown = await _apart(request, partial(_json, chosen, answer), len(answer))
    except CallError as failure:
        return _failed(failure)
    return await send_bytes(request, "application/json; charset=utf-8", shown)


async def _while_there(request: web.Request, calling: Awaitable[bytes]) -> bytes | None:
    """The answer; None if the caller has disconnected, which cancels the call."""
    called = asyncio.ensure_future(calling)
    try:
        while request.transport is not None and not request.transport.is_closing():
            await asyncio.wait((called,), timeout=LOOK_SECONDS)
            if called.done():
                return called.result()
        return None
    finally:
        called.cancel()


async def _apart(request: web.Request, work: Callable[[], T], size: int) -> T:
    """Run work on `size` bytes: immediately if it is small, otherwise in the thread of configurations."""
    if size <= SMALL:
        return work()
    return await request.app[SOURCES].config_thread.run(Origin(reader_of(request)), work, size)


def _json(chosen: Act, answer: bytes) -> bytes:
    """The answer as JSON.

    Raises:
        CallError: UNAVAILABLE, the answer is invalid. Another member may have sent it, so the act may have
            been carried out.
    """
    try:
        fields = MessageToDict(chosen.response.FromString(answer), always_print_fields_with_no_presence=True)
    except (DecodeError, SerializeToJsonError) as error:
        log.warning("malformed answer to an act", method=chosen.method, reason=str(error))
        raise unavailable("the member that serves this RM has given a malformed answer") from None
    return json.dumps(fields).encode()


def _refusal(request: web.Request) -> web.StreamResponse | None:
    """The refusal of a request that may come from a page of another site; None for other requests."""
    if request.content_type != "application/json":
        text = f"Content-Type is {shown(request.content_type)}: application/json is wanted"
        return _error(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, text, "CONTENT_TYPE")
    names, identified = request.app[SOURCES].hosts, request[IDENTIFIED]
    for origin in request.headers.getall("Origin", []):
        if not is_own(origin, request.host, names, identified=identified, secure=request.secure):
            text = (
                f"a page of {shown(origin)} may not act here, which is {shown(request.host)}: "
                "a name of this server's own is given with access.http_hosts, and with its port if it has one"
            )
            return _error(HTTPStatus.FORBIDDEN, text, "FOREIGN_ORIGIN")
    return None


def is_own(origin: str, asked: str, names: frozenset[str], *, identified: bool, secure: bool) -> bool:
    """True if a page of this origin is this server's own.

    `asked` is the header ``Host``, and `names` are those of `access.http_hosts`. Unless callers are
    `identified`, a name counts only if no other site can have it. On a `secure` connection a page without
    TLS belongs to another site; without TLS here, a proxy in front may have it.
    """
    scheme, _, host = origin.partition("://")
    hosts = Hosts(names, checked=True)
    if hosts.has(origin):
        return True
    asked_for = host == asked != "" and not (secure and scheme != "https")
    return asked_for and (identified or hosts.is_known(host))


def read(body: bytes) -> tuple[Act, Message]:
    """Read the act in a body, and the request of its method.

    Raises:
        Refused: there is no such act, or a field of it is invalid.
    """
    try:
        fields: Any = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refused(f"the body is no JSON: {error}") from None
    if not isinstance(fields, dict):
        raise Refused("the body is no JSON object")
    name = fields.pop("act", "")
    chosen = ACTS.get(name) if isinstance(name, str) else None
    if chosen is None:
        raise Refused(f"act is missing or unknown: {shown(str(name))}; it is one of {', '.join(ACTS)}")
    for given, wanted in (("rm", "rm_id"), ("name", chosen.name), ("message", chosen.message)):
        if given in fields and wanted != given:
            if not wanted:
                raise Refused(f"{name} takes no {given}")
            fields[wanted] = fields.pop(given)
    if chosen.needed and not fields.get(chosen.needed):
        raise Refused(f"{name}: {chosen.needed} is empty")
    try:
        return chosen, ParseDict({**fields, **chosen.fixed}, chosen.request())
    except (ParseError, RecursionError) as error:
        raise Refused(f"{name}: {error}") from None


def _failed(failure: CallError) -> web.Response:
    problems = [
        {"field": violation.field, "description": violation.description}
        for detail in failure.details
        if isinstance(detail, error_details_pb2.BadRequest)
        for violation in detail.field_violations
    ]
    status = STATUSES.get(failure.code, HTTPStatus.INTERNAL_SERVER_ERROR)
    return _error(status, failure.message, failure.reason, problems=problems)


def _error(status: HTTPStatus, text: str, code: str, **more: object) -> web.Response:
    answer: JsonObject = {"error": text, "code": code, **more}
    return web.json_response(answer, status=status)
