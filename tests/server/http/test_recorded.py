"""Every path of the HTTP listener and every metric, as recorded over one small scene.

The recordings are in ``data/recorded``. ``pytest --rewrite`` writes them.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pytest

from extensions.drains.building import cordon
from licorne_core.config import load
from licorne_core.values.errors import Refusal
from licorne_core.values.ids import PartitionName, RmId
from licorne_server.http.ui.page import STATIC
from licorne_server.reads.history.recorder import Sample
from licorne_server.reads.sources import Figures, RmFigures
from licorne_server.store.configurations.revisions import Revisions, Source
from licorne_server.telemetry.measures import Calls, Method, RmMeasures
from support.core.builders import (
    RM,
    app,
    apps,
    ask,
    asks,
    config,
    foreign,
    node,
    nodes,
    register,
    release,
    releases,
    victim,
)
from support.core.driver import START, Driver
from support.recorded import compact, compare
from support.server.http_site import Site

CONFIG = """
partitions:
  - name: default
    placementrules:
      - {name: provided, create: false, filter: {type: deny, users: ["te.*st*"]}}
      - {name: tag, value: Namespace}
      - name: user
        create: true
        filter: {users: [eve], groups: [ops]}
        parent: {name: fixed, value: people}
    limits:
      - {limit: users, users: [ann], maxresources: {vcore: 9}, maxapplications: 3}
      - {limit: groups, groups: [dev], maxresources: {vcore: 8}}
    queues:
      - name: root
        submitacl: '*'
        queues:
          - name: prod
            maxapplications: 7
            properties:
              application.sort.policy: fair
              application.sort.priority: disabled
              our.own.key: anything
              preemption.delay: 90s
              preemption.policy: fence
              priority.offset: '5'
              priority.policy: fence
            resources: {guaranteed: {vcore: 2}, max: {vcore: 4, memory: 64Gi}}
          - name: dev
            maxapplications: 2
          - name: people
            parent: true
            childtemplate:
              maxapplications: 3
              properties: {preemption.delay: 60s}
              resources: {guaranteed: {vcore: 1}, max: {vcore: 4}}
