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


def test_the_version_command_prints_the_build(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line has version, form, interpreter and its build; no server is needed."""
    for module in (target, process):
        monkeypatch.setattr(module, "DEFAULT_TARGET", CLOSED)
    assert main(["version"]) == 0
    info = build_info()
    built = "optimized" if info.optimized else "not optimized"
    assert capsys.readouterr().out == (
        f"licorne {info.version}, {info.form}, CPython {platform.python_version()}, {built}\n"
    )
    assert info.form in (PURE, COMPILED)


def test_the_version_command_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON output has the same fields."""
    assert main(["version", "--client", "--output", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data.pop("server") is None
    assert BuildInfo(**data) == build_info()


@pytest.mark.parametrize(
    ("flags", "optimized"),
    [
        ("-Wsign-compare -DNDEBUG -g -fwrapv -O3 -Wall", True),
        ("-Wsign-compare -DNDEBUG -g -fwrapv -O2 -Wall -g -fstack-protector-strong -g -fwrapv -O2", True),
        ("-Wsign-compare -g -Og -Wall", False),
        ("-DNDEBUG -O3 -Wall -O0", False),
        ("", False),
        (None, True),
    ],
    ids=["official", "Debian's", "debug", "last level", "no level", "Windows"],
)
def test_an_optimized_interpreter_is_recognized_by_its_flags(
    flags: str | None, *, optimized: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last optimization flag of the compiler decides, with a profile or without."""
    monkeypatch.setattr("sysconfig.get_config_var", {"CFLAGS": flags}.get)
    assert build_info().optimized is optimized


def test_a_debug_build_is_not_optimized(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interpreter that counts all references is slow at any level of optimization."""
    monkeypatch.setattr("sys.gettotalrefcount", lambda: 0, raising=False)
    assert not build_info().optimized


def test_a_bench_names_its_build() -> None:
    """The figures of a bench have the form and the interpreter."""
    build = environment()["build"]
    assert (build["form"], build["optimized"]) == (build_info().form, build_info().optimized)
