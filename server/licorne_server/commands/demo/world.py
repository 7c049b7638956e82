"""The worlds of the demo's three resource managers: queues, nodes, applications, asks.

All times are for a demo of one unit length; whoever plays it multiplies them.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count

from licorne import Application, Ask, Node
from licorne_server.commands.demo.scenes import BORROWING, CLAIMING, GI, NIGHTLY, SIMULATION, Submission

SEED = 7
# After this share of the time nothing new comes.
ARRIVALS_END = 0.7

BATCH_QUEUES = """\
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: etl
            properties: {application.sort.policy: fair}
            resources: {guaranteed: {vcore: 300, memory: 1200Gi}, max: {vcore: 500}}
          - name: reports
            properties: {application.sort.policy: fair}
            resources: {guaranteed: {vcore: 200}, max: {vcore: 350}}
          - name: adhoc
            properties: {application.sort.policy: fair}
          - name: nightly
            resources: {max: {vcore: 40, memory: 160Gi}}
          - name: shared
            resources: {max: {vcore: 60}}
            queues:
              - {name: borrower}
              - name: owner
                properties: {preemption.delay: 100ms}
                resources: {guaranteed: {vcore: 30}}
"""

SERVICES_QUEUES = """\
partitions:
  - name: default
    nodesortpolicy: {type: binpacking}
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: prod
            properties: {priority.offset: "100"}
            resources: {guaranteed: {vcore: 300}}
            queues:
              - {name: web, resources: {guaranteed: {vcore: 200}}}
              - {name: api, resources: {guaranteed: {vcore: 100}}}
          - name: staging
            properties: {priority.policy: fence}
            resources: {max: {vcore: 150}}
