"""Gangs: applications whose members are scheduled together.

For every member of its task groups an application has a placeholder: an ask that only holds the
room. The scheduler lets a member, an ask that names the same task group, take the place of one.
"""

from collections import Counter
from collections.abc import Mapping

from licorne.model import Application, Ask


def placeholder_key(application_id: str, group: str, number: int) -> str:
    """The key of a placeholder that the client asks for; `number` counts from 1 in its group."""
    return f"{application_id}-{group}-placeholder-{number}"


def placeholder_ask(application: Application) -> Mapping[str, int]:
    """Total resources of the application's placeholders; empty if it is no gang."""
    if not application.task_groups:
        return application.placeholder_resources
    total: Counter[str] = Counter()
    for group in application.task_groups:
        for name, amount in group.resources.items():
            total[name] += group.members * amount
    return total


def placeholders(application: Application) -> list[Ask]:
    """The asks for the placeholders of the application's task groups, group by group."""
    return [
        Ask(
            key=placeholder_key(application.application_id, group.name, number),
            application_id=application.application_id,
            resources=group.resources,
            priority=group.priority,
            tags=group.tags,
            partition=application.partition,
            allow_preempt_self=group.allow_preempt_self,
            allow_preempt_other=group.allow_preempt_other,
            placeholder=True,
            task_group=group.name,
        )
        for group in application.task_groups
        for number in range(1, group.members + 1)
    ]
