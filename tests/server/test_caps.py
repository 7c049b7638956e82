"""The checks of text and sizes, each at its bound (reliability: bombs)."""

import pytest

from licorne_server.caps import (
    MAX_ID,
    MAX_TAG_BYTES,
    MAX_TAGS,
    id_problem,
    map_problem,
    rm_id_problem,
    tags_problem,
    text_problem,
)


@pytest.mark.parametrize("rm_id", ["[a", "a]", "]", "[a]"])
def test_brackets_of_either_side_are_refused(rm_id: str) -> None:
    """An rmID with a bracket could be taken for the name of a partition."""
    assert rm_id_problem(rm_id) == f"rmID must not hold '[' or ']': {rm_id}"


def test_what_is_as_long_as_allowed_is_fine() -> None:
    """The bounds themselves are allowed, one more is not."""
    assert not id_problem("key", "k" * MAX_ID)
    assert text_problem("key", "k" * (MAX_ID + 1)).startswith(f"key has {MAX_ID + 1} characters")
    assert not map_problem("tags", MAX_TAGS, MAX_TAGS)
    assert (
        map_problem("tags", MAX_TAGS + 1, MAX_TAGS) == "tags has 65 entries, at most 64 are allowed"
    )


def test_keys_of_tags_count_like_their_values() -> None:
    """All text of a map is bounded together, whichever side it stands on."""
    keys = {f"{n:0{MAX_ID}}": "" for n in range(MAX_TAGS)}
    left = MAX_TAG_BYTES - MAX_ID * MAX_TAGS
    assert not tags_problem("tags", {**keys, next(iter(keys)): "v" * left})
    assert tags_problem("tags", {**keys, next(iter(keys)): "v" * (left + 1)}) == (
        f"tags has {MAX_TAG_BYTES + 1} characters, at most {MAX_TAG_BYTES} are allowed"
    )
