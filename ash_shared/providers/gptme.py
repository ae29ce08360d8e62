"""gptme: the lines of `conversation.jsonl`, one message each.

Sources: logs of real runs of version 0.35, and the code of gptme. A call is a part of the text of an answer: a block of
code, an XML element, or `@tool(id): {…}`. The result is a message of the system. Times have no zone.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from json import JSONDecoder
from typing import Any

from ash_shared.model.blocks import (
    Block,
    bounded,
    raw_block,
    renamed,
    text_block,
    translate,
    with_extra,
    with_extra_in_first,
    with_variant,
    without,
)
from ash_shared.model.message import RecordHeader, Role
from ash_shared.records.contract import (
    Marks,
    ParsedRecord,
    Part,
    Provider,
    Record,
    WireType,
    unknown_record,
)
from ash_shared.records.fingerprints import body_keys, is_gptme_message
from ash_shared.records.json_fields import (
    cost_at,
    count_at,
    decode_arguments,
    message_error,
    text_at,
    to_milliseconds,
    token_usage,
    value_at,
)
from ash_shared.records.steps import Origin

_THOUGHT = re.compile(r"\s*<(think|thinking)>(.*?)</\1>\n*", re.DOTALL)
_CALL = re.compile(r"^@([\w.-]+)\(([^\s()]*)\): ?(?=\{)", re.MULTILINE)
_ELEMENT = re.compile(r"<tool-use>\s*<([\w.-]+)(?: args=(?:'([^']*)'|\"([^\"]*)\"))?[^>]*>\n?")
_FENCE = re.compile(r"(`{3,})([^`]*)")
_OUTCOME = re.compile(r"^Return code: (-?\d{1,9})\s*\Z", re.MULTILINE)
"""At the end: the output of a command may contain the same words."""
_FOLDER = re.compile(r"\*\*Working Directory:\*\* (.+)")
_REMINDER = re.compile(r"\s*<(system|system_info|system-reminder)>.*</\1>\s*", re.DOTALL)
_FAILED = (
    *("Error", "Tool '", "Patch failed", "Atomic patch aborted", "Atomic patch failed", "Append aborted"),
    *("Save aborted", "Operation aborted", "Cannot append to", "Cannot save to", "Morph API call failed"),
    *("Edited content was not confirmed", "Editing ", "No content provided", "No file paths provided"),
    *("No patch content provided", "No path provided"),
)
"""The beginnings of results of failed and refused calls."""
_ENVELOPE = ("content", "metadata", "role", "timestamp")

_NAMES = (
    "append browser chats choice clarify complete computer elicit form gh hashline_edit ipython mcp memory morph patch"
    " patch_many progress read request_tool_change restart save shell subagent tmux todo vision watch"
)
_TOOLS: Mapping[str, str] = {"py": "ipython", **{name: name for name in _NAMES.split()}}
"""Tools by the language of the block of code that calls them."""
_PARAMETERS: Mapping[str, str] = {"ipython": "code", "morph": "edit", "patch": "patch", "shell": "command"}
"""The parameter for the text of a block of code; `content` for other tools."""
_FILE_TOOLS = frozenset({"append", "hashline_edit", "morph", "patch", "read", "save"})
"""Tools with a path after the language."""


def _rest(record: Record, *consumed: str) -> Block:
    """Return the keys of a message and of its metadata that are no fields of its blocks."""
    rest, metadata = without(record, *_ENVELOPE, *consumed), record.get("metadata")
    if isinstance(metadata, dict) and metadata.keys().isdisjoint(rest):
        return metadata | rest
    return rest if metadata is None else {**rest, "metadata": metadata}


def _with_rest(blocks: list[Block], rest: Block, record: Record) -> list[Block]:
    """Return the blocks with other values in the first one; without blocks, the message itself."""
    return with_extra_in_first(bounded(blocks), rest) if blocks else [raw_block("control", record)]


# Answers.


def _translate_answer(record: Record) -> list[Block]:
    content: str = record["content"]
    blocks: list[Block] = []
    if (thought := _THOUGHT.match(content)) is not None:
        blocks.append({"type": "thinking", "thinking": thought[2], "source_type": thought[1]})
        content = content[thought.end() :]
    blocks += _split_calls(content)
    if all(block["type"] != "tool_use" for block in blocks):
        blocks += _calls_in(content, value_at(record, "metadata", "timings"))
    return _with_rest(blocks, _rest({**record, "metadata": _without_fields(record.get("metadata"))}), record)


def _without_fields(metadata: Any) -> Any:
    """Return the metadata of an answer without the fields of its message."""
    if not isinstance(metadata, dict):
        return metadata
    kinds = {"cost": int | float, "model": str, "usage": dict}
    names = [name for name, kind in kinds.items() if isinstance(metadata.get(name), kind)]
    return without(metadata, *names)


def _split_calls(content: str) -> list[Block]:
    """Return the text of an answer and its calls that have ids, in their order."""
    starts = [*_CALL.finditer(content)] if "@" in content else []
    if not starts:
        return _texts(content)
    blocks = _texts(content[: starts[0].start()])
    for start, following in zip(starts, [*starts[1:], None], strict=True):
        rest = content[start.end() : None if following is None else following.start()].rstrip("\n")
        arguments = rest[: _end_of_object(rest)]
        decoded = decode_arguments(arguments)
        call = {"type": "tool_use", "id": start[2] or None, "name": start[1], "input": decoded}
        blocks.append(with_extra(call, {} if decoded is arguments else {"arguments": arguments}))
        blocks += _texts(rest[len(arguments) :])
    return blocks


def _texts(text: str) -> list[Block]:
    return [text_block(text)] if text.strip() else []


def _end_of_object(text: str) -> int:
    """Return where the JSON object at the beginning of a text ends: with the text if it cannot be decoded."""
    try:
        return _DECODER.raw_decode(text)[1]
    except (ValueError, RecursionError):
        return len(text)


_DECODER = JSONDecoder()


def _calls_in(text: str, timings: Any) -> list[Block]:
    """Return the calls of tools in a text; if the times of tools are known, only of tools that ran."""
    if "```" not in text and "<tool-use>" not in text:
        return []
    ran = timings.get("tool_ms_by_name", {}) if isinstance(timings, dict) else None
    found = [*_elements_in(text)] or [*_code_in(text)]
    return [_call_block(tool, argument, body) for tool, argument, body in found if ran is None or tool in ran]


def _elements_in(text: str) -> Iterator[tuple[str, str, str]]:
    for part in text.split("</tool-use>")[:-1]:
        section = part.rstrip()
        for start in _ELEMENT.finditer(section):
            end = len(section) - len(f"</{start[1]}>")
            if start.end() <= end and section.endswith(f"</{start[1]}>"):
                yield start[1], start[2] or start[3] or "", section[start.end() : end].removesuffix("\n")
                break


def _code_in(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield tool, argument and text of blocks of code. A block may contain others."""
    opened: list[str] = []
    language, lines = "", list[str]()
    for line in text.split("\n"):
        fence = _FENCE.fullmatch(line.rstrip())
        if fence is not None and fence[2] and len(fence[1]) <= len(opened[-1] if opened else fence[1]):
            opened.append(fence[1])
            if len(opened) == 1:
                language, lines = fence[2], []
                continue
        elif fence is not None and opened and fence[1] == opened[-1]:
            opened.pop()
            name, _, argument = language.partition(" ")
            if not opened and name in _TOOLS:
                yield _TOOLS[name], argument, "\n".join(lines)
        lines.append(line)


