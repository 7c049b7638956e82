"""The differences in the answer of `ValidateConfiguration`."""

import pytest

from licorne_core.config import load
from licorne_server.services.admin.messages import MAX_BYTES, MAX_CHANGES, differences


def wide(acl: str, count: int) -> str:
    """A configuration with this number of queues, each with this access list."""
    queues = ", ".join(f'{{name: q{i}, submitacl: "{acl}"}}' for i in range(count))
    root = f"{{name: root, queues: [{queues}]}}"
    return f"partitions: [{{name: default, queues: [{root}]}}]"


@pytest.mark.parametrize(
    ("acl", "count", "listed"),
    [("*", MAX_CHANGES, MAX_CHANGES), ("*", MAX_CHANGES + 5, MAX_CHANGES), ("u" * 50_000, 40, 20)],
    ids=["all", "too many", "too long"],
)
def test_listed_differences_are_bounded_and_all_are_counted(acl: str, count: int, listed: int) -> None:
    """No configuration makes an answer larger than a client accepts."""
    found = differences(load(wide(acl, 1)), load(wide(acl, 1 + count)))
    assert (len(found.changes), found.total) == (listed, count)
    assert sum(change.ByteSize() for change in found.changes) <= MAX_BYTES
