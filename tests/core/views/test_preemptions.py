"""Reports of preemption: the list of victims, and explanations of ended victims."""

import pytest

from licorne_core.messages.preemption import PreemptionRule
from licorne_core.partitions.partition import Partition
from licorne_core.values.errors import NotFound
from licorne_core.values.ids import PartitionName
from support.core.builders import TIME, app, apps, ask, asks, config, node, nodes, register, victim
from support.core.driver import Driver

CONFIG = config("[{name: low}, {name: high}]")
NAME = PartitionName("[rm1]default")


@pytest.fixture
def driver() -> Driver:
    """A core with an application that has one allocation in root.low."""
    driver = Driver()
    driver.do(
        register(CONFIG),
        nodes(node("n1", vcore=10)),
        apps(app("low", "root.low")),
        asks(ask("low", "there", vcore=1)),
    )
    return driver


@pytest.fixture
def partition(driver: Driver) -> Partition:
    """The partition, whose ledger the tests write."""
    return driver.partition


def test_victims_are_listed_the_latest_first(driver: Driver, partition: Partition) -> None:
    """Victims are listed latest first, optionally only those of one application, of one key, or of both."""
    for key, app_id in (("a", "low"), ("b", "low"), ("a", "other")):
        partition.ledger.note(victim(key, app_id))

    def found(app_id: str = "", key: str = "") -> list[tuple[str, str]]:
        return [(item.app_id, item.key) for item in driver.views.preemptions(NAME, app_id, key)]

    assert found() == [("other", "a"), ("low", "b"), ("low", "a")]
    assert found(app_id="low") == [("low", "b"), ("low", "a")]
    assert found(key="a") == [("other", "a"), ("low", "a")]
    assert found(app_id="low", key="a") == [("low", "a")]
    assert found(app_id="nobody") == []


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        (
            PreemptionRule.GUARANTEE,
            "for ask k of application app, as queue root.high was below its guarantee",
        ),
        (
            PreemptionRule.FAIR_SHARE,
            "for ask k of application app, as queue root.high was below its fair share",
        ),
        (
            PreemptionRule.REQUIRED_NODE,
            "for ask k of application app, which may go to no other node",
        ),
        (PreemptionRule.QUOTA, "because queue root had more than its maximum"),
    ],
)
@pytest.mark.parametrize("app_id", ["low", "gone"])
def test_an_ended_victim_is_explained(
    driver: Driver, partition: Partition, rule: PreemptionRule, why: str, app_id: str
) -> None:
    """An ended victim is explained by its beneficiary and rule, even after the end of its application."""
    partition.ledger.note(victim("v", app_id, rule=rule, released=TIME))
    explained = driver.explain(app_id, "v")
    assert (explained.verdict, explained.queue, explained.node_id) == (
        "preempted",
        "root.low",
        "n1",
    )
    assert explained.summary == f"preempted on node n1 {why}"
    assert explained.is_victim


def test_a_new_ask_under_the_key_of_a_victim_is_explained(driver: Driver, partition: Partition) -> None:
    """The explanation has the present state of the key, followed by the end of the earlier victim."""
    driver.do(asks(ask("low", "waits", vcore=99), ask("low", "never", vcore=99)))
    for key in ("there", "waits"):
        partition.ledger.note(victim(key, released=TIME))
    explained = driver.explain("low", "there")
    assert (explained.verdict, explained.summary) == ("allocated", "allocated on node n1")
    assert explained.is_victim
    assert driver.explain("low", "waits").is_victim
    assert not driver.explain("low", "never").is_victim


def test_unknown_asks_are_not_found(driver: Driver, partition: Partition) -> None:
    """Explanations of an unknown key or application raise NotFound, even if the ledger has a victim."""
    partition.ledger.note(victim("v"))
    with pytest.raises(NotFound, match="application low has no ask w"):
        driver.explain("low", "w")
    with pytest.raises(NotFound, match="application nobody not found"):
        driver.explain("nobody", "v")
