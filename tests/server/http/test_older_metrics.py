"""The names that dashboards for the older core ask for, all of them with their labels."""

import re
from typing import NamedTuple

import pytest

from licorne_core.values.ids import RmId
from licorne_server.http.families import Families
from licorne_server.http.metrics import gather
from licorne_server.reads.sources import EventFigures, Figures, RmFigures
from licorne_server.telemetry.measures import RmMeasures
from support.core.builders import app, apps, ask, asks, config, node, nodes, register
from support.core.driver import Driver
from support.server.http_site import Site

RANGES = ["[0,10%]", *(f"({low}%,{low + 10}%]" for low in range(10, 100, 10))]
QUEUE_STATES = [
    "new", "accepted", "running", "rejected", "resuming", "failing", "completing", "completed",
    "failed",
]  # fmt: skip


class Row(NamedTuple):
    """A row of the older core's table: the name, its type, and a label with all its values."""

    name: str
    kind: str
    label: str = ""
    values: tuple[str, ...] = ()


ROWS = [
    Row("scheduler_container_allocation_attempt_total", "counter", "state",
        ("allocated", "rejected", "error", "released")),
    Row("scheduler_application_submission_total", "counter", "result",
        ("new", "accepted", "rejected")),
    Row("scheduler_application_total", "gauge", "state",
        ("running", "resuming", "failing", "completing", "completed", "failed")),
    Row("scheduler_node", "gauge", "state", ("active", "draining", "failed", "decommissioned")),
    Row("scheduler_vcore_node_usage_total", "gauge", "range", tuple(RANGES)),
    Row("scheduler_scheduling_latency_milliseconds", "histogram"),
    Row("scheduler_scheduling_cycle_milliseconds", "histogram"),
    Row("scheduler_trynode_latency_milliseconds", "histogram"),
    Row("scheduler_trynode_evaluation_milliseconds", "histogram"),
    Row("scheduler_trypreemption_latency_milliseconds", "histogram"),
    Row("scheduler_node_sorting_latency_milliseconds", "histogram", "level", ("app", "queue")),
    Row("queue_app", "gauge", "state", tuple(QUEUE_STATES)),
    Row("queue_app_total", "counter", "state", ("completed", "failed", "rejected")),
    Row("queue_resource", "gauge", "state",
        ("guaranteed", "max", "allocated", "pending", "preempting", "maxRunningApps")),
    Row("queue_container", "counter", "state", ("allocated", "released")),
    Row("root_a_queue_app", "gauge", "state", tuple(QUEUE_STATES)),
    Row("root_a_queue_resource", "gauge", "state",
        ("guaranteed", "max", "allocated", "pending", "preempting", "maxRunningApps")),
    Row("root_a_queue_container", "counter", "state", ("allocated", "released")),
    *(Row(f"event_total_{what}", "gauge") for what in (
        "created", "channeled", "not_channeled", "processed", "stored", "not_stored", "collected",
    )),
]  # fmt: skip


@pytest.fixture
def ready(site: Site) -> Site:
    """A queue with a guarantee and a maximum, of which half is used; an RM with a turn."""
    site.driver.do(
        register(config("[{name: a, resources: {guaranteed: {vcore: 1m}, max: {vcore: 8m}}}]")),
        nodes(node("n1", vcore=8)),
        apps(app("one", "root.a"), app("one", "root.a")),
        asks(ask("one", "k1", vcore=4)),
    )
    measures = RmMeasures()
    measures.turn.observe(0.02)
    rm = RmFigures(rm_id=RmId("rm1"), connected=True, events=EventFigures(noted=7, told=5), measures=measures)
    site.figures = Figures(rms=(rm,))
    return site


@pytest.mark.row(163)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
async def test_every_row_is_there(ready: Site, row: Row) -> None:
    """Each has its type and every value of its label; the RM and the partition are added."""
    _, _, body = await ready.ask("/ws/v1/metrics")
    text, name = body.decode(), f"yunikorn_{row.name}"
    assert f"# TYPE {name} {row.kind}\n" in text
    sample = f"{name}_count" if row.kind == "histogram" else name
    lines = re.findall(rf"^{sample}{{(.*)}} \S+$", text, re.MULTILINE)
    assert lines
    assert all('rm="rm1"' in line for line in lines)
    if row.label:
        found = {match[1] for line in lines if (match := re.search(rf'{row.label}="(.*?)"', line))}
        assert set(row.values) <= found


async def test_milliseconds_are_seconds(ready: Site) -> None:
    """The histograms say milliseconds and have seconds, by the bounds that they always had."""
    samples = await ready.metrics()
    name = "yunikorn_scheduler_scheduling_latency_milliseconds"
    assert samples[f'{name}_sum{{rm="rm1"}}'] == 0.02
    bounds = ["0.0001", "0.001", "0.01", "0.1", "1.0", "10.0", "100.0", "1000.0", "+Inf"]
    counts = [samples[f'{name}_bucket{{le="{bound}",rm="rm1"}}'] for bound in bounds]
    assert counts == [0, 0, 0, 1, 1, 1, 1, 1, 1]


async def test_events(ready: Site) -> None:
    """Recorded events were stored; effects for the RM were collected."""
    samples = await ready.metrics()
    for what, count in {"created": 7, "stored": 7, "not_stored": 0, "collected": 5}.items():
        assert samples[f'yunikorn_event_total_{what}{{rm="rm1"}}'] == count


async def test_names_that_collide_are_added(site: Site) -> None:
    """Two queues with the same metric name have the total there, and their own values by labels."""
    site.driver.do(
        register(config("[{name: a-b}, {name: a_b}]")),
        nodes(node("n1", vcore=9)),
        apps(app("one", "root.a-b"), app("two", "root.a_b")),
        asks(ask("one", "k1", vcore=4), ask("two", "k2", vcore=3)),
    )

    samples = await site.metrics()

    place = 'partition="default",{}rm="rm1",state="allocated"'
    named = "yunikorn_root_a_b_queue_resource"
    resource = 'partition="default",{}resource="vcore",rm="rm1",state="allocated"'
    assert samples[f"{named}{{{resource.format('')}}}"] == 7
    assert samples[f"yunikorn_root_a_b_queue_container{{{place.format('')}}}"] == 2
    for path, amount in {"root.a-b": 4, "root.a_b": 3}.items():
        labels = resource.format(f'queue="{path}",')
        assert samples[f"yunikorn_queue_resource{{{labels}}}"] == amount
    _, _, body = await site.ask("/metrics")
    assert body.decode().count(f"# TYPE {named} ") == 1


def test_names_may_be_left_out() -> None:
    """Without the option no name contains a queue, and the labels are complete."""
    driver = Driver()
    driver.do(register(config("[{name: a}]")))
    for wanted in (True, False):
        families = Families()
        for _ in gather(driver.views, families, queue_names=wanted):
            pass
        text = "".join(families.lines(openmetrics=False))
        assert ("\nyunikorn_root" in text) is wanted
        assert "\nyunikorn_queue_app{" in text
