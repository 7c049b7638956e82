"""The words and options of `licorne config`: which RM is meant, and which revision."""

from pathlib import Path

import pytest

from support.peers.town import CONFIG, Town


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with another configuration."""
    path = tmp_path / "queues.yaml"
    path.write_text(f"# ours\n{CONFIG}", encoding="utf-8")
    return path


async def test_the_rm_may_stand_behind_options(town: Town, file: Path) -> None:
    """Words and options come in any order, for whatever takes a file and an RM."""
    result = await town.shell("config", "apply", str(file), "--yes", "blue")
    assert result.code == 0
    assert "RM blue: revision 2 is in force\n" in result.err
    result = await town.shell("config", "diff", "-o", "json", str(file), "blue")
    assert (result.code, result.json["revision"]) == (0, 2)


async def test_two_rms_that_are_named_exclude_each_other(town: Town, file: Path) -> None:
    """Nobody changes one RM who may have meant the other; twice the same is no contradiction."""
    result = await town.shell("config", "apply", str(file), "blue", "--rm", "green", "--yes")
    assert (result.code, result.err) == (
        1,
        "licorne: RM blue is named, and --rm green is another one\n",
    )
    assert (await town.shell("config", "get", "blue", "--rm", "blue")).code == 0


@pytest.mark.parametrize("number", ["0", "-1", "x", "9" * 30])
@pytest.mark.parametrize(
    "command",
    [
        ("plan", "f", "--base"),
        ("apply", "f", "--base"),
        ("get", "--revision"),
        ("rollback", "--to"),
    ],
)
async def test_numbers_that_are_no_revisions(
    town: Town, capsys: pytest.CaptureFixture[str], command: tuple[str, ...], number: str
) -> None:
    """They are wrong usage, said in a line."""
    with pytest.raises(SystemExit) as ended:
        await town.shell("config", *command[:-1], f"{command[-1]}={number}")
    assert ended.value.code == 1
    problem = f"{number} is no revision: a number from 1 on was expected"
    assert capsys.readouterr().err.endswith(f"argument {command[-1]}: {problem}\n")
