"""Notices of preemption: how an RM is told of them, and what metrics and the journal have of them."""

from collections.abc import Iterator

from licorne.v1.session_pb2 import PreemptionNotice, PreemptionNotices, UpdateResponse, Victim
from licorne_core.extensions.notice.messages import AnswerNotices, NoticeAnswer, NoticesGiven
from licorne_server.extensions import Telling
from licorne_server.journal.forms import NUMBER, TEXT, Row, items
from licorne_server.wire.responses import Payload, nanoseconds, runs, session_payload


def _payloads(effect: NoticesGiven) -> Iterator[Payload]:
    """The notices, then those withdrawn; neither is joined to the other, nor to another partition's."""
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
