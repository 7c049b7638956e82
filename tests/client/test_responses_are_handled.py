"""Whatever the server may send in a session, the client does something about it."""

import ast
from pathlib import Path

from licorne import stream
from licorne.v1.session_pb2 import UpdateResponse

OF_THE_SESSION = {"welcome", "heartbeat", "ack"}
"""Messages of which only the envelope matters once the session is open."""


def test_every_message_of_a_response_is_handled() -> None:
    """Each message of an UpdateResponse is named in the client's handler of responses."""
    source = Path(stream.__file__).read_text(encoding="utf-8")
    named = {node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)}
    messages = {field.name for field in UpdateResponse.DESCRIPTOR.oneofs_by_name["message"].fields}
    assert messages - OF_THE_SESSION <= named
