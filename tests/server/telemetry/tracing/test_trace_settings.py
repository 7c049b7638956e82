"""Whether a server makes traces: options, variables, and what is loaded for it."""

import subprocess
import sys

import pytest

from licorne_cli.commands import parser_for
from licorne_server.commands.serve.command import settings_of
from licorne_server.process.settings import USUAL_SAMPLE, Settings, SettingsError, TraceSettings

LICORNE = "LICORNE_OTLP_ENDPOINT"
STANDARD = "OTEL_EXPORTER_OTLP_ENDPOINT"
TRACES = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
PROTOCOL = "OTEL_EXPORTER_OTLP_PROTOCOL"
OFF = "OTEL_SDK_DISABLED"


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the environment of the tests counts."""
    for name in (LICORNE, STANDARD, TRACES, PROTOCOL, OFF):
        monkeypatch.delenv(name, raising=False)


def traces(*arguments: str) -> TraceSettings | None:
    """What these arguments of `serve` say of traces."""
    return settings_of(parser_for("serve").parse_args(["serve", *arguments])).traces


@pytest.mark.parametrize(
    ("arguments", "variables", "expected"),
    [
        ((), {}, None),
        (("--otlp-endpoint", "http://a"), {}, "http://a/v1/traces"),
        (("--otlp-endpoint", "http://a"), {LICORNE: "http://b"}, "http://a/v1/traces"),
        ((), {LICORNE: "http://b/", STANDARD: "http://c"}, "http://b/v1/traces"),
        ((), {STANDARD: "https://c:4318/x"}, "https://c:4318/x/v1/traces"),
        ((), {STANDARD: "http://c", TRACES: "http://d/v1/traces"}, "http://d/v1/traces"),
        ((), {STANDARD: "http://c", OFF: "true"}, None),
        ((), {STANDARD: "http://c", PROTOCOL: "http/protobuf"}, "http://c/v1/traces"),
        (("--otlp-endpoint", "http://a"), {PROTOCOL: "grpc"}, "http://a/v1/traces"),
        (("--otlp-endpoint", ""), {LICORNE: "http://b", STANDARD: "http://c"}, None),
        ((), {LICORNE: "", STANDARD: ""}, None),
    ],
)
def test_where_traces_go(
    arguments: tuple[str, ...],
    variables: dict[str, str],
    expected: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The option goes before our variable, and that before those that all programs have."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found = traces(*arguments)
    assert (None if found is None else found.url) == expected


def test_how_many_there_are() -> None:
    """One in a hundred unless said."""
    for arguments, share in (((), USUAL_SAMPLE), (("--trace-sample", "1"), 1.0)):
        found = traces("--otlp-endpoint", "http://a", *arguments)
        assert found is not None
        assert found.sample == share


def test_another_protocol_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endpoint of the environment is not sent what it cannot read."""
    monkeypatch.setenv(STANDARD, "http://c:4317")
    monkeypatch.setenv(PROTOCOL, "grpc")
    with pytest.raises(SettingsError, match=f"{PROTOCOL} is 'grpc', but spans are sent by"):
        traces()


def run(program: str) -> str:
    """What a program prints."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()


def test_nothing_of_the_extra_is_loaded_without_the_option() -> None:
    """A server costs no more than before: neither OpenTelemetry nor what it needs is loaded."""
    extra = ("opentelemetry", "requests", "urllib3")
    program = f"""
import asyncio, sys
import licorne_server.serving.app, licorne_server.commands.serve.command
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


def test_without_the_extra_the_option_says_what_to_install() -> None:
    """The error names the option, or the variable, and the command."""
    program = """
import sys
from importlib.abc import MetaPathFinder
from licorne_server.process.settings import TraceSettings
from licorne_server.process.settings import SettingsError

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "opentelemetry":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
for name in ("--otlp-endpoint", "OTEL_EXPORTER_OTLP_ENDPOINT"):
    try:
        Settings(traces=TraceSettings(endpoint="http://a", named_by=name)).check()
    except SettingsError as error:
        print(error)
"""
    needs = "needs OpenTelemetry, which is not installed: pip install 'licorne-server[otel]'"
    assert run(program).splitlines() == [
        f"--otlp-endpoint {needs}",
        f"OTEL_EXPORTER_OTLP_ENDPOINT {needs}",
    ]
