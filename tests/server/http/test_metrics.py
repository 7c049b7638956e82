"""Metrics, as a scraper reads them."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from licorne_core.messages.commands import Command, NodeAction, RemoveRm
from licorne_core.values.ids import RmId
from licorne_server.http import metrics as limits
from licorne_server.http import queue_metrics
from licorne_server.http.families import Families
from licorne_server.http.metrics import gather
from licorne_server.http.queue_metrics import metric_part
from licorne_server.process import fair
from support.core.builders import RM, app, apps, ask, asks, config, node, nodes, register, reload, remove_apps
from support.core.driver import Driver
from support.patience import loop_turns
from support.server.http_site import Site, read_openmetrics

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
    """Four nodes of different usage, one drained; an application that runs, and a rejected one."""
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
        nodes(
            node("n0", NodeAction.DRAIN_NODE),
            node("n1", vcore=1),
            node("lost", partition="nowhere", vcore=1),
        ),
    )
    return site


def leaf(name: str, state: str, path: str = "root.a") -> str:
    """The sample of a leaf by state."""
    return f'{name}{{partition="default",queue="{path}",rm="rm1",state="{state}"}}'


async def test_a_removed_queue_has_no_samples(site: Site) -> None:
    """The counters of a queue are removed with it, so that queues do not accumulate."""
    site.driver.do(register(config("[{name: a}, {name: b}]")), reload(config("[{name: b}]")))
    site.driver.wait(11)

    samples = await site.metrics()

    assert leaf("yunikorn_queue_container", "allocated", "root.b") in samples
    assert not [name for name in samples if "root.a" in name]


async def test_labels_are_bounded(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Queues and resources beyond a number have no samples, and the former is reported."""
    monkeypatch.setattr(queue_metrics, "MAX_QUEUES", 3)
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
    assert samples['licorne_metrics_truncated{rm="rm1"}'] == 1


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
async def test_clients_without_openmetrics_get_plain_text(site: Site, accept: str, content_type: str) -> None:
    """Clients that do not accept OpenMetrics get plain text, on both paths."""
    site.driver.do(register(CONFIG))

    for path in ("/metrics", "/ws/v1/metrics"):
        status, headers, body = await site.ask(path, Accept=accept)
        assert status == 200
        assert headers["Content-Type"].startswith(content_type)
        assert body.endswith(b"# EOF\n") == ("openmetrics" in content_type)
        assert b"_created" not in body


async def test_both_formats_have_the_same_samples(ready: Site) -> None:
    """Plain text and OpenMetrics are valid for other parsers, and have the same samples."""
    plain = (await ready.ask("/metrics"))[2].decode()
    openmetrics = (await ready.ask("/metrics", Accept="application/openmetrics-text"))[2].decode()

    assert {family.name for family in parse_plain(plain)} >= {"yunikorn_queue_app"}
    assert {family.name for family in read_openmetrics(openmetrics)} >= {"yunikorn_queue_app"}
    assert set(await ready.metrics()) == set(await ready.metrics("application/openmetrics-text"))
    for name in ("yunikorn_queue_app_total", "yunikorn_queue_container"):
        assert f"# TYPE {name} counter\n" in plain


async def test_concurrent_scrapes_share_an_answer(site: Site) -> None:
    """However many scrapers there are, the answer is generated at most once a second."""
    first = await site.ask("/metrics")
    site.driver.do(register(CONFIG))

    assert (await site.ask("/ws/v1/metrics"))[2] == first[2]


async def test_a_scrape_lets_other_tasks_run(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes, applications and queues are read one by one, and the loop runs in between."""
    monkeypatch.setattr(fair, "SLICE_SECONDS", 0.0)
    site.driver.do(
        register(CONFIG),
        nodes(*[node(f"n{n}", vcore=1) for n in range(50)]),
        apps(*[app(f"app-{n}", "root.a") for n in range(50)]),
    )
    async with loop_turns() as turns:
        samples = await site.metrics()
    assert samples[f'yunikorn_scheduler_node{{{HERE},state="active"}}'] == 50
    assert turns() > 100


@pytest.mark.parametrize(
    "going",
    [
        [nodes(node("n1", NodeAction.DECOMISSION))],
        [remove_apps("app-1", "app-2")],
        [remove_apps("app-1", "app-2"), reload(config("[{name: b}]"))],
        [RemoveRm(rm_id=RmId(RM))],
    ],
    ids=["node", "applications", "queue", "RM"],
)
def test_a_scrape_survives_removals(going: Sequence[Command]) -> None:
    """Objects may be removed between any two steps of a scrape."""

    def driver() -> Driver:
        driver = Driver()
        driver.do(
            register(config("[{name: a}, {name: b}]")),
            nodes(node("n1", vcore=1000), node("n2", vcore=1000)),
            apps(app("app-1", "root.a"), app("app-2", "root.a")),
            asks(ask("app-1", "k1", vcore=1)),
        )
        return driver

    count = sum(1 for _ in gather(driver().views, Families()))
    for step in range(count + 1):
        here, families = driver(), Families()
        steps = gather(here.views, families)
        for _ in range(step):
            next(steps)
        here.do(*going)
        here.wait(11)
        assert sum(1 for _ in steps) <= count
        assert list(parse_plain("".join(families.lines(openmetrics=False)))) or step == 0


async def test_unusual_resource_names_are_escaped(site: Site) -> None:
    """A resource whose name is no proper text does not damage the answer."""
    capacity = {"vcore": 1, 'a"b': 2, "\ud800": 3}
    site.driver.do(register(CONFIG), nodes(replace(node("n1"), capacity=capacity)))

    samples = await site.metrics()

    assert samples[queue("max", 'a\\"b', "root")] == 2
    assert samples[queue("max", "?", "root")] == 3


def test_illegal_characters_of_metric_names_become_underscores() -> None:
    """A character that is illegal in a metric's name becomes an underscore."""
    assert metric_part("ephemeral-storage") == "ephemeral_storage"
    assert metric_part("nvidia.com/gpu") == "nvidia_com_gpu"
    assert metric_part("größe") == "gr__e"
