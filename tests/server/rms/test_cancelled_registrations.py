"""A registration whose caller has disconnected: it is carried out completely, or not at all."""

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
"""Commands of other RMs that the engine has before that of the registration."""


@pytest.fixture
def site() -> Iterator[Site]:
    """A server whose loop the test moves, and whose engine handles one command in a round."""
    with stillness(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("licorne_server.engine.engine.perf_counter", partial(next, count(0, 10)))
        site = Site()
        yield site
        site.close()


def hello(site: Site, *, token: str = "", registers: bool = True) -> Line:
    """A stream that begins with a hello, which is on its way."""
    line = site.open(UPDATE)
    first = sp.Hello(rm_id="rm", protocol=1, instance=1, resume_token=token)
    if registers:
        first.registration.rmID = "rm"
    line.under_way.append(sp.UpdateRequest(hello=first).SerializeToString())
    line.arrive()
    return line


def served(site: Site) -> tuple[Line, str]:
    """A session that was opened, and the token that resumes it."""
    line = hello(site)
    site.rest()
    return line, sp.UpdateResponse.FromString(line.answers[0]).welcome.resume_token


def register(site: Site) -> Line:
    """A registration over `si.v1`, which is on its way."""
    return site.ask(REGISTER, si.RegisterResourceManagerRequest(rmID="rm"))


def cancel_with_its_command_on_the_way(site: Site, line: Line) -> None:
    """Cancel the call when the engine has its command; others are handled before it."""
    for number in range(OTHERS):
        hold = SetHold(rm_id=RmId(f"other-{number}"), hold=Hold.OUTBOX_FULL, on=False)
        site.engine.post(hold)
    came = site.engine.commands + site.engine.inbox
    while site.engine.commands + site.engine.inbox == came:
        assert site.loop.round()
    assert site.engine.inbox > 1
    site.hang_up(line)


def test_the_session_before_it_ends(site: Site) -> None:
    """An open session ends with the status for that, though nobody waits for the new one."""
    session, _ = served(site)
    cancel_with_its_command_on_the_way(site, register(site))
    site.rest()
    assert site.rms.get("rm", "").registration.number == 2
    assert session.status == (grpc.StatusCode.ABORTED, "registered anew over si.v1")
    assert not site.rms.get("rm", "").connected


def test_the_session_before_it_is_not_resumed(site: Site) -> None:
    """A client with the former token, during the registration, gets an invalid token."""
    session, token = served(site)
    site.hang_up(session)
    site.rest()
    given_up = hello(site)
    cancel_with_its_command_on_the_way(site, given_up)
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


def test_it_counts_for_its_peer(site: Site) -> None:
    """The RM is in the share of whoever has registered it."""
    cancel_with_its_command_on_the_way(site, register(site))
    site.rest()
    assert site.rms.get("rm", "").peer == PEER


def test_a_hello_opens_its_session_all_the_same(site: Site) -> None:
    """The consequences of the registration are carried out, but no stream of it is open."""
    cancel_with_its_command_on_the_way(site, hello(site))
    site.rest()
    rm = site.rms.get("rm", "")
    assert not rm.session.over_si
    assert not rm.connected


def test_its_lock_is_held_until_it_is_carried_out(site: Site) -> None:
    """Later requests for the RM wait for it, and apply to the new registration."""
    cancel_with_its_command_on_the_way(site, register(site))
    site.loop.rounds(OTHERS // 2)
    assert site.rms.is_locked("rm")
    again = register(site)
    site.rest()
    assert again.status == OK
    assert site.rms.get("rm", "").registration.number == 2
    assert not site.rms.is_locked("rm")


def test_one_that_the_engine_does_not_have_yet_is_not_made(site: Site) -> None:
    """A caller that disconnects while its configuration waits to be parsed leaves nothing behind."""
    request = si.RegisterResourceManagerRequest(rmID="rm", config="partitions: []")
    line = site.ask(REGISTER, request)
    while not site.rms.is_locked("rm"):
        assert site.loop.round()
    site.hang_up(line)
    site.rest()
    assert site.rms.find("rm") is None
    assert not site.rms.is_locked("rm")


def test_the_server_waits_for_it_when_it_stops(site: Site) -> None:
    """A stop of the server follows the consequences of a begun registration."""
    cancel_with_its_command_on_the_way(site, hello(site))
    stopping = site.loop.create_task(site.admission.stop())
    while not stopping.done() and site.loop.round():
        pass
    assert stopping.done()
    assert not site.rms.get("rm", "").session.over_si
