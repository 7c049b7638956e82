"""The search for a placeholder to be replaced by an ask that requires a node (§ 6.5)."""

from licorne_core.scheduling.replacing import Obstacles
from licorne_core.standard.placeholders.search import PLACEHOLDERS_OF_A_TRY, ReplacementSearch
from licorne_core.values.ids import AppId
from support.core.builders import app, apps, ask, asks, config, node, nodes, register
from support.core.driver import Driver, released

MANY = 48


def gang(*sizes: int) -> Driver:
    """A gang whose placeholders of these sizes each fill a node, and as many nodes filled by `other`."""
    driver = Driver()
    driver.do(register(config("[{name: a}]")))
    driver.do(nodes(*[node(f"full{number}", memory=1) for number in range(len(sizes))]))
    driver.do(apps(app("other", "root.a"), app("job", "root.a", gang={"memory": sum(sizes)})))
    driver.do(asks(*[ask("other", f"o{number}", memory=1) for number in range(len(sizes))]))
    for number, size in enumerate(sizes):
        driver.do(nodes(node(f"kept{number}", memory=size)))
        driver.do(asks(ask("job", f"p{number}", placeholder=True, group="g", memory=size)))
    return driver


def test_asks_that_require_nodes_examine_few_placeholders() -> None:
    """For an ask that requires a node only placeholders on that node are examined."""
    driver = gang(*[1] * MANY)
    partition = driver.partition
    bound = [
        ask("job", f"r{number}", group="g", required_node=f"full{number}", memory=1) for number in range(MANY)
    ]
    assert driver.do(asks(*bound)) == []
    search = ReplacementSearch(partition.check_context)
    found = search.find(partition.applications[AppId("job")], partition.cycle.gangs)
    assert isinstance(found, Obstacles)
    assert 0 < search.work < MANY * PLACEHOLDERS_OF_A_TRY


def test_an_ask_replaces_the_placeholder_on_its_required_node() -> None:
    """An ask that requires a node skips earlier placeholders on other nodes."""
    driver = gang(2, 2, 2)
    effects = driver.do(asks(ask("job", "r", group="g", required_node="kept2", memory=2)))
    assert [key for _, key, *_ in released(effects)] == ["p2"]


def test_an_earlier_placeholder_that_is_too_small_is_cancelled() -> None:
    """A too small placeholder ahead of the replaced one is cancelled, on any node; later ones are kept."""
    driver = gang(2, 1, 2, 1)
    effects = driver.do(asks(ask("job", "r", group="g", required_node="kept2", memory=2)))
    assert [(key, why) for _, key, why, _ in released(effects)] == [
        ("p1", "TIMEOUT"),
        ("p2", "PLACEHOLDER_REPLACED"),
    ]
