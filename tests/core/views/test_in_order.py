"""Long lists are read in small steps, without one long sort."""

from licorne_core.values.ids import PartitionName
from licorne_core.values.slices import RUN
from licorne_core.views import InOrder
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, remove_apps
from support.core.driver import Driver

DEFAULT = PartitionName("[rm1]default")


def test_names_are_sorted_in_parts_with_pauses() -> None:
    """Names are sorted in parts, with a pause for each part, whatever the order of the input."""
    names = [f"{number:05}" for number in range(3 * RUN)]
    found = list(InOrder(names[::-1]))
    assert found == [None] * 3 + names
    assert list(InOrder[str]([])) == []


def test_a_list_continues_after_the_name_in_a_token() -> None:
    """The name in a token need not exist, and does not change the total."""
    names = InOrder(["d", "b", "c", "a"])
    assert [name for name in names.behind("b") if name] == ["c", "d"]
    assert [name for name in names.behind("bb") if name] == ["c", "d"]
    assert [name for name in names if name] == ["a", "b", "c", "d"]
    assert names.count == 4


def test_unwanted_names_are_skipped_in_parts() -> None:
    """A list of the applications of one queue pauses while it skips applications of other queues."""
    driver = Driver()
    driver.do(register(config("[{name: few}, {name: many}]")))
    driver.do(apps(*(app(f"many-{number:04}", "root.many") for number in range(2 * RUN))))
    driver.do(apps(app("few-2", "root.few"), app("few-1", "root.few")))
    found = driver.views.app_ids_in_order(DEFAULT, queue="root.FEW")
    walk = iter(found)
    assert [next(walk) for _ in range(3)] == [None, None, None]
    driver.do(remove_apps("few-2"))
    assert list(walk) == ["few-1", "few-2"], "names of the moment at which they were looked at"
    assert found.count == 2 * RUN + 2


def test_a_scan_for_allocations_pauses_among_very_many_asks() -> None:
    """A reader of allocations may pause while it passes many asks without an allocation."""
    driver = Driver()
    driver.do(register(config("[{name: a}]")), apps(app("one", "root.a")))
    driver.do(asks(*(ask("one", f"k{number}", vcore=1) for number in range(3 * RUN))))
    assert list(driver.views.allocations(DEFAULT, "one")) == [None] * 3
    driver.do(nodes(node("n1", vcore=1)))
    found = list(driver.views.allocations(DEFAULT, "one"))
    assert found.count(None) == 3
    assert [item[0].node_id for item in found if item] == ["n1"]
