"""Names of the things in a cluster, one type each, so that they cannot be mixed up.

An id is whatever the resource manager (RM) calls the thing. Only `PartitionName` is ours: it is always the
normalized form ``[rmID]name`` (spec § 1.6.5). A submitter is a user and the groups of that user.
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
    """The normalized name of an RM's partition: ``[rmID]name``."""
    return PartitionName(f"[{rm_id}]{bare or DEFAULT_PARTITION}")


def bare_partition(name: PartitionName) -> str:
    """The partition's name without its RM, as the configuration spells it."""
    return name.partition("]")[2]


def partition_key(name: PartitionName) -> str:
    """Common key of the names of one partition of an RM, in any case of letters."""
    return bare_partition(name).lower()


def rm_of(name: PartitionName) -> RmId:
    """Return the RM of the partition."""
    return RmId(name[1:].partition("]")[0])


def normalize_partition(rm_id: RmId, name: str) -> PartitionName | None:
    """Partition of the RM by its name on the wire; None when it is another RM's.

    The wire may say nothing, the bare name, or the bracketed name of its own RM
    (spec § 1.6.5). Any case of ``default`` means the default partition. Other names stay as they
    are spelt: compare them by their `partition_key`.
    """
    bare = name
    if name.startswith("["):
        if not name.startswith(f"[{rm_id}]"):
            return None
        bare = bare_partition(PartitionName(name))
    return partition_name(rm_id, DEFAULT_PARTITION if bare.lower() == DEFAULT_PARTITION else bare)


@dataclass(frozen=True, slots=True)
class UserGroup:
    """A user name and its groups, as the RM reported or the resolver found them."""

    user: str
    groups: tuple[str, ...] = ()
