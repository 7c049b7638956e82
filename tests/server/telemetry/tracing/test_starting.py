"""Traces without the extra, and without the option."""

import subprocess
import sys

import pytest

from support.patience import PATIENCE


def run(program: str) -> str:
    """The output of a program."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    return done.stdout.strip()


@pytest.mark.slow
def test_nothing_of_the_extra_is_loaded_without_the_option() -> None:
    """Without the option OpenTelemetry and its dependencies are not loaded."""
    extra = ("opentelemetry", "requests", "urllib3")
    program = f"""
import asyncio, sys
import licorne_server.assembly.server, licorne_server.commands.serve
from licorne_server.testing import FakeRM, serve

async def main():
    async with serve() as server, FakeRM(server.target) as rm:
        await rm.add_nodes(1, vcore=1000)
        await rm.submit("job")
        await rm.ask("job", 1, vcore=1)
        await rm.allocated(1)

asyncio.run(main())
print([name for name in sys.modules if name.partition(".")[0] in {extra}], file=sys.stdout)
"""
    assert run(program).splitlines()[-1] == "[]"


def test_without_the_extra_the_start_says_what_to_install() -> None:
    """The error names the command that installs the extra."""
    program = """
import sys
from importlib.abc import MetaPathFinder
from licorne_server.process.settings import Settings, SettingsError, TraceSettings

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "opentelemetry":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
try:
    Settings(traces=TraceSettings(endpoint="http://a")).check()
except SettingsError as error:
    print(error)
"""
    assert run(program) == (
        "traces need OpenTelemetry, which is not installed: "
        "pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http"
    )
