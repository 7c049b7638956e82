"""`State` and `Admin` have every call of their services; a session handles every response."""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf.descriptor import ServiceDescriptor

from licorne import stream
from licorne.admin_client import AdminCalls
from licorne.state_client import StateCalls
from licorne.v1 import admin_pb2, state_pb2
from licorne.v1.session_pb2 import UpdateResponse

# The client chooses the sizes of answers, because it reads page after page.
PAGING = {"page_size", "page_token"}
SERVICES = [
    pytest.param(admin_pb2.DESCRIPTOR.services_by_name["Admin"], AdminCalls, id="Admin"),
    pytest.param(state_pb2.DESCRIPTOR.services_by_name["State"], StateCalls, id="State"),
]


def nodes(client: type) -> Iterator[ast.AST]:
    """All nodes in the modules of a client's class and of its own bases."""
    for module in {inspect.getmodule(base) for base in inspect.getmro(client)[:-1]}:
        assert module is not None
        yield from ast.walk(ast.parse(inspect.getsource(module)))


@pytest.mark.parametrize(("service", "client"), SERVICES)
def test_every_call_of_a_service_is_available(service: ServiceDescriptor, client: type) -> None:
    """The client has exactly the calls of the proto."""
    made = {
        node.attr
        for node in nodes(client)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "_stub(channel)"
    }
    assert made == {method.name for method in service.methods}


@pytest.mark.parametrize(("service", "client"), SERVICES)
def test_every_field_of_a_request_is_sent(service: ServiceDescriptor, client: type) -> None:
    """The client fills in every field of a request, except those of pages."""
    said = {
        node.func.attr: {keyword.arg for keyword in node.keywords if keyword.arg not in PAGING}
        for node in nodes(client)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr.endswith("Request")
    }
    wanted = {
        method.input_type.name: set(method.input_type.fields_by_name) - PAGING for method in service.methods
    }
    assert said == wanted


OF_THE_SESSION = {"welcome", "heartbeat", "ack"}
"""Messages of which only the envelope counts once the session is open."""


def test_every_message_of_a_response_is_handled() -> None:
    """The client's handler of responses names each message of an UpdateResponse."""
    source = Path(stream.__file__).read_text(encoding="utf-8")
    named = {node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)}
    messages = {field.name for field in UpdateResponse.DESCRIPTOR.oneofs_by_name["message"].fields}
    assert messages - OF_THE_SESSION <= named
