"""Numbers, acknowledgements and resumption."""

import pytest

from licorne.errors import ConnectionLost
from licorne.session import Session
from licorne.si.v1 import si_pb2 as si
from licorne.v1.session_pb2 import UpdateRequest, UpdateResponse, Welcome


def new_session(*, resend: int = 100) -> Session:
    """A session that has not connected yet."""
    return Session("rm1", 7, si.RegisterResourceManagerRequest(rmID="rm1"), resend=resend)


def welcomed(
    session: Session, *, resumed: bool = False, number: int = 1, acknowledged: int = 0
) -> list[UpdateRequest] | None:
    """The session after a welcome of epoch 1."""
    return session.welcome(
        UpdateResponse(
            epoch=1,
            session=number,
            acknowledged=acknowledged,
            welcome=Welcome(resumed=resumed, resume_token=f"token-{number}"),
        )
    )


def response(number: int, *, session: int = 1, acknowledged: int = 0) -> UpdateResponse:
    """A numbered answer of epoch 1."""
    return UpdateResponse(number=number, epoch=1, session=session, acknowledged=acknowledged)


def test_requests_are_numbered_from_one() -> None:
    """A new session counts its requests from 1, without a gap."""
    session = new_session()
    assert welcomed(session) is None
    assert [session.outgoing(UpdateRequest()).number for _ in range(3)] == [1, 2, 3]


def test_the_first_hello_resumes_nothing() -> None:
    """Before the first welcome there is no token."""
    hello = new_session().hello().hello
    assert (hello.rm_id, hello.instance, hello.protocol) == ("rm1", 7, 1)
    assert hello.resume_token == ""


def test_a_hello_has_the_highest_epoch() -> None:
    """The epoch is 0 before the first welcome, and then the welcome's, even if the session is given up."""
    session = new_session()
    assert session.hello().hello.epoch == 0
    session.welcome(UpdateResponse(epoch=5, session=1, welcome=Welcome()))
    assert session.hello().hello.epoch == 5
    session.forget()
    assert session.hello().hello.epoch == 5


def test_unprocessed_requests_are_sent_again() -> None:
    """After a resumption the requests above the server's number are sent again, and no others."""
    session = new_session()
    welcomed(session)
    for _ in range(4):
        session.outgoing(UpdateRequest())
    session.accepts(response(1, acknowledged=1))
    assert session.hello().hello.resume_token == "token-1"
    repeats = welcomed(session, resumed=True, acknowledged=2)
    assert repeats is not None
    assert [request.number for request in repeats] == [3, 4]
    assert session.outgoing(UpdateRequest()).number == 5


def test_a_new_session_starts_over() -> None:
    """After a new registration numbers start at 1, and the server gets nothing twice."""
    session = new_session()
    welcomed(session)
    session.outgoing(UpdateRequest())
    session.accepts(response(1))
    assert welcomed(session, number=2) is None
    assert session.outgoing(UpdateRequest()).number == 1
    assert session.accepts(response(1, session=2))


def test_repeated_and_old_answers_are_dropped() -> None:
    """An answer that was read before, or one of an older session, is dropped."""
    session = new_session()
    welcomed(session, number=2)
    assert session.accepts(response(1, session=2))
    assert not session.accepts(response(1, session=2))
    assert not session.accepts(response(2, session=1))
    assert session.accepts(response(2, session=2))


def test_a_gap_causes_a_replay() -> None:
    """If an answer is missing, stream and session are given up."""
    session = new_session()
    welcomed(session)
    with pytest.raises(ConnectionLost, match="some are lost"):
        session.accepts(response(2))
    assert session.hello().hello.resume_token == ""


def test_an_older_server_is_refused() -> None:
    """A welcome of a lower session is from a server that has lost its claim to the RM."""
    session = new_session()
    welcomed(session, number=3)
    with pytest.raises(ConnectionLost):
        welcomed(session, number=2)


def test_only_processed_answers_are_acknowledged() -> None:
    """An answer is acknowledged with the next request after its reader has processed it."""
    session = new_session()
    welcomed(session)
    session.accepts(response(1))
    session.accepts(response(2))
    assert session.outgoing(UpdateRequest()).acknowledged == 0
    session.consumed((1, 1), 1)
    assert session.unacknowledged == 1
    assert session.outgoing(UpdateRequest()).acknowledged == 1
    assert session.unacknowledged == 0


def test_answers_of_an_older_session_acknowledge_nothing() -> None:
    """Answers of the previous session do not count for the new one."""
    session = new_session()
    welcomed(session)
    session.accepts(response(1))
    welcomed(session, number=2)
    session.consumed((1, 1), 1)
    assert session.unacknowledged == 0


def test_too_many_unacknowledged_requests_prevent_resumption_for_a_while() -> None:
    """Beyond a number of unacknowledged requests a session cannot resume, until the server has caught up."""
    session = new_session(resend=2)
    welcomed(session)
    for _ in range(3):
        session.outgoing(UpdateRequest())
    assert not session.resumable
    session.accepts(response(1, acknowledged=1))
    assert session.resumable


def test_a_session_that_was_given_up_is_not_resumed() -> None:
    """After the queue was dropped the next hello requests a replay, which includes the dropped requests."""
    session = new_session()
    welcomed(session)
    assert session.hello().hello.resume_token == "token-1"
    session.forget()
    with pytest.raises(ConnectionLost, match="given up"):
        welcomed(session, resumed=True)
    assert session.hello().hello.resume_token == ""
    assert welcomed(session, number=2) is None


def test_a_goodbye_is_never_repeated() -> None:
    """A lost goodbye is not sent again when the stream is resumed."""
    session = new_session()
    welcomed(session)
    session.goodbye(unregister=False)
    assert welcomed(session, resumed=True, acknowledged=0) == []
    assert session.outgoing(UpdateRequest()).number == 1


def test_a_wrong_acknowledgement_causes_a_replay() -> None:
    """An acknowledgement of unsent requests causes a replay, on a stream and at a resumption."""
    session = new_session()
    welcomed(session)
    session.outgoing(UpdateRequest())
    with pytest.raises(ConnectionLost, match="request 2 is acknowledged, but 1 were sent"):
        session.accepts(response(1, acknowledged=2))
    assert session.hello().hello.resume_token == ""
    again = new_session()
    welcomed(again)
    with pytest.raises(ConnectionLost, match="request 9 is acknowledged, but 0 were sent"):
        welcomed(again, resumed=True, acknowledged=9)
    assert again.hello().hello.resume_token == ""


def test_a_response_of_the_future_is_dropped() -> None:
    """A response with a future stamp is dropped, so that later welcomes are accepted."""
    session = new_session()
    welcomed(session)
    with pytest.raises(ConnectionLost, match=r"a response is for \(1, 8\)"):
        session.accepts(response(1, session=8))
    assert session.stamp == (1, 1)
    assert session.hello().hello.resume_token == "token-1"
    assert session.accepts(response(1))
