"""Policies that a simulation compares: a name for a set of settings.

A policy sets properties of root and settings of the partition, in a configuration of the operator or in a
generated one. Only a generated configuration gets queues from the policy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

import yaml

from licorne_core.config import load
from licorne_core.values.errors import shown
from licorne_core.values.names import ROOT
from licorne_core.values.resources import Resources, print_quantity

MAX_QUEUES: Final = 5_000


class QueueLayout(Enum):
    """The queues of a configuration that is generated for a workload without rules of its own."""

    ONE = "root.jobs"
    BY_USER = "root.users.{user}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Named settings; `summary` describes them in a few words.

    `properties` are those of root. With `guarantees` each queue of a generated configuration has an equal
    share of the cluster as its guarantee.
    """

    name: str
    summary: str
    properties: Mapping[str, str] = field(default_factory=dict)
    layout: QueueLayout = QueueLayout.ONE
    preemption: bool = False
    guarantees: bool = False
    node_order: str = "binpacking"

    @property
    def of_made(self) -> str:
        """A description of the policy, for runs with a generated configuration."""
        queues = "a queue for each user" if self.layout is QueueLayout.BY_USER else "one queue"
        return f"{queues}, each with an equal guarantee" if self.guarantees else queues


_PLAIN: Final = {"application.sort.policy": "fifo", "application.sort.priority": "disabled"}
_EVERY: Final = (
    Policy(
        name="strict",
        summary="first come, first served: nothing passes the first waiting job",
        properties={**_PLAIN, "application.sort.policy": "strict"},
    ),
    Policy(
        name="fifo",
        summary="jobs in order of arrival; those that fit pass those that wait for room",
        properties=_PLAIN,
    ),
    Policy(
        name="fifo-spread",
        summary="as fifo, with jobs spread over the nodes instead of packed",
        properties=_PLAIN,
        node_order="fair",
    ),
    Policy(
        name="priority",
        summary="higher priorities first",
        properties={**_PLAIN, "application.sort.priority": "enabled"},
    ),
    Policy(
        name="fair",
        summary="the queue with the least usage first, relative to its guarantee if it has one",
        properties=_PLAIN,
        layout=QueueLayout.BY_USER,
    ),
    Policy(
        name="fair-preempting",
        summary="as fair; a queue below its guarantee has others' jobs stopped after 15 minutes",
        properties={**_PLAIN, "preemption.delay": "15m"},
        layout=QueueLayout.BY_USER,
        preemption=True,
        guarantees=True,
    ),
    Policy(
        name="backfill-easy",
        summary="as fifo; the first waiting job has a planned start, which jobs that pass it must not delay",
        properties={**_PLAIN, "backfill": "easy"},
    ),
    Policy(
        name="backfill-shortest",
        summary="as backfill-easy; of those that may pass, the one that should run shortest goes first",
        properties={**_PLAIN, "backfill": "easy", "backfill.order": "shortest"},
    ),
    Policy(
        name="backfill-conservative",
        summary="as backfill-easy, with planned starts for many waiting jobs",
        properties={**_PLAIN, "backfill": "conservative"},
    ),
    Policy(
        name="fair-memory",
        summary="as fair, by past usage; usage of a day ago counts half",
        properties={**_PLAIN, "fairshare.half-life": "24h"},
        layout=QueueLayout.BY_USER,
    ),
    Policy(
        name="fair-memory-easy",
        summary="fair-memory with the backfill of backfill-easy",
        properties={**_PLAIN, "fairshare.half-life": "24h", "backfill": "easy"},
        layout=QueueLayout.BY_USER,
    ),
)

POLICIES: Final[Mapping[str, Policy]] = {policy.name: policy for policy in _EVERY}
"""The policies by name."""


def made_config(policy: Policy, queues: Sequence[str], capacity: Resources) -> str:
    """A configuration for these leaves with the settings of the policy, as YAML.

    Raises:
        ValueError: there are too many queues, or a path is not below root.
    """
    if len(queues) > MAX_QUEUES:
        raise ValueError(f"{len(queues)} queues, at most {MAX_QUEUES} are made: give rules by --map")
    root: dict[str, Any] = {"name": ROOT, "submitacl": "*"}
    guaranteed = (
        _amounts({name: amount // len(queues) for name, amount in capacity.items()}) if queues else {}
    )
    for path in queues:
        first, *names = path.split(".")
        if first != ROOT or not names:
            raise ValueError(f"queue '{shown(path)}' is not below {ROOT}")
        parent = root
        for name in names:
            parent = _child(parent, name)
        if policy.guarantees and guaranteed:
            parent["resources"] = {"guaranteed": dict(guaranteed)}
    return yaml.safe_dump({"partitions": [{"name": "default", "queues": [root], **_settings(policy, root)}]})


def with_policy(config: str, policy: Policy) -> str:
    """A configuration of the operator with the settings of the policy, as YAML.

    Raises:
        ConfigError: the configuration is invalid.
    """
    document = yaml.safe_load(load(config, required=True).text)
    for partition in document["partitions"]:
        queues = partition["queues"]
        if len(queues) != 1 or str(queues[0]["name"]).lower() != ROOT:
            queues = partition["queues"] = [{"name": ROOT, "queues": queues}]
        partition.update(_settings(policy, queues[0]))
    return yaml.safe_dump(document, sort_keys=False)


def _child(parent: dict[str, Any], name: str) -> dict[str, Any]:
    children = parent.setdefault("queues", [])
    for child in children:
        if child["name"] == name:
            return child  # type: ignore[no-any-return]
    children.append({"name": name})
    return children[-1]  # type: ignore[no-any-return]


def _settings(policy: Policy, root: dict[str, Any]) -> dict[str, Any]:
    """Put properties into root; returns the settings of the partition."""
    root["properties"] = {**root.get("properties", {}), **policy.properties}
    return {
        "preemption": {"enabled": policy.preemption},
        "nodesortpolicy": {"type": policy.node_order},
    }


def _amounts(size: Resources) -> dict[str, str]:
    return {name: print_quantity(name, amount) for name, amount in size.items()}
