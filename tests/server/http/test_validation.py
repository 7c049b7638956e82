"""The check of a configuration over REST."""

import json
from typing import Any

from licorne_core.config import DEFAULT_CONFIG, checksum_of
from support.builders import register
from support.http_site import Site


async def validate(site: Site, body: bytes) -> Any:
    """The answer's JSON; whatever the verdict, the request itself succeeds."""
    status, _, answer = await site.ask("/ws/v1/validate-conf", method="POST", body=body)
    assert status == 200
    return json.loads(answer)


async def test_good_configuration(site: Site) -> None:
    """A configuration that would be taken is allowed, and its checksum told."""
    assert await validate(site, DEFAULT_CONFIG.encode()) == {
        "allowed": True,
        "reason": "",
        "checksum": checksum_of(DEFAULT_CONFIG),
        "checksumMatch": False,
    }


async def test_checksum_in_the_text_is_compared(site: Site) -> None:
    """A checksum that the text carries matches when it is the text's own."""
    right = f'{DEFAULT_CONFIG}checksum: "{checksum_of(DEFAULT_CONFIG)}"\n'
    wrong = f'{DEFAULT_CONFIG}checksum: "{"0" * 64}"\n'

    assert (await validate(site, right.encode()))["checksumMatch"] is True
    assert (await validate(site, wrong.encode()))["checksumMatch"] is False


async def test_bad_configuration_tells_all(site: Site) -> None:
    """A configuration that would be refused comes back with every problem and its place."""
    answer = await validate(
        site, b"partitions:\n  - name: default\n    queues: [{name: 'a b'}, {name: a.b}]\n"
    )

    assert answer["allowed"] is False
    assert "partitions[0].queues[0].name" in answer["reason"]
    assert "partitions[0].queues[1].name" in answer["reason"]


async def test_garbage_is_refused(site: Site) -> None:
    """Bytes that are no text, or no YAML, are a refusal and not a failure."""
    for body in (b"\xff\xfe", b"{", b"- ]", b"a: b: c", b"[" * 100_000, b"\0"):
        answer = await validate(site, body)
        assert (answer["allowed"], answer["reason"] != "") == (False, True)


async def test_validation_changes_nothing(site: Site) -> None:
    """The running configuration is what it was, whatever was checked."""
    site.driver.do(register("partitions: [{name: default, queues: [{name: a}]}]"))
    before = await site.ask("/ws/v1/config")

    await validate(site, DEFAULT_CONFIG.encode())

    assert (await site.ask("/ws/v1/config"))[2] == before[2]
