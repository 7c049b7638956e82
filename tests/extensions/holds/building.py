"""Builders of commands of operators: holds."""

from licorne_core.extensions.holds.messages import ChangeApplication, HoldApplication
from licorne_core.messages.operators import OperatorMark
from licorne_core.values.ids import AppId, RmId
from support.core.builders import RM

MARK = OperatorMark("ann", 0.0, "because")


def hold(
    app_id: str,
    *,
    held: bool = True,
    partition: str = "",
    rm: str = RM,
    mark: OperatorMark = MARK,
) -> HoldApplication:
    """An operator holds an application, or resumes it if `held` is False."""
    return HoldApplication(rm_id=RmId(rm), partition=partition, app_id=AppId(app_id), held=held, mark=mark)


def change(
    app_id: str,
    *,
    priority: int | None = None,
    reset: bool = False,
    queue: str = "",
    partition: str = "",
    rm: str = RM,
    mark: OperatorMark = MARK,
) -> ChangeApplication:
    """An operator changes the priority of an application, or moves it."""
    return ChangeApplication(
        rm_id=RmId(rm),
        partition=partition,
        app_id=AppId(app_id),
        priority=priority,
        reset_priority=reset,
        queue=queue,
        mark=mark,
    )
