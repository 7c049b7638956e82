"""Notices of preemption: notifications of an RM about victims before their stop, and its answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from licorne_core.messages.commands import ExtensionAnswer
from licorne_core.messages.effects import ExtensionEffect
from licorne_core.values.ids import AllocationKey, AppId, PartitionName, QueuePath


class Notice(NamedTuple):
    """An allocation that will be stopped at the `deadline`, in unix seconds, and its beneficiary.

    For a lowered maximum the beneficiary is empty. `lost` has the seconds of work that would be lost now.
    """

    app_id: AppId
    key: AllocationKey
    deadline: float
    queue: QueuePath
    beneficiary_app_id: AppId
    beneficiary_key: AllocationKey
    lost: float


class Withdrawal(NamedTuple):
    """An allocation that continues to run, because its room is not needed any more."""

    app_id: AppId
    key: AllocationKey


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticesGiven(ExtensionEffect):
    """Victims that the RM will be asked to stop, which it may answer by `AnswerNotices`; and withdrawn
    notices."""

    partition: PartitionName
    notices: Sequence[Notice] = ()
    withdrawn: Sequence[Withdrawal] = ()


class NoticeAnswer(NamedTuple):
    """The RM's answer to the notice of one victim.

    If `later` is 0, the victim is ready to be stopped. Otherwise it is ready after that many seconds, or at
    the deadline if that is earlier.
    """

    app_id: AppId
    key: AllocationKey
    partition: str = ""
    later: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerNotices(ExtensionAnswer):
    """The RM answers notices of `NoticesGiven`; answers for allocations without notice are ignored."""

    answers: Sequence[NoticeAnswer]
