"""The differences in the answer of `ValidateConfiguration`."""

import grpc
import pytest

from licorne.v1 import admin_pb2 as pb
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_core.config import load
from licorne_server.services.admin.messages import MAX_BYTES, MAX_CHANGES, differences
from support.peers.shim import Shim

CONFIG = """
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - {name: a, resources: {max: {vcore: 1500m, memory: 4Gi}}}
          - {name: b, submitacl: "*"}
"""
OTHER = """
partitions:
  - name: default
    nodesortpolicy: {type: binpacking}
    queues:
      - name: root
        queues:
          - {name: a, resources: {max: {vcore: 2, memory: 4096Mi}}}
          - {name: c, maxapplications: 3}
"""
CHANGES = {
    "partition default": ("changed", {"node sort policy": ("auto", "binpacking")}),
    "queue root.a": ("changed", {"max": ("memory=4Gi,vcore=1500m", "memory=4Gi,vcore=2")}),
    "queue root.b": ("removed", {"submit acl": ("*", "")}),
    "queue root.c": ("added", {"max applications": ("", "3")}),
}


def plain(changes: list[pb.ConfigurationChange]) -> dict[str, object]:
    """Changes by name: how, and the values that differ."""
    return {
        change.name: (
            change.change,
            {value.name: (value.before, value.after) for value in change.values},
        )
        for change in changes
    }


def wide(acl: str, count: int) -> str:
    """A configuration with this number of queues, each with this ACL."""
    queues = ", ".join(f'{{name: q{i}, submitacl: "{acl}"}}' for i in range(count))
    root = f"{{name: root, queues: [{queues}]}}"
    return f"partitions: [{{name: default, queues: [{root}]}}]"


async def test_a_text_is_compared_with_what_runs(shim: Shim, channel: grpc.aio.Channel) -> None:
    """Each partition and queue that differs has its values before and after, in normal form."""
    await shim.register(CONFIG)
    admin = AdminStub(channel)
    request = pb.ValidateConfigurationRequest(config=OTHER, compare_rm_id="rm")
    answer = await admin.ValidateConfiguration(request)
    assert (answer.allowed, answer.compared, answer.change_count) == (True, True, len(CHANGES))
    assert plain(list(answer.changes)) == CHANGES
    request.config = f"# as it was\n{CONFIG}"
    answer = await admin.ValidateConfiguration(request)
    assert (answer.compared, list(answer.changes)) == (True, [])


async def test_a_comparison_is_asked_for(shim: Shim, channel: grpc.aio.Channel) -> None:
    """Without an RM, or with a refused text, there is none; the RM has to exist."""
    await shim.register(CONFIG)
    admin = AdminStub(channel)
    answer = await admin.ValidateConfiguration(pb.ValidateConfigurationRequest(config=OTHER))
    assert (answer.allowed, answer.compared, answer.change_count) == (True, False, 0)
    broken = pb.ValidateConfigurationRequest(config="[1]", compare_rm_id="rm")
    answer = await admin.ValidateConfiguration(broken)
    assert (answer.allowed, answer.compared) == (False, False)
    unknown = pb.ValidateConfigurationRequest(config=OTHER, compare_rm_id="nobody")
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await admin.ValidateConfiguration(unknown)
    assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION


@pytest.mark.parametrize(
    ("acl", "count", "listed"),
    [("*", MAX_CHANGES, MAX_CHANGES), ("*", MAX_CHANGES + 5, MAX_CHANGES), ("u" * 50_000, 40, 20)],
    ids=["all", "too many", "too long"],
)
def test_the_list_is_bounded_and_the_count_is_not(acl: str, count: int, listed: int) -> None:
    """No configuration makes an answer larger than a client accepts."""
    found = differences(load(wide(acl, 1)), load(wide(acl, 1 + count)))
    assert (len(found.changes), found.total) == (listed, count)
    assert sum(change.ByteSize() for change in found.changes) <= MAX_BYTES
