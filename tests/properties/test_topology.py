"""A domain for a gang is found exactly if brute force over the places of all members finds one."""

import pytest

from support.core.builders import app, apps, ask, asks, node, nodes, register
from support.core.driver import Driver, placed
from support.oracle.books import Amounts
from support.reference_topology import Cluster, check, domains, drawn, fits

CONFIG = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        properties: {topology.levels: "zone, rack"}
        queues: [{name: a}]
"""


def played(cluster: Cluster) -> dict[str, str]:
    """The nodes of the members placed by the core, by key."""
    driver = Driver(sweep=100)
    driver.do(register(CONFIG))
    there = [
        node(name, attributes=cluster.attributes[name], size=room) for name, room in cluster.room.items()
    ]
    total: Amounts = {}
    members = []
    for number, (size, count) in enumerate(cluster.groups):
        for what, value in size.items():
            total[what] = total.get(what, 0) + value * count
        group = f"g{number}"
        members += [
            ask("job", f"{group}-{index}", placeholder=True, group=group, size=size) for index in range(count)
        ]
    tags = {"licorne/topology": f"{'required' if cluster.required else 'preferred'}={cluster.level}"}
    if cluster.slice_size:
        tags["licorne/slice"] = f"size={cluster.slice_size},level={cluster.slice_level}"
    effects = driver.do(nodes(*there), apps(app("job", "root.a", gang=total, tags=tags)), asks(*members))
    return {key: node_id for _, key, node_id in placed(effects)}


@pytest.mark.worlds(first=7_000_000, one_in=2)
def test_a_domain_is_found_exactly_if_one_exists(part: range) -> None:
    """All members are placed in a domain of the narrowest level that fits; if there is none, all wait."""
    for seed in part:
        cluster = drawn(seed)
        everything = list(cluster.room)
        levels = [cluster.level] if cluster.required else [*dict.fromkeys((cluster.level, "zone", ""))]
        fitting = [
            [inside for inside in domains(cluster, everything, level) if fits(cluster, inside)]
            for level in levels
        ]
        possible = next((some for some in fitting if some), [])
        found = played(cluster)
        members = sum(count for _, count in cluster.groups)
        assert len(found) == (members if possible else 0), f"world {seed}: {cluster} {found}"
        if found:
            assert any({*found.values()} <= {*inside} for inside in possible), f"world {seed}: {found}"
            check(seed, cluster, found)
