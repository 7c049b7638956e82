"""The site of the pages: MkDocs finds no dead link, and no page needs another host."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.docs.pages import ROOT
from support.patience import PATIENCE

FETCHED = re.compile(r'<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)="(?:https?:)?//[^"]*"')


@pytest.mark.slow
def test_the_site_is_complete_and_local(tmp_path: Path) -> None:
    """Links and anchors resolve, and the site has all pages and everything that they need."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    built = {page: page.read_text("utf-8") for page in tmp_path.rglob("*.html")}
    assert len(built) > len([*ROOT.glob("docs/*.md")])
    assert {page.name: found for page, text in built.items() if (found := FETCHED.findall(text))} == {}
