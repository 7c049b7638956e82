"""An explanation ends, whatever happens between its steps."""

import pytest

from licorne_core.values.errors import NotFound
from licorne_core.values.ids import PartitionName
from licorne_core.views import explain
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, release, releases
from support.core.driver import Driver

DEFAULT = PartitionName("[rm1]default")
MOST = 200


def test_it_gives_up_on_an_application_whose_asks_never_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At each step the ask that is explained goes, and another one comes: the answer says so."""
    monkeypatch.setattr(explain, "STEP", 1)
    driver = Driver()
    driver.do(register(config("[{name: a}]")), nodes(node("n", vcore=1)))
    driver.do(apps(app("one", "root.a")), asks(ask("one", "k0", vcore=2)))
    steps = driver.views.explain(DEFAULT, "one")

    def read() -> None:
        for number, _ in zip(range(MOST), steps, strict=False):
            driver.do(releases(release("one", f"k{number}")))
            driver.do(asks(ask("one", f"k{number + 1}", vcore=2)))

    with pytest.raises(NotFound, match="asks of application one change faster than one can be"):
        read()
