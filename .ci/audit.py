"""Known vulnerabilities of what is locked: ``audit.py [strict]``.

pip-audit and cargo-audit ask databases on the network. What cannot be asked is named and counted as left
out, which is an error only if it is `strict`.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

SECONDS = 120
PIP_AUDIT = "pip-audit==2.10.1"
PYTHON = "constraints/runtime.txt"
RUST = "transport/Cargo.lock"


def output_of(*command: str) -> Any:
    """What a command prints as JSON, whatever it exits with; None if it prints none."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        return json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


def python_findings() -> tuple[list[str], int]:
    """Findings in the packages of the image, and how many packages were looked up."""
    quiet = ("--disable-pip", "--no-deps", "--progress-spinner", "off", "-f", "json")
    found = output_of(".venv/bin/uv", "tool", "run", PIP_AUDIT, *quiet, "-r", PYTHON)
    # A package that its database does not know is skipped: all are, where there is no database.
    known = [one for one in (found or {}).get("dependencies", ()) if "skip_reason" not in one]
    texts = [f"{one['name']} {one['version']}: {v['id']}" for one in known for v in one["vulns"]]
    return texts, len(known)


def rust_findings() -> tuple[list[str], int]:
    """Findings in the crates of the transport, and how many crates were looked up."""
    found = output_of("cargo", "audit", "--json", "--file", RUST)
    if found is None:
        return [], 0
    texts = [
        f"{one['package']['name']} {one['package']['version']}: {one['advisory']['id']}"
        for one in found["vulnerabilities"]["list"]
    ]
    return texts, found["lockfile"]["dependency-count"]


AUDITS: dict[str, Callable[[], tuple[list[str], int]]] = {PYTHON: python_findings, RUST: rust_findings}


def main(strict: bool) -> int:
    """Print what was found and what was left out; the exit code."""
    findings: list[str] = []
    left_out = 0
    for file, audit in AUDITS.items():
        texts, looked_up = audit()
        findings += texts
        if looked_up:
            print(f"audit: {file}: {looked_up} looked up, {len(texts)} known vulnerabilities")
        else:
            left_out += 1
            print(f"audit: {file} is left out, as its tool or its database cannot be reached")
    for text in findings:
        print(f"audit: {text}")
    print(f"audit: {len(AUDITS) - left_out} of {len(AUDITS)} done, {left_out} left out")
    return 1 if findings or (strict and left_out) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] == ["strict"]))
