"""How much is done at a time, under a clock that a test moves."""

from licorne_core.values.ids import RmId
from licorne_server.engine.portions import ALONE, TOGETHER, TOGETHER_SECONDS, PortionChooser

ONE, TWO = RmId("one"), RmId("two")


def test_portions_are_small_while_several_rms_are_at_work() -> None:
    """One RM alone gets large portions; two that take turns get small ones, and for a while."""
    now = 100.0
    chooser = PortionChooser(lambda: now)
    for _ in range(2):
        chooser.note(ONE)
        assert chooser.choose() is ALONE
    chooser.note(TWO)
    assert chooser.choose() is TOGETHER
    now += TOGETHER_SECONDS / 2
    chooser.note(ONE)
    now += TOGETHER_SECONDS * 0.75
    assert chooser.choose() is TOGETHER
    now += TOGETHER_SECONDS / 2
    chooser.note(ONE)
    assert chooser.choose() is ALONE