"""
CORNERS = config(
    "[{name: fair, properties: {application.sort.policy: fair, budget.vcore-hours: 4000m/month}}, "
    "{name: last, properties: {fairshare.weight: '0'}}, "
    "{name: tired, properties: "
    "{application.unschedasks.backoff: '1', application.unschedasks.backoff.delay: 60s}}, "
    "{name: guest, properties: {preemption.notice: 60s}}, "
    "{name: owner, resources: {guaranteed: {memory: 2}}, properties: {preemption.delay: 5s}}]",
    properties="{fairshare.half-life: 1h}",
)
PLACE = {"si/hostname": "host-1", "si/rackname": "rack-1", "zone": "a"}
POD = {"kubernetes.io/meta/podName": "pod", "kubernetes.io/meta/namespace": "ns"}
OTHERS = config("[{name: batch}]", properties="{backfill: easy}")
GI = 2**30
PARTITION = "/ws/v1/partition/default"
UI = "/ui/api/partition/default"
ASKED = (
    "/livez",
    "/readyz",
    "/ws/v1/clusters",
    "/ws/v1/config",
    "/ui/api/act",
    "/ws/v1/validate-conf",
    "/ws/v1/partitions",
    f"{PARTITION}/placementrules",
    f"{PARTITION}/queues",
    f"{PARTITION}/queue/root.prod",
    f"{PARTITION}/preemptions",
    "/ws/v1/partition/[rm2]default/calendar?queue=root.batch",
    f"{PARTITION}/topology",
    f"{PARTITION}/nodes",
    f"{PARTITION}/node/n2",
    f"{PARTITION}/queue/root.prod/applications",
    f"{PARTITION}/queue/root.dev/applications/active",
    f"{PARTITION}/queue/root.prod/application/shop",
    f"{PARTITION}/applications/rejected",
    f"{PARTITION}/applications/completed",
    f"{PARTITION}/application/gang",
    f"{PARTITION}/usage/users",
    f"{PARTITION}/usage/user/ann",
    f"{PARTITION}/usage/groups",
    f"{PARTITION}/usage/group/dev",
    "/ws/v1/events/batch?count=12",
    "/ws/v1/reasons",
    f"{PARTITION}/reasons?queue=root.dev",
    "/ws/v1/resource-hours?by=user",
    "/ws/v1/history/apps",
    "/ws/v1/history/containers",
    "/ws/v1/scheduler/node-utilizations",
    "/ws/v1/scheduler/healthcheck",
    "/ws/v1/fullstatedump",
    "/ws/v1/stack",
    "/debug/pprof",
    "/debug/pprof/",
    "/debug/pprof/heap",
    "/",
    "/ui/",
    f"{UI}/applications",
    f"{UI}/application/shop/asks",
    f"{UI}/application/shop/allocations",
    f"{UI}/nodes",
    f"{UI}/usage",
    f"{UI}/preemptions",
    f"{UI}/reservations",
    "/ui/api/partition/[rm2]default/calendar",
    "/ui/api/partition/[rm2]default/application/job/explain?key=third",
    f"{UI}/applications?sort=-pending.vcore",
    f"{UI}/history?queue=root.prod",
    f"{UI}/history?span=day",
    f"{UI}/sparks",
    f"{UI}/application/shop/standing?key=shop-1",
    f"{UI}/application/shop/timeline",
    f"{UI}/node/n1/allocations",
    f"{UI}/preemptions/sums",
    f"{UI}/queue/root.prod",
    f"{UI}/application/shop",
    f"{UI}/application/gang",
    f"{UI}/application/grow",
    f"{UI}/application/shop/explain?key=shop-1",
    f"{UI}/node/n1",
    f"{UI}/heat",
    f"{UI}/topology?level=rack",
    f"{UI}/usage/user/ann",
    "/ui/api/config?rm=rm1",
    "/ui/api/config/revisions?rm=rm1",
    "/ui/api/config/revision?rm=rm1",
    "/ui/api/config/revision?rm=rm1&revision=1",
    "/ui/api/events?rm=rm1&limit=3",
    "/ui/api/search?q=shop",
    "/ui/api/reasons?partition=default",
    f"{PARTITION}/queue/root.nowhere",
    f"{PARTITION}/application/nobody",
    f"{PARTITION}/applications/running",
    "/ws/v1/partition/nowhere/queues",
)
"""What is asked, in this order."""
ASKED_IN_CORNERS = (
    f"{PARTITION}/node/n1",
    f"{PARTITION}/node/n2",
    f"{PARTITION}/queue/root",
    f"{PARTITION}/applications/active?status=running",
    f"{PARTITION}/application/tired",
    f"{PARTITION}/usage/user/ann",
    f"{UI}/application/guest/allocations",
    f"{UI}/application/guest/explain?key=young",
    f"{UI}/node/n2/allocations",
    f"{UI}/usage/user/ann",
)
"""What is asked of the second scene."""
POSTED = ("/ws/v1/validate-conf",)
"""These get the scene's configuration."""
OF_THE_LIBRARY = ("process_", "python_")
"""Metrics that the client library of Prometheus makes."""
REFRESH, QUICK = re.compile(r'"refresh": \d+'), '"refresh": 2000'
"""It follows the cost of an answer, and that of a collection of garbage if one falls into it."""
NOT_RECORDED = {
    "/debug/fullstatedump": "all that the other paths say, once more",
    "/debug/stack": "what the process does at the moment",
    "/debug/pprof/goroutine": "the same",
    "/debug/pprof/cmdline": "how the tests were started",
    "/debug/pprof/profile": "what the process does for a time",
    "/metrics": "recorded by metrics, without values",
    "/ws/v1/metrics": "the same",
    "/ws/v1/events/stream": "does not end",
    "/ui/api/feed": "does not end",
    "/ui": "a file of the page",
    **dict.fromkeys(STATIC, "a file of the page"),
    **{
        f"/debug/pprof/{name}": "as heap is"
        for name in ("allocs", "block", "mutex", "symbol", "threadcreate", "trace")
    },
}
"""Paths that the recording leaves out, and why."""


