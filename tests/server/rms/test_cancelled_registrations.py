"""A registration whose caller has disconnected is carried out completely, or not at all."""

from collections.abc import Iterator
from functools import partial
from itertools import count

import grpc
import pytest

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import session_pb2 as sp
from licorne_core.messages.commands import Hold, SetHold
from licorne_core.values.ids import RmId
from support.wire.site import OK, Line, Site
from support.wire.still import stillness

REGISTER = "/si.v1.Scheduler/RegisterResourceManager"
UPDATE = "/licorne.v1.Session/Update"
PEER = "127.0.0.1"


OTHERS = 20
"""The number of other RMs' commands that precede the registration in the engine."""


@pytest.fixture
def site() -> Iterator[Site]:
    """A server whose loop the test moves, and whose engine handles one command per round."""
    with stillness(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("licorne_server.engine.engine.perf_counter", partial(next, count(0, 10)))
        site = Site()
        yield site
        site.close()


def hello(site: Site, *, token: str = "", registers: bool = True) -> Line:
    """A stream that begins with a hello, which is in flight."""
    line = site.open(UPDATE)
    first = sp.Hello(rm_id="rm", protocol=1, instance=1, resume_token=token)
    if registers:
        first.registration.rmID = "rm"
    line.under_way.append(sp.UpdateRequest(hello=first).SerializeToString())
    line.arrive()
    return line


def served(site: Site) -> tuple[Line, str]:
    """An open session, and the token that resumes it."""
    line = hello(site)
    site.rest()
    return line, sp.UpdateResponse.FromString(line.answers[0]).welcome.resume_token


def register(site: Site) -> Line:
    """A registration over `si.v1`, which is in flight."""
    return site.ask(REGISTER, si.RegisterResourceManagerRequest(rmID="rm"))


def cancel_queued(site: Site, line: Line) -> None:
    """Cancel the call when its command is queued in the engine, after other commands."""
    for number in range(OTHERS):
        hold = SetHold(rm_id=RmId(f"other-{number}"), hold=Hold.OUTBOX_FULL, on=False)
        site.engine.post(hold)
    came = site.engine.commands + site.engine.inbox
    while site.engine.commands + site.engine.inbox == came:
        assert site.loop.round()
    assert site.engine.inbox > 1
    site.hang_up(line)


def test_a_cancelled_registration_ends_the_previous_session(site: Site) -> None:
    """The previous session ends with its status, although no caller waits for the new registration."""
    session, _ = served(site)
    cancel_queued(site, register(site))
    site.rest()
    assert site.rms.get("rm", "").registration.number == 2
    assert session.status == (grpc.StatusCode.ABORTED, "registered anew over si.v1")
    assert not site.rms.get("rm", "").connected


def test_a_cancelled_registration_voids_the_previous_token(site: Site) -> None:
    """A client that presents the previous token during the registration is refused."""
    session, token = served(site)
    site.hang_up(session)
    site.rest()
    given_up = hello(site)
    cancel_queued(site, given_up)
    late = hello(site, token=token, registers=False)
    site.rest()
    assert not late.answers
    assert late.status is not None
    assert late.status.code is grpc.StatusCode.FAILED_PRECONDITION
    assert "the session cannot be resumed" in late.status.text
    again = hello(site)
    site.rest()
    assert sp.UpdateResponse.FromString(again.answers[0]).HasField("welcome")
    assert site.rms.get("rm", "").registration.number == 3


def test_a_cancelled_registration_counts_for_its_peer(site: Site) -> None:
    """The RM counts in the quota of the peer that registered it."""
    cancel_queued(site, register(site))
    site.rest()
    assert site.rms.get("rm", "").peer == PEER


def test_a_cancelled_hello_opens_its_session(site: Site) -> None:
    """The session of a cancelled hello exists, without an open stream."""
    cancel_queued(site, hello(site))
    site.rest()
    rm = site.rms.get("rm", "")
    assert not rm.session.over_si
    assert not rm.connected


def test_a_cancelled_registration_keeps_the_lock(site: Site) -> None:
    """Later requests for the RM wait for the registration, and apply to it."""
    cancel_queued(site, register(site))
    site.loop.rounds(OTHERS // 2)
    assert site.rms.is_locked("rm")
    again = register(site)
    site.rest()
    assert again.status == OK
    assert site.rms.get("rm", "").registration.number == 2
    assert not site.rms.is_locked("rm")


def test_a_registration_is_dropped_before_it_reaches_the_engine(site: Site) -> None:
    """If the caller disconnects before its configuration is parsed, nothing is registered."""
    request = si.RegisterResourceManagerRequest(rmID="rm", config="partitions: []")
    line = site.ask(REGISTER, request)
    while not site.rms.is_locked("rm"):
        assert site.loop.round()
    site.hang_up(line)
    site.rest()
    assert site.rms.find("rm") is None
    assert not site.rms.is_locked("rm")


def test_a_stopping_server_completes_a_cancelled_registration(site: Site) -> None:
    """A server that stops completes a registration that has begun."""
    cancel_queued(site, hello(site))
    stopping = site.loop.create_task(site.admission.stop())
    while not stopping.done() and site.loop.round():
        pass
    assert stopping.done()
    assert not site.rms.get("rm", "").session.over_si