def _call_block(tool: str, argument: str, body: str) -> Block:
    fields = {"path" if tool in _FILE_TOOLS else "arguments": argument.strip()} if argument.strip() else {}
    texts = {_PARAMETERS.get(tool, "content"): body} if body or not fields else {}
    return {"type": "tool_use", "name": tool, "input": {**fields, **texts}, "source_type": "codeblock"}


# Other messages.


def _files(record: Record) -> list[Block]:
    names = record.get("files", [])
    if not isinstance(names, list):
        raise TypeError
    return [{"type": "file", "filename": name.rpartition("/")[2], "storagePath": name} for name in names]


def _translate_prompt(record: Record) -> list[Block]:
    texts = [text_block(record["content"])] if record["content"] else []
    return _with_rest([*texts, *_files(record)], _rest(record, "files"), record)


def _translate_notice(record: Record) -> list[Block]:
    blocks = _translate_prompt(record)
    if _has_failed(record):
        return with_variant(blocks, "error")
    return with_variant(blocks, "notice") if record.get("ui_only") is True else blocks


def _has_failed(record: Record) -> bool:
    """True for the message about a request that failed."""
    return value_at(record, "metadata", "error") is True


def _translate_result(record: Record) -> list[Block]:
    content: str = record["content"]
    outcome = None if (found := _OUTCOME.search(content)) is None else int(found[1])
    is_error = outcome not in (None, 0) or content.startswith(_FAILED)
    files = _files(record)
    block = {
        "type": "tool_result",
        **renamed(record, tool_use_id="call_id"),
        "content": [text_block(content), *files] if files else content,
        **({} if outcome is None else {"exit_code": outcome}),
        **({"is_error": is_error} if is_error or outcome is not None else {}),
    }
    return [with_extra(block, _rest(record, "call_id", "files"))]


