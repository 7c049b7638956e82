"""`State` and `Admin` have every call of their services, with every field of the requests."""

import ast
import inspect
from types import ModuleType

import pytest
from google.protobuf.descriptor import ServiceDescriptor

from licorne import admin_client, state_client
from licorne.v1 import admin_pb2, state_pb2

# How much an answer has is up to the client: it asks for page after page.
PAGING = {"page_size", "page_token"}
SERVICES = [
    pytest.param(admin_pb2.DESCRIPTOR.services_by_name["Admin"], admin_client, id="Admin"),
    pytest.param(state_pb2.DESCRIPTOR.services_by_name["State"], state_client, id="State"),
]


def calls(module: ModuleType) -> list[ast.Call]:
    """All calls in the source of a module."""
    tree = ast.parse(inspect.getsource(module))
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


@pytest.mark.parametrize(("service", "client"), SERVICES)
def test_every_call_of_a_service_can_be_made(service: ServiceDescriptor, client: ModuleType) -> None:
    """Each call of the proto is made by the client, and none is made that is not there."""
    tree = ast.parse(inspect.getsource(client))
    made = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "_stub(channel)"
    }
    assert made == {method.name for method in service.methods}


@pytest.mark.parametrize(("service", "client"), SERVICES)
def test_every_field_of_a_request_is_said(service: ServiceDescriptor, client: ModuleType) -> None:
    """Whatever a request has room for the client fills in, pages apart."""
    said = {
        call.func.attr: {keyword.arg for keyword in call.keywords if keyword.arg not in PAGING}
        for call in calls(client)
        if isinstance(call.func, ast.Attribute) and call.func.attr.endswith("Request")
    }
    wanted = {
        method.input_type.name: set(method.input_type.fields_by_name) - PAGING for method in service.methods
    }
    assert said == wanted
