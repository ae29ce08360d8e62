"""List constructions that make English hard to read: `python -m tools.language [PATH...]`.

They are counted in docstrings, comments, messages (string constants of several words, except in tests and
migrations) and Markdown outside code blocks. `tests/test_language.py` limits how often they occur in 10,000 words.
"""

import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple, TypeGuard

ROOT = Path(__file__).parent.parent
CONSTRUCTIONS = {
    "that of": r"\b(that|those) of\b",
    "whose": r"\bwhose\b",
    "of it": r"\bof (it|them|these|those|this|one)\b",
    "of which": r"\b(of|in|at|by|for|with|to|from|on) (which|whom)\b",
    "what is": r"\bwhat (is|it|they|the|a)\b",
}
DEFAULT_PATHS = (
    *("ash_shared", "ash_server", "ash_client", "ash_stores", "clients", "alembic", "benchmarks", "tools"),
    *("tests", "examples", "deploy", "docs", "README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"),
)
# Files of other projects, and files that are data.
EXCLUDED_FOLDERS = {"node_modules", "vendor", "swagger", "samples", "recordings", "dist", "__pycache__"}
# Strings in tests are data; strings in migrations are part of the schemas of earlier versions.
WITHOUT_MESSAGES = {"alembic", "tests"}

_WORD = re.compile(r"[A-Za-z][\w']*")
_SPACE_WITHIN_PARAGRAPH = r"[^\S\n]*\s[^\S\n]*"
_PATTERNS = {
    name: re.compile(pattern.replace(" ", _SPACE_WITHIN_PARAGRAPH), re.IGNORECASE)
    for name, pattern in CONSTRUCTIONS.items()
}
_CODE = re.compile(r"[^\n]+")
_CODE_BLOCK = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_JAVASCRIPT = re.compile(
    r"""'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`|//(?P<line>[^\n]*)|/\*(?P<block>.*?)\*/""",
    re.DOTALL,
)
_PYTHON = re.compile(
    r"""(?P<quotes>"{3}|'{3})(?:\\.|.)*?(?P=quotes)|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|#(?P<comment>[^\n]*)""",
    re.DOTALL,
)
_SQL_COMMENT = re.compile(r"--(.*)")
_SQL_WORD = re.compile(r"\b(SELECT|INSERT|UPDATE|DELETE|FROM|WHERE|CREATE|ALTER|NULL)\b")
_WORDS_OF_A_MESSAGE = 5

_Span = tuple[int, int]
_Spans = Iterator[_Span]


class Occurrence(NamedTuple):
    path: Path
    line: int
    construction: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.construction}: {self.text}"


class Prose(NamedTuple):
    words: int
    occurrences: list[Occurrence]

    def find(self, construction: str) -> list[Occurrence]:
        return [each for each in self.occurrences if each.construction == construction]

    def rate(self, construction: str) -> float:
        """Return the number of occurrences per 10,000 words."""
        return 10_000 * len(self.find(construction)) / max(self.words, 1)


def read_prose(*paths: str) -> Prose:
    """Read the prose of files, and of all files in folders."""
    words, occurrences = 0, list[Occurrence]()
    for file in _files(paths):
        text = _with_prose_only(file)
        words += len(_WORD.findall(text))
        occurrences += _occurrences(_shown_path(file), text)
    return Prose(words, sorted(occurrences))


def _files(paths: Iterable[str]) -> Iterator[Path]:
    for path in (ROOT / each for each in paths):
        for file in path.rglob("*.*") if path.is_dir() else [path]:
            if file.suffix in _SPANS and EXCLUDED_FOLDERS.isdisjoint(_shown_path(file).parts):
                yield file


def _shown_path(file: Path) -> Path:
    return file.relative_to(ROOT) if file.is_relative_to(ROOT) else file


