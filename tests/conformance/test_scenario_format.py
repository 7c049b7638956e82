"""Invalid scenario files are refused with the place of the mistake."""

from typing import Any

import pytest

from conformance.scenario import BadScenario, parse


def parsed(*steps: Any, **others: Any) -> list[tuple[str, Any]]:
    """The verbs and arguments of the steps of a scenario with the peer rm1."""
    document = {"about": "a test", "peers": {"rm1": {}}, "steps": list(steps), **others}
    return [(step.verb, step.given) for step in parse("name", document).steps]


def test_repetitions_are_numbered() -> None:
    """Steps, entries and texts are repeated for each number, with the number in their texts."""
    entries = [{"repeat": {"n": 2}, "event": "allocated", "key": "{w}-{n}-{other}"}]
    assert parsed(
        {"repeat": {"w": [3, 4]}, "steps": [{"expect": entries}]},
        {"absent": ["first", {"repeat": {"n": 2}, "text": "k{n}"}]},
    ) == [
        (
            "expect",
            [{"event": "allocated", "key": f"{w}-{n}-{{other}}"} for n in (1, 2)],
        )
        for w in (3, 4)
    ] + [("absent", ["first", "k1", "k2"])]


@pytest.mark.parametrize(
    ("step", "complaint"),
    [
        ("kill", "name: steps[0]: a mapping was expected"),
        ({"jump": 1}, "name: steps[0]: one of connect, do, expect"),
        ({"expect": [], "server": "kill"}, "name: steps[0]: one of connect, do, expect"),
        ({"expect": [], "befor": {}}, "name: steps[0]: unknown beside expect: ['befor']"),
        ({"connect": "rm2"}, "name: steps[0]: there is no peer 'rm2'"),
        ({"do": "mute", "peer": "rm2"}, "name: steps[0]: there is no peer 'rm2'"),
        ({"repeat": {"n": 2}, "steps": [{"jump": 1}]}, "name: steps[0].steps[0]: one of"),
        ({"repeat": {"n": [2, 1]}, "steps": []}, "name: steps[0]: repeat: a number or two"),
        ({"repeat": 2, "steps": []}, "name: steps[0]: repeat: one variable was expected"),
        ({"steps": [{"server": "kill"}], "peer": "rm1"}, "name: steps[0]: a group has nothing"),
        ({"steps": []}, "name: steps[0].steps: a list of steps was expected"),
        ({"do": "mute", True: True}, "name: steps[0]: a key is to be a text"),
    ],
)
def test_a_mistake_has_its_place(step: Any, complaint: str) -> None:
    """The message names the wrong step, and the mistake."""
    with pytest.raises(BadScenario) as refused:
        parsed(step)
    assert str(refused.value).startswith(complaint)


@pytest.mark.parametrize(
    ("others", "complaint"),
    [
        ({"about": None}, "name: about: a text was expected"),
        ({"peers": {}}, "name: peers: at least one was expected"),
        ({"seeds": []}, "name: seeds: a list of whole numbers was expected"),
        ({"tls": "rm1"}, "name: tls: true or false was expected"),
        ({"completing": "2s"}, "name: completing: a number of seconds was expected"),
        ({"completing": -1}, "name: completing: a number of seconds was expected"),
        ({"sedes": [1]}, "name: unknown: ['sedes']"),
    ],
)
def test_a_mistake_outside_of_steps_is_named(others: Any, complaint: str) -> None:
    """The other keys of a scenario are checked as well."""
    with pytest.raises(BadScenario) as refused:
        parsed({"server": "kill"}, **others)
    assert str(refused.value) == complaint
