"""Applications in a back-off, from its beginning to its end (spec § 8.3a)."""

import pytest

from licorne_core.extensions.back_off.extension import TIMER
from licorne_core.values.errors import InvariantBroken
from licorne_core.values.ids import AppId
from licorne_core.views.audit.invariants import check_invariants
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, remove_apps
from support.core.driver import Driver, keys

PROPERTIES = "{application.unschedasks.backoff: '1', application.unschedasks.backoff.delay: 9s}"


def backing_off() -> Driver:
    """A core with an application that backs off, because its first ask fits nowhere."""
    core = Driver()
    core.do(
        register(config(f"[{{name: a, properties: {PROPERTIES}}}]")),
        nodes(node("n1", vcore=10), node("n2", vcore=10)),
        apps(app("app", "root.a")),
        asks(ask("app", "big", vcore=11), ask("app", "small", vcore=1)),
    )
    return core


def end_of(core: Driver) -> object:
    """The end of the back-off in the report of the application; 0.0 without a back-off."""
    return core.app("app").extended["backoff_until"]


def test_a_back_off_ends_at_its_time() -> None:
    """During a back-off no ask of the application is tried, and at its end a fitting one is placed."""
    core = backing_off()
    assert end_of(core) == core.now + 9
    assert keys(core.do(nodes(node("n3", vcore=11)))) == []
    assert keys(core.wait(8.9)) == []
    assert "backs off" in core.explain("app", "small").summary
    assert (keys(core.wait(0.2)), end_of(core)) == (["big", "small"], 0.0)


def test_a_removed_application_has_no_back_off() -> None:
    """A removed application leaves no deadline of its back-off."""
    core = backing_off()
    partition = core.partition
    assert partition.timers.deadline(TIMER) == core.now + 9
    core.do(remove_apps("app"))
    assert partition.timers.deadline(TIMER) is None


def test_a_back_off_without_an_end_is_detected() -> None:
    """The audit reports an application whose back-off would never end."""
    core = backing_off()
    partition = core.partition
    extension = partition.check_context.extensions["back_off"]
    extension._ends.cancel(partition.applications[AppId("app")])
    with pytest.raises(InvariantBroken, match=r"A4: .* backs off until None"):
        check_invariants(core.scheduler)
