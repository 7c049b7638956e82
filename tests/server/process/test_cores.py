"""The cores that a process may use."""

import os
from pathlib import Path

import pytest

from licorne_server.process.memory import cores


@pytest.fixture(autouse=True)
def _eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the process run on eight cores."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))


def files(root: Path, cgroup: str, **quotas: str) -> tuple[Path, Path]:
    """The folders of the process and of its control groups, with these files."""
    process, groups = root / "process", root / "groups"
    process.mkdir()
    (process / "cgroup").write_text(cgroup)
    for name, text in quotas.items():
        path = groups / name.replace("__", "/").replace("_max", ".max").replace("cfs_", "cpu.cfs_")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return process, groups


def test_the_lowest_quota_of_all_ancestors_applies(tmp_path: Path) -> None:
    """A quota of an ancestor group also applies, and fractions of a core are dropped."""
    places = files(
        tmp_path,
        "0::/pods/one\n",
        pods__one__cpu_max="600000 100000\n",
        pods__cpu_max="350000 100000\n",
        cpu_max="max 100000\n",
    )
    assert cores(*places) == 3


def test_a_quota_below_one_core_is_one(tmp_path: Path) -> None:
    """A quota below one core still gives one worker."""
    assert cores(*files(tmp_path, "0::/\n", cpu_max="20000 100000\n")) == 1


def test_version_1_of_control_groups_is_supported(tmp_path: Path) -> None:
    """Older systems have the quota in two files; -1 means no quota."""
    quotas = {
        "cpu__one__cfs_quota_us": "200000",
        "cpu__one__cfs_period_us": "100000",
        "cpu__cfs_quota_us": "-1",
    }
    assert cores(*files(tmp_path, "4:cpu,cpuacct:/one\n3:memory:/one\n", **quotas)) == 2


def test_without_a_quota_all_cores_count(tmp_path: Path) -> None:
    """Missing control groups, or unreadable files, set no bound."""
    assert cores(*files(tmp_path, "0::/\n", cpu_max="nonsense")) == 8
    assert cores(tmp_path / "none", tmp_path) == 8
