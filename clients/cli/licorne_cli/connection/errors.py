"""The details that the server adds to an error."""

from typing import TypeVar

import grpc
from google.protobuf.message import Message
from google.rpc import error_details_pb2  # type: ignore[import-untyped]
from grpc_status import rpc_status  # type: ignore[import-untyped]

D = TypeVar("D", bound=Message)


def detail_of(error: grpc.RpcError, kind: type[D]) -> D:
    """The first detail of a kind; an empty one where there is none."""
    found = kind()
    status = rpc_status.from_call(error)
    for detail in status.details if status else ():
        if detail.Unpack(found):
            break
    return found


def reason_of(error: grpc.RpcError) -> str:
    """The code for programs in an error; empty where there is none."""
    return str(detail_of(error, error_details_pb2.ErrorInfo).reason)


def metadata_of(error: grpc.RpcError) -> dict[str, str]:
    """The values beside that code."""
    return dict(detail_of(error, error_details_pb2.ErrorInfo).metadata)


def violations_of(error: grpc.RpcError) -> list[tuple[str, str]]:
    """The fields of the request that are wrong, each with its problem."""
    request = detail_of(error, error_details_pb2.BadRequest)
    return [(item.field, item.description) for item in request.field_violations]
