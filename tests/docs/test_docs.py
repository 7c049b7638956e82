"""Pages are true: commands run, snippets work, configurations load, links resolve."""

import ast
import asyncio
import inspect
import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from licorne_cli.connection.contexts import PATH_VARIABLE
from licorne_core.config import load
from licorne_core.extensions.budgets.tree import load_budgets
from licorne_server.commands.settings.sources import read
from licorne_server.commands.settings.tables import Tables
from licorne_server.lab.simulation.rules import load_rules
from licorne_server.store.documents.disk import DATABASE
from support.docs.commands import Served, Shell, commands, populate, serving
from support.docs.deploying import try_deploying
from support.docs.pages import ROOT, Block, Page, pages
from support.patience import PATIENCE

PAGES = pages()
LANGUAGES = {"go", "mermaid", "python", "sh", "text", "toml", "yaml"}
NOT_RUN = {
    "clients/README.md": 1,
    "docs/coming-from-yunikorn.md": 3,
    "docs/high-availability.md": 1,
    "docs/installing.md": 1,
    "docs/kubernetes.md": 4,
    "docs/running.md": 1,
}
"""The number of blocks of a page that are not run. Each has its reason on the page."""

TOLD = ("docs/tutorial.md", "docs/tls.md")
"""Pages whose commands depend on each other; each has a test that runs them in order."""

OF_THE_CLIENT = ("clients/README.md", "docs/python-client.md")
QUEUES = "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: batch}]}]}]"


class Enough(Exception):
    """The error that ends a snippet without an end."""


class Starter:
    """Starts containers; each snippet of the client's page has room for eight of them."""

    def __init__(self) -> None:
        """Start without containers."""
        self.started: list[str] = []

    def __call__(self, key: str, node_id: str) -> None:
        """Count one more container."""
        self.started.append(key)
        if len(self.started) % 8 == 0:
            raise Enough


def brought_along(page: str) -> dict[str, object]:
    """The names that a page expects from its reader."""
    return {"QUEUES": QUEUES, "start": Starter()} if page in OF_THE_CLIENT else {}


def blocks(language: str) -> list[Block]:
    """The runnable blocks of a language, of all pages."""
    return [
        block for page in PAGES for block in page.blocks() if block.language == language and not block.why_not
    ]


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """A server with the objects of an RM."""
    with serving() as served:
        populate(served)
        yield served


