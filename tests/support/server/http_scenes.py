"""Small clusters whose answers over HTTP are recorded in ``data/recorded/rest``."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from extensions.drains.building import cordon
from licorne_core.config import load
from licorne_core.messages.commands import NodeAction
from licorne_core.values.errors import Refusal
from licorne_core.values.ids import PartitionName, RmId
from licorne_server.reads.history.recorder import Sample
from licorne_server.reads.sources import EventFigures, Figures, RmFigures
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
    happened,
    node,
    nodes,
    register,
    release,
    releases,
    victim,
)
from support.core.driver import START, Driver
from support.server import http_site
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
GPU = """\
  - name: gpu
    nodesortpolicy: {type: binpacking, resourceweights: {vcore: 4.5, memory: 1}}
    preemption: {enabled: false}
    queues: [{name: open}]
"""


def planned(driver: Driver) -> None:
    """Jobs of one size: one has started before its planned time, and one is planned for later."""
    job = partial(ask, "job", vcore=8000)
    driver.do(
        apps(app("job", "root.batch", tags={"licorne/runtime": "600"}), rm="rm2"),
        asks(job("first"), job("second", tags={"licorne/runtime": "60"}), rm="rm2"),
        releases(release("job", "first"), rm="rm2"),
        asks(job("third", tags={"licorne/start-by": str(int(START) + 30)}), rm="rm2"),
    )


def figures() -> Figures:
    """Counters of the server: a call, a rejection, and two RMs, one of which is connected."""
    calls = Calls()
    calls.begin(Method("licorne.v1.State", "ListNodes", "unary"))
    calls.end(Method("licorne.v1.State", "ListNodes", "unary"), "OK", 0.25)
    measures = RmMeasures()
    measures.rejections["application", Refusal.INVALID] += 1
    measures.turn.observe(0.02)
    return Figures(
        calls=calls,
        log_lines_dropped={"queue": 1},
        inbox=1,
        commands=7,
        turns=5,
        turn_seconds=0.25,
        rms_forgotten=4,
        memory=1000,
        memory_limit=900,
        shortage=1,
        rms=(
            RmFigures(
                rm_id=RmId(RM),
                connected=True,
                since=START,
                outbox_messages=3,
                outbox_bytes=99,
                resyncs=2,
                events=EventFigures(noted=7, told=5),
                measures=measures,
            ),
            RmFigures(rm_id=RmId("rm2"), connected=False, since=START),
        ),
    )


def busy(site: Site) -> None:
    """A full queue, a gang, a drained node, a victim, a planned start, and running and ended applications."""
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
    site.figures = figures()


def corners(site: Site) -> None:
    """Asks for which a node is reserved, a back-off, a notice, and decayed usage."""
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


def nothing(site: Site) -> None:
    """No RM has registered."""


def names(site: Site) -> None:
    """Queues with special characters in their names, and two RMs with partitions of the same name."""
    odd = "[{name: 'a@b:c'}, {name: a/b}, {name: dynamic}]"
    site.driver.do(
        register(config(odd, rest="nodesortpolicy: {type: spread, attribute: si/zone}")),
        register(config("[{name: open}]") + GPU, rm="rm-a", extra={"log.level": "debug", "flag": "true"}),
    )


def town(site: Site) -> None:
    """An RM with two queues, two nodes, an application that runs and one that waits."""
    site.driver.do(
        register(config("[{name: runs}, {name: full, resources: {max: {vcore: 2}}}]")),
        nodes(node("n1", vcore=8000, memory=100), node("n2", vcore=8000, memory=100)),
        apps(app("runner", "root.runs", user="ann"), app("waiter", "root.full", user="bob")),
        asks(
            ask("runner", "r1", vcore=1000, memory=10),
            ask("waiter", "w1", vcore=2000, memory=10),
            ask("waiter", "w2", vcore=1000, memory=10),
        ),
    )
    http_site.happened(site)


def told(site: Site) -> None:
    """The town, with its events in the log of the RM."""
    town(site)
    site.events.begin(RmId(RM))
    site.events.get(RM).append(tuple(site.driver.facts))


def racks(site: Site) -> None:
    """The town, with three more nodes in two racks, whose host names are not unique."""
    town(site)
    places = ({"rack": "r2", "host": "a"}, {"rack": "r1", "host": "a"}, {"rack": "r2", "host": "a"})
    site.driver.do(nodes(*(node(f"x{n}", attributes=place, vcore=1) for n, place in enumerate(places))))


def zones(site: Site) -> None:
    """Three racks in two zones, with two nodes of four cores each; one ask waits for its only node."""
    site.driver.do(register(config("[{name: a}]", properties="{topology.levels: 'zone,rack'}")))
    for zone, rack in ("a1", "a2", "b1"):
        place = {"zone": zone, "rack": rack}
        site.driver.do(nodes(*(node(f"{zone}{rack}-{n}", attributes=place, vcore=4000) for n in (1, 2))))
    sizes = (("r1", 1500), ("r2", 1500), ("r3", 3500))
    site.driver.do(
        apps(app("app", "root.a")),
        asks(*(ask("app", key, required_node="a1-1", vcore=n) for key, n in sizes)),
    )


def uneven(site: Site) -> None:
    """Nodes with different usage, one drained and one decommissioned; refused and ended asks."""
    queues = "[{name: a, maxapplications: 4, resources: {guaranteed: {vcore: 1}, max: {vcore: 8}}}]"
    site.driver.do(
        register(config(queues)),
        nodes(*[node(f"n{n}", vcore=1000, ephemeral_storage=n) for n in range(6)]),
        apps(app("app-1", "root.a"), app("app-2", "root.nowhere")),
        asks(
            ask("app-1", "full", on_node="n1", vcore=1000),
            ask("app-1", "ten", on_node="n2", vcore=100),
            ask("app-1", "more", on_node="n3", vcore=101),
            ask("app-1", "a tenth", on_node="n4", vcore=100),
            ask("app-1", "above it", on_node="n5", vcore=101),
            ask("app-1", "big", vcore=5000),
            ask("app-9", "nobody", vcore=1),
        ),
        nodes(node("n0", NodeAction.DRAIN_NODE), node("n1", vcore=1)),
        nodes(node("lost", partition="nowhere", vcore=1)),
        asks(ask("app-1", "made", vcore=50)),
        releases(release("app-1", "ten"), release("app-1", "made")),
        nodes(node("n3", NodeAction.DECOMISSION)),
    )


def events(site: Site) -> None:
    """An RM with ten events, of which the ring keeps six."""
    extra = {"event.ringBufferCapacity": "6", "event.RESTResponseSize": "4"}
    site.driver.do(register(config("[{name: a}]"), extra=extra))
    site.events.begin(RmId(RM))
    site.events.get(RM).append(happened(RM, 0, 10).facts)


def no_events(site: Site) -> None:
    """An RM without events."""
    site.driver.do(register(config("[{name: a}]")))
    site.events.begin(RmId(RM))


def victims(site: Site) -> None:
    """Three victims: two belong to one application, and two have the same key."""
    site.driver.do(register("partitions: [{name: default, queues: [{name: root}]}]"))
    ledger = site.driver.scheduler.partitions[PartitionName("[rm1]default")].ledger
    for key, app_id in (("a", "low"), ("b", "low"), ("a", "other")):
        ledger.note(victim(key, app_id))


PLACES = (busy, corners, nothing, names, town, told, racks, zones, uneven, events, no_events, victims)
SCENES: dict[str, Callable[[Site], None]] = {place.__name__: place for place in PLACES}
