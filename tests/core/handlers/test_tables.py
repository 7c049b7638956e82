"""The tables of commands, decisions and deadlines are complete."""

from typing import Any, get_args, get_type_hints

import pytest

from licorne_core import scheduler
from licorne_core.features import BITS, modules
from licorne_core.handlers import turn
from licorne_core.messages.commands import OfNoRm, OfRm, RefuseNewWork, RegisterRm, Tick
from licorne_core.scheduling.gang_placement import Together
from licorne_core.scheduling.measures import Remedy
from licorne_core.scheduling.stages import Stage
from licorne_core.values.timers import Due
from support.core.unions import kinds_of


def test_the_table_has_every_command_of_an_rm() -> None:
    """The table has all commands of an RM except the registration, before which the RM does not exist."""
    assert set(scheduler._COMMANDS) == kinds_of(OfRm) - {RegisterRm}
    kernel = [module for module in vars(scheduler).values() if hasattr(module, "COMMANDS")]
    every = (*kernel, *(module for _, module in modules("handlers")))
    tables = [getattr(module, "COMMANDS", {}) for module in every]
    assert sum(map(len, tables)) == len(scheduler._COMMANDS)


def test_the_table_has_every_command_without_an_rm() -> None:
    """The table has all commands without an RM except the tick, which the scheduler itself handles."""
    assert set(scheduler._SHARED_COMMANDS) == kinds_of(OfNoRm) - {Tick, RefuseNewWork}


@pytest.mark.pure
def test_the_table_has_every_decision() -> None:
    """The table has all kinds of decisions except single placements and those of extensions."""
    found: set[Any] = set(get_args(Together))
    kinds: list[Any] = [*Stage.__subclasses__(), *Remedy.__subclasses__()]
    for kind in kinds:
        hint = get_type_hints(kind.decide)["return"]
        found |= {
            one for one in get_args(hint) or (hint,) if isinstance(one, type) and issubclass(one, tuple)
        }
    assert found <= set(turn._DECISIONS)


def test_every_deadline_has_a_handler() -> None:
    """Each deadline has a handler, except `GO_ON`, which continues the work of another."""
    assert {*Due} <= set(turn._DEADLINES) <= {*Due, *BITS}
    idle = {due for due, one in turn._DEADLINES.items() if one.fire is None and one.work is None}
    assert idle == {Due.GO_ON}
