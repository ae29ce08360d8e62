"""Emit events for complete content: texts, reasoning, tool calls and user messages."""

from collections.abc import Iterable
from typing import Any

from ash_shared.eventlog import tool_calls, turns
from ash_shared.eventlog.dedupe import copies
from ash_shared.eventlog.dedupe.digests import text_digest
from ash_shared.eventlog.emitter import Log
from ash_shared.eventlog.state import MAX_HELD_COPIES, Call, HeldCopy, Place
from ash_shared.model.blocks import Block, is_audio, pick, without
from ash_shared.model.message import Facts
from ash_shared.records.steps import Part, Speaker
from ash_shared.records.system_text import TaskNotice, is_client_text, task_notice, typed_text

_TEXT_KEYS = ("phase", "variant", "citations", "stopReason")
_RAW_REASONS = frozenset({"unknown_type", "malformed", "invalid_json", "limit"})


def emit_text(log: Log, wire: str, payload: Block, place: Place) -> None:
    turn = turns.activate_turn(log)
    if wire == "assistant_done" and not place.parent_call:
        turn.has_text = True
    log.emit(wire, payload, place)


def emit_call(log: Log, id: str | None, tool: str, args: Any, fields: Block, place: Place) -> Call:
    turns.activate_turn(log)
    release_answers(log)
    event_id = log.new_id()
    known = tool_calls.record_call(log.state, id or event_id, tool, has_wire_id=bool(id))
    if args.__class__ is dict and isinstance(prompt := args.get("prompt"), str):
        known.prompt = text_digest(prompt)
    known.is_hosted = fields.get("executor") is not None
    known.state = "left" if "partial" in fields else "asked"
    payload = {"toolCallId": id or event_id, "toolName": tool, "args": args, **fields}
    log.emit("tool_call", payload, place, id=event_id)
    return known


def emit_block(log: Log, part: Part, block: Block, place: Place) -> None:
    wire = block["type"]
    if wire == "text":
        if block["text"]:
            payload = {"text": block["text"], **_text_fields(block), **part.fields}
            if payload.get("phase").__class__ is not str:  # the vocabulary of blocks does not name it
                payload.pop("phase", None)
            emit_text(log, "assistant_done", payload, place)
    elif wire == "thinking":
        payload = {"text": block["thinking"], **pick(block, "signature", "redacted"), **part.fields}
        emit_text(log, "thinking_done", payload, place)
    elif wire == "tool_use":
        _emit_tool_use(log, part, block, place)
    elif wire == "tool_result":
        tool_calls.emit_result(log, part, block, place.parent_call)
    elif wire == "raw":
        emit_raw(log, block)
    else:
        _emit_file(log, part, block, place)


def _emit_file(log: Log, part: Part, block: Block, place: Place) -> None:
    """Emit an image or a file."""
    if is_audio(block):
        emit_audio(log, [block], dict(part.fields), place)
    else:
        emit_text(log, "assistant_done", {"text": "", "content": [block]}, place)


def emit_audio(log: Log, blocks: list[Block], fields: Block, place: Place) -> None:
    """Emit the end of speech, with what the blocks have of it: the recording and its transcript."""
    turns.activate_turn(log)
    recordings = [without(block, "transcript") for block in blocks if "source" in block]
    log.emit("audio_done", {**fields, **({"content": recordings} if recordings else {})}, place)
    for block in blocks:
        if block.get("transcript"):
            payload = {"text": block["transcript"], "variant": "transcript", **without(fields, "mimeType")}
            emit_text(log, "assistant_done", payload, place)


def _text_fields(block: Block) -> Block:
    return {name: block[name] for name in _TEXT_KEYS if block.get(name)}


def _emit_tool_use(log: Log, part: Part, block: Block, place: Place) -> None:
    id = block.get("id")
    id = turns.scoped_id(id, turns.activate_turn(log)) if log.has_local_ids else id
    if copies.is_duplicate_call(log.state, part, id):
        return
    fields = {**pick(block, "executor"), **part.fields}
    known = emit_call(log, id, block["name"], block["input"], fields, place)
    if part.is_copy and id is not None:
        known.seen = "copy"


def emit_raw(log: Log, block: Block) -> None:
    reason = block.get("reason")
    if reason is None:  # the input itself has a raw block
        log.emit("raw", {"source": log.line.source, "raw": block})
    elif reason in _RAW_REASONS:
        log.emit("raw", {"source": log.line.source, "raw": block.get("raw", block.get("text"))})


