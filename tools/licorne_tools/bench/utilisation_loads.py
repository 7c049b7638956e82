"""The loads of `licorne bench utilisation`: the loads of the fake RM, and a mix of large and small asks."""

from collections.abc import Iterable
from dataclasses import dataclass

import licorne
from licorne_core.messages.commands import NewApplication, NodeAction, NodeUpdate
from licorne_core.values.asks import Ask, AskClass
from licorne_core.values.ids import AllocationKey, AppId, NodeId, UserGroup
from licorne_server.lab.demo.world import Profile, World, nodes, world, worlds

MIXED_QUEUES = """\
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - {name: large, resources: {guaranteed: {vcore: 168}}}
          - {name: web, resources: {guaranteed: {vcore: 180}}}
          - {name: jobs, resources: {guaranteed: {vcore: 100}}}
          - {name: capped, resources: {max: {vcore: 40}}}
          - {name: spare}
"""


def _mixed(
    name: str,
    applications: int,
    asks: tuple[int, int],
    vcore: tuple[int, int],
    runs: tuple[float, float],
) -> Profile:
    return Profile(
        name=name,
        queue=f"root.{name}",
        users=(name,),
        namespace=name,
        applications=applications,
        asks=asks,
        vcore=vcore,
        runs=runs,
    )


MIXED = (
    _mixed("large", 6, (1, 1), (28_000, 28_000), (0.8, 1.2)),
    _mixed("web", 20, (8, 12), (500, 2_000), (0.5, 1.0)),
    _mixed("jobs", 12, (8, 12), (1_000, 2_000), (0.4, 0.8)),
    # In each round: more asks than can run at once under the maximum, but less work than fits into the round.
    _mixed("capped", 4, (15, 20), (1_000, 1_000), (0.4, 0.6)),
    _mixed("spare", 12, (8, 12), (1_000, 2_000), (0.4, 0.8)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadWorld:
    """A cluster with new work each minute, and a queue that an operator may stop for a while."""

    name: str
    about: str
    world: World
    stopped: str = ""
    """The queue that is stopped for `STOPPED_SECONDS` after a sixth of the run; empty for none."""


def loads() -> tuple[LoadWorld, ...]:
    """All loads, in order."""
    batch = worlds()[0]
    mixed = world("mixed", MIXED_QUEUES, nodes("mixed", 20, 32, 128), MIXED)
    return (
        LoadWorld(name="fake-rm", about="the load of licorne fake-rm", world=batch),
        LoadWorld(name="mixed", about="asks of most of a node among small ones", world=mixed),
        LoadWorld(
            name="stopped",
            about="the load of licorne fake-rm, root.etl stopped for 90 s",
            world=batch,
            stopped="root.etl",
        ),
    )


def created(machines: Iterable[licorne.Node]) -> list[NodeUpdate]:
    """Nodes as commands of the core."""
    return [
        NodeUpdate(
            node_id=NodeId(node.node_id),
            action=NodeAction.CREATE,
            attributes=node.attributes,
            capacity=dict(node.capacity),
        )
        for node in machines
    ]


def application_of(app: licorne.Application) -> NewApplication:
    """The core's message for an application, which must not be a gang."""
    return NewApplication(
        app_id=AppId(app.application_id),
        queue_name=app.queue,
        user=UserGroup(app.user, app.groups),
        tags=app.tags,
    )


def ask_of(wanted: licorne.Ask) -> Ask:
    """The core's message for an ask."""
    return Ask(
        key=AllocationKey(wanted.key),
        app_id=AppId(wanted.application_id),
        ask_class=AskClass.of(dict(wanted.resources)),
        priority=wanted.priority,
        allow_preempt_self=wanted.allow_preempt_self,
        allow_preempt_other=wanted.allow_preempt_other,
    )
