"""The state of the server, as reported by REST paths and calls of `State`."""

import asyncio
from collections.abc import Mapping
from typing import Any

import aiohttp
import grpc
from google.protobuf.json_format import MessageToDict, ParseDict

from conformance.matching import matches, values_at
from conformance.peers import Failed
from licorne.v1 import state_pb2
from support.patience import PATIENCE
from support.server.server_process import ServerProcess

POLL = 0.02
"""Seconds between two polls."""
_METHODS = state_pb2.DESCRIPTOR.services_by_name["State"].methods_by_name


async def wait_for(server: ServerProcess, what: Any, wanted: Mapping[str, Any]) -> None:
    """Poll until the answer matches. `what` is a path, or a call with its request.

    Raises:
        Failed: The answer never matched.
    """
    found: object = "nothing"
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                fits, found = _judged(wanted, *await _ask(server, what))
                if fits:
                    return
                await asyncio.sleep(POLL)
    except (TimeoutError, aiohttp.ClientError, grpc.aio.AioRpcError) as error:
        raise Failed(f"{what} is {found}, not {dict(wanted)} {error}") from None


async def _ask(server: ServerProcess, what: Any) -> tuple[int, Any]:
    """The HTTP status and the body."""
    if isinstance(what, str):
        url = f"http://{server.http}{what}"
        async with aiohttp.ClientSession() as http, http.get(url) as response:
            is_json = response.content_type == "application/json"
            return response.status, await response.json() if is_json else await response.text()
    method = _METHODS[what["call"]]
    request = getattr(state_pb2, method.input_type.name)
    answer = getattr(state_pb2, method.output_type.name)
    async with grpc.aio.insecure_channel(server.target) as channel:
        call = channel.unary_unary(
            f"/{method.containing_service.full_name}/{method.name}",
            request_serializer=request.SerializeToString,
            response_deserializer=answer.FromString,
        )
        said = await call(ParseDict(what.get("request", {}), request()))
    return 200, MessageToDict(
        said, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )


def _judged(wanted: Mapping[str, Any], status: int, body: Any) -> tuple[bool, object]:
    """True if an answer matches, and the compared value."""
    if status != wanted.get("status", 200):
        return False, f"{status}: {body}"
    found = values_at(wanted["at"], body) if "at" in wanted else body
    if "count" in wanted:
        number = len(found) if isinstance(found, list) else 0
        return number == wanted["count"], f"{number} items"
    return "is" not in wanted or matches(wanted["is"], found), found
