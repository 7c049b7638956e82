"""Notices of preemption in metrics and in the journal."""

from licorne_core.extensions.notice.messages import AnswerNotices, NoticeAnswer, NoticesGiven
from licorne_server.journal.forms import NUMBER, TEXT, Row, items

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
