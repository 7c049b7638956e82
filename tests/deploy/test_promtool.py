"""Prometheus' own tool accepts the rules, the expressions and a scrape."""

import subprocess
from pathlib import Path

import pytest
import yaml

from support.deployment import PROMETHEUS, queries, targets, without_variables
from support.patience import PATIENCE

pytestmark = pytest.mark.promtool


def promtool(*arguments: str, text: str = "", cwd: Path = PROMETHEUS) -> tuple[int, str]:
    """The exit code and the output of the tool."""
    command = ["promtool", *arguments]
    done = subprocess.run(
        command, input=text, cwd=cwd, text=True, capture_output=True, timeout=PATIENCE, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_rules_are_valid() -> None:
    """The alert rules, and the configuration that names them, are accepted."""
    code, said = promtool("check", "rules", "--lint=all", "--lint-fatal", "alerts.yml")
    assert code == 0, said
    code, said = promtool("check", "config", "prometheus.yml")
    assert code == 0, said


def test_alerts_fire_when_they_should() -> None:
    """Each alert fires for an unhealthy instance, after its time, and for no other."""
    code, said = promtool("test", "rules", "alerts_test.yml")
    assert code == 0, said


def test_expressions_of_the_dashboard_are_valid(tmp_path: Path) -> None:
    """Prometheus parses the expression of every panel and variable."""
    asked = [target["expr"] for _, target in targets()] + [query for _, query in queries()]
    rules = [
        {"record": f"asked:{number}", "expr": without_variables(expression)}
        for number, expression in enumerate(asked)
    ]
    file = tmp_path / "asked.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "asked", "rules": rules}]}))
    code, said = promtool("check", "rules", str(file), cwd=tmp_path)
    assert code == 0, said
    assert f"{len(asked)} rules found" in said


@pytest.mark.asyncio(loop_scope="module")
async def test_a_scrape_is_well_formed(exposition: str) -> None:
    """The tool accepts a whole scrape, except for names that the older core has chosen."""
    code, said = promtool("check", "metrics", text=exposition)
    complaints = [line for line in said.splitlines() if line.strip()]
    assert code in (0, 3), said
    assert [line for line in complaints if not line.startswith("yunikorn_")] == []