def planned(driver: Driver) -> None:
    """Jobs of one size, of which one has started before it was planned to, and one is planned for later."""
    job = partial(ask, "job", vcore=8000)
    driver.do(
        apps(app("job", "root.batch", tags={"licorne/runtime": "600"}), rm="rm2"),
        asks(job("first"), job("second", tags={"licorne/runtime": "60"}), rm="rm2"),
        releases(release("job", "first"), rm="rm2"),
        asks(job("third", tags={"licorne/start-by": str(int(START) + 30)}), rm="rm2"),
    )


@pytest.fixture
def scene(site: Site) -> Site:
    """A full queue, a gang, a drained node, a victim, a planned start, and applications of each end."""
    driver = site.driver
    driver.do(register(CONFIG))
    site.events.begin(RmId(RM))
    driver.do(
        nodes(
            node("n1", attributes=PLACE, vcore=6000, memory=64 * GI),
            node("n2", vcore=4000, memory=32 * GI),
        ),
        apps(
            app("shop", "root.prod", groups=["dev"], tags={"team": "web"}),
            app("idle", "root.dev", user="bob"),
            app("over", "root.dev", user="bob"),
            app("lost", "root.nowhere.else", user="bob"),
            app("gang", "root.fleet", user="eve", gang={"vcore": 2000}),
            app("grow", "root.prod", tags={"licorne/gang-min": "2", "licorne/gang-max": "4"}),
        ),
        asks(foreign("alien", "n2", vcore=100), ask("grow", "far", required_node="n9", vcore=1)),
    )
    driver.do(asks(ask("over", "over-1", vcore=1000)), releases(release("over", "over-1")))
    driver.wait(31.5)
    shop = partial(ask, "shop", created=START - 1.5, tags=POD, vcore=1000, memory=GI)
    member = partial(ask, "gang", vcore=1000, memory=GI, group="workers")
    driver.do(
        asks(*(shop(f"shop-{n}", priority=n) for n in range(1, 6))),
        asks(member("p1", placeholder=True), member("p2", placeholder=True), member("r1")),
        cordon("n2"),
    )
    driver.wait(2.5)
    site.events.get(RM).append(list(driver.facts))
    driver.do(register(OTHERS, "rm2"), nodes(node("m1", vcore=8000), rm="rm2"))
    planned(driver)
    driver.scheduler.partitions[PartitionName("[rm1]default")].ledger.note(replace(victim("v"), ran=1800.0))
    first = Revisions(rm_id=RmId(RM)).adding(
        load(OTHERS), Source.REGISTRATION, time=int(START) * 10**9, by=""
    )
    site.revisions[RM] = first.adding(
        load(CONFIG), Source.OPERATOR, time=int(START + 9) * 10**9, by="bob", comment="more"
    )
    list(site.recorder.record(driver.now))
    site.history += [Sample(START, 2, 30), Sample(START + 60, 1, 0)]
    calls = Calls()
    calls.begin(Method("licorne.v1.State", "ListNodes", "unary"))
    calls.end(Method("licorne.v1.State", "ListNodes", "unary"), "OK", 0.25)
    measures = RmMeasures()
    measures.rejections["application", Refusal.INVALID] += 1
    site.figures = Figures(
        calls=calls,
        log_lines_dropped={"queue": 1},
        rms=(
            RmFigures(rm_id=RmId(RM), connected=True, since=START, measures=measures),
            RmFigures(rm_id=RmId("rm2"), connected=False, since=START),
        ),
    )
    return site


