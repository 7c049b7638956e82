"""Messages received by a fake resource manager, and the state they leave."""

from collections import deque

from licorne import (
    Allocated,
    ApplicationAccepted,
    ApplicationRejected,
    ApplicationStateChanged,
    AskRejected,
    Event,
    NodeAccepted,
    NodeRejected,
    Rejected,
    Released,
)


class Heard:
    """All received events, and the state that follows from them."""

    def __init__(self) -> None:
        """Start without events."""
        self.events: list[Event] = []
        self.allocations: dict[str, str] = {}
        """The node of each allocation, by key."""
        self.states: dict[str, str] = {}
        """The last state that was reported of every application."""
        self._answers: dict[tuple[str, str], str] = {}
        """By kind and name the refusal of a node or an application, empty when it was taken."""
        self._refused: deque[AskRejected] = deque()
        """Refusals of asks that no caller has seen."""

    def hear(self, event: Event) -> None:
        """Apply one more event."""
        self.events.append(event)
        match event:
            case NodeAccepted(node_id=node_id):
                self._answers["node", node_id] = ""
            case NodeRejected(node_id=node_id, reason=reason):
                self._answers["node", node_id] = reason
            case ApplicationAccepted(application_id=application_id):
                self._answers["application", application_id] = ""
            case ApplicationRejected(application_id=application_id, reason=reason):
                self._answers["application", application_id] = reason
            case ApplicationStateChanged(application_id=application_id, state=state):
                self.states[application_id] = state
            case Allocated(key=key, node_id=node_id):
                self.allocations[key] = node_id
            case Released(key=key):
                self.allocations.pop(key, None)
            case AskRejected():
                self._refused.append(event)
            case _:
                pass

    def forget_answer(self, kind: str, name: str) -> None:
        """Another answer about this is to come."""
        self._answers.pop((kind, name), None)

    def is_answered(self, kind: str, name: str) -> bool:
        """True if a node or an application was accepted. Raises Rejected if it was refused."""
        refusal = self._answers.get((kind, name))
        if refusal:
            raise Rejected(name, refusal)
        return refusal is not None

    def check_asks(self) -> None:
        """Raises Rejected for the oldest refusal of an ask that was not raised yet."""
        if self._refused:
            event = self._refused.popleft()
            raise Rejected(event.key, event.reason)
