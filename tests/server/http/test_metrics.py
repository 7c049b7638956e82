"""Metrics as a scraper reads them."""

from dataclasses import replace

import pytest

from licorne_core.commands import NodeAction
from licorne_core.ids import RmId
from licorne_server.http import Figures, RmFigures
from licorne_server.http import metrics as limits
from licorne_server.http.metrics import metric_part
from support.builders import app, apps, ask, asks, node, nodes, register, release, releases
from support.http_site import Site

CONFIG = """
partitions:
  - name: default
    queues:
      - name: a
        submitacl: '*'
        maxapplications: 4
        resources:
          guaranteed: {vcore: 1}
          max: {vcore: 8}
"""
HERE = 'partition="default",rm="rm1"'


def queue(state: str, resource: str, path: str = "root.a") -> str:
    """The sample of a queue's resource."""
    return (
        f'yunikorn_queue_resource{{partition="default",queue="{path}",resource="{resource}",'
        f'rm="rm1",state="{state}"}}'
    )


@pytest.fixture
def ready(site: Site) -> Site:
    """Four nodes of different fullness, one drained; an application that runs, one rejected."""
    site.driver.do(
        register(CONFIG),
        nodes(*[node(f"n{n}", vcore=1000, ephemeral_storage=n) for n in range(4)]),
        apps(app("app-1", "root.a"), app("app-2", "root.nowhere")),
        asks(
            ask("app-1", "full", on_node="n1", vcore=1000),
            ask("app-1", "ten", on_node="n2", vcore=100),
            ask("app-1", "more", on_node="n3", vcore=101),
            ask("app-1", "big", vcore=5000),
            ask("app-9", "nobody", vcore=1),
        ),
        nodes(node("n0", NodeAction.DRAIN_NODE), node("n1", vcore=1)),
    )
    return site


async def test_scheduler_counts(ready: Site) -> None:
    """Asks, applications and nodes are counted under the names that dashboards know."""
    ready.driver.do(
        asks(ask("app-1", "made", vcore=50)),
        releases(release("app-1", "ten")),
    )

    samples = await ready.metrics()

    name = "yunikorn_scheduler_container_allocation_attempt_total"
    for state, count in {"allocated": 1, "rejected": 1, "error": 0, "released": 1}.items():
        assert samples[f'{name}{{{HERE},state="{state}"}}'] == count
    name = "yunikorn_scheduler_application_submission_total"
    for result, count in {"new": 2, "accepted": 1, "rejected": 1}.items():
        assert samples[f'{name}{{partition="default",result="{result}",rm="rm1"}}'] == count
    name = "yunikorn_scheduler_application_total"
    for state, count in {"running": 1, "rejected": 1, "completed": 0, "failing": 0}.items():
        assert samples[f'{name}{{{HERE},state="{state}"}}'] == count
    for state, count in {"active": 4, "draining": 1, "failed": 1, "decommissioned": 0}.items():
        assert samples[f'yunikorn_scheduler_node{{{HERE},state="{state}"}}'] == count


async def test_node_usage_ranges(ready: Site) -> None:
    """Nodes are counted in ten ranges of usage, each without its lower and with its upper end."""
    samples = await ready.metrics()

    name = "yunikorn_scheduler_vcore_node_usage_total"
    found = {key: value for key, value in samples.items() if key.startswith(name)}

    ranges = ["[0,10%]", *(f"({low}%,{low + 10}%]" for low in range(10, 100, 10))]
    expected = dict.fromkeys(ranges, 0) | {"[0,10%]": 2, "(10%,20%]": 1, "(90%,100%]": 1}
    assert found == {
        f'{name}{{partition="default",range="{label}",rm="rm1"}}': count
        for label, count in expected.items()
    }
    name = "yunikorn_scheduler_ephemeral_storage_node_usage_total"
    assert samples[f'{name}{{partition="default",range="[0,10%]",rm="rm1"}}'] == 3


async def test_queue_metrics(ready: Site) -> None:
    """Queues show resources and applications by labels, a usage of nothing as zero."""
    samples = await ready.metrics()

    assert samples[queue("guaranteed", "vcore")] == 1000
    assert samples[queue("max", "vcore")] == 8000
    assert samples[queue("allocated", "vcore")] == 1201
    assert samples[queue("pending", "vcore")] == 5000
    assert samples[queue("pending", "ephemeral_storage")] == 0
    assert samples[queue("maxRunningApps", "apps")] == 4
    assert samples[queue("max", "vcore", "root")] == 4000
    name = "yunikorn_queue_app"
    for state, count in {"running": 1, "new": 0}.items():
        assert samples[
            f'{name}{{partition="default",queue="root.a",rm="rm1",state="{state}"}}'
        ] == (count)