def emit_user_message(
    log: Log, blocks: list[Block], parent_call: str, *, is_prompt: bool, synthetic: bool
) -> None:
    """Emit a message of the user, or one that a tool wrote in the user's name (`synthetic`)."""
    _emit_raws(log, blocks)
    content = [block for block in blocks if block["type"] != "raw"]
    if not content:
        return
    if all(block.get("variant") == "summary" for block in content):
        log.emit("summary", {"text": "\n\n".join(_texts_of(content))})
        return
    payload = _user_payload(content)
    if synthetic or is_client_text(content):
        payload["synthetic"] = True
        if (notice := task_notice(payload["text"])) is not None:
            payload |= _task_fields(log, notice)
    else:
        _begin_user_message(log, is_prompt=is_prompt)
    log.emit("user_message", payload, Place(parent_call))


def _task_fields(log: Log, notice: TaskNotice) -> Block:
    """Return the fields that link a task report to its subagent and to the call that started it."""
    call = log.state.calls.get(notice.call or "")
    if not notice.is_agent and (call is None or call.tool not in _AGENT_TOOLS):
        return {}
    link = {"agentId": notice.task, "toolCallId": notice.call}
    return {name: id for name, id in link.items() if id}


_AGENT_TOOLS = ("Agent", "Task")


def emit_user_audio(log: Log, block: Block, parent_call: str, *, is_prompt: bool, synthetic: bool) -> None:
    payload: Block = {
        "transcription": block.get("transcript") or "",
        "content": [without(block, "transcript")],
    }
    if synthetic:
        payload["synthetic"] = True
    else:
        _begin_user_message(log, is_prompt=is_prompt)
    log.emit("user_audio", payload, Place(parent_call))


def _emit_raws(log: Log, blocks: list[Block]) -> None:
    for block in blocks:
        if block["type"] == "raw":
            emit_raw(log, block)


def _texts_of(blocks: list[Block]) -> list[str]:
    return [block["text"] for block in blocks if block["type"] == "text"]


def _user_payload(content: list[Block]) -> Block:
    texts = _texts_of(content)
    text = "\n\n".join(texts)
    payload: Block = {"text": text}
    if (typed := typed_text(text)) != text:  # a tool wrapped text around what a person typed
        payload["visibleText"] = typed
    if len(content) > 1 or not texts:
        payload["content"] = content
    return payload


def _begin_user_message(log: Log, *, is_prompt: bool) -> None:
    release_answers(log)
    log.state.last_streamed = None
    turns.start_prompted_turn(log) if is_prompt else turns.ensure_turn(log)


def emit_system_text(log: Log, text: str, variant: str | None) -> None:
    if variant == "error":
        log.emit("error", {"code": "error", "message": text})
    elif variant == "summary":
        log.emit("summary", {"text": text})
    else:
        log.emit("system_message", {"text": text} if variant is None else {"text": text, "variant": variant})


# Held copies.


def accept_original(log: Log, role: Speaker, text: str) -> bool:
    """True if an original must be emitted. Copies that precede it are emitted first."""
    is_new, before = copies.accept_original(log.state, role, text)
    release_copies(log, before)
    return is_new


def hold_copy(log: Log, held: HeldCopy) -> None:
    """Hold a copy until its original comes; drop it if the original was emitted."""
    waiting = log.state.held_copies
    if not copies.take_original(log.state, held.role, held.text):
        waiting.append(held)
        if len(waiting) > MAX_HELD_COPIES:
            release_copies(log, waiting[:1])


def release_answers(log: Log) -> None:
    """Emit held copies of answers before the events they caused; originals that follow are dropped."""
    if log.state.held_copies:
        release_copies(log, [held for held in log.state.held_copies if held.role == "assistant"])


def release_copies(
    log: Log, waiting: Iterable[HeldCopy], *, is_prompt: bool = False, is_withdrawn: bool = False
) -> None:
    """Emit held copies that have no original.

    `is_prompt`: user messages begin a turn. `is_withdrawn`: user messages are retracted at once.
    """
    waiting = list(waiting)
    if not waiting:
        return
    facts, state = log.facts, log.state
    # Emitting a call releases answers, so none of these may still be held.
    state.held_copies = [held for held in state.held_copies if not any(held is one for one in waiting)]
    for held in waiting:
        log.facts = Facts(uuid=held.record, timestamp=held.timestamp)
        if is_withdrawn:
            _emit_withdrawn(log, held)
            continue
        if held.role == "user":
            emit_user_message(
                log, held.blocks, held.parent_call, is_prompt=is_prompt, synthetic=held.synthetic
            )
        else:
            copies.accept_copy(log.state, held.role, held.text)
            part = Part(role="assistant", blocks=held.blocks)
            for block in held.blocks:
                emit_block(log, part, block, Place(held.parent_call, held.response))
    log.facts = facts


def _emit_withdrawn(log: Log, held: HeldCopy) -> None:
    """Emit a withdrawn prompt and its retraction."""
    id = log.new_id()
    log.emit("user_message", _user_payload(held.blocks), Place(held.parent_call), id=id)
    log.emit("retraction", {"eventIds": [id], "reason": "withdrawn"})
