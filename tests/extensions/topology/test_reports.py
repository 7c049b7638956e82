"""Reports of free room by topology domain."""

from extensions.drains.building import cordon
from licorne_core.extensions.topology.reports import DomainReport
from licorne_core.messages.commands import PredicatePolicy
from licorne_core.values.asks import Ask
from licorne_core.values.ids import PartitionName
from support.core.builders import app, apps, ask, asks, config, node, nodes, register
from support.core.driver import Driver
from support.core.steps import last

DEFAULT = PartitionName("[rm1]default")
LEVELS = "{topology.levels: 'zone,rack'}"
GANG = {"licorne/topology": "required=zone"}


def member(key: str, on_node: str | None = None) -> Ask:
    """A placeholder of the gang, placed on the node if one is given."""
    return ask("gang", key, vcore=4, on_node=on_node, group="g", placeholder=True)


def cluster() -> Driver:
    """Two zones: `a` with the racks 1 and 2, and `b` with its own rack 1; one node is in no rack."""
    driver = Driver()
    places = (("a", "1"), ("a", "1"), ("a", "2"), ("b", "1"), ("b", ""))
    driver.do(
        register(config("[{name: x}, {name: full, resources: {max: {vcore: 5m}}}]", properties=LEVELS)),
        nodes(
            *(
                node(f"n{number}", vcore=10, attributes={"zone": zone, **({"rack": rack} if rack else {})})
                for number, (zone, rack) in enumerate(places)
            )
        ),
        apps(app("gang", "root.x", tags=GANG, gang={"vcore": 36}), app("other", "root.x")),
        asks(member("g", on_node="n0"), ask("other", "o", vcore=6, on_node="n2")),
    )
    return driver


def domains(driver: Driver, level: str = "", **shape: int) -> dict[str, DomainReport]:
    """The reported domains by path, in the order of the report."""
    found = last(driver.views.listed("topology", DEFAULT, level, shape))
    return {report.path: report for report in found.domains}


def test_each_domain_has_the_sums_of_its_nodes() -> None:
    """A domain precedes its inner domains; racks of one name in two zones are different domains."""
    found = domains(cluster(), vcore=5)
    assert list(found) == ["a", "a/1", "a/2", "b", "b/1"]
    assert [report.level for report in found.values()] == ["zone", "rack", "rack", "zone", "rack"]
    assert [report.nodes for report in found.values()] == [3, 2, 1, 2, 1]
    assert [report.slots for report in found.values()] == [3, 3, 0, 4, 2]
    assert [report.members for report in found.values()] == [1, 1, 0, 0, 0]
    assert (found["a"].capacity, found["a"].available) == ({"vcore": 30}, {"vcore": 20})
    assert list(domains(cluster(), "rack", vcore=5)) == ["a/1", "a/2", "b/1"]


def test_a_slot_is_room_for_an_ask() -> None:
    """A cordoned node has no slot, nor has a node without room for all types of the shape."""
    driver = cluster()
    driver.do(cordon("n1"))
    rack = domains(driver, vcore=5)["a/1"]
    assert (rack.nodes, rack.schedulable_nodes, rack.slots, rack.available) == (2, 1, 1, {"vcore": 6})
    assert domains(driver, vcore=1, gpu=1)["a"].slots == 0


def test_the_default_shape_is_that_of_a_waiting_gang_or_ask() -> None:
    """The default shape is the first waiting topology gang; without one, the largest ask that fits."""
    driver = cluster()
    assert last(driver.views.listed("topology", DEFAULT)).shape == {}
    assert {report.slots for report in last(driver.views.listed("topology", DEFAULT)).domains} == {0}
    driver.do(asks(ask("other", "never", vcore=11), *(ask("other", f"o{n}", vcore=9) for n in range(4))))
    assert last(driver.views.listed("topology", DEFAULT)).shape == {"vcore": 9}
    driver.do(apps(app("capped", "root.full")), asks(*(ask("capped", f"c{n}", vcore=3) for n in range(2))))
    assert last(driver.views.listed("topology", DEFAULT)).shape == {"vcore": 3}
    driver.do(asks(*(member(f"m{number}") for number in range(8))))
    assert last(driver.views.listed("topology", DEFAULT)).shape == {"vcore": 4}


def test_a_report_says_if_slots_were_counted_without_the_rm() -> None:
    """If the RM judges nodes, the report says that slots were counted without its answers."""
    driver = Driver()
    driver.do(register(config("[{name: a}]"), predicates=PredicatePolicy(deadline=1.0)))
    assert last(driver.views.listed("topology", PartitionName("[rm1]default"))).unasked
    driver.do(register(config("[{name: a}]"), rm="easy"))
    assert not last(driver.views.listed("topology", PartitionName("[easy]default"))).unasked


def test_domains_are_ordered_by_their_paths() -> None:
    """Domains are ordered by their displayed paths, even with a slash in a value."""
    driver = Driver()
    racks = ("/r/1", "r", "/r")
    driver.do(
        register(config("[{name: x}]", properties="{topology.levels: rack}")),
        nodes(*(node(f"n{n}", vcore=1, attributes={"rack": rack}) for n, rack in enumerate(racks))),
    )
    assert list(domains(driver, vcore=1)) == ["/r", "/r/1", "r"]


def test_a_partition_without_levels_has_no_domains() -> None:
    """A partition without the property reports no domains."""
    driver = Driver()
    driver.do(register(config("[{name: x}]")), nodes(node("n", vcore=1, attributes={"rack": "1"})))
    assert [*driver.views.listed("topology_levels", DEFAULT)] == []
    assert domains(driver, vcore=1) == {}
