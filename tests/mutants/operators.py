"""The slips that can be planted: small changes of a function, given by an operator and a word.

A slip quotes no line, so that code can be moved and formatted without a change of the slip. A *word* that
code *mentions* is a name, an attribute, a keyword or a quoted text.
"""

import ast
import io
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass

Edit = tuple[int, int, str]
"""Start and end offset in the source, and the text that replaces it."""
Find = Callable[["Code"], Iterator[Edit]]

_LAYOUT = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)


@dataclass(frozen=True, slots=True)
class Operator:
    """A kind of slip, and a search for the places in code to which it applies, in order."""

    shown: str
    find: Find


class Code:
    """A function, class or assignment in its file, with offsets instead of lines and columns."""

    def __init__(self, source: str, node: ast.stmt) -> None:
        self.node = node
        self._lines = source.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))
        self._source = source

    def span(self, node: ast.stmt | ast.expr) -> tuple[int, int]:
        """The offsets at which a node begins and ends."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        end = self._offset(node.end_lineno, node.end_col_offset)
        return self._offset(node.lineno, node.col_offset), end

    def text(self, node: ast.expr) -> str:
        """The source text of a node."""
        start, end = self.span(node)
        return self._source[start:end]

    def tokens(self) -> list[tuple[int, int, str]]:
        """Start, end and text of each token, without layout and comments."""
        first, last = self.node.lineno, self.node.end_lineno
        assert last is not None
        return [
            (
                self._starts[token.start[0] - 1] + token.start[1],
                self._starts[token.end[0] - 1] + token.end[1],
                token.string,
            )
            for token in tokenize.generate_tokens(io.StringIO(self._source).readline)
            if first <= token.start[0] <= last and token.type not in _LAYOUT
        ]

    def _offset(self, line: int, column: int) -> int:
        """The offset of a line and a column in bytes, as `ast` counts them."""
        before = self._lines[line - 1].encode()[:column]
        return self._starts[line - 1] + len(before.decode())


def swap(old: str, new: str) -> Operator:
    """Replace tokens, separated by spaces: `<` becomes `<=`, `min` becomes `max`."""
    wanted = old.split()

    def find(code: Code) -> Iterator[Edit]:
        tokens = code.tokens()
        for first in range(len(tokens) - len(wanted) + 1):
            run = tokens[first : first + len(wanted)]
            if [text for _, _, text in run] == wanted:
                yield run[0][0], run[-1][1], new

    return Operator(f"{old} becomes {new}", find)


def never(word: str) -> Operator:
    """A condition that mentions the word becomes False."""
    return _of_conditions(f"the condition with {word} never holds", word, lambda _: "False")


def negate(word: str) -> Operator:
    """A condition that mentions the word is negated."""
    return _of_conditions(f"the condition with {word} is negated", word, "not ({})".format)


def returns(value: str) -> Operator:
    """A return statement returns this value."""

    def find(code: Code) -> Iterator[Edit]:
        for node in _in_order(code.node):
            if isinstance(node, ast.Return) and node.value is not None:
                yield *code.span(node.value), value

    return Operator(f"it returns {value}", find)


def drop(word: str) -> Operator:
    """The smallest statement that mentions the word is replaced by `pass`, with the statements inside."""

    def find(code: Code) -> Iterator[Edit]:
        for node in _in_order(code.node):
            if isinstance(node, ast.stmt) and node is not code.node and _mentions_itself(node, word):
                yield *code.span(node), "pass"

    return Operator(f"the statement with {word} is left out", find)


def without(word: str) -> Operator:
    """The smallest operand, element or argument that mentions the word is removed."""

    def find(code: Code) -> Iterator[Edit]:
        for node in _in_order(code.node):
            parts = _parts(node)
            for part in parts:
                inner = any(_mentions(one, word) for below in ast.walk(part) for one in _parts(below))
                if _mentions(part, word) and not inner:
                    yield _left_out(code, node, parts, part)

    return Operator(f"the part with {word} is left out", find)


def _of_conditions(shown: str, word: str, made: Callable[[str], str]) -> Operator:
    """The operator that changes a condition that mentions the word."""

    def find(code: Code) -> Iterator[Edit]:
        for node in _in_order(code.node):
            conditions: list[ast.expr] = []
            if isinstance(node, ast.If | ast.While | ast.IfExp):
                conditions = [node.test]
            elif isinstance(node, ast.comprehension):
                conditions = node.ifs
            for condition in conditions:
                if _mentions(condition, word):
                    yield *code.span(condition), made(code.text(condition))

    return Operator(shown, find)


def _left_out(code: Code, node: ast.AST, parts: list[ast.expr], gone: ast.expr) -> Edit:
    """A node without one of its parts."""
    if isinstance(node, ast.BoolOp | ast.BinOp):
        assert isinstance(node, ast.expr)
        word = " or " if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or) else " and "
        return *code.span(node), f"({word.join(code.text(part) for part in parts if part is not gone)})"
    # Include the comma that follows the part, or that precedes the last part.
    number = parts.index(gone)
    start, end = code.span(gone)
    if number + 1 < len(parts):
        end, _ = code.span(parts[number + 1])
    elif number:
        _, start = code.span(parts[number - 1])
    return start, end, ""


def _parts(node: ast.AST) -> list[ast.expr]:
    """The removable parts of a node; an empty list for other nodes."""
    match node:
        case ast.BoolOp():
            return node.values
        case ast.BinOp():
            return [node.left, node.right]
        case ast.Tuple() | ast.List() | ast.Set():
            return node.elts
        case ast.Call():
            return node.args
    return []


def _in_order(root: ast.AST) -> Iterator[ast.AST]:
    """Every node below the root, in the order of the text."""
    for child in ast.iter_child_nodes(root):
        yield child
        yield from _in_order(child)


def _mentions_itself(statement: ast.stmt, word: str) -> bool:
    """Whether a statement mentions a word outside its inner statements."""
    inside = ast.stmt | ast.excepthandler | ast.match_case
    return any(
        _mentions(head, word) for head in ast.iter_child_nodes(statement) if not isinstance(head, inside)
    )


def _mentions(root: ast.AST, word: str) -> bool:
    """Whether a node contains the word."""
    return any(word in _words(node) for node in ast.walk(root))


def _words(node: ast.AST) -> tuple[object, ...]:
    """The words of one node, without those of its children."""
    match node:
        case ast.Name():
            return (node.id,)
        case ast.Attribute():
            return (node.attr,)
        case ast.keyword():
            return (node.arg,)
        case ast.Constant():
            return (node.value if isinstance(node.value, str) else repr(node.value),)
    return ()
