"""The page's files: which are served, their headers, and forbidden contents."""

import gzip
import re
from pathlib import Path

import pytest

from licorne_server.http.ui import page
from support.server.http_site import Site

STATIC = Path(str(page.FOLDER))
SCRIPTS = sorted(STATIC.glob("*.js"))
MAX_LINES = 400


@pytest.mark.parametrize(("path", "where"), [("/", "ui"), ("/ui/", "../ui")])
async def test_the_root_redirects_to_the_page(site: Site, path: str, where: str) -> None:
    """The redirect is relative, so that it works behind a proxy as well."""
    async with site.client.get(site.address + path, allow_redirects=False) as answer:
        assert (answer.status, answer.headers["Location"]) == (302, where)


@pytest.mark.parametrize("path", ["/ui", *page.STATIC])
async def test_files_have_security_headers(site: Site, path: str) -> None:
    """Only the page's own scripts run, no page frames it, and no address is passed on."""
    status, headers, body = await site.ask(path)
    assert status == 200
    assert body
    policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["require-trusted-types-for"] == "'script'"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["X-Frame-Options"] == "DENY"


async def test_an_unchanged_file_is_not_sent_again(site: Site) -> None:
    """A browser asks whether its copy is current, so that an upgrade is visible at once."""
    _, headers, _ = await site.ask("/ui")
    assert headers["Cache-Control"] == "no-cache"
    status, _, body = await site.ask("/ui", If_None_Match=headers["Etag"])
    assert (status, body) == (304, b"")
    status, _, body = await site.ask("/ui", If_None_Match='"another"')
    assert status == 200


async def test_files_are_compressed(site: Site) -> None:
    """For clients that accept it a file is compressed, with the same content."""
    _, _, plain = await site.ask("/ui/static/main.js")
    _, headers, body = await site.ask("/ui/static/main.js", Accept_Encoding="gzip")
    assert headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(body) == plain


@pytest.mark.parametrize("path", ["/ui/static/", "/ui/static/..%2fpage.py", "/ui/static/nothing.js"])
async def test_no_other_file_is_served(site: Site, path: str) -> None:
    """Only files found at the start have a path."""
    assert (await site.refused(path))["status_code"] == 404


def test_the_page_loads_existing_files_only() -> None:
    """Every script, style and module that is named is a file of the page."""
    names = {path.name for path in STATIC.iterdir()}
    html = (STATIC / page.INDEX).read_text()
    assert set(re.findall(r'(?:src|href)="ui/static/([^"]+)"', html)) <= names
    assert not re.search(r"https?:|\sstyle=|\son\w+=", html)
    imported = {name for file in SCRIPTS for name in re.findall(r'from "\./([^"]+)"', file.read_text())}
    assert imported | {"main.js"} == {file.name for file in SCRIPTS}


@pytest.mark.parametrize("file", SCRIPTS, ids=lambda file: file.name)
def test_no_script_turns_texts_into_code(file: Path) -> None:
    """Names that others choose stay texts, and modules are short."""
    text = file.read_text()
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "DOMParser",
    ):
        assert word not in text
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
    assert text.count("\n") <= MAX_LINES
    assert text.startswith("// ")
