"""The runner of the scenarios detects faults of a client; here peers only print lines."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from conformance.matching import matches, values_at
from conformance.peers import Failed, Peer

# The peer reads the command first: one that has ended cannot receive it.
SAYS = "import sys; input(); [print(line, flush=True) for line in sys.argv[1:]]"
K1 = {"event": "allocated", "key": "k1", "node": "n1"}
K2 = {"event": "allocated", "key": "k2", "node": "n2"}
FINAL = {"event": "final", "error": "Closed"}


async def saying(*lines: Mapping[str, Any] | str) -> Peer:
    """A peer that has printed these lines and ended."""
    peer = Peer("rm1", lambda _: None)
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    await peer.start([sys.executable, "-c", SAYS, *texts], {})
    await peer.finish()
    return peer


@pytest.mark.parametrize(
    ("wanted", "options"),
    [
        ([{"key": "k3"}], {}),
        ([K1, K1], {}),
        ([K2, K1], {"in_order": True}),
        ([K2], {"before": {"key": "k1"}}),
        ([K1], {"before": {"key": "k3"}}),
    ],
)
async def test_a_missing_event_fails(wanted: Sequence[Mapping[str, Any]], options: Mapping[str, Any]) -> None:
    """An event that is missing, came only once, too late, or in the wrong order fails the step."""
    peer = await saying(K1, K2, FINAL)
    with pytest.raises(Failed, match="rm1"):
        await peer.expect(wanted, **options)


async def test_a_step_has_its_own_time() -> None:
    """An event that is missing after the time of the step fails it, and the text has the time."""
    peer = Peer("rm1", lambda _: None)
    await peer.start([sys.executable, "-c", "import sys; sys.stdin.read()"], {})
    try:
        with pytest.raises(Failed, match="not within 0 s"):
            await peer.expect([K1], patience=0.05)
    finally:
        await peer.kill()


async def test_an_event_meets_one_expectation() -> None:
    """Events are found in any order, others are kept, and no event meets two expectations."""
    peer = await saying(K1, FINAL, K2)
    await peer.expect([K2, K1])
    await peer.expect([{"event": "final"}])
    with pytest.raises(Failed):
        await peer.expect([{"event": "allocated"}])


async def test_a_forbidden_event_fails() -> None:
    """A forbidden event fails, unless it precedes the prohibition."""
    peer = await saying(K1, K2)
    peer.check_absent([{"key": "k1"}], since=1)
    with pytest.raises(Failed, match="must not come"):
        peer.check_absent([{"key": "k2"}], since=1)


async def test_a_repeated_allocation_fails() -> None:
    """Two allocations of one key are detected, even on different nodes."""
    peer = await saying(K1, K2, {**K1, "node": "n2"})
    peer.check_once({"event": "final"}, "error")
    with pytest.raises(Failed, match="came twice"):
        peer.check_once({"event": "allocated"}, "key")


async def test_an_ended_peer_is_not_waited_for() -> None:
    """The runner waits neither for an answer nor for an event of a peer that has ended."""
    peer = await saying(K1)
    with pytest.raises(Failed, match="has ended"):
        await peer.tell({"do": "nodes", "nodes": []})


async def test_a_failing_peer_is_detected() -> None:
    """A line that is no JSON is printed, and an exit code other than 0 fails."""
    peer = await saying(K1, "Traceback")
    with pytest.raises(Failed, match="Traceback"):
        peer.check_absent([{"event": "no JSON"}])
    peer = Peer("rm1", lambda _: None)
    await peer.start([sys.executable, "-c", "input(); raise SystemExit(3)"], {})
    with pytest.raises(Failed, match="exit code 3"):
        await peer.finish()


@pytest.mark.parametrize(
    ("pattern", "value", "fits"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1}, {"b": 2}, False),
        ({"a": {}}, {"a": {"b": 1}}, False),
        ({"a": {}}, {"a": {}}, True),
        (0, False, False),
        ([1, 2], [2, 1], False),
        ({"any_order": [1, 2]}, [2, 1], True),
        ({"any_order": [1, 1]}, [1, 2], False),
        ({"any_order": [1]}, [1, 1], False),
        ({"one_of": [1, 2]}, 2, True),
        ({"one_of": [1, 2]}, 3, False),
        ({"matches": "^k"}, "k1", True),
        ({"matches": "^k"}, 1, False),
    ],
)
def test_patterns_match_as_documented(pattern: Any, value: Any, *, fits: bool) -> None:
    """Each form of a pattern matches what the page of the scenarios describes, and nothing else."""
    assert matches(pattern, value) is fits


def test_paths_collect_from_lists() -> None:
    """A path collects values from the items of a list, and finds nothing in an empty list."""
    document = {"apps": [{"keys": ["a", "b"]}, {"keys": ["c"]}]}
    assert values_at("apps.keys", document) == ["a", "b", "c"]
    assert values_at("apps.names.first", {"apps": None}) is None
