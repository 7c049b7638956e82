"""Scenes of the demo: an ask that waits, a gang, and a guarantee that is taken back.

All times are for a demo of one unit length, as in `demo_world`, where the queues are.
"""

from dataclasses import dataclass

from licorne import Application, Ask, TaskGroup

GI = 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """An application that comes at a time, with its asks; each allocation runs for a while.

    Of a gang the asks are those of its members, which come when all its placeholders are there.
    """

    at: float
    application: Application
    asks: tuple[Ask, ...]
    runs: float


# More than its queue may run at once, nearly all the time: there is something to explain.
WAITING_APPLICATION = "nightly-0001"
NIGHTLY = Submission(
    at=0.0,
    application=Application(
        application_id=WAITING_APPLICATION,
        queue="root.nightly",
        user="cron",
        groups=("cron",),
        tags={"namespace": "warehouse"},
    ),
    asks=tuple(
        Ask(
            key=f"{WAITING_APPLICATION}-{number:03}",
            application_id=WAITING_APPLICATION,
            resources={"vcore": 2000, "memory": 8 * GI},
            # Before all others, so that nothing but the queue's maximum stops it.
            priority=10,
        )
        for number in range(90)
    ),
    runs=0.2,
)


# It takes all of a maximum that it shares, until another queue claims what it is guaranteed.
BORROWER, OWNER = "borrower-0001", "owner-0001"
BORROWER_QUEUE, OWNER_QUEUE = "root.shared.borrower", "root.shared.owner"
SHARED_ASK = {"vcore": 2000, "memory": 8 * GI}
BORROWING = Submission(
    at=0.0,
    application=Application(
        application_id=BORROWER,
        queue=BORROWER_QUEUE,
        user="grace",
        groups=("grace",),
        tags={"namespace": "sandbox"},
    ),
    asks=tuple(
        Ask(
            key=f"{BORROWER}-{number:03}",
            application_id=BORROWER,
            resources=SHARED_ASK,
            priority=10,
            allow_preempt_self=True,
        )
        for number in range(30)
    ),
    runs=1.0,
)
CLAIMING = Submission(
    at=0.25,
    application=Application(
        application_id=OWNER,
        queue=OWNER_QUEUE,
        user="dave",
        groups=("dave",),
        tags={"namespace": "finance"},
    ),
    asks=tuple(
        Ask(
            key=f"{OWNER}-{number:03}",
            application_id=OWNER,
            resources=SHARED_ASK,
            priority=10,
            allow_preempt_other=True,
        )
        for number in range(15)
    ),
    runs=0.5,
)

# It starts as a whole: placeholders keep the room until all of them are there.
GANG = "simulation-0001"
WORKERS = TaskGroup(name="workers", members=16, resources={"vcore": 4000, "memory": 16 * GI}, priority=10)
SIMULATION = Submission(
    at=0.1,
    application=Application(
        application_id=GANG,
        user="mia",
        groups=("mia",),
        tags={"namespace": "research", "project": "climate"},
        task_groups=(WORKERS,),
    ),
    asks=tuple(
        Ask(
            key=f"{GANG}-{number:03}",
            application_id=GANG,
            resources=WORKERS.resources,
            priority=WORKERS.priority,
            task_group=WORKERS.name,
        )
        for number in range(WORKERS.members)
    ),
    runs=0.4,
)
