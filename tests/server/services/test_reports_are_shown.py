"""What the core reports is shown: nothing is added to a report and then forgotten."""

import ast
from dataclasses import fields, is_dataclass

import pytest

from licorne.v1 import state_pb2
from licorne_core.messages import reports
from licorne_core.views import applications, nodes, partitions, queues
from support.docs.pages import ROOT

MODULES = (reports, queues, applications, nodes, partitions)
REPORTS = [
    kind
    for module in MODULES
    for kind in vars(module).values()
    if is_dataclass(kind) and isinstance(kind, type) and kind.__module__ == module.__name__
]


@pytest.fixture(scope="module")
def looked_at() -> set[str]:
    """The fields of the messages of `State`, and the attributes and names in the server's source."""
    nodes = [
        node
        for path in sorted((ROOT / "server").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    ]
    return {
        *(node.attr for node in nodes if isinstance(node, ast.Attribute)),
        *(str(node.value) for node in nodes if isinstance(node, ast.Constant)),
        *(
            name
            for kind in state_pb2.DESCRIPTOR.message_types_by_name.values()
            for name in kind.fields_by_name
        ),
    }


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.__name__)
def test_every_field_of_a_report_is_shown(report: type, looked_at: set[str]) -> None:
    """The server looks at each field of each report, over REST, gRPC or in its metrics."""
    names = {field.name for field in fields(report)}
    assert names - looked_at == set()
