"""Events as bytes: equal to protobuf, and JSON with the published names."""

import json

from hypothesis import given
from hypothesis import strategies as st

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import session_pb2 as sp
from licorne.v1 import state_pb2 as pb
from licorne_core.messages.events.records import EventChange, EventDetail, EventRecord, EventType
from licorne_server.wire import events as convert_events

TEXT = st.text(max_size=300).filter(lambda text: text.isprintable())
RECORDS = st.builds(
    EventRecord,
    type=st.sampled_from(EventType),
    object_id=TEXT.filter(bool),
    time=st.floats(0, 4e9),
    change=st.sampled_from(EventChange),
    detail=st.sampled_from(EventDetail),
    reference_id=TEXT,
    message=TEXT,
    resource=st.dictionaries(TEXT, st.integers(-(2**70), 2**70), max_size=3),
)


def message_of(record: EventRecord) -> si.EventRecord:
    """The message, field by field."""
    message = si.EventRecord(
        type=record.type.value,  # type: ignore[arg-type]
        objectID=record.object_id,
        referenceID=record.reference_id,
        message=record.message,
        timestampNano=round(record.time * 1_000_000) * 1000,
        eventChangeType=record.change.value,  # type: ignore[arg-type]
        eventChangeDetail=record.detail.value,  # type: ignore[arg-type]
    )
    for name, value in record.resource.items():
        amount = max(-(2**63), min(2**63 - 1, value))
        message.resource.resources[name].value = amount
    return message


@given(RECORDS, st.integers(0, 2**64 - 1))
def test_bytes_are_those_of_the_messages(record: EventRecord, event_id: int) -> None:
    """Every form of an event parses to the message with its fields."""
    wanted = message_of(record)
    assert convert_events.record_message(record) == wanted
    watched = convert_events.event_of_watch(event_id, record)
    answer = pb.WatchEventsResponse.FromString(convert_events.watch_response("x", watched * 2))
    event = pb.Event(id=event_id, record=wanted)
    assert answer == pb.WatchEventsResponse(instance="x", events=[event, event])
    told = convert_events.record_of_session(event_id, record)
    response = sp.UpdateResponse.FromString(convert_events.session_events(event_id, told * 2))
    events = sp.Events(first_id=event_id, records=[wanted, wanted])
    assert response == sp.UpdateResponse(events=events)


@given(RECORDS)
def test_kinds_have_the_numbers_of_the_wire(record: EventRecord) -> None:
    """The published interface has type, change and detail under the same names."""
    message = convert_events.record_message(record)
    assert si.EventRecord.Type.Name(message.type) == record.type.name
    assert si.EventRecord.ChangeType.Name(message.eventChangeType) == record.change.name
    assert si.EventRecord.ChangeDetail.Name(message.eventChangeDetail) == record.detail.name


@given(RECORDS)
def test_a_line_is_the_json_of_its_event(record: EventRecord) -> None:
    """A line equals an event of a batch, whatever is in it."""
    line = convert_events.record_line(7, record)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert json.loads(line) == convert_events.record_json(record)


def test_json_has_the_published_names() -> None:
    """Kinds are numbers, amounts are as in the published messages, and no field is left out."""
    record = EventRecord(
        type=EventType.NODE,
        object_id="n1",
        time=1.5,
        change=EventChange.ADD,
        detail=EventDetail.NODE_ALLOC,
        reference_id="k1",
        resource={"vcore": 100, "memory": 2**70},
    )
    line = convert_events.record_line(7, record)
    assert line.endswith(b"}\n")
    assert line.count(b"\n") == 1
    assert json.loads(line) == {
        "type": 3,
        "objectID": "n1",
        "referenceID": "k1",
        "message": "",
        "timestampNano": 1_500_000_000,
        "eventChangeType": 2,
        "eventChangeDetail": 303,
        "resource": {"resources": {"vcore": {"value": 100}, "memory": {"value": 2**63 - 1}}},
    }
