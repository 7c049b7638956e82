"""Tables of slots for gangs: their contents, and their lifetime."""

from weakref import ref

from licorne_core.config.schema import NodeSortPolicy
from licorne_core.model.nodes.book import NodeBook
from licorne_core.scheduling.gang_slots import Slots, SlotTables
from licorne_core.values.asks import AskClass


class Layout:
    """A layout of domains, for which slots are added up."""


def test_tables_of_a_former_layout_are_dropped() -> None:
    """Tables of a former layout are dropped; tables of all nodes, which have no layout, are kept."""
    tables, wanted = SlotTables(NodeBook(NodeSortPolicy()), 10), AskClass.of({"vcore": 1})
    everywhere = tables.of(wanted, None, Slots)
    before, now = Layout(), Layout()
    tables.of(wanted, before, Slots)
    gone = ref(before)
    del before
    assert gone() is not None
    tables.of(wanted, now, Slots)
    assert gone() is None
    assert tables.of(wanted, None, Slots) is everywhere
