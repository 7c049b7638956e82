"""The checks of texts and sizes, at their bounds."""

import pytest

from licorne_server.wire.caps import (
    MAX_EXTRA_BYTES,
    MAX_EXTRA_ENTRIES,
    MAX_ID,
    extra_problem,
    id_problem,
    map_problem,
    rm_id_problem,
    tags_problem,
    text_problem,
)


@pytest.mark.parametrize("rm_id", ["[a", "a]", "]", "[a]"])
def test_brackets_of_either_side_are_refused(rm_id: str) -> None:
    """An rmID with a bracket could be mistaken for the name of a partition."""
    assert rm_id_problem(rm_id) == f"rmID must not hold '[' or ']': {rm_id}"


def test_bounds_are_inclusive() -> None:
    """Values at the bounds are allowed, and larger ones are not."""
    assert not id_problem("key", "k" * MAX_ID)
    assert text_problem("key", "k" * (MAX_ID + 1)).startswith(f"key has {MAX_ID + 1} characters")
    assert not map_problem("types", 64, 64)
    assert map_problem("types", 65, 64) == "types has 65 entries, at most 64 are allowed"
    assert not tags_problem("tags", ["k" * MAX_ID])
    assert tags_problem("tags", ["k" * (MAX_ID + 1)]).startswith(f"tags key has {MAX_ID + 1} characters")


def test_the_number_of_extra_entries_is_bounded() -> None:
    """The number of entries is bounded, however small they are."""
    most = {str(number): "" for number in range(MAX_EXTRA_ENTRIES)}
    assert not extra_problem("extraConfig", most)
    assert extra_problem("extraConfig", {**most, "k": ""}) == (
        "extraConfig has 2001 entries, at most 2000 are allowed"
    )


def test_keys_of_the_extra_configuration_count() -> None:
    """Keys and values are bounded together in bytes."""
    left = MAX_EXTRA_BYTES - len("é".encode()) - 1
    assert not extra_problem("extraConfig", {"é": "v" * left, "k": ""})
    assert extra_problem("extraConfig", {"é": "v" * left, "k": "v"}) == (
        f"extraConfig has {MAX_EXTRA_BYTES + 1} bytes, at most {MAX_EXTRA_BYTES} are allowed"
    )
