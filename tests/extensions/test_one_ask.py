"""An extension that is present and off adds nothing to the cost of an ask."""

import subprocess
import sys

import pytest

from ratchets import CORE, SERVER
from support.docs.pages import ROOT
from support.wire.one_ask import trace_one_ask

WITHOUT = """
import licorne_core.extensions
licorne_core.extensions.NAMES = ()
import licorne_server.wire.features
licorne_server.wire.features.NAMES = ()
from ratchets import CORE, SERVER
from support.wire.one_ask import trace_one_ask
for module, name in trace_one_ask((CORE, SERVER)).functions:
    print(module, name)
"""


@pytest.mark.slow
@pytest.mark.pure
def test_an_ask_makes_the_same_calls_with_and_without_extensions() -> None:
    """The trace of an ask with all extensions off equals that of a process without extensions."""
    program = subprocess.run(
        [sys.executable, "-c", WITHOUT], cwd=ROOT / "tests", capture_output=True, text=True, check=True
    )
    assert program.stdout.splitlines() == [" ".join(call) for call in trace_one_ask((CORE, SERVER)).functions]
