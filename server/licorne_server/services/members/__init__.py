"""Calls between members: each member answers calls about the RMs of all.

In: calls about an RM that another member serves. Out: the owner's answer, or the merged answers of all
members.

*Finding the member.* `forwarding.py` reads the RM or its partition from a request, and `Ownership` has the
owner. A request without an RM is sent to all members and their answers are merged; or it means the first RM,
which is determined by a call to all members (`Resolve`). A passed call is answered by its receiver, and never
passed on again.

*The call.* `passing.py` opens it at the owner, and `serving.py` carries it out there, behind the same guard
as calls from clients. The two are joined by one stream of gRPC, the call `licorne.members.Members/Pass`,
which carries all calls of one member to another (`packing.py`). The secret of the deployment opens it. Each
call names the caller that the first member has authenticated, so that rights are checked where the data
is.

*No answer.* A member has five seconds to accept the stream, and to answer a request to all. Otherwise the
caller gets UNAVAILABLE with the name of the member, or a merged answer names it as missing. A call ends at
both ends when its caller disconnects, when the stream breaks (after 15 seconds, if it is silent), and within
a quarter of a second when its RM gets another owner. A member that stops has the owners end the streams of
RMs in order.

*Isolation.* Each direction of a call has a window, so that the backlog is bounded at both ends and a slow
reader stops its own call alone. Calls take turns frame by frame. A slow member delays its callers,
and no others.

Callers: `assembly/`, `scheduler.py` and `session.py` for the streams of RMs, the page through
`InnerCalls`, and REST and the page through `reads/members.py`: a read is the call `Read`, which the owner
has its own HTTP application answer (`http/door.py`).
"""
