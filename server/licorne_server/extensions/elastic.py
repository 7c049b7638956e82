"""Sizes of elastic gangs, in State, in REST and on the page."""

from licorne.v1 import state_pb2 as pb
from licorne_core.extensions.elastic.reports import ElasticReport
from licorne_server.reads.reports import filled

_message = filled(pb.Elastic, ElasticReport, {"min": "least", "max": "most"})


def _shown(report: ElasticReport | None) -> dict[str, int] | None:
    """The sizes in members, by their names in REST and on the page; None without an elastic gang."""
    if report is None:
        return None
    return {
        "size": report.size,
        "leaving": report.leaving,
        "step": report.step,
        "min": report.least,
        "max": report.most,
    }


APPLICATION = {"elastic": ("elastic", _shown)}
APPLICATION_OPTIONAL = {"elastic": "elastic"}
APPLICATION_ON_PAGE = {"elastic": ("elastic", _shown)}
APPLICATION_OF_STATE = {"elastic": ("elastic", lambda report: None if report is None else _message(report))}