"""

RESEARCH_QUEUES = """\
partitions:
  - name: default
    placementrules:
      - name: tag
        value: project
        create: true
        parent: {name: fixed, value: projects}
      - name: user
        create: true
        parent: {name: fixed, value: users}
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: projects
            parent: true
            resources: {guaranteed: {vcore: 400}}
            childtemplate: {resources: {max: {vcore: 700}}}
          - name: users
            parent: true
            childtemplate:
              properties: {application.sort.policy: fair}
              resources: {guaranteed: {vcore: 50}, max: {vcore: 250}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """One resource manager: its configuration, its machines, and its work in order of time."""

    rm_id: str
    config: str
    nodes: tuple[Node, ...]
    submissions: tuple[Submission, ...]

    @property
    def asks(self) -> int:
        """The number of asks in all."""
        return sum(len(submission.asks) for submission in self.submissions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The applications of one kind; ranges are inclusive."""

    name: str
    users: tuple[str, ...]
    namespace: str
    applications: int
    asks: tuple[int, int]
    vcore: tuple[int, int]
    runs: tuple[float, float]
    queue: str = ""
    tags: tuple[tuple[str, str], ...] = ()
    priority: tuple[int, int] = (0, 0)


BATCH = (
    Profile(
        name="etl",
        queue="root.etl",
        users=("alice", "bob", "carol"),
        namespace="warehouse",
        applications=16,
        asks=(40, 90),
        vcore=(1000, 4000),
        runs=(0.08, 0.2),
    ),
    Profile(
        name="report",
        queue="root.reports",
        users=("bob", "dave"),
        namespace="finance",
        applications=10,
        asks=(30, 60),
        vcore=(1000, 3000),
        runs=(0.1, 0.25),
    ),
    Profile(
        name="adhoc",
        queue="root.adhoc",
        users=("erin", "frank", "grace"),
        namespace="sandbox",
        applications=12,
        asks=(20, 60),
        vcore=(500, 4000),
        runs=(0.05, 0.15),
        priority=(0, 3),
    ),
)

SERVICES = (
    Profile(
        name="web",
        queue="root.prod.web",
        users=("deploy",),
        namespace="prod",
        applications=12,
        asks=(8, 20),
        vcore=(500, 1000),
        runs=(0.3, 0.5),
        priority=(50, 90),
    ),
    Profile(
        name="api",
        queue="root.prod.api",
        users=("deploy",),
        namespace="prod",
        applications=10,
        asks=(6, 16),
        vcore=(500, 1500),
        runs=(0.3, 0.5),
        priority=(50, 90),
    ),
    Profile(
        name="preview",
        queue="root.staging",
        users=("heidi", "ivan"),
        namespace="staging",
        applications=14,
        asks=(5, 15),
        vcore=(250, 1000),
        runs=(0.1, 0.25),
        priority=(0, 10),
    ),
)

RESEARCH = (
    Profile(
        name="notebook",
        users=("judy", "kim", "leo", "mia", "nils"),
        namespace="research",
        applications=20,
        asks=(5, 20),
        vcore=(1000, 4000),
        runs=(0.1, 0.3),
    ),
    Profile(
        name="training",
        users=("kim", "leo"),
        namespace="research",
        applications=10,
        asks=(30, 60),
        vcore=(2000, 8000),
        runs=(0.1, 0.2),
        tags=(("project", "vision"),),
    ),
    Profile(
        name="sweep",
        users=("mia", "nils"),
        namespace="research",
        applications=6,
        asks=(40, 80),
        vcore=(1000, 2000),
        runs=(0.05, 0.15),
        tags=(("project", "language"),),
    ),
)


def submissions(profile: Profile, dice: random.Random) -> Iterator[Submission]:
    """The applications of a kind, spread over the time in which work arrives."""
    for number in range(1, profile.applications + 1):
        name = f"{profile.name}-{number:04}"
        user = dice.choice(profile.users)
        priority = dice.randint(*profile.priority)
        vcore = dice.randint(profile.vcore[0] // 250, profile.vcore[1] // 250) * 250
        resources = {"vcore": vcore, "memory": vcore * 4 * GI // 1000}
        yield Submission(
            at=dice.uniform(0.0, ARRIVALS_END),
            application=Application(
                application_id=name,
                queue=profile.queue,
                user=user,
                groups=(user,),
                tags={"namespace": profile.namespace, **dict(profile.tags)},
            ),
            asks=tuple(
                Ask(
                    key=f"{name}-{ask:03}",
                    application_id=name,
                    resources=resources,
                    priority=priority,
                )
                for ask in range(dice.randint(*profile.asks))
            ),
            runs=dice.uniform(*profile.runs),
        )


def rounds(world: World) -> Iterator[Submission]:
    """The same work over and over: each round a unit later and under other names."""
    for number in count():
        for item in world.submissions:
            name = f"{item.application.application_id}-{number}"
            yield Submission(
                at=item.at + number,
                application=replace(item.application, application_id=name),
                asks=tuple(replace(ask, application_id=name, key=f"{ask.key}-{number}") for ask in item.asks),
                runs=item.runs,
            )


def nodes(rm_id: str, count: int, vcore: int, memory: int) -> tuple[Node, ...]:
    """Equal machines in three zones; cores and GiB."""
    return tuple(
        Node(
            node_id=f"{rm_id}-{number:02}",
            capacity={"vcore": vcore * 1000, "memory": memory * GI},
            attributes={"si/hostname": f"{rm_id}-{number:02}", "si/zone": f"z{number % 3}"},
        )
        for number in range(1, count + 1)
    )


def world(
    rm_id: str,
    config: str,
    machines: tuple[Node, ...],
    profiles: tuple[Profile, ...],
    more: tuple[Submission, ...] = (),
) -> World:
    """A resource manager; the same one every time."""
    dice = random.Random(f"{SEED} {rm_id}")
    work = [*more, *(item for profile in profiles for item in submissions(profile, dice))]
    ordered = tuple(sorted(work, key=lambda item: item.at))
    return World(rm_id=rm_id, config=config, nodes=machines, submissions=ordered)


def worlds() -> tuple[World, ...]:
    """The three resource managers of the demo."""
    shown = (NIGHTLY, BORROWING, CLAIMING)
    return (
        world("batch", BATCH_QUEUES, nodes("batch", 24, 32, 128), BATCH, shown),
        world("services", SERVICES_QUEUES, nodes("services", 30, 16, 64), SERVICES),
        world("research", RESEARCH_QUEUES, nodes("research", 20, 48, 256), RESEARCH, (SIMULATION,)),
    )
