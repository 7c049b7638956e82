"""Every field of the core's reports is published."""

import ast
from dataclasses import fields, is_dataclass

import pytest

from licorne_core.messages import reports
from support.docs.pages import ROOT

REPORTS = [
    kind
    for kind in vars(reports).values()
    if is_dataclass(kind) and isinstance(kind, type) and kind.__module__ == reports.__name__
]


@pytest.fixture(scope="module")
def looked_at() -> set[str]:
    """The attributes that the server reads, and texts that may name one in a table of fields."""
    return {
        str(node.attr if isinstance(node, ast.Attribute) else node.value)
        for path in sorted((ROOT / "server").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute | ast.Constant)
    }


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.__name__)
def test_every_field_of_a_report_is_read(report: type, looked_at: set[str]) -> None:
    """The server reads each field of each report, for REST, gRPC or its metrics."""
    names = {field.name for field in fields(report)}
    assert names - looked_at == set()
