"""The page names the events that there are, no more and no less."""

import ast

from licorne_core.events.journal import EventDetail
from support.docs.pages import ROOT, Page, code_spans

OPERATING = Page("docs/operating.md")


def made() -> set[str]:
    """The kinds of event that the core makes somewhere."""
    return {
        node.attr
        for path in sorted((ROOT / "core").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "EventDetail"
    }


def test_the_page_has_all_kinds_of_event_and_no_other() -> None:
    """Every kind that the core makes stands in the table of what has happened."""
    kinds = {detail.name for detail in EventDetail}
    named = {span for line in OPERATING.prose for span in code_spans(line)} & kinds
    assert named == made() - {EventDetail.DETAILS_NONE.name}
