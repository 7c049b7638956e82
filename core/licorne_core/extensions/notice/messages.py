"""Notices of preemption: what an RM is told of victims before they are stopped, and what it answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from licorne_core.messages.commands import ExtensionAnswer
from licorne_core.messages.effects import ExtensionEffect
from licorne_core.values.ids import AllocationKey, AppId, PartitionName, QueuePath


class Notice(NamedTuple):
    """An allocation that will be stopped at the `deadline`, in unix seconds, and for whom.

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
    """An allocation that goes on, as nobody needs its room any more."""

    app_id: AppId
    key: AllocationKey


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticesGiven(ExtensionEffect):
    """Victims that the RM will be asked to stop, which it may answer by `AnswerNotices`; and some that
    will not be stopped."""

    partition: PartitionName
    notices: Sequence[Notice] = ()
    withdrawn: Sequence[Withdrawal] = ()


class NoticeAnswer(NamedTuple):
    """The RM's answer to the notice of one victim.

    Without `later` the victim is ready to be stopped. With it, it is ready in so many seconds, at the
    deadline at the latest.
    """

    app_id: AppId
    key: AllocationKey
    partition: str = ""
    later: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerNotices(ExtensionAnswer):
    """The RM answers notices of `NoticesGiven`; one that is not under notice is passed over."""

    answers: Sequence[NoticeAnswer]
