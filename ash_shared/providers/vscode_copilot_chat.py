"""Chats of GitHub Copilot in VS Code: a document, or since 1.10x a log of changes to it.

Source: a captured session and test cases of readers; the vendor documents no format. A request has the prompt
and the answer as the client showed it. Once it is complete, `toolCallRounds` has each answer of the model with
the real arguments of its calls, and the shown answer repeats their texts. A line of a log with `kind` 0 is a whole
document, 1 sets a value, 2 appends to a list.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from ash_shared.model.blocks import (
    Block,
    bounded,
    is_native,
    pick,
    raw_block,
    renamed,
    text_block,
    translate,
    translated,
    without,
)
from ash_shared.model.message import Identity, RecordHeader
from ash_shared.records.contract import (
    Marks,
    ParsedRecord,
    Part,
    Provider,
    Record,
    WireType,
    control_record,
    unknown_record,
)
from ash_shared.records.documents import (
    DocumentItem,
    UniqueKeys,
    document_parts,
    document_steps,
    document_type,
)
from ash_shared.records.fingerprints import body_keys
from ash_shared.records.json_fields import (
    count_at,
    input_at,
    is_integer,
    items_at,
    latest_time,
    message_error,
    text_at,
    to_milliseconds,
    token_usage,
    value_at,
)
from ash_shared.records.steps import Step

# Shown answers.


def _shown_blocks(response: Any) -> list[Block]:
    """Return the blocks of a shown answer. Adjacent texts and names of files are one text."""
    blocks: list[Block] = []
    for part in response if isinstance(response, list) else [response]:
        block = parse_block(part)
        previous = blocks[-1] if blocks else None
        if previous is not None and previous["type"] == block["type"] == "text":
            references = [*_references(previous), *_references(block)]
            extra = {"extra": {"parts": references}} if references else {}
            blocks[-1] = {**text_block(previous["text"] + block["text"]), **extra}
        elif not (block["type"] == "text" and block["text"] == "" and "extra" not in block):
            blocks.append(block)
    return blocks


def _references(block: Block) -> list[Any]:
    extra = block.get("extra")
    if not extra:
        return []
    return extra["parts"] if extra.keys() == {"parts"} else [extra]


def parse_block(part: Any) -> Block:
    """Parse one part of a shown answer. Markdown has no kind."""
    kind = text_at(part, "kind")
    if kind is None:
        is_text = isinstance(part, dict) and isinstance(part.get("value"), str)
        return translate("markdown", part, _translate_markdown)[0] if is_text else _untyped(part)
    if kind in _TRANSLATIONS:
        return translate(kind, part, _TRANSLATIONS[kind])[0]
    return raw_block("control" if kind in _CONTROLS else "unknown_type", part, kind)


def _untyped(part: Any) -> Block:
    if isinstance(part, str):
        return text_block(part)
    if is_native(part):
        return part
    is_result = isinstance(part, dict) and "resultDetails" in part
    return raw_block("control" if is_result else "unknown_type", part)


def _translate_markdown(part: Block) -> Block:
    rest = {key: value for key, value in without(part, "value").items() if value not in (False, {}, None)}
    return {**text_block(part["value"]), **({"extra": rest} if rest.keys() - {"baseUri"} else {})}


def _translate_reference(part: Block) -> Block:
    """Translate the name of a file or symbol within a text."""
    reference = part["inlineReference"]
    place = text_at(reference, "path") or text_at(reference, "location", "uri", "path") or ""
    name = text_at(reference, "name") or place.rpartition("/")[2]
    return {**text_block(f"`{name}`" if name else ""), "extra": without(part, "kind")}


def _translate_thinking(part: Block) -> Block:
    value = part["value"]
    text = "".join(value) if isinstance(value, list) else value
    return translated(part, {"type": "thinking", "thinking": text}, ("kind", "value"), "thinking")


def _translate_invocation(part: Block) -> Block:
    """Translate a call as it was shown: without its arguments, unless it ran a command."""
    data = part.get("toolSpecificData")
    command = text_at(data, "command") or text_at(data, "commandLine", "original")
    arguments = {"command": command} if command is not None else {}
    typed = {"type": "tool_use", **renamed(part, id="toolCallId"), "name": part["toolId"], "input": arguments}
    return translated(part, typed, ("kind", "toolCallId", "toolId"), "toolInvocationSerialized")


_TRANSLATIONS = {
    "inlineReference": _translate_reference,
    "thinking": _translate_thinking,
    "toolInvocationSerialized": _translate_invocation,
    "warning": lambda part: translated(
        part, text_block(part["content"]["value"], "notice"), ("kind",), "warning"
    ),
}
_CONTROLS = frozenset(
    {
        *("codeblockUri", "command", "confirmation", "elicitation", "elicitationSerialized", "extensions"),
        *(
            "markdownVuln",
            "mcpServersStarting",
            "multiDiffData",
            "notebookEditGroup",
            "prepareToolInvocation",
        ),
        *(
            "progressMessage",
            "progressTask",
            "progressTaskSerialized",
            "pullRequest",
            "references",
            "textEditGroup",
        ),
        *("treeData", "undoStop", "workspaceEdit", "questionCarousel", "hook"),
    }
)
"""Parts of an answer that show changes, progress or buttons."""


# Answers of the model.


def _round_blocks(answer: Any) -> list[Block]:
    if not isinstance(answer, dict):
        return [raw_block("malformed", answer, "round")]
    thinking = value_at(answer, "thinking", "text")
    thought = "".join(thinking) if isinstance(thinking, list) else thinking
    thoughts = [{"type": "thinking", "thinking": thought}] if thought else []
    text = answer.get("response")
    texts = [text_block(text)] if isinstance(text, str) and text else []
    calls = [
        block
        for call in items_at(answer, "toolCalls")
        for block in translate("toolCall", call, _translate_call)
    ]
    return [*thoughts, *texts, *calls]


def _translate_call(call: Block) -> Block:
    arguments, consumed = input_at(call, "arguments")
    typed = {"type": "tool_use", **pick(call, "id"), "name": call["name"], "input": arguments}
    return translated(call, typed, ("id", "name", *consumed), "toolCall")


def _result_blocks(request: Record, ids: list[str]) -> list[Block]:
    results = value_at(request, "result", "metadata", "toolCallResults")
    known = results if isinstance(results, dict) else {}
    return [_result_block(id, known[id]) for id in ids if id in known]


def _result_block(id: str, result: Any) -> Block:
    """Return the block of a result: its texts, and the tree that the client rendered them from."""
    content = value_at(result, "content")
    parts = content if isinstance(content, list) else []
    texts = [text for part in parts for text in _texts_of(value_at(part, "value"))]
    return {
        "type": "tool_result",
        "tool_use_id": id,
        "content": "".join(texts),
        "structured": result,
        "source_type": "toolCallResult",
    }


def _texts_of(value: Any) -> Iterator[str]:
    """Yield the texts of a tree of prompt-tsx, without recursion."""
    pending = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, str):
            yield node
        elif isinstance(node, dict):
            text = node.get("text")
            if isinstance(text, str):
                yield ("\n" if node.get("lineBreakBefore") is True else "") + text
            inner = node.get("node")
            children = node.get("children")
            pending += [
                *reversed(children if isinstance(children, list) else []),
                *([inner] if inner else []),
            ]


# Requests.


def _rounds(request: Any) -> list[Any]:
    """Return the answers of the model, if all are there."""
    rounds = [*items_at(request, "result", "metadata", "toolCallRounds")]
    return rounds if rounds and text_at(rounds[-1], "response") is not None else []


def _request_parts(request: Any) -> list[Part]:
    """Return the prompt, then each answer with the results of its calls."""
    if not isinstance(request, dict):
        return [Part(role="system", blocks=[raw_block("malformed", request, "request")])]
    time = to_milliseconds(request.get("timestamp"))
    header = RecordHeader(uuid=text_at(request, "requestId"), timestamp=time)
    prompt = text_at(request, "message", "text")
    asked = Part(role="user", blocks=[text_block(prompt or "")], header=header, original=request)
    prompts = [] if prompt is None else [asked]
    rounds, metadata = _rounds(request), {"model": _model(request)}
    answers: list[Part] = []
    for answer in rounds:
        ids = [id for call in items_at(answer, "toolCalls") if (id := text_at(call, "id")) is not None]
        answers.append(_answer(_round_blocks(answer), time, answer, metadata))
        results = _result_blocks(request, ids)
        if results:
            answers.append(Part(role="user", blocks=results, is_undated=True, original=request["result"]))
    shown = [] if rounds else _without_controls(_shown_blocks(request.get("response") or []))
    if shown:
        answers.append(_answer(shown, time, request, metadata))
    return [*prompts, *_with_outcome(answers, request)]


def _with_outcome(answers: list[Part], request: Record) -> list[Part]:
    """Return the answers, the last one with the usage and the error of the request."""
    usage, error = _usage(request), _error(request)
    if usage is None and error is None:
        return answers
    *others, last = answers or [_answer([], to_milliseconds(request.get("timestamp")), request, {})]
    if last.role == "assistant":
        return [*others, replace(last, usage=usage, error=error)]
    return [*others, last, replace(_answer([], None, request, {}), usage=usage, error=error)]


def _answer(blocks: list[Block], time: int | None, original: Any, metadata: Mapping[str, Any]) -> Part:
    return Part(
        role="assistant",
        blocks=blocks,
        header=RecordHeader(timestamp=time),
        original=original,
        metadata=metadata,
        is_undated=time is None,
    )


def _without_controls(blocks: list[Block]) -> list[Block]:
    shown = [block for block in blocks if block["type"] != "raw" or block["reason"] != "control"]
    return shown or blocks


def _model(request: Record) -> str | None:
    return text_at(request, "result", "metadata", "resolvedModel") or text_at(request, "modelId")


def _usage(request: Record) -> Block | None:
    """Return the usage of a request. Whether its input includes cached tokens is not documented."""
    metadata = value_at(request, "result", "metadata")
    counts = pick(metadata, "promptTokens", "outputTokens") if isinstance(metadata, dict) else {}
    return token_usage(
        counts, input=count_at(counts, "promptTokens"), output=count_at(counts, "outputTokens")
    )


def _error(request: Record) -> Block | None:
    details = value_at(request, "result", "errorDetails")
    if not isinstance(details, dict):
        return None
    return message_error(text_at(details, "code") or "error", text_at(details, "message"), details)


def _request_blocks(request: Any) -> list[Block]:
    """Return all blocks of a request: its other fields, its prompt, and its answers as written and as shown."""
    parts = [block for part in _request_parts(request) for block in part.blocks]
    if not isinstance(request, dict):
        return parts
    shown = _shown_blocks(request["response"]) if _rounds(request) and request.get("response") else []
    has_shown = bool(_rounds(request)) or not request.get("response")
    controls = [] if has_shown else [each for each in _shown_blocks(request["response"]) if each not in parts]
    rest = raw_block("control", without(request, "response"), "request")
    return [rest, *parts, *shown, *controls]


def _items(requests: Any) -> list[DocumentItem]:
    keys = UniqueKeys()
    return [
        DocumentItem(keys.name(text_at(each, "requestId") or "request"), each, _request_parts(each))
        for each in (requests if isinstance(requests, list) else [])
    ]


# Documents.


def _parse_session(session: Record) -> ParsedRecord:
    head = raw_block("control", without(session, "requests"), "session")
    blocks = [block for request in session.get("requests") or [] for block in _request_blocks(request)]
    return ParsedRecord("message", "user", bounded([head, *blocks]))


_DOCUMENT = document_type("chat", _parse_session, lambda record: _items(record["requests"]))


# Logs of changes.


def _parse_patch(record: Record) -> ParsedRecord:
    value, path = record.get("v"), record.get("k")
    if record["kind"] == 0 and isinstance(value, dict):
        return _parse_session(value)
    if record["kind"] == _APPEND and path == ["requests"]:
        return ParsedRecord(
            "message", "user", bounded([each for v in value or [] for each in _request_blocks(v)])
        )
    if _is_answer(path) and record["kind"] == _APPEND:
        return ParsedRecord("message", "assistant", bounded(_shown_blocks(value)))
    if record["kind"] in (0, 1, _APPEND, 3):
        return control_record(record, "patch")
    return unknown_record(record, "patch")


_APPEND = 2
_ANSWER_PATH_LENGTH = 3


def _is_answer(path: Any) -> bool:
    """True for the path of the shown answer of a request."""
    is_of_request = isinstance(path, list) and len(path) == _ANSWER_PATH_LENGTH and path[0] == "requests"
    return is_of_request and path[2] == "response"


def _patch_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    """Return the parts of a change. New parts of an answer belong to the request that runs."""
    value, path = record.get("v"), record.get("k")
    if parsed.kind != "message":
        is_result = isinstance(path, list) and path[:1] == ["requests"] and path[2:] == ["result"]
        if not is_result:
            return []
        result = Part(role=None, usage=_usage({"result": value}), error=_error({"result": value}))
        return [result] if result.usage or result.error else []
    if _is_answer(path):
        shown = _without_controls(parsed.blocks)
        return [Part(role="assistant", blocks=shown, relation="continuation")]
    items = _items(value.get("requests") if isinstance(value, dict) else value)
    return document_parts(items)


def _patch_steps(record: Record, parsed: ParsedRecord) -> list[Step] | None:
    value = record.get("v")
    if record["kind"] == 0 and isinstance(value, dict):
        return document_steps("chat", _items(value.get("requests")), is_over=False)
    return None


_PATCH = WireType(_parse_patch, _patch_parts, _patch_steps)


def wire_type(record: Record) -> WireType:
    return _PATCH if is_integer(record.get("kind")) else _DOCUMENT


def recognize(record: Record) -> WireType | None:
    keys = body_keys(record)
    if keys == {"requests"}:
        is_chat = isinstance(record["requests"], list) and isinstance(record.get("sessionId"), str)
        return _DOCUMENT if is_chat and "creationDate" in record else None
    is_patch = keys == {"v"} and is_integer(record.get("kind")) and record.keys() <= _PATCH_KEYS
    return _PATCH if is_patch else None


_PATCH_KEYS = frozenset({"i", "k", "kind", "v"})


def header(record: Record) -> RecordHeader:
    session = record.get("v") if is_integer(record.get("kind")) else record
    if record.get("k") == ["customTitle"] and isinstance(session, str):
        return RecordHeader(title=session)
    if not isinstance(session, dict) or record.get("k") is not None:
        return RecordHeader()
    times = [
        time
        for each in items_at(session, "requests")
        if (time := to_milliseconds(value_at(each, "timestamp")))
    ]
    return RecordHeader(
        timestamp=to_milliseconds(session.get("creationDate")),
        session_id=text_at(session, "sessionId"),
        title=text_at(session, "customTitle"),
        last_timestamp=to_milliseconds(session.get("lastMessageDate")) or latest_time(times),
    )


def identify(record: Record) -> Identity:
    """Return the id of a document; the lines of a log are followed in their order."""
    return Identity(record=text_at(record, "sessionId"))


PROVIDER = Provider(
    source="vscode_copilot_chat",
    recognize=recognize,
    marks=Marks(untyped_keys={"kind", "requests"}, body_keys={"requests", "v"}),
    wire_type=wire_type,
    parse_block=parse_block,
    header=header,
    identify=identify,
)
