"""The cost of an ask does not depend on the present extensions, as long as they are off."""

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
def test_an_ask_calls_the_same_functions_without_extensions_as_with_all_of_them_off() -> None:
    """Two traces, one of a process whose tables of extensions are empty, agree in every call."""
    program = subprocess.run(
        [sys.executable, "-c", WITHOUT], cwd=ROOT / "tests", capture_output=True, text=True, check=True
    )
    assert program.stdout.splitlines() == [" ".join(call) for call in trace_one_ask((CORE, SERVER)).functions]
