"""Every acceptance row of this release has a test."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from acceptance import CLAIMED, ROWS, TESTS, RowTable, is_whole, rows_without_tests


@pytest.mark.whole
def test_every_claimed_row_has_a_test(request: pytest.FixtureRequest) -> None:
    """A row that is claimed is covered by at least one test of the whole collection."""
    covered = request.config.stash[ROWS]
    missing = rows_without_tests(covered)
    if missing:
        pytest.fail(f"rows without a test: {missing}", pytrace=False)


@pytest.mark.parametrize(
    ("arguments", "options", "whole"),
    [
        (["tests"], {}, True),
        (["."], {}, True),
        (["tests/core", "tests"], {}, True),
        (["tests/core", "tests/server"], {}, False),
        (["tests/test_acceptance.py::test_every_claimed_row_has_a_test"], {}, False),
        (["tests"], {"ignore": ["tests/docs"]}, False),
        (["tests"], {"lf": True}, False),
    ],
)
def test_a_partial_collection_is_not_judged(
    arguments: list[str],
    options: dict[str, object],
    whole: bool,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only a collection of all tests can show that a row has none."""
    config = request.config
    # Without a cache pytest has no option `lf`.
    monkeypatch.delattr(config.option, "lf", raising=False)
    for name, value in {"ignore": None, "ignore_glob": None, **options}.items():
        monkeypatch.setattr(config.option, name, value, raising=False)
    monkeypatch.setattr(config, "args", [str(TESTS.parent / name) for name in arguments])
    assert is_whole(config) is whole


def test_a_row_without_tests_is_detected() -> None:
    """Claimed rows without a test are listed."""
    assert rows_without_tests(set(CLAIMED) - {7, 168}) == [7, 168]


def test_a_worker_passes_its_rows_on(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If several processes share the tests, the one that started them writes the only table."""
    config, path = request.config, tmp_path / "rows.md"
    output: dict[str, object] = {}
    monkeypatch.setattr(config, "workeroutput", output, raising=False)
    worker = RowTable(config, path)
    worker.tests[168] = ["test_admin"]
    worker.pytest_sessionfinish()
    assert not path.exists()
    monkeypatch.delattr(config, "workeroutput")
    starter = RowTable(config, path)
    starter.pytest_testnodedown(SimpleNamespace(workeroutput=output))
    starter.failed.add("test_admin")
    starter.pytest_sessionfinish()
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[-1] == "| 168 | `test_admin` **failed** |"
    assert "| 1 | **none** |" in lines
