"""The oracle's view of a configuration: only the parts that its worlds use.

It is read with PyYAML and without the product's code, so that a fault of the parser is detected.
"""

import json
from functools import lru_cache
from typing import Any

import yaml

from licorne_core.messages.commands import RegisterRm, UpdateConfiguration
from support.oracle.books import Amounts
from support.oracle.queues import QueueRecord
from support.oracle.terms import LimitRecord, NodeOrder

NOT_INHERITED = ("priority.policy", "priority.offset", "preemption.policy", "fairshare.weight")


@lru_cache(maxsize=256)
def partitions_of(text: str) -> dict[str, dict[str, Any]]:
    """The partitions of a configuration by name, in order; callers must not change them."""
    return {part["name"]: part for part in yaml.load(text, Loader=yaml.CSafeLoader)["partitions"]}


def text_of(command: RegisterRm | UpdateConfiguration) -> str:
    """The text that the command's configuration was parsed from; worlds always send one."""
    assert command.config is not None, "worlds send every configuration"
    return command.config.text


def amounts(written: dict[str, Any] | None) -> Amounts:
    """Resource amounts: ``500m`` of vcore, plain numbers of everything else."""
    found: Amounts = {}
    for name, value in (written or {}).items():
        milli = str(value).endswith("m")
        assert milli == (name == "vcore"), f"worlds write vcore in milli, and only vcore: {value}"
        found[name] = int(str(value).removesuffix("m"))
    return found


def queue_records(partition: dict[str, Any]) -> dict[str, QueueRecord]:
    """All queues of a partition's configuration by path, parents before children."""
    records: dict[str, QueueRecord] = {}
    (root,) = partition["queues"]
    _add_queue(records, root, root["name"], {})
    records["root"].is_leaf = False
    records["root"].limits += [_limit(written) for written in partition.get("limits") or []]
    return records


def node_order(partition: dict[str, Any]) -> NodeOrder:
    """The node sort policy."""
    policy = partition.get("nodesortpolicy") or {}
    weights = policy.get("resourceweights") or {"memory": 1.0, "vcore": 1.0}
    return NodeOrder(policy.get("type", "auto"), sorted(weights.items()), policy.get("attribute", ""))


def preempts(partition: dict[str, Any]) -> bool:
    """True if asks may preempt others; those that require a node always may."""
    return bool((partition.get("preemption") or {}).get("enabled", True))


def creates_queues(partition: dict[str, Any]) -> bool:
    """True if the one rule that worlds have, `provided`, creates queues."""
    return any(rule.get("create", False) for rule in partition.get("placementrules") or [])


def tagged_amounts(tags: dict[str, str], name: str) -> Amounts:
    """The amounts in an application's tag (spec § 3.13), none if all are zero."""
    resources = json.loads(tags.get(name, "{}")).get("resources", {})
    found = {what: int(entry["value"]) for what, entry in resources.items()}
    return found if any(found.values()) else {}


def _add_queue(
    records: dict[str, QueueRecord], written: dict[str, Any], path: str, inherited: dict[str, str]
) -> None:
    handed_down = {
        name: text
        for name, text in inherited.items()
        if name not in NOT_INHERITED and not name.startswith("budget.")
    }
    if inherited.get("preemption.policy") == "disabled":
        handed_down["preemption.policy"] = "disabled"
    properties = {
        **handed_down,
        **{name: str(value) for name, value in (written.get("properties") or {}).items()},
    }
    children = written.get("queues") or []
    records[path] = _record(written, path, properties)
    records[path].is_leaf = not children and not written.get("parent", False)
    template = written.get("childtemplate") or {}
    own = {name: str(value) for name, value in (template.get("properties") or {}).items()}
    made = _record(template, path, own)
    if made.properties or made.guaranteed or made.max or made.max_apps:
        records[path].template = made
    for child in children:
        _add_queue(records, child, f"{path}.{child['name']}", properties)


def _record(written: dict[str, Any], path: str, properties: dict[str, str]) -> QueueRecord:
    resources = written.get("resources") or {}
    return QueueRecord(
        path=path,
        is_leaf=True,
        guaranteed=_promised(amounts(resources.get("guaranteed"))),
        max=amounts(resources.get("max")),
        max_apps=written.get("maxapplications", 0),
        limits=[_limit(limit) for limit in written.get("limits") or []],
        properties=properties,
    )


def _promised(guaranteed: Amounts) -> Amounts:
    """The guarantee in force; a guarantee of zeros only counts as none (§ 4.6)."""
    return guaranteed if any(guaranteed.values()) else {}


def _limit(written: dict[str, Any]) -> LimitRecord:
    bound = written.get("maxresources")
    return LimitRecord(
        users=written.get("users") or [],
        groups=written.get("groups") or [],
        max=amounts(bound) if bound else None,
        max_apps=written.get("maxapplications", 0),
    )
