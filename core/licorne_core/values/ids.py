"""Names of objects of a cluster, each kind with its own type against mix-ups.

Ids are those of the resource manager (RM). Only `PartitionName` is the core's own: always the
normalized form ``[rmID]name`` (spec § 1.6.5). A submitter is a user and the user's groups.
"""

from dataclasses import dataclass
from typing import NewType

RmId = NewType("RmId", str)
PartitionName = NewType("PartitionName", str)
QueuePath = NewType("QueuePath", str)
AppId = NewType("AppId", str)
AllocationKey = NewType("AllocationKey", str)
NodeId = NewType("NodeId", str)

DEFAULT_PARTITION = "default"


def partition_name(rm_id: RmId, bare: str) -> PartitionName:
    """Normalized name of an RM's partition: ``[rmID]name``."""
    return PartitionName(f"[{rm_id}]{bare or DEFAULT_PARTITION}")


def bare_partition(name: PartitionName) -> str:
    """Name of the partition without its RM, as the configuration spells it."""
    return name.partition("]")[2]


def partition_key(name: PartitionName) -> str:
    """Key of a partition within its RM; equal for names that differ in case only."""
    return bare_partition(name).lower()


def rm_of(name: PartitionName) -> RmId:
    """RM of the partition."""
    return RmId(name[1:].partition("]")[0])


def normalize_partition(rm_id: RmId, name: str) -> PartitionName | None:
    """Normalized name for a name on the wire; None if it names another RM's partition.

    The name may be empty, bare, or have the RM in brackets (spec § 1.6.5). Any case of ``default``
    means the default partition. Other names keep their case: compare them by `partition_key`.
    """
    bare = name
    if name.startswith("["):
        if not name.startswith(f"[{rm_id}]"):
            return None
        bare = bare_partition(PartitionName(name))
    return partition_name(rm_id, DEFAULT_PARTITION if bare.lower() == DEFAULT_PARTITION else bare)


@dataclass(frozen=True, slots=True)
class UserGroup:
    """A user name and its groups, from the RM or from the resolver."""

    user: str
    groups: tuple[str, ...] = ()
