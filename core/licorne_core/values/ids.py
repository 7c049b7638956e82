"""Names of objects of a cluster; each kind has its own type, so that they cannot be mixed up.

Ids are assigned by the resource manager (RM), except `PartitionName`, which is always in the normalized form
``[rmID]name`` (spec § 1.6.5). A submitter is a user with the user's groups.
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
    """Key of a partition within its RM, which is equal for names that differ only in case."""
    return bare_partition(name).lower()


def rm_of(name: PartitionName) -> RmId:
    """RM of the partition."""
    return RmId(name[1:].partition("]")[0])


def normalize_partition(rm_id: RmId, name: str) -> PartitionName | None:
    """Normalized name for a name on the wire; None if it names another RM's partition.

    The name may be empty, bare, or have the RM in brackets (spec § 1.6.5). ``default`` in any case means the
    default partition. Other names are unchanged, and must be compared by `partition_key`.
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
