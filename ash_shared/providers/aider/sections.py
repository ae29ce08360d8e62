r"""Split the Markdown of a chat of Aider into sections, as Aider has appended them.

A chat begins with `\n# aider chat started at …\n\n`. A prompt is a blank line and lines of `#### `; an answer is a
blank line, its text and two newlines; a notice is `> ` and a text. Prompts and notices end with two blanks, which
similar lines in the code of an answer rarely have. A section depends only on the text before its end, so it stays the
same when the file grows.
"""

import re
from collections.abc import Iterator

CHAT_START = r"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\n"

_CHAT_START = re.compile(CHAT_START)
_PROMPT = re.compile(r"\n?#### .*  (?:\n|\Z)")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_CERTAIN_NOTICE = re.compile(r"> (?:Tokens: [\d.,kM]+ sent|\^C |litellm\.)")
"""Notices that follow an answer, also one with a code block that has no end."""
_END = "  \n"


def split_sections(text: str) -> Iterator[str]:
    """Yield the sections, which together are the text. An incomplete last line is a section of its own."""
    lines = [f"{line}\n" for line in text.split("\n")]
    rest = lines.pop().removesuffix("\n")
    start = 0
    while start < len(lines):
        end = _end_of_section(lines, start)
        section = "".join(lines[start:end])
        if end == len(lines) and _is_followed(section):
            section, rest = section[:-1], f"\n{rest}"
        if section:
            yield section
        start = end
    if rest:
        yield rest


def _is_followed(section: str) -> bool:
    """True for an answer with the blank line before the next section, or for this line alone."""
    return section == "\n" or (section.endswith("\n\n\n") and not section.startswith(("> ", "#")))


def is_complete(section: str) -> bool:
    """False for a section that is being written."""
    is_answer = section.startswith("\n") and not (is_prompt(section) or is_chat_start(section))
    return section.endswith("\n\n" if is_answer else "\n")


def is_chat_start(section: str) -> bool:
    return _CHAT_START.match(section.removeprefix("\n") + "\n") is not None


def is_prompt(section: str) -> bool:
    return _PROMPT.match(section) is not None


def is_notice(section: str) -> bool:
    """True for a notice, and for a part of a notice after a blank line or two blanks."""
    return not section.startswith(("\n", "#### ", "# "))


def _end_of_section(lines: list[str], start: int) -> int:
    first = start + 1 if lines[start] == "\n" and start + 1 < len(lines) else start
    if _CHAT_START.match(lines[first]):
        has_blank = first + 1 < len(lines) and lines[first + 1] == "\n"
        return first + 2 if has_blank else first + 1
    if _is_prompt_line(lines[first]):
        return next((end for end in range(first, len(lines)) if not _is_prompt_line(lines[end])), len(lines))
    return _end_of_answer(lines, start) if lines[start] == "\n" else _end_of_notice(lines, start)


def _is_prompt_line(line: str) -> bool:
    return line.startswith("#### ") and line.endswith(_END)


def _is_notice_line(line: str) -> bool:
    return line.startswith("> ") and line.endswith(_END)


def _end_of_notice(lines: list[str], start: int) -> int:
    for index in range(start, len(lines)):
        line = lines[index]
        if index > start and (_is_prompt_line(line) or _is_notice_line(line) or _CHAT_START.match(line)):
            return index
        if line.endswith(_END):
            return index + 1
    return len(lines)


def _end_of_answer(lines: list[str], start: int) -> int:
    fence = ""
    for index in range(start + 1, len(lines)):
        line = lines[index]
        is_after_blank = lines[index - 1] == "\n"
        if is_after_blank and (_CHAT_START.match(line) or _CERTAIN_NOTICE.match(line)):
            return index if line.startswith(">") else _without_blank(index, start)
        if not fence and is_after_blank and index > start + 1:
            if _is_notice_line(line):
                return index
            if _is_prompt_line(line):
                return _without_blank(index, start)
        fence = _fence_after(line, fence)
    return len(lines)


def _without_blank(index: int, start: int) -> int:
    """Return the index of the blank line before a line, which belongs to its section."""
    return max(index - 1, start + 1)


def _fence_after(line: str, fence: str) -> str:
    """Return the fence of the open code block after a line; empty if none is open."""
    match = _FENCE.match(line)
    if match is None:
        return fence
    if not fence:
        return match[1]
    is_end = match[1].startswith(fence) and not line[match.end() :].strip()
    return "" if is_end else fence