def _occurrences(path: Path, text: str) -> Iterator[Occurrence]:
    lines = text.split("\n")
    for construction, pattern in _PATTERNS.items():
        for match in pattern.finditer(text):
            line = text.count("\n", 0, match.start())
            yield Occurrence(path, line + 1, construction, " ".join(lines[line].split()))


def _with_prose_only(file: Path) -> str:
    """Return the text of a file, with a space for all code between two pieces of prose: line numbers stay the same."""
    text = file.read_text(encoding="utf-8")
    parts, position = list[str](), 0
    for start, end in sorted(_spans(file, text)):
        parts += _CODE.sub(" ", text[position:start]), text[start:end]
        position = end
    return "".join([*parts, _CODE.sub(" ", text[position:])])


def _markdown(text: str) -> _Spans:
    start = 0
    for code in _CODE_BLOCK.finditer(text):
        yield start, code.start()
        start = code.end()
    yield start, len(text)


def _python(text: str, has_messages: bool = True) -> _Spans:
    for match in _PYTHON.finditer(text):
        if match["comment"] is not None:
            yield match.span("comment")
    tree = ast.parse(text)
    prose = {
        each.value for each in _statements(tree) if isinstance(each, ast.Expr) and _is_string(each.value)
    }
    if has_messages:
        prose |= {each for each in ast.walk(tree) if _is_string(each) and _is_message(each)}
    lines = text.splitlines(keepends=True)
    starts = list(accumulate(map(len, lines), initial=0))
    # The constants within an f-string have its position.
    yield from {_string_span(each, lines, starts) for each in prose}


def _statements(parent: ast.AST) -> Iterator[ast.AST]:
    """Walk the statements only, which are a small part of a tree."""
    for field in ("body", "handlers", "orelse", "finalbody", "cases"):
        for each in getattr(parent, field, ()):
            yield each
            yield from _statements(each)


def _is_string(node: ast.AST) -> TypeGuard[ast.Constant]:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_message(string: ast.Constant) -> bool:
    text = str(string.value)
    return len(_WORD.findall(text)) >= _WORDS_OF_A_MESSAGE and not _SQL_WORD.search(text)


def _string_span(node: ast.Constant, lines: list[str], starts: list[int]) -> _Span:
    """Return where a string is in the text; `ast` counts columns in bytes of UTF-8."""
    ends = (node.lineno, node.col_offset), (node.end_lineno or 1, node.end_col_offset or 0)
    start, end = (starts[line - 1] + len(lines[line - 1].encode()[:column].decode()) for line, column in ends)
    return start, end


def _javascript(text: str) -> _Spans:
    for match in _JAVASCRIPT.finditer(text):
        if match["line"] is not None:
            yield match.span("line")
        elif match["block"] is not None:
            yield from _lines_of_block(text, *match.span("block"))


def _lines_of_block(text: str, start: int, end: int) -> _Spans:
    """Leave out the asterisks at the beginning of the lines."""
    for line in re.finditer(r"^[ *]*([^\n]*)$", text[start:end], re.MULTILINE):
        yield start + line.start(1), start + line.end(1)


def _sql(text: str) -> _Spans:
    for comment in _SQL_COMMENT.finditer(text):
        yield comment.span(1)


_SPANS: dict[str, Callable[[str], _Spans]] = {
    ".md": _markdown,
    ".py": _python,
    ".js": _javascript,
    ".ts": _javascript,
    ".sql": _sql,
}


def _spans(file: Path, text: str) -> _Spans:
    if file.suffix == ".py" and _shown_path(file).parts[0] in WITHOUT_MESSAGES:
        return _python(text, has_messages=False)
    return _SPANS[file.suffix](text)


def main() -> None:
    prose = read_prose(*(sys.argv[1:] or DEFAULT_PATHS))
    for occurrence in prose.occurrences:
        print(occurrence)
    rates = ", ".join(f"{name!r} {prose.rate(name):.1f}" for name in CONSTRUCTIONS)
    print(f"{prose.words} words; per 10,000: {rates}")


if __name__ == "__main__":
    main()
