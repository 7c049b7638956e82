"""`PlanSubmission` with a text in place of messages."""

from typing import Any

import grpc
import pytest

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import admin_pb2 as pb
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_core.config.caps import MAX_BYTES
from licorne_core.values.errors import ConfigError
from licorne_server.services.admin import submission_text
from licorne_server.services.admin.submission_text import read_submission_text
from support.core.builders import config
from support.peers.shim import Shim, ask, violations

CONFIG = config("[{name: a}]")
TEXT = """
application: job
user: ann
queue: root.a
asks: [{name: w, count: 2, resources: {vcore: 500m}}]
"""


async def refused(admin: Any, **fields: Any) -> grpc.aio.AioRpcError:
    """The error of a submission that cannot be planned."""
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await admin.PlanSubmission(pb.PlanSubmissionRequest(rm_id="rm", **fields))
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    return error.value


async def test_a_text_is_planned_like_messages(shim: Shim, channel: grpc.aio.Channel) -> None:
    """The plan is that of the application and asks in the text, and names the application."""
    await shim.set_up(config=CONFIG, nodes=1, vcore=700)
    admin = AdminStub(channel)
    plan = await admin.PlanSubmission(pb.PlanSubmissionRequest(rm_id="rm", text=TEXT))
    assert (plan.application_id, plan.accepted, plan.queue) == ("job", True, "root.a")
    assert [(one.allocation_key, one.node_id) for one in plan.asks] == [("w-1", "n0"), ("w-2", "")]
    read = read_submission_text(TEXT)
    same = pb.PlanSubmissionRequest(rm_id="rm", application=read.application, asks=read.asks)
    assert await admin.PlanSubmission(same) == plan


async def test_an_unusable_text_is_refused(shim: Shim, channel: grpc.aio.Channel) -> None:
    """Each problem has its field, line and column; a text excludes other fields, and is bounded."""
    await shim.register(CONFIG)
    admin = AdminStub(channel)
    error = await refused(admin, text=TEXT.replace("user: ann", "owner: ann"))
    assert violations(error) == {
        "owner": "3:1: unknown key 'owner'",
        "user": "2:1: 'user' is missing",
    }
    for given in (
        {"application": si.AddApplicationRequest(applicationID="job")},
        {"asks": [ask("w")]},
    ):
        assert violations(await refused(admin, text=TEXT, **given)).keys() == {"text"}
    error = await refused(admin, text="#" * (MAX_BYTES + 1))
    assert error.details() == f"text has {MAX_BYTES + 1} bytes, at most {MAX_BYTES} are allowed"


def test_the_asks_of_an_entry_are_bounded() -> None:
    """Bytes of all asks of an entry are counted before the copies are made."""
    tag = "x" * (submission_text.MAX_BYTES // 100)
    entry = f"resources: {{vcore: 1}}, tags: {{t: {tag}}}"
    head = "{application: a, user: u, asks: "
    assert len(read_submission_text(f"{head}[{{count: 99, {entry}}}]}}").asks) == 99
    for asks in (f"[{{count: 101, {entry}}}]", f"[{{count: 60, {entry}}}, {{count: 60, {entry}}}]"):
        with pytest.raises(ConfigError) as error:
            read_submission_text(f"{head}{asks}}}")
        message = f"the asks have more than {submission_text.MAX_BYTES} bytes in all"
        assert [problem.message for problem in error.value.problems] == [message]
