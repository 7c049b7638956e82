"""The cost of other RMs for an RM, counted and not timed."""

from pathlib import Path

import pytest

import licorne_core
import licorne_server
from support.wire.one_ask import trace_one_ask

FOLDERS = [Path(package.__path__[0]) for package in (licorne_core, licorne_server)]


@pytest.mark.pure
def test_an_ask_costs_the_same_however_many_rms_are_connected() -> None:
    """Idle sessions of others are not examined on the way of an ask."""
    few, many = (trace_one_ask(FOLDERS, others) for others in (1, 6))
    assert many.calls == few.calls