@pytest.fixture
def shell(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A folder for commands, with the queues of the page on configuration, and contexts."""
    example = next(block for block in blocks("yaml") if block.page == "docs/configuration.md")
    (tmp_path / "queues.yaml").write_text(example.text, encoding="utf-8")
    settings = next(block for block in blocks("toml") if block.page == "docs/serving.md")
    (tmp_path / "licorne.toml").write_text(settings.text, encoding="utf-8")
    contexts = {name: {"target": served.target} for name in ("prod", "test")}
    (tmp_path / "contexts.yaml").write_text(json.dumps({"contexts": contexts}), encoding="utf-8")
    monkeypatch.setenv(PATH_VARIABLE, str(tmp_path / "contexts.yaml"))
    monkeypatch.chdir(tmp_path)
    return Shell(served, tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_blocks_have_a_language(page: Page) -> None:
    """Every block names its language, and a fixed number is marked as not run."""
    unknown = [str(block) for block in page.blocks() if block.language not in LANGUAGES]
    assert not unknown, f"a block is one of {', '.join(sorted(LANGUAGES))}"
    marked = [block for block in page.blocks() if block.why_not]
    assert len(marked) == page.marks(), "a mark must stand right in front of a block, with a reason"
    assert len(marked) == NOT_RUN.get(page.name, 0)


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_resolve(page: Page) -> None:
    """Every link to a file or a heading resolves."""
    for line, target in page.links():
        if target.startswith("https://"):
            continue
        name, _, anchor = target.partition("#")
        path = (page.path.parent / name).resolve() if name else page.path
        where = f"{page.name}:{line}: {target}"
        assert path.exists(), where
        if anchor:
            assert anchor in Page(str(path.relative_to(ROOT))).anchors(), where


@pytest.mark.parametrize("block", blocks("yaml"), ids=str)
def test_configurations_on_pages_are_valid(block: Block) -> None:
    """Every configuration on a page is valid, without warnings."""
    if block.page == "docs/decisions.md":
        assert load_rules(block.text).queues
        return
    of_page = load_budgets if block.page == "docs/budgets.md" else load
    assert of_page(block.text, strict=True).warnings == ()


@pytest.mark.parametrize("block", blocks("toml"), ids=str)
def test_settings_on_pages_are_valid(block: Block, tmp_path: Path) -> None:
    """Every file of settings on a page is valid."""
    file = tmp_path / "licorne.toml"
    file.write_text(block.text, encoding="utf-8")
    assert read({}, {}, file).tables != Tables()


@pytest.mark.parametrize("block", blocks("go"), ids=str)
def test_go_snippets_are_compiled(block: Block) -> None:
    """Every Go snippet is part of a Go file, which `make test-go` compiles."""
    snippet = [line.strip() for line in block.text.splitlines()]
    programs = (ROOT / "clients" / "go").rglob("*.go")
    files = ([line.strip() for line in path.read_text("utf-8").splitlines()] for path in programs)
    assert any(
        file[start : start + len(snippet)] == snippet
        for file in files
        for start, line in enumerate(file)
        if line == snippet[0]
    )


@pytest.mark.parametrize("name", sorted({block.page for block in blocks("python")} - set(TOLD)))
def test_snippets_run(name: str, served: Served) -> None:
    """The snippets of a page run in order, and print the texts on the page."""
    asyncio.run(asyncio.wait_for(play(Page(name), served), PATIENCE))


async def play(page: Page, served: Served) -> None:
    """Run the snippets as one program, as an interactive interpreter does."""
    namespace: dict[str, Any] = {"__name__": "page", **brought_along(page.name)}
    all_blocks = page.blocks()
    for block, following in zip(all_blocks, [*all_blocks[1:], None], strict=True):
        if block.language != "python" or block.why_not:
            continue
        known = set(namespace)
        printed = await run(block, namespace, served)
        if following is not None and following.language == "text" and follows(page, block, following):
            assert printed == following.text, str(following)
        for new in namespace.keys() - known:
            await run_example(namespace[new])


async def run(block: Block, namespace: dict[str, Any], served: Served) -> str:
    """Run one snippet with the server; returns its output."""
    text = re.sub(r"(127\.0\.0\.1|localhost):7070", served.target, block.text)
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code = compile("\n" * (block.line - 1) + text, block.page, "exec", flags, dont_inherit=True)
    output = io.StringIO()
    with redirect_stdout(output):
        try:
            result = eval(code, namespace)
            if inspect.isawaitable(result):
                await result
        except Enough:
            pass
    return output.getvalue().rstrip()


async def run_example(found: object) -> None:
    """Run a block as a function that awaits and takes no arguments."""
    if inspect.iscoroutinefunction(found) and not inspect.signature(found).parameters:
        await found()


def follows(page: Page, block: Block, following: Block) -> bool:
    """True if one block directly follows another."""
    return not any(page.lines[block.end : following.line - 2])


FIRST_PAGE = {
    tuple(words): block.page
    for block in reversed(blocks("sh"))
    if block.page not in TOLD
    for words in reversed(commands(block))
}
"""The first page of each command, which is run once however many pages have it."""


def marks(words: Sequence[str]) -> Iterator[pytest.MarkDecorator]:
    """The requirements of a command: etcd for members, OpenSSL for certificates, a slow test for benches."""
    if words[:2] == ("licorne", "members") or any(word.startswith("etcd://") for word in words):
        yield pytest.mark.needs("etcd")
    if words[:2] == ("sh", "deploy/certificates.sh"):
        yield pytest.mark.needs("openssl")
    if words[:2] in {("licorne", "bench"), ("licorne", "simulate")}:
        yield pytest.mark.slow


@pytest.mark.parametrize(
    "words",
    [
        pytest.param([*words], id=f"{page}: {' '.join(words)}", marks=[*marks(words)])
        for words, page in reversed(FIRST_PAGE.items())
    ],
)
def test_commands_run(words: list[str], shell: Shell) -> None:
    """Every command on a page succeeds, except for those that can only be parsed here."""
    match words:
        case ["licorne", *rest]:
            shell.licorne(rest)
        case ["make", *targets]:
            assert {target for target in targets if "=" not in target} <= make_targets()
        case ["export", "PATH=$PWD/.venv/bin:$PATH"]:
            assert (ROOT / "Makefile").read_text(encoding="utf-8").count("BIN := .venv/bin\n") == 1
        case (
            ["pip", "install", "dist/*.whl"]
            | ["pip", "install", "--find-links", "dist", "licorne-server" | "licorne-cli"]
            | ["pip", "install", "--find-links", "dist", "--find-links", "dist/pure", "licorne-server"]
        ):
            assert "dist" in make_targets(), "tried by `make test-dist`"
        case ["pip", "install", *folders]:
            distributions = [folder for folder in folders if folder != "-e"]
            assert all((ROOT / folder / "pyproject.toml").is_file() for folder in distributions)
        case ["docker" | "helm" | "kubectl" | "sh", *_]:
            try_deploying(words)
        case ["sqlite3", file, ".backup copy.sqlite"]:
            assert Path(file).name == DATABASE, "tried by test_disk, through the library"
        case [".venv/bin/pytest", *_]:
            assert words[1:], "tried with the others of its kind, below"
        case _:
            pytest.fail(f"nobody knows how to try {words[0]}: mark the block, or teach it here")


def make_targets() -> set[str]:
    """The targets of `make`."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))


@pytest.mark.slow
def test_pytest_commands_on_pages_are_valid() -> None:
    """Paths and options of pytest commands exist."""
    given = [words[1:] for block in blocks("sh") for words in commands(block) if "pytest" in words[0]]
    options = list(dict.fromkeys(word for words in given for word in words))
    command = [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [
        "docs/picture.py",
        "docs/racks.py",
        "docs/recipes.py",
        "docs/sequences.py",
        "docs/terminal.py",
        "docs/fair_share.py",
        "docs/backfill.py",
        "docs/elastic.py",
        "docs/replay.py",
    ],
)
def test_pictures_equal_those_of_a_run(script: str) -> None:
    """The picture and the message sequences are those of a server of this source."""
    command = [sys.executable, script, "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
