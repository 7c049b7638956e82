"""Notices of preemption: messages to an RM and its answers, and their fields in reports and stored state."""

from collections.abc import Iterator

from licorne.v1 import session_pb2 as sp
from licorne.v1.session_pb2 import PreemptionNotice, PreemptionNotices, UpdateRequest, UpdateResponse, Victim
from licorne_core.extensions.notice.messages import AnswerNotices, NoticeAnswer, NoticesGiven
from licorne_core.values.ids import AllocationKey, AppId, RmId
from licorne_core.views.nodes import StayReport
from licorne_server.engine.journal.forms import NUMBER, TEXT, Row, items
from licorne_server.wire.caps import MAX_ID
from licorne_server.wire.checks import NAMED, answers_in
from licorne_server.wire.features import Telling
from licorne_server.wire.framing import Pace
from licorne_server.wire.items import parse
from licorne_server.wire.responses import Payload, nanoseconds, runs, session_payload


def _payloads(effect: NoticesGiven) -> Iterator[Payload]:
    """Messages with notices, then messages with withdrawals; each message has one partition."""
    field = UpdateResponse.PREEMPTION_NOTICES_FIELD_NUMBER
    for given in runs(effect.notices):
        notices = [
            PreemptionNotice(
                application_id=one.app_id,
                allocation_key=one.key,
                deadline=nanoseconds(one.deadline),
                beneficiary_application_id=one.beneficiary_app_id,
                beneficiary_allocation_key=one.beneficiary_key,
                queue=one.queue,
                lost_seconds=one.lost,
            )
            for one in given
        ]
        message = PreemptionNotices(partition_name=effect.partition, notices=notices)
        yield session_payload(f"notices {effect.partition}", field, message, len(notices))
    for gone in runs(effect.withdrawn):
        withdrawn = [Victim(application_id=one.app_id, allocation_key=one.key) for one in gone]
        message = PreemptionNotices(partition_name=effect.partition, withdrawn=withdrawn)
        yield session_payload(f"withdrawn {effect.partition}", field, message, len(withdrawn))


TELLINGS = {NoticesGiven: Telling("preemption_notices", _payloads)}

PART = 500
"""Maximum number of answers in one command; each may stop an allocation."""


async def _answers(rm_id: RmId, raw: bytes, pace: Pace) -> list[AnswerNotices]:
    """Read a NoticeAnswers message in parts. The core ignores answers about allocations without a notice.

    Raises:
        CallError: there are too many answers.
        Malformed: the bytes are no NoticeAnswers.
    """
    answers: list[NoticeAnswer] = []
    for item in await answers_in(raw, "NoticeAnswers", "notice_answers.answers", pace):
        wire = parse(sp.NoticeAnswer, item)
        later = wire.later_milliseconds / 1000
        app_id, key = AppId(wire.application_id), AllocationKey(wire.allocation_key)
        if len(app_id) <= MAX_ID and len(key) <= MAX_ID:
            answers.append(NoticeAnswer(app_id, key, wire.partition_name, later))
        if pace.spend(len(item) + NAMED):
            await pace.rest()
    return [
        AnswerNotices(rm_id=rm_id, answers=answers[begin : begin + PART])
        for begin in range(0, len(answers), PART)
    ]


ANSWERS = {UpdateRequest.NOTICE_ANSWERS_FIELD_NUMBER: _answers}
NOT_CARRIED = {
    AnswerNotices: lambda command: ("answers to notices of preemption", len(command.answers)),
}


def _for(stay: StayReport) -> dict[str, str]:
    return {"applicationId": stay.app_id, "allocationKey": stay.key, "queueName": stay.queue}


def _on_page(stay: StayReport) -> dict[str, object]:
    """When the allocation will be preempted, and for which ask."""
    return {
        "deadline": round(stay.deadline * 1e3),
        "forApplication": stay.app_id,
        "forKey": stay.key,
        "forQueue": stay.queue,
    }


def _deadline(stay: StayReport) -> int:
    return nanoseconds(stay.deadline)


ALLOCATION = {"noticeDeadline": _deadline, "noticeFor": _for}
ALLOCATION_ON_PAGE = {"notice": _on_page}
ALLOCATION_OF_STATE = {"notice_deadline": _deadline}

_ANSWER = Row(NoticeAnswer, app_id=TEXT, key=TEXT, partition=TEXT, later=NUMBER)

RECORDS = (_ANSWER,)
COMMANDS = (Row(AnswerNotices, rm_id=TEXT, answers=items(_ANSWER)),)
SUMMED = {NoticesGiven: {"partition": None, "notices": list, "withdrawn": list}}

METRICS = (
    (
        "counter",
        "licorne_preemption_notices_total",
        "Notices of preemption.",
        lambda of: of.report.extended["notices_given"],
    ),
    (
        "counter",
        "licorne_preemption_notice_answers_total",
        "Answers of RMs to notices of preemption; none for victims that were stopped at the deadline.",
        {
            "ready": lambda of: of.report.extended["notices_ready"],
            "later": lambda of: of.report.extended["notices_later"],
            "none": lambda of: of.report.extended["notices_unanswered"],
        },
        "answer",
    ),
    (
        "counter",
        "licorne_preemption_notices_withdrawn_total",
        "Notices of preemption that were taken back.",
        lambda of: of.report.extended["notices_withdrawn"],
    ),
)
CENSUS_METRICS = (
    ("gauge", "licorne_allocations_under_notice", "Allocations that will be preempted.", "noticed"),
)
