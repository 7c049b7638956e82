"""`licorne topology`: free room by domain, and the largest gang for each."""

import argparse

import pytest

from licorne.v1.state_pb2 import ListTopologyResponse, TopologyDomain
from licorne_cli.nouns.topology import in_one_line, is_inside, largest, nodes, shape


@pytest.mark.parametrize(
    ("text", "amounts"),
    [
        ("vcore=2", {"vcore": 2000}),
        ("vcore=1.25,memory=4Gi", {"vcore": 1250, "memory": 4 * 2**30}),
        ("vcore=250m, nvidia.com/gpu=8", {"vcore": 250, "nvidia.com/gpu": 8}),
        ("memory=512", {"memory": 512}),
    ],
)
def test_a_shape_is_parsed_in_displayed_units(text: str, amounts: dict[str, int]) -> None:
    """Cores, bytes and counts are converted to the amounts of the wire."""
    assert shape(text) == amounts


@pytest.mark.parametrize(
    "text",
    [
        *("", "vcore", "vcore=", "vcore=0", "vcore=-1", "vcore=1.2345", "vcore=1e3", "vcore=1,vcore=2"),
        *("memory=4G", "memory=0", "=3", "gpu=1.5", "gpu=²", "gpu=" + "9" * 30, "vcore=1,"),
    ],
)
def test_an_invalid_shape_is_refused(text: str) -> None:
    """Amounts must be above zero, each for one name, and nothing is guessed."""
    with pytest.raises(argparse.ArgumentTypeError):
        shape(text)


def test_a_domain_includes_those_inside() -> None:
    """Paths are compared by their parts, not by their letters."""
    assert [path for path in ("a", "a/b", "ab", "b/a") if is_inside(path, "a")] == ["a", "a/b"]
    assert is_inside("a/b", "")


def domain(level: str, path: str, slots: int) -> TopologyDomain:
    """A domain of four nodes, one of which is closed."""
    return TopologyDomain(level=level, path=path, nodes=4, schedulable_nodes=3, slots=slots)


def test_the_largest_gang_is_printed_for_each_level() -> None:
    """Of equal domains the first is printed, and levels without room are left out."""
    domains = [
        domain("zone", "a", 5),
        domain("rack", "a/1", 2),
        domain("rack", "a/2", 3),
        domain("zone", "b", 5),
        domain("rack", "b/1", 3),
        domain("switch", "b/1/x", 0),
    ]
    answer = ListTopologyResponse(levels=["zone", "rack", "switch"], shape={"vcore": 2000}, domains=domains)
    assert {level: one.path for level, one in largest(domains).items()} == {
        "zone": "a",
        "rack": "a/2",
        "switch": "b/1/x",
    }
    assert in_one_line(answer, domains) == (
        "the largest gang of vcore=2 that would start now has 5 members in one zone (a), 3 in one rack (a/2)"
    )
    assert in_one_line(answer, domains[-1:]) == "no member of vcore=2 would start now"
    assert nodes(domains[0]) == "3 of 4"


def test_slots_need_a_shape() -> None:
    """If no ask waits, the output explains how to give a shape."""
    answer = ListTopologyResponse(levels=["zone"], domains=[domain("zone", "a", 0)])
    assert "size of a member with --shape" in in_one_line(answer, answer.domains)