@pytest.fixture
def corners(site: Site) -> Site:
    """Asks for which a node is kept, an application that backs off, a notice, and memory of usage."""
    driver = site.driver
    driver.views.now = lambda: driver.now
    driver.do(
        register(CORNERS),
        nodes(
            node("n1", vcore=1000, memory=7),
            node("n2", memory=2),
            node("n3", vcore=800),
            node("n4", vcore=800),
        ),
        apps(app("keeper", "root.fair"), app("last", "root.last"), app("tired", "root.tired")),
        apps(app("guest", "root.guest"), app("owner", "root.owner")),
        asks(ask("keeper", "k1", vcore=500, memory=7), ask("tired", "t1", vcore=1)),
    )
    driver.do(
        asks(ask("guest", "old", memory=1, on_node="n2", policy="s", created=driver.now - 9)),
        asks(ask("guest", "young", memory=1, on_node="n2", policy="s")),
        asks(ask("keeper", "k4", vcore=600, required_node="n1")),
    )
    driver.wait(1800.0)
    driver.do(
        asks(ask("keeper", "k3", vcore=600, required_node="n1", priority=1)),
        asks(ask("owner", "o1", memory=1, policy="o")),
        asks(ask("tired", "big", priority=1, vcore=1200), ask("tired", "t2", vcore=1)),
    )
    driver.wait(5.0)
    return site


@pytest.mark.row(22, 41, 44, 46, 109, 114, 122, 164)
async def test_paths_answer_as_recorded(scene: Site, rewrite: bool) -> None:
    """Each path has the status, the kind of content and the body that it had."""
    await compare_paths(scene, ASKED, "rest", rewrite=rewrite)


@pytest.mark.row(103, 164)
async def test_corners_answer_as_recorded(corners: Site, rewrite: bool) -> None:
    """The same where something is kept, backs off, is under notice, or has been used up."""
    await compare_paths(corners, ASKED_IN_CORNERS, "rest_corners", rewrite=rewrite)


async def compare_paths(scene: Site, paths: Sequence[str], name: str, *, rewrite: bool) -> None:
    """Compare the answers of these paths with a recording."""
    said: list[str] = []
    for path in paths:
        method, given = ("POST", CONFIG.encode()) if path in POSTED else ("GET", None)
        status, headers, body = await scene.ask(path, method=method, body=given, follow=False)
        kind = headers["Content-Type"]
        said += ["", f"> {method} {path}", f"{status} {kind}"]
        if "Location" in headers:
            said.append(f"Location: {headers['Location']}")
        if kind.startswith("application/json"):
            said.append(REFRESH.sub(QUICK, compact(json.loads(body))))
        elif body:
            said.append(body.decode().rstrip())
    compare(name, said[1:], rewrite=rewrite)


def test_every_path_is_recorded_or_left_out(site: Site) -> None:
    """A new path is recorded here, or has a reason to be left out."""
    asked = {path.partition("?")[0] for path in ASKED}
    missing = [
        str(path)
        for path in site.paths
        if path not in NOT_RECORDED and not any(re.fullmatch(path, one) for one in asked)
    ]
    assert missing == []


async def test_metrics_are_as_recorded(scene: Site, rewrite: bool) -> None:
    """Each metric has the name, the type, the labels and the help that it had."""
    _, _, body = await scene.ask("/metrics")
    kinds: dict[str, str] = {}
    texts: dict[str, str] = {}
    labels: dict[str, set[str]] = {}
    for line in body.decode().splitlines():
        if line.startswith("# HELP "):
            _, _, name, texts[name] = line.split(" ", 3)
        elif line.startswith("# TYPE "):
            _, _, name, kinds[name] = line.split(" ", 3)
        else:
            sample, _, rest = line.rpartition(" ")[0].partition("{")
            name = sample if sample in kinds else sample.rpartition("_")[0]
            labels.setdefault(name, set()).update(re.findall(r'(\w+)="', rest))
    said = [
        f"{name}{{{', '.join(sorted(labels.get(name, ())))}}} {kind}: {texts[name]}"
        for name, kind in kinds.items()
        if not name.startswith(OF_THE_LIBRARY)
    ]
    compare("metrics", said, rewrite=rewrite)
