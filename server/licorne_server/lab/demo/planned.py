"""The worlds of the demo with runtimes: large asks that smaller asks pass, and a gang in one rack.

Nodes stand in racks. `batch` has asks as large as a node, whose starts are planned until a node is free.
`research` has a gang that runs only inside one rack, and a gang that grows and never ends.
"""

from dataclasses import replace
from math import inf

from licorne import Node, TaskGroup
from licorne_server.lab.demo.world import GI, Submission, World, submission, worlds

LARGE_APPLICATION = "monthend-0001"
LARGE = submission(
    LARGE_APPLICATION,
    at=0.2,
    runs=0.15,
    queue="root.reports",
    user="bob",
    tags={"namespace": "finance"},
    count=6,
    resources={"vcore": 32_000, "memory": 128 * GI},
    priority=10,
)
"""Each ask takes a whole node, and running applications never leave a node free by themselves."""

RACK_GANG = "pretraining-0001"
RANKS = TaskGroup(name="ranks", members=8, resources={"vcore": 16_000, "memory": 64 * GI}, priority=10)
PRETRAINING = submission(
    RACK_GANG,
    at=0.15,
    runs=0.2,
    user="kim",
    tags={"namespace": "research", "project": "language"},
    count=RANKS.members,
    resources=RANKS.resources,
    priority=RANKS.priority,
    task_groups=(RANKS,),
    topology="required=rack",
    task_group=RANKS.name,
)
"""A gang that takes most of a rack."""

_TUNING = submission(
    "tuning",
    at=0.0,
    runs=inf,
    user="judy",
    tags={"namespace": "research", "project": "vision"},
    count=16,
    resources={"vcore": 8000, "memory": 32 * GI},
    priority=0,
    task_group="workers",
)
TUNING = replace(
    _TUNING, application=replace(_TUNING.application, gang_min=4, gang_max=len(_TUNING.asks), gang_step=4)
)
"""A gang that grows when no other ask of its queue waits."""

ROOT = """\
      - name: root
        submitacl: "*"
"""
LEVELS = 'topology.levels: "zone,rack"'
ZONES, RACKS_OF_A_ZONE = 2, 2


def planned_worlds() -> tuple[World, ...]:
    """The three resource managers of the demo, with racks, and with runtimes of applications."""
    batch, services, research = worlds()
    return (
        _planned(batch, 'backfill: easy, reserve.after: "1s"', LARGE),
        _planned(services),
        replace(_planned(research, "", PRETRAINING), standing=(TUNING,)),
    )


def _planned(world: World, properties: str = "", *more: Submission) -> World:
    """A world with additional applications, and with levels and other properties of root."""
    wanted = ", ".join(filter(None, (LEVELS, properties)))
    return replace(
        world,
        config=world.config.replace(ROOT, f"{ROOT}        properties: {{{wanted}}}\n"),
        nodes=tuple(_placed(number, node) for number, node in enumerate(world.nodes)),
        submissions=tuple(sorted((*world.submissions, *more), key=lambda item: item.at)),
        declares=True,
    )


def _placed(number: int, node: Node) -> Node:
    """A node with the attributes of its zone and rack."""
    zone, rack = number % ZONES, number // ZONES % RACKS_OF_A_ZONE
    place = {"zone": f"zone-{zone + 1}", "rack": f"rack-{rack + 1}"}
    return replace(node, attributes={**node.attributes, **place})
