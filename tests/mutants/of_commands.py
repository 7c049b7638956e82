"""Defects of the command line: which server is meant, what is completed, how lists are shown."""

from mutants.defect import Defect

_COMPLETION = "server/licorne_server/cli/completion_scripts.py"
_OUTPUT = "server/licorne_server/cli/output.py"
_SIMILAR = "core/licorne_core/config/similar.py"
_TARGET = "server/licorne_server/cli/target.py"
_WATCH = "server/licorne_server/cli/watch.py"

COMMANDS = (
    Defect(
        "token-for-another-server",
        _TARGET,
        "counting = [place.at(args.target) for place in places]",
        "counting = [place.values for place in places]",
        "the token of the context in use goes to any server that is named",
        ("tests/server/cli/test_context.py",),
    ),
    Defect(
        "names-command-the-shell",
        _COMPLETION,
        '[[ "$1" == quoted ]] && offer="$(printf %q "$offer")"',
        '[[ "$1" == never ]] && offer="$(printf %q "$offer")"',
        "a name of somebody else's is completed unquoted, and the shell runs what is in it",
        ("tests/server/cli/test_completion.py",),
    ),
    Defect(
        "tables-that-wrap",
        _OUTPUT,
        "self._is_list = is_terminal(sys.stdout) and total > terminal_width()",
        "self._is_list = is_terminal(sys.stdout) and total > 2 * terminal_width()",
        "a table wraps on a narrow terminal",
        ("tests/server/cli/test_screens.py",),
    ),
    Defect(
        "similar-in-one-case",
        _SIMILAR,
        "get_close_matches(word.lower(), known",
        "get_close_matches(word, known",
        "a key in capital letters is like no other",
        ("tests/core/config/test_structure.py",),
    ),
    Defect(
        "places-inside",
        "core/licorne_core/config/document.py",
        "return self.line + line, self.column - 1 + column",
        "return line, column",
        "places in a ConfigMap are those of the text inside",
        ("tests/core/config/test_slips.py",),
    ),
    Defect(
        "watch-that-knows-nothing",
        _WATCH,
        "        known = found\n",
        "        found = known\n",
        "a change is printed again with every look",
        ("tests/server/cli/test_listing.py",),
    ),
)
