"""Validation of a configuration over REST."""

import json
from typing import Any

import pytest

from licorne_core.config import DEFAULT_CONFIG, checksum_of
from support.core.builders import register
from support.core.configurations import WRONG
from support.server.http_site import Site


async def validate(site: Site, body: bytes) -> Any:
    """The JSON of the answer; the request succeeds whatever the verdict is."""
    status, _, answer = await site.ask("/ws/v1/validate-conf", method="POST", body=body)
    assert status == 200
    return json.loads(answer)


async def test_a_valid_configuration_is_allowed(site: Site) -> None:
    """A valid configuration is allowed, with its checksum."""
    assert await validate(site, DEFAULT_CONFIG.encode()) == {
        "allowed": True,
        "reason": "",
        "checksum": checksum_of(DEFAULT_CONFIG),
        "checksumMatch": False,
    }


@pytest.mark.parametrize("body", [b"", b" \n", b"# nothing\n", b"---\n", b"null\n"])
async def test_an_empty_text_is_refused(site: Site, body: bytes) -> None:
    """A text without content is refused, as by an update (spec 2.5 row 1)."""
    answer = await validate(site, body)
    assert (answer["allowed"], answer["checksum"]) == (False, "")
    assert "scheduler config is not set" in answer["reason"]


async def test_a_checksum_in_the_text_is_compared(site: Site) -> None:
    """A checksum in the text matches if it is that of the text."""
    right = f'{DEFAULT_CONFIG}checksum: "{checksum_of(DEFAULT_CONFIG)}"\n'
    wrong = f'{DEFAULT_CONFIG}checksum: "{"0" * 64}"\n'

    assert (await validate(site, right.encode()))["checksumMatch"] is True
    assert (await validate(site, wrong.encode()))["checksumMatch"] is False


async def test_all_problems_are_reported(site: Site) -> None:
    """An invalid configuration has every problem with its place."""
    answer = await validate(
        site, b"partitions:\n  - name: default\n    queues: [{name: 'a b'}, {name: a.b}]\n"
    )

    assert answer["allowed"] is False
    assert "partitions[0].queues[0].name" in answer["reason"]
    assert "partitions[0].queues[1].name" in answer["reason"]


@pytest.mark.row(23, 25, 26, 29, 31, 32, 35, 36, 37, 38, 56, 58, 78)
async def test_an_invalid_configuration_is_refused_with_its_reason(site: Site) -> None:
    """The verdict on an invalid text is the one that an update would have."""
    for name, (text, reason) in WRONG.items():
        answer = await validate(site, text.encode())
        assert (answer["allowed"], reason in answer["reason"]) == (False, True), name


@pytest.mark.row(24, 26, 28, 36, 37, 43)
@pytest.mark.parametrize(
    "partition",
    [
        "queues: [{name: x}, {name: p, queues: [{name: x}]}]",
        f"queues: [{{name: {'x' * 64}}}]",
        "queues: [{name: p, parent: false, queues: [{name: x}]}]",
        (
            "limits: [{users: [u], maxapplications: 1}], queues: [{name: root, limits: "
            "[{users: [u], maxapplications: 1}]}]"
        ),
        "queues: [{name: p, maxapplications: 2, queues: [{name: x, maxapplications: 2}]}]",
        "nodesortpolicy: fair, queues: [{name: x}]",
    ],
    ids=["a name twice", "64 letters", "no parent", "limits twice", "applications", "node order"],
)
async def test_texts_close_to_invalid_ones_are_allowed(site: Site, partition: str) -> None:
    """Each text resembles one that is refused, and is itself allowed."""
    answer = await validate(site, f"partitions: [{{name: default, {partition}}}]".encode())
    assert answer["allowed"] is True, answer["reason"]


async def test_invalid_bytes_are_refused(site: Site) -> None:
    """Bytes that are no text, or no YAML, are a refusal and not a failure."""
    for body in (b"\xff\xfe", b"{", b"- ]", b"a: b: c", b"[" * 100_000, b"\0"):
        answer = await validate(site, body)
        assert (answer["allowed"], answer["reason"] != "") == (False, True)


async def test_validation_changes_nothing(site: Site) -> None:
    """The running configuration is unchanged, whatever was validated."""
    site.driver.do(register("partitions: [{name: default, queues: [{name: a}]}]"))
    before = await site.ask("/ws/v1/config")

    await validate(site, DEFAULT_CONFIG.encode())

    assert (await site.ask("/ws/v1/config"))[2] == before[2]
