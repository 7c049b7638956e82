"""Calls between members: each member accepts calls about the RMs of all members.

In: calls about an RM that another member serves. Out: the owner's answer, or the merged answers of all
members.

*Finding the member.* `forwarding.py` reads the RM or its partition from a request, and `Ownership` has the
owner. A request without an RM is either sent to all members, whose answers are merged, or means the first RM,
which a call to all members determines (`Resolve`). The receiver of a passed call answers it, and never passes
it on again.

*The call.* `passing.py` opens it at the owner, and `serving.py` carries it out there, behind the same guard
as calls from clients. One stream of gRPC, the call `licorne.members.Members/Pass`, carries all calls of one
member to another (`packing.py`). It is opened with the secret of the deployment. Each call names the caller
that the first member has authenticated, so that the member with the data can check rights.

*No answer.* A member has five seconds to accept the stream, and to answer a request to all. Otherwise the
caller gets UNAVAILABLE with the name of the member, or a merged answer names it as missing. A call ends at
both ends when its caller disconnects, when the stream breaks (after 15 seconds, if it is silent), and within
a quarter of a second when its RM gets another owner. A member that stops asks the owners to end the streams
of RMs normally.

*Isolation.* Each direction of a call has a window, so that the backlog is bounded at both ends and a slow
reader stops only its own call. Calls take turns frame by frame. A slow member delays its callers, and no
others.

Callers: `assembly/`, `scheduler.py` and `session.py` for the streams of RMs, the page through `InnerCalls`,
and REST and the page through `reads/members.py`: a read is the call `Read`, which the HTTP application of the
owner answers (`http/door.py`).
"""