def _is_result(record: Record) -> bool:
    """True for the output of a tool. Messages for the model alone are hidden, or in a tag."""
    if "call_id" in record:
        return True
    is_marked = _has_failed(record) or any(record.get(key) is True for key in ("hide", "pinned", "ui_only"))
    return not is_marked and not record["content"].startswith("<")


_KINDS: Mapping[str, tuple[Role, Callable[[Record], list[Block]]]] = {
    "assistant": ("assistant", _translate_answer),
    "result": ("tool", _translate_result),
    "system": ("system", _translate_notice),
    "user": ("user", _translate_prompt),
}


def _parse(record: Record) -> ParsedRecord:
    name = text_at(record, "role") or ""
    if name not in _KINDS:
        return unknown_record(record, name or None)
    if name == "system" and _is_result(record):
        name = "result"
    role, translation = _KINDS[name]
    return ParsedRecord("message", role, translate(name, record, translation), is_checked=True)


def _parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    if parsed.kind != "message":
        return []
    if parsed.role == "assistant":
        metadata = record.get("metadata")
        return [
            Part(
                role="assistant",
                blocks=parsed.blocks,
                usage=_usage(metadata),
                cost=cost_at(metadata, "cost"),
                metadata={"model": text_at(metadata, "model")},
            )
        ]
    if parsed.role == "user":
        origin: Origin = "synthetic" if _REMINDER.fullmatch(record["content"]) else "prompt"
        return [Part(role="user", blocks=parsed.blocks, origin=origin)]
    if parsed.role == "system" and _has_failed(record):
        error = message_error(text_at(record, "metadata", "error_class") or "error", record["content"])
        return [Part(role=None, error=error, relation="interruption")]
    return [Part(role="user" if parsed.role == "tool" else "system", blocks=parsed.blocks)]


def _usage(metadata: Any) -> Block | None:
    """Return the usage of an answer; earlier versions write the counts beside the model."""
    counts = value_at(metadata, "usage") or metadata
    return token_usage(
        value_at(metadata, "usage"),
        input=count_at(counts, "input_tokens"),
        output=count_at(counts, "output_tokens"),
        cache_read=count_at(counts, "cache_read_tokens"),
        cache_creation=count_at(counts, "cache_creation_tokens"),
        reasoning=count_at(counts, "reasoning_tokens"),
    )


_MESSAGE = WireType(_parse, _parts)
_UNKNOWN = WireType(lambda record: unknown_record(record))


def header(record: Record) -> RecordHeader:
    content = record.get("content")
    is_hidden = record.get("role") == "system" and record.get("hide") is True and isinstance(content, str)
    folder = _FOLDER.search(content) if is_hidden and isinstance(content, str) else None
    return RecordHeader(
        timestamp=to_milliseconds(record.get("timestamp")),
        model=text_at(record, "metadata", "model"),
        folder=folder and folder[1].strip(),
    )


def wire_type(record: Record) -> WireType:
    return _MESSAGE if isinstance(record.get("content"), str) and "role" in record else _UNKNOWN


def recognize(record: Record) -> WireType | None:
    return _MESSAGE if is_gptme_message(record) and not body_keys(record) else None


def parse_block(block: Any) -> Block:
    return raw_block("unknown_type", block)


PROVIDER = Provider(
    source="gptme",
    recognize=recognize,
    marks=Marks(untyped_keys={"file_hashes", "hide", "metadata", "pinned", "ui_only"}),
    wire_type=wire_type,
    parse_block=parse_block,
    header=header,
)
