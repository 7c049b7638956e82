"""Tags of asks and applications that the core reads."""

import pytest

from licorne_core.extensions.backfill import START_BY
from licorne_core.values.asks import Ask
from licorne_core.values.errors import Refusal, Rejected
from licorne_core.values.tags import RUNTIME, check_tags, read_seconds
from support.core.builders import app, apps, ask, asks, config, node, nodes, register
from support.core.driver import Driver, refused, refused_apps


def test_seconds_of_a_tag_are_parsed() -> None:
    """Positive whole seconds are accepted, and a missing tag gives None."""
    assert read_seconds({RUNTIME: "3600"}, RUNTIME) == 3600
    assert read_seconds({START_BY: "9999999999"}, RUNTIME) is None


@pytest.mark.parametrize("text", ["", "0", "00", "-1", "+1", "1.5", "1h", " 1", "¹", "1" * 11, "1" * 100_000])
def test_an_invalid_tag_is_refused_with_its_name(text: str) -> None:
    """A text that is no positive whole number is refused; the error has the tag and value, cut if long."""
    with pytest.raises(Rejected) as refused:
        check_tags({"other": "x", START_BY: text})
    assert refused.value.code is Refusal.INVALID
    assert START_BY in str(refused.value)
    assert f"'{text[:64]}" in str(refused.value)
    assert len(str(refused.value)) < 200


def test_items_with_an_invalid_tag_are_rejected() -> None:
    """The rejection of an ask or application names the invalid tag; unknown `licorne/` tags are accepted."""
    driver = Driver()
    driver.do(register(config("[{name: a}]")), nodes(node("n1")))
    bad, good = {RUNTIME: "soon"}, {"licorne/other": "x", RUNTIME: "5"}
    effects = driver.do(apps(app("app-1", "root.a", tags=bad), app("app-2", "root.a", tags=good)))
    assert refused_apps(effects) == {
        "app-1": "tag licorne/runtime: 'soon' is no whole number of seconds above zero"
    }
    effects = driver.do(asks(_ask("k1", bad), _ask("k2", good)))
    assert refused(effects) == {"k1": "tag licorne/runtime: 'soon' is no whole number of seconds above zero"}


def _ask(key: str, tags: dict[str, str]) -> Ask:
    wanted = ask("app-2", key, memory=1)
    wanted.tags = tags
    return wanted
