"""What operators do to a running partition: one door for all of it, and one form of refusal."""

from typing import assert_never

from licorne_core.commands import SetNodeSchedulable, SetQueueStopped, StopApplication
from licorne_core.effects import Effect, OperatorRefused
from licorne_core.handlers.node_draining import set_node_schedulable
from licorne_core.handlers.queue_stopping import set_queue_stopped
from licorne_core.handlers.refusals import Refused
from licorne_core.handlers.stopping_applications import stop_application
from licorne_core.registry import Registry, Rm

OperatorCommand = SetNodeSchedulable | StopApplication | SetQueueStopped


def act_for_operator(
    registry: Registry, rm: Rm, command: OperatorCommand, now: float
) -> list[Effect]:
    """Do it, or say why it cannot be; a refusal changes nothing."""
    try:
        match command:
            case SetNodeSchedulable():
                return set_node_schedulable(rm, command, now)
            case StopApplication():
                return stop_application(registry, rm, command, now)
            case SetQueueStopped():
                return set_queue_stopped(registry, rm, command, now)
            case _:
                assert_never(command)
    except Refused as refused:
        return [OperatorRefused(rm_id=rm.rm_id, refusal=refused.refusal, reason=str(refused))]
