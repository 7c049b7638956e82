"""Build information: version, form and interpreter."""

import json
import platform

import pytest

from licorne_cli.commands import main
from licorne_cli.connection import target
from licorne_cli.server import process
from licorne_server.process.build_info import COMPILED, PURE, BuildInfo, build_info
from licorne_tools.bench.report import environment
from support.surroundings import CLOSED


def test_the_version_command_says_what_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line has version, form, interpreter and its build; no server is needed."""
    for module in (target, process):
        monkeypatch.setattr(module, "DEFAULT_TARGET", CLOSED)
    assert main(["version"]) == 0
    info = build_info()
    built = "with" if info.optimized else "without"
    assert capsys.readouterr().out == (
        f"licorne {info.version}, {info.form}, CPython {platform.python_version()} "
        f"built {built} --enable-optimizations\n"
    )
    assert info.form in (PURE, COMPILED)


def test_the_version_command_has_data_too(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON output has the same fields."""
    assert main(["version", "--client", "--output", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data.pop("server") is None
    assert BuildInfo(**data) == build_info()


@pytest.mark.parametrize(
    ("options", "optimized"),
    [("'--enable-optimizations' '--with-lto'", True), ("'--enable-shared'", False), (None, False)],
)
def test_an_optimized_interpreter_is_known_by_its_options(
    options: str | None, *, optimized: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's configure options decide; an interpreter without the option counts as not optimized."""
    monkeypatch.setattr("sysconfig.get_config_var", lambda _: options)
    assert build_info().optimized is optimized


def test_a_bench_says_what_was_measured() -> None:
    """The figures of a bench name the form and the interpreter."""
    build = environment()["build"]
    assert (build["form"], build["optimized"]) == (build_info().form, build_info().optimized)
