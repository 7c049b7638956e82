"""Packing items into requests."""

from licorne.outgoing import MAX_BYTES, Packer
from licorne.si.v1 import si_pb2 as si
from licorne.v1.session_pb2 import UpdateRequest


def asks(*keys: str) -> list[si.Allocation]:
    """Asks with these keys."""
    return [si.Allocation(allocationKey=key) for key in keys]


def releases(*keys: str) -> list[si.AllocationRelease]:
    """Releases of these keys."""
    return [si.AllocationRelease(allocationKey=key) for key in keys]


def taken(packer: Packer) -> list[UpdateRequest]:
    """Everything in the packer."""
    requests = []
    while (request := packer.take()) is not None:
        requests.append(request)
    return requests


def words(requests: list[UpdateRequest]) -> list[str]:
    """What the requests say, one text each."""
    return [
        " ".join(
            [f"+{item.allocationKey}" for item in request.allocations.allocations]
            + [f"-{r.allocationKey}" for r in request.allocations.releases.allocationsToRelease]
        )
        or str(request.WhichOneof("message"))
        for request in requests
    ]


def test_calls_share_a_request() -> None:
    """Asks of several calls leave in one message."""
    packer = Packer()
    packer.allocations(asks("a"))
    packer.allocations(asks("b", "c"))
    assert packer.items == 3
    assert words(taken(packer)) == ["+a +b +c"]
    assert packer.items == 0


def test_order_survives_packing() -> None:
    """An ask made after a release is in a later message, because releases come last in one."""
    packer = Packer()
    packer.allocations(asks("a"))
    packer.releases(releases("a"))
    packer.releases(releases("b"))
    packer.allocations(asks("a"))
    assert words(taken(packer)) == ["+a -a -b", "+a"]


def test_kinds_keep_their_order() -> None:
    """Nodes, applications and asks leave in the order of the calls."""
    packer = Packer()
    packer.nodes([si.NodeInfo(nodeID="n")])
    packer.new_applications([si.AddApplicationRequest(applicationID="x")])
    packer.removed_applications([si.RemoveApplicationRequest(applicationID="x")])
    packer.new_applications([si.AddApplicationRequest(applicationID="x")])
    packer.allocations(asks("a"))
    assert words(taken(packer)) == ["nodes", "applications", "applications", "+a"]


def test_no_request_exceeds_the_limits() -> None:
    """A message carries at most `max_items` items and about half a MiB."""
    packer = Packer(max_items=2)
    packer.allocations(asks("a", "b", "c"))
    assert words(taken(packer)) == ["+a +b", "+c"]
    packer = Packer()
    packer.allocations([si.Allocation(allocationKey="k" * 100_000) for _ in range(12)])
    requests = taken(packer)
    assert sum(len(request.allocations.allocations) for request in requests) == 12
    assert max(request.ByteSize() for request in requests) < MAX_BYTES + 1000


def test_a_giant_item_travels_alone() -> None:
    """An item above the size limit is not held back: the server has to judge it."""
    packer = Packer()
    packer.allocations(asks("a", "k" * (MAX_BYTES + 1), "b"))
    assert len(taken(packer)) == 3