async def test_several_rms_are_told_apart(site: Site) -> None:
    """Two RMs with queues of the same names have samples of their own."""
    site.driver.do(register(CONFIG, rm="rm1"), register(CONFIG, rm="rm2"))

    samples = await site.metrics()

    assert queue("max", "vcore") in samples
    assert queue("max", "vcore").replace("rm1", "rm2") in samples


async def test_server_figures(site: Site) -> None:
    """What the server says of itself and its RMs is there, as is what the process uses."""
    rm = RmFigures(rm_id=RmId("rm1"), connected=True, outbox_messages=3, outbox_bytes=99, resyncs=2)
    site.figures = Figures(rms=(rm,), inbox=1, commands=7, turns=5, turn_seconds=0.25, defects=0)

    samples = await site.metrics()

    assert samples['licorne_rm_connected{rm="rm1"}'] == 1
    assert samples['licorne_rm_outbox_messages{rm="rm1"}'] == 3
    assert samples['licorne_rm_outbox_bytes{rm="rm1"}'] == 99
    assert samples['licorne_rm_resyncs_total{rm="rm1"}'] == 2
    assert samples["licorne_inbox"] == 1
    assert samples["licorne_commands_total"] == 7
    assert samples["licorne_turns_total"] == 5
    assert samples["licorne_turn_seconds_total"] == 0.25
    assert samples["licorne_defects_total"] == 0
    assert samples["licorne_ready"] == 1
    assert samples["licorne_loop_lag_seconds"] >= 0
    assert samples["process_resident_memory_bytes"] > 0


async def test_labels_are_bounded(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Queues and resource types beyond a number have no samples, and the first is said."""
    monkeypatch.setattr(limits, "MAX_QUEUES", 3)
    monkeypatch.setattr(limits, "MAX_RESOURCES", 4)
    names = ", ".join(f"{{name: q{n}}}" for n in range(9))
    site.driver.do(
        register(f"partitions: [{{name: default, queues: [{names}]}}]"),
        nodes(replace(node("n1"), capacity={"vcore": 1, **{f"r{n}": 1 for n in range(9)}})),
    )

    samples = await site.metrics()

    resources = [key for key in samples if key.startswith("yunikorn_queue_resource")]
    assert {key.split('queue="')[1].split('"')[0] for key in resources} == {
        "root", "root.q0", "root.q1",
    }  # fmt: skip
    assert len({key for key in samples if "_node_usage_total{" in key}) == 3 * 10
    assert samples[f"licorne_metrics_truncated{{{HERE}}}"] == 1


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("", "text/plain; version=0.0.4; charset=utf-8"),
        ("*/*", "text/plain; version=0.0.4; charset=utf-8"),
        ("application/vnd.google.protobuf", "text/plain; version=0.0.4; charset=utf-8"),
        ("text/plain;version=x.y", "text/plain; version=0.0.4; charset=utf-8"),
        ("application/openmetrics-text;version=1.0.0", "application/openmetrics-text"),
    ],
)
async def test_form_of_the_answer(site: Site, accept: str, content_type: str) -> None:
    """Plain text is what everybody gets who does not accept OpenMetrics, on both paths."""
    site.driver.do(register(CONFIG))

    for path in ("/metrics", "/ws/v1/metrics"):
        status, headers, body = await site.ask(path, Accept=accept)
        assert status == 200
        assert headers["Content-Type"].startswith(content_type)
        assert body.endswith(b"# EOF\n") == ("openmetrics" in content_type)
        assert b"_created" not in body


async def test_scrapes_in_a_row_share_an_answer(site: Site) -> None:
    """However many scrape at once, the work is done once a second at the most."""
    first = await site.ask("/metrics")
    site.driver.do(register(CONFIG))

    assert (await site.ask("/ws/v1/metrics"))[2] == first[2]


def test_resources_in_metric_names() -> None:
    """What may not stand in a metric's name becomes an underscore."""
    assert metric_part("ephemeral-storage") == "ephemeral_storage"
    assert metric_part("nvidia.com/gpu") == "nvidia_com_gpu"
    assert metric_part("größe") == "gr__e"
