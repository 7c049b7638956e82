"""A gang of two workers and a leader."""

from licorne import Application, TaskGroup

WORKERS = TaskGroup(
    name="w",
    members=2,
    resources={"vcore": 500, "memory": 10},
    priority=3,
    tags={"zone": "a"},
    allow_preempt_self=True,
)
LEADER = TaskGroup(name="lead", members=1, resources={"vcore": 100})
GANG = Application(
    application_id="a",
    user="ann",
    task_groups=(WORKERS, LEADER),
    gang_style="Hard",
    placeholder_timeout=60,
)
KEYS = ["a-w-placeholder-1", "a-w-placeholder-2", "a-lead-placeholder-1"]
FIRST = KEYS[0]
