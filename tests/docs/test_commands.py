"""The page on commands, compared with the commands: exit codes, variables, options, filters."""

import argparse
import re
import shlex
from collections.abc import Iterator

import pytest

from licorne_cli import failures
from licorne_cli.commands import installed_commands, parser_for
from licorne_cli.config.plan import INCOMPLETE, WORSE
from licorne_cli.config.reading import DIFFERENT, WRONG_USAGE
from licorne_cli.connection.target import DEFAULT_TARGET, VARIABLES
from licorne_cli.output import listing
from licorne_cli.parsing.completion import SHELLS
from licorne_cli.parsing.parser import commands_of
from licorne_core.features import modules
from licorne_core.messages import claims, operators, reasons, together
from licorne_core.scheduling.checks import APPLICATION_RULES, ASK_RULES
from licorne_core.views.census import REASONS
from licorne_server.process.watchdog import SHUT
from support.docs.pages import Page, code_spans, pages

PAGE = Page("docs/commands.md")


def options_of(parser: argparse.ArgumentParser) -> set[str]:
    """Long options of a command, without those of its verbs."""
    return {flag for action in parser._actions for flag in action.option_strings if flag.startswith("--")}


def all_options(parser: argparse.ArgumentParser) -> set[str]:
    """Long options of a command and of all below it."""
    return options_of(parser).union(*(all_options(child) for _, (_, child) in commands_of(parser)))


def test_the_page_has_the_exit_codes() -> None:
    """The page has exactly the exit codes of the commands."""
    common = {value for name, value in vars(failures).items() if name.isupper()}
    of_plans = {WORSE, INCOMPLETE}
    codes = common | of_plans | {DIFFERENT, WRONG_USAGE, SHUT}
    assert {int(row[0]) for row in PAGE.table("Exit codes")} == codes


def test_every_key_of_a_context_has_a_variable() -> None:
    """Every key of a context has its variable in the environment."""
    rows = PAGE.table("Which server")
    shown = {code_spans(row[0])[0]: code_spans(row[1])[0] for row in rows}
    assert shown == VARIABLES
    assert DEFAULT_TARGET in "\n".join(PAGE.lines)


def test_every_output_format_is_on_the_page() -> None:
    """Every output format of a list is on the page."""
    text = "\n".join(PAGE.lines)
    assert all(f"`-o {form}`" in text for form in listing.FORMS)
    assert all(f"licorne completion {shell}\n" in text for shell in SHELLS)


MENTIONED = """bench, context, config plan, config diff, config apply, replay, simulate, why, validate-config,
rms forget, apps plan, serve --http, simulate --policy""".replace("\n", " ").split(", ")
"""Commands that pages mention without their arguments."""
FORMS = {"ACTION", "COMMAND", "SCENARIO", "SHELL", "--help"}
BEHIND = re.compile(r" [&>].*| N\b")
"""Parts of lines for the shell, and placeholders of numbers."""


def command_lines(page: Page) -> Iterator[list[str]]:
    """The words of each command in the code of a page, except in usage lines."""
    blocks = [line for block in page.blocks() for line in block.text.splitlines()]
    spans = re.findall(r"`(licorne [^`]+)`", "\n".join(page.prose))
    for line in [*spans, *(line for line in blocks if line.startswith("licorne "))]:
        text = BEHIND.sub(lambda found: " 1" if found[0] == " N" else "", line)
        [_, command, *words] = shlex.split(text, comments=True)
        is_form = command.isupper() or not FORMS.isdisjoint(words)
        if not is_form and " ".join([command, *words]) not in MENTIONED:
            yield [command, *words]


@pytest.mark.parametrize("page", pages(), ids=str)
def test_commands_on_the_page_are_valid(page: Page) -> None:
    """Each command on the page has only words and options that its parser takes."""
    wrong = []
    for words in command_lines(page):
        try:
            parser_for(*words[:2]).parse_line(words)
        except SystemExit:
            wrong.append(" ".join(words))
    assert wrong == []


def test_metrics_and_codes_of_troubleshooting_exist() -> None:
    """Metrics on the page are in the table of metrics, and codes are published ones."""
    spans = {span for line in Page("docs/troubleshooting.md").lines for span in code_spans(line)}
    metrics = "\n".join(Page("docs/metrics.md").lines)
    assert [span for span in spans if span.startswith("licorne_") and f"`{span}`" not in metrics] == []
    codes = {
        value
        for module in (reasons, claims, operators, together, *(module for _, module in modules("messages")))
        for value in vars(module).values()
        if isinstance(value, str)
    }
    rules = {code for rule in (*APPLICATION_RULES, *ASK_RULES) for code in rule.codes}
    known = {*codes, *rules, *REASONS}
    assert {span for span in spans if re.fullmatch(r"[A-Z]+_[A-Z_]+", span)} - known == {"NOT_STORED"}


def test_the_list_has_every_command() -> None:
    """The list has exactly the existing commands."""
    cells = [re.sub(r"\([^)]*\)", "", row[1]) for row in PAGE.table("All commands")]
    spans = [span for cell in cells for span in code_spans(cell)]
    assert {span.split()[0] for span in spans} == set(installed_commands())


def test_every_option_on_the_page_exists() -> None:
    """Every option on the page exists."""
    known = all_options(parser_for(*installed_commands()))
    assert set(re.findall(r"--[a-z][a-z-]+", "\n".join(PAGE.lines))) <= known
