"""Worlds of the demo's three resource managers: queues, nodes, applications, asks.

The demo's summary describes three applications: a waiting ask, a gang, and a reclaimed guarantee. All times
are fractions of the demo's duration.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count as counting
from math import inf
from typing import Any, NamedTuple

from licorne import Application, Ask, Node, TaskGroup

SEED = 7
# Fraction of the demo's duration after which no application arrives.
ARRIVALS_END = 0.7

GI = 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """An application with its time of arrival, its asks, and the duration of each allocation.

    For a gang the asks are for its members, submitted when all placeholders are allocated.
    """

    at: float
    application: Application
    asks: tuple[Ask, ...]
    runs: float


def submission(
    name: str,
    *,
    at: float,
    runs: float,
    user: str,
    tags: Mapping[str, str],
    count: int,
    resources: Mapping[str, int],
    priority: int,
    queue: str = "",
    task_groups: tuple[TaskGroup, ...] = (),
    topology: str = "",
    **of_asks: Any,
) -> Submission:
    """An application of a user, with `count` equal asks."""
    application = Application(
        application_id=name,
        queue=queue,
        user=user,
        groups=(user,),
        tags=tags,
        task_groups=task_groups,
        topology=topology,
    )
    asks = tuple(
        Ask(key=f"{name}-{n:03}", application_id=name, resources=resources, priority=priority, **of_asks)
        for n in range(count)
    )
    return Submission(at=at, application=application, asks=asks, runs=runs)


# This application never ends, and its asks never fit: each alone exceeds the maximum of the queue.
STANDING_APPLICATION = "oversized"
STANDING = submission(
    STANDING_APPLICATION,
    at=0.0,
    runs=inf,
    queue="root.nightly",
    user="cron",
    tags={"namespace": "warehouse"},
    count=3,
    resources={"vcore": 48_000, "memory": 192 * GI},
    priority=0,
)

# This application is nearly always above the maximum of its queue, so that there is a wait to explain. Its
# priority is the highest, so that only this maximum stops it.
WAITING_APPLICATION = "nightly-0001"
MEDIUM = {"vcore": 2000, "memory": 8 * GI}
NIGHTLY = submission(
    WAITING_APPLICATION,
    at=0.0,
    runs=0.2,
    queue="root.nightly",
    user="cron",
    tags={"namespace": "warehouse"},
    count=90,
    resources=MEDIUM,
    priority=10,
)

# The borrower uses all of a shared maximum, until the owner's queue claims its guarantee.
BORROWER, OWNER = "borrower-0001", "owner-0001"
BORROWER_QUEUE, OWNER_QUEUE = "root.shared.borrower", "root.shared.owner"
BORROWING = submission(
    BORROWER,
    at=0.0,
    runs=1.0,
    queue=BORROWER_QUEUE,
    user="grace",
    tags={"namespace": "sandbox"},
    count=30,
    resources=MEDIUM,
    priority=10,
    allow_preempt_self=True,
)
CLAIMING = submission(
    OWNER,
    at=0.25,
    runs=0.5,
    queue=OWNER_QUEUE,
    user="dave",
    tags={"namespace": "finance"},
    count=15,
    resources=MEDIUM,
    priority=10,
    allow_preempt_other=True,
)

# This gang starts as a whole: its placeholders keep room until all of them are allocated.
GANG = "simulation-0001"
WORKERS = TaskGroup(name="workers", members=16, resources={"vcore": 4000, "memory": 16 * GI}, priority=10)
SIMULATION = submission(
    GANG,
    at=0.1,
    runs=0.4,
    user="mia",
    tags={"namespace": "research", "project": "climate"},
    count=WORKERS.members,
    resources=WORKERS.resources,
    priority=WORKERS.priority,
    task_groups=(WORKERS,),
    task_group=WORKERS.name,
)

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
    """One resource manager: its configuration, nodes, and applications in order of time."""

    rm_id: str
    config: str
    nodes: tuple[Node, ...]
    submissions: tuple[Submission, ...]
    standing: tuple[Submission, ...] = ()
    """Applications that never end."""
    declares: bool = False
    """True if its applications declare their runtimes."""

    @property
    def asks(self) -> int:
        """Number of all asks."""
        return sum(len(submission.asks) for submission in self.submissions)


class Profile(NamedTuple):
    """Applications of one kind. Ranges are inclusive; `runs` is the duration of allocations."""

    name: str
    queue: str
    users: tuple[str, ...]
    namespace: str
    applications: int
    asks: tuple[int, int]
    vcore: tuple[int, int]
    runs: tuple[float, float]
    priority: tuple[int, int] = (0, 0)
    tags: tuple[tuple[str, str], ...] = ()


# Columns: name, queue, users, namespace, applications, asks of each, milli-cores, times, priorities.
BATCH = (
    Profile(
        "etl", "root.etl", ("alice", "bob", "carol"), "warehouse", 16, (40, 90), (1000, 4000), (0.08, 0.2)
    ),
    Profile("report", "root.reports", ("bob", "dave"), "finance", 10, (30, 60), (1000, 3000), (0.1, 0.25)),
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
    Profile("web", "root.prod.web", ("deploy",), "prod", 12, (8, 20), (500, 1000), (0.3, 0.5), (50, 90)),
    Profile("api", "root.prod.api", ("deploy",), "prod", 10, (6, 16), (500, 1500), (0.3, 0.5), (50, 90)),
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
VISION, LANGUAGE = ((("project", name),) for name in ("vision", "language"))
RESEARCHERS = ("judy", "kim", "leo", "mia", "nils")
RESEARCH = (
    Profile("notebook", "", RESEARCHERS, "research", 20, (5, 20), (1000, 4000), (0.1, 0.3)),
    Profile("training", "", ("kim", "leo"), "research", 10, (30, 60), (2000, 8000), (0.1, 0.2), tags=VISION),
    Profile("sweep", "", ("mia", "nils"), "research", 6, (40, 80), (1000, 2000), (0.05, 0.15), tags=LANGUAGE),
)


def submissions(profile: Profile, dice: random.Random) -> Iterator[Submission]:
    """Applications of a kind, spread over the time of arrivals."""
    for number in range(1, profile.applications + 1):
        user = dice.choice(profile.users)
        priority = dice.randint(*profile.priority)
        vcore = dice.randint(profile.vcore[0] // 250, profile.vcore[1] // 250) * 250
        at = dice.uniform(0.0, ARRIVALS_END)
        count = dice.randint(*profile.asks)
        yield submission(
            f"{profile.name}-{number:04}",
            at=at,
            runs=dice.uniform(*profile.runs),
            queue=profile.queue,
            user=user,
            tags={"namespace": profile.namespace, **dict(profile.tags)},
            count=count,
            resources={"vcore": vcore, "memory": vcore * 4 * GI // 1000},
            priority=priority,
        )


def rounds(world: World) -> Iterator[Submission]:
    """Applications of a world, repeated without end: each round one unit later, with other names."""
    for number in counting():
        for item in world.submissions:
            name = f"{item.application.application_id}-{number}"
            yield Submission(
                at=item.at + number,
                application=replace(item.application, application_id=name),
                asks=tuple(replace(ask, application_id=name, key=f"{ask.key}-{number}") for ask in item.asks),
                runs=item.runs,
            )


def endless(world: World) -> Iterator[Submission]:
    """All applications of a world: first the ones that never end, then repeated rounds of the others."""
    yield from world.standing
    yield from rounds(world)


def nodes(rm_id: str, count: int, vcore: int, memory: int) -> tuple[Node, ...]:
    """Equal nodes in three zones; `vcore` in cores, `memory` in GiB."""
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
    """A resource manager; equal arguments give an equal world."""
    dice = random.Random(f"{SEED} {rm_id}")
    work = [*more, *(item for profile in profiles for item in submissions(profile, dice))]
    ordered = tuple(sorted(work, key=lambda item: item.at))
    return World(rm_id=rm_id, config=config, nodes=machines, submissions=ordered)


def worlds() -> tuple[World, ...]:
    """The three resource managers of the demo."""
    shown = (NIGHTLY, BORROWING, CLAIMING)
    return (
        replace(
            world("batch", BATCH_QUEUES, nodes("batch", 24, 32, 128), BATCH, shown), standing=(STANDING,)
        ),
        world("services", SERVICES_QUEUES, nodes("services", 30, 16, 64), SERVICES),
        world("research", RESEARCH_QUEUES, nodes("research", 20, 48, 256), RESEARCH, (SIMULATION,)),
    )
