"""The secret of a deployment."""

import asyncio

import pytest

from licorne_server.store.coordination.secret import KEY, METADATA, Secret, deployment_secret
from licorne_server.store.documents.documents import Document, StoreError
from support.members import Documents


class Slow(Documents):
    """A store whose reads all precede the first write."""

    async def read(self, key: str) -> Document:
        """The document, after a pause."""
        found = await super().read(key)
        await asyncio.sleep(0)
        return found


async def test_members_that_start_together_share_a_secret() -> None:
    """The first one to write creates the secret, which is long, and all others use it."""
    store = Slow()
    [secret, *others] = await asyncio.gather(*(deployment_secret(store) for _ in range(5)))
    assert set(others) == {secret}
    assert len(secret) == 64
    assert await deployment_secret(store) == secret
    assert await deployment_secret(Documents()) != secret


@pytest.mark.parametrize("value", [b"\xff", b"a b", b"x" * 2000])
async def test_an_invalid_secret_is_refused(value: bytes) -> None:
    """A member does not start with a document that is no secret, or that no metadata can carry."""
    store = Documents()
    await store.compare_and_set(KEY, value, 0)
    with pytest.raises(StoreError, match="is no secret"):
        await deployment_secret(store)


@pytest.mark.parametrize(
    ("given", "right"),
    [
        (["abc"], True),
        ([b"abc"], True),
        ([], False),
        (["abcd"], False),
        (["ä"], False),
        (["abc", "abc"], False),
    ],
)
def test_only_the_exact_secret_is_accepted(given: list[str | bytes], *, right: bool) -> None:
    """Nothing, another secret, and two secrets are refused; so is everything before the secret is read."""
    assert Secret("abc").is_in([(METADATA, value) for value in given]) is right
    assert not Secret().is_in([(METADATA, "")])
