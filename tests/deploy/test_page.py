"""The page on metrics has every metric of a server, with its type, labels and bounds."""

import re
from collections import defaultdict

import pytest

from licorne_core.values.errors import Refusal
from licorne_core.views.census import REASONS
from licorne_server.http import metrics, queue_metrics, scrape
from support.docs.pages import ROOT, Page, code_spans

PAGE = Page("docs/metrics.md")
RUNBOOKS = Page("docs/runbooks.md")
TROUBLES = Page("docs/troubleshooting.md")
CODES_IN_WORDS = ROOT / "server/licorne_server/http/ui/static/codes.js"
SECTIONS = {
    "Partitions": {"rm", "partition"},
    "Queues": {"rm", "partition", "queue"},
    "RMs": {"rm"},
    "Budgets": {"budget", "resource"},
    "Server": set[str](),
}
"""The tables of metrics, and the labels that all metrics in a table have."""

OF_NO_RM = ("_max", "_max_bytes")
"""The ends of names without RM in the table of RMs: bounds that all RMs have in common."""

ONLY_WITH_TLS = {"licorne_tls_certificate_end_timestamp_seconds"}
"""A metric that the server of these tests lacks; `tests/server/security/test_tls.py` tests it."""
ONLY_WITH_MEMBERS = {"licorne_budget_slice", "licorne_budget_overdraft"}
"""Metrics that `tests/server/http/test_budget_metrics.py` tests."""

NAMED_QUEUE = re.compile(r"yunikorn_root_.*_queue_(app|resource|container)|yunikorn_root_queue_.*")


def rows() -> dict[str, tuple[str, set[str], str]]:
    """Every name on the page with its type, the labels of its section and its other labels."""
    found = {}
    for title, labels in SECTIONS.items():
        for names, kind, _, others in PAGE.table(title):
            for name in code_spans(names):
                own = labels - {"rm"} if name.endswith(OF_NO_RM) else labels
                found[name] = (kind, own, others)
    return found


def shown(exposition: str) -> tuple[dict[str, str], dict[str, set[str]]]:
    """The types of all metrics of a scrape, and the labels of their samples."""
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", exposition, re.MULTILINE))
    labels: dict[str, set[str]] = defaultdict(set)
    for line in exposition.splitlines():
        if not line.startswith("#"):
            sample, _, pairs = line.rpartition(" ")[0].partition("{")
            name = next(
                (end for cut in ("", "_bucket", "_sum", "_count")
                 if (end := sample.removesuffix(cut)) in types), sample,
            )  # fmt: skip
            labels[name] |= set(re.findall(r'(\w+)="', pairs)) - {"le"}
    return types, labels


@pytest.mark.asyncio(loop_scope="module")
async def test_every_metric_is_on_the_page(exposition: str) -> None:
    """Every metric of a server has a row with its type and each of its labels."""
    types, labels = shown(exposition)
    page = rows()
    for name, kind in types.items():
        if name.startswith(("process_", "python_")) or NAMED_QUEUE.fullmatch(name):
            continue
        form = re.sub(r"scheduler_\w+_node_usage", "scheduler_<resource>_node_usage", name)
        assert form in page, name
        known, common, others = page[form]
        assert known == kind, name
        if labels[name]:
            assert common <= labels[name], name
        spans = code_spans(others)
        told = "as for those" in others or "the same" in others
        assert told or labels[name] - common <= set(spans), name


@pytest.mark.asyncio(loop_scope="module")
async def test_every_row_is_a_metric(exposition: str) -> None:
    """The page has no metric that a server does not have."""
    types, _ = shown(exposition)
    for name in rows().keys() - ONLY_WITH_TLS - ONLY_WITH_MEMBERS:
        pattern = re.escape(name).replace("<resource>", r"\w+").replace("…", ".*")
        assert any(re.fullmatch(pattern, there) for there in types), name


def test_bounds_are_those_of_the_source() -> None:
    """The bounds on the page are those of the source."""
    told = {row[0]: row[1] for row in PAGE.table("Labels")}
    bounds = {
        "queues": queue_metrics.MAX_QUEUES,
        "users, and groups": metrics.MAX_NAMES,
        "resources": metrics.MAX_RESOURCES,
        "RMs with histograms": scrape.MAX_RMS,
        "all samples of partitions": metrics.MAX_SAMPLES,
        "budgets": metrics.MAX_BUDGETS,
        "RMs of a budget": metrics.MAX_HOLDERS,
        "resources of a budget": metrics.MAX_BUDGET_RESOURCES,
    }
    assert {what: int(re.findall(r"[\d,]+", cell)[0].replace(",", "")) for what, cell in
            told.items()} == bounds  # fmt: skip


def test_reasons_are_those_of_the_source() -> None:
    """Every code of a waiting ask has a meaning and a remedy, and every code of rejections a usual cause."""
    told = {code for row in TROUBLES.table("Work does not start") for code in code_spans(row[0])}
    assert set(REASONS) <= told, "docs/troubleshooting.md says what to do about each"
    words = set(re.findall(r"^  ([A-Z_]+): ", CODES_IN_WORDS.read_text(encoding="utf-8"), re.MULTILINE))
    assert set(REASONS) <= words, f"{CODES_IN_WORDS.name} has a text for each"
    refused = [code for row in RUNBOOKS.table("LicorneRejections") for code in code_spans(row[0])]
    assert sorted(refused) == sorted(code.value for code in Refusal)
