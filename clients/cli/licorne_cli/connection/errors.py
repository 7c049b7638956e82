"""Details of a server's errors."""

from typing import TypeVar

import grpc
from google.protobuf.message import Message
from google.rpc import error_details_pb2  # type: ignore[import-untyped]
from grpc_status import rpc_status  # type: ignore[import-untyped]

D = TypeVar("D", bound=Message)


def detail_of(error: grpc.RpcError, kind: type[D]) -> D:
    """The first detail of a kind; an empty message if there is none."""
    found = kind()
    status = rpc_status.from_call(error)
    for detail in status.details if status else ():
        if detail.Unpack(found):
            break
    return found


def reason_of(error: grpc.RpcError) -> str:
    """The machine-readable code of an error; empty if there is none."""
    return str(detail_of(error, error_details_pb2.ErrorInfo).reason)


def metadata_of(error: grpc.RpcError) -> dict[str, str]:
    """The values that belong to the machine-readable code."""
    return dict(detail_of(error, error_details_pb2.ErrorInfo).metadata)


def violations_of(error: grpc.RpcError) -> list[tuple[str, str]]:
    """The invalid fields of the request, each with its problem."""
    request = detail_of(error, error_details_pb2.BadRequest)
    return [(item.field, item.description) for item in request.field_violations]
