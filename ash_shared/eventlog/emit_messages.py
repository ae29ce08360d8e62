"""Emit events for complete content: texts, reasoning, tool calls and user messages."""

from collections.abc import Iterable
from typing import Any, Literal

from ash_shared.eventlog import tool_calls, turns
from ash_shared.eventlog.dedupe import copies
from ash_shared.eventlog.dedupe.digests import text_digest
from ash_shared.eventlog.emitter import LineOutput
from ash_shared.eventlog.state import MAX_HELD_COPIES, Call, HeldCopy, Place
from ash_shared.model.blocks import Block, is_audio, pick, without
from ash_shared.model.message import RecordHeader
from ash_shared.records.steps import MessageSender, Part, Speaker, is_person
from ash_shared.records.system_text import (
    TaskNotice,
    is_client_text,
    task_notice,
    typed_text,
    visible_text,
)

_TEXT_KEYS = ("phase", "variant", "citations", "stopReason")
_RAW_REASONS = frozenset({"unknown_type", "malformed", "invalid_json", "limit"})


def emit_text(output: LineOutput, wire: str, payload: Block, place: Place) -> None:
    turn = turns.activate_turn(output)
    if wire == "assistant_done" and not place.parent_call:
        turn.has_text = True
    output.emit(wire, payload, place)


def emit_call(output: LineOutput, id: str | None, tool: str, args: Any, fields: Block, place: Place) -> Call:
    turns.activate_turn(output)
    release_answers(output)
    event_id = output.new_id()
    known = tool_calls.record_call(output.state, id or event_id, tool, has_wire_id=bool(id))
    if isinstance(args, dict) and isinstance(prompt := args.get("prompt"), str):
        known.prompt = text_digest(prompt)
    known.is_hosted = fields.get("executor") is not None
    known.state = "left" if "partial" in fields else "asked"
    payload = {"toolCallId": id or event_id, "toolName": tool, "args": args, **fields}
    output.emit("tool_call", payload, place, id=event_id)
    return known


def emit_block(output: LineOutput, part: Part, block: Block, place: Place) -> None:
    wire = block["type"]
    if wire == "text":
        if block["text"]:
            payload = {"text": block["text"], **_text_fields(block), **part.fields}
            if not isinstance(payload.get("phase"), str):  # the vocabulary of blocks does not name it
                payload.pop("phase", None)
            emit_text(output, "assistant_done", payload, place)
    elif wire == "thinking":
        payload = {"text": block["thinking"], **pick(block, "signature", "redacted"), **part.fields}
        emit_text(output, "thinking_done", payload, place)
    elif wire == "tool_use":
        _emit_tool_use(output, part, block, place)
    elif wire == "tool_result":
        tool_calls.emit_result(output, part, block, place.parent_call)
    elif wire == "raw":
        emit_raw(output, block)
    else:
        _emit_file(output, part, block, place)


def _emit_file(output: LineOutput, part: Part, block: Block, place: Place) -> None:
    """Emit an image or a file."""
    if is_audio(block):
        emit_audio(output, [block], dict(part.fields), place)
    else:
        emit_text(output, "assistant_done", {"text": "", "content": [block]}, place)


def emit_audio(output: LineOutput, blocks: list[Block], fields: Block, place: Place) -> None:
    """Emit the end of speech, with the recording and its transcript, as far as the blocks contain them."""
    turns.activate_turn(output)
    recordings = [without(block, "transcript") for block in blocks if "source" in block]
    output.emit("audio_done", {**fields, **({"content": recordings} if recordings else {})}, place)
    for block in blocks:
        if block.get("transcript"):
            payload = {"text": block["transcript"], "variant": "transcript", **without(fields, "mimeType")}
            emit_text(output, "assistant_done", payload, place)


def _text_fields(block: Block) -> Block:
    return {name: block[name] for name in _TEXT_KEYS if block.get(name)}


def _emit_tool_use(output: LineOutput, part: Part, block: Block, place: Place) -> None:
    id = block.get("id")
    id = turns.scoped_id(id, turns.activate_turn(output)) if output.has_local_ids else id
    if copies.is_duplicate_call(output.state, part, id):
        return
    fields = {**pick(block, "executor"), **part.fields}
    known = emit_call(output, id, block["name"], block["input"], fields, place)
    if server := block.get("server_name"):
        output.servers[output.events[-1]["payload"]["toolCallId"]] = server
    if part.is_copy and id is not None:
        known.seen = "copy"


def emit_raw(output: LineOutput, block: Block) -> None:
    reason = block.get("reason")
    if reason is None:  # the input itself has a raw block
        output.emit("raw", {"source": output.line.source, "raw": block})
    elif reason in _RAW_REASONS:
        output.emit("raw", {"source": output.line.source, "raw": block.get("raw", block.get("text"))})


def emit_user_message(
    output: LineOutput,
    blocks: list[Block],
    parent_call: str,
    *,
    is_prompt: bool,
    synthetic: bool,
    sender: MessageSender | None = None,
) -> None:
    """Emit a message of the user, or one that a tool wrote in the user's name (`synthetic`)."""
    _emit_raws(output, blocks)
    content = [block for block in blocks if block["type"] != "raw"]
    if not content:
        return
    if all(block.get("variant") == "summary" for block in content):
        output.emit("summary", {"text": "\n\n".join(_texts_of(content))})
        return
    payload = _user_payload(content, sender)
    if synthetic or (is_client_text(content) and not is_person(sender)):
        payload["synthetic"] = True
        if is_prompt and sender is not None and sender.is_program:
            _begin_user_message(output, is_prompt=True, trigger="system", sender=sender)
        if (notice := task_notice(payload["text"])) is not None:
            payload |= _task_fields(output, notice)
    else:
        _begin_user_message(output, is_prompt=is_prompt, sender=sender)
    output.emit("user_message", payload, Place(parent_call))


def _task_fields(output: LineOutput, notice: TaskNotice) -> Block:
    """Return the fields that link a task report to its subagent and to the call that started it."""
    call = output.state.calls.get(notice.call or "")
    if not notice.is_agent and (call is None or call.tool not in _AGENT_TOOLS):
        return {}
    link = {"agentId": notice.task, "toolCallId": notice.call}
    return {name: id for name, id in link.items() if id}


_AGENT_TOOLS = ("Agent", "Task")


def emit_user_audio(
    output: LineOutput,
    block: Block,
    parent_call: str,
    *,
    is_prompt: bool,
    synthetic: bool,
    sender: MessageSender | None = None,
) -> None:
    payload: Block = {
        "transcription": block.get("transcript") or "",
        "content": [without(block, "transcript")],
        **_sender_fields(sender),
    }
    if synthetic:
        payload["synthetic"] = True
    else:
        _begin_user_message(output, is_prompt=is_prompt, sender=sender)
    output.emit("user_audio", payload, Place(parent_call))


def _emit_raws(output: LineOutput, blocks: list[Block]) -> None:
    for block in blocks:
        if block["type"] == "raw":
            emit_raw(output, block)


def _texts_of(blocks: list[Block]) -> list[str]:
    return [block["text"] for block in blocks if block["type"] == "text"]


def _user_payload(content: list[Block], sender: MessageSender | None = None) -> Block:
    texts = _texts_of(content)
    text = "\n\n".join(texts)
    payload: Block = {"text": text}
    if (shown := _shown_text(text, sender)) != text:
        payload["visibleText"] = shown
    if len(content) > 1 or not texts:
        payload["content"] = content
    return payload | _sender_fields(sender)


def _shown_text(text: str, sender: MessageSender | None) -> str:
    """Return the text without parts that a tool added, or without the tool's text around a message."""
    if sender is not None and sender.message is not None:
        return sender.message
    return visible_text(text) if is_person(sender) else typed_text(text)


def _sender_fields(sender: MessageSender | None) -> Block:
    return {} if sender is None else dict(sender.fields())


def _begin_user_message(
    output: LineOutput,
    *,
    is_prompt: bool,
    trigger: Literal["user", "system"] = "user",
    sender: MessageSender | None,
) -> None:
    release_answers(output)
    output.state.last_streamed = None
    if is_prompt:
        turns.start_prompted_turn(output, trigger)
        turns.set_cause(output.state, sender)
    else:
        turns.ensure_turn(output)


def emit_system_text(output: LineOutput, text: str, variant: str | None) -> None:
    if variant == "error":
        output.emit("error", {"code": "error", "message": text})
    elif variant == "summary":
        output.emit("summary", {"text": text})
    else:
        output.emit(
            "system_message", {"text": text} if variant is None else {"text": text, "variant": variant}
        )


# Held copies.


def accept_original(output: LineOutput, role: Speaker, text: str) -> bool:
    """True if an original must be emitted. Copies that precede it are emitted first."""
    is_new, before = copies.accept_original(output.state, role, text)
    release_copies(output, before)
    return is_new


def hold_copy(output: LineOutput, held: HeldCopy) -> None:
    """Hold a copy until its original comes; drop it if the original was emitted."""
    waiting = output.state.held_copies
    if not copies.take_original(output.state, held.role, held.text):
        waiting.append(held)
        if len(waiting) > MAX_HELD_COPIES:
            release_copies(output, waiting[:1])


def release_answers(output: LineOutput) -> None:
    """Emit held copies of answers before the events they caused; originals that follow are dropped."""
    if output.state.held_copies:
        release_copies(output, [held for held in output.state.held_copies if held.role == "assistant"])


def release_copies(
    output: LineOutput, waiting: Iterable[HeldCopy], *, is_prompt: bool = False, is_withdrawn: bool = False
) -> None:
    """Emit held copies that have no original.

    `is_prompt`: user messages begin a turn. `is_withdrawn`: user messages are retracted at once.
    """
    waiting = list(waiting)
    if not waiting:
        return
    header, state = output.header, output.state
    # Emitting a call releases answers, so none may still be held.
    state.held_copies = [held for held in state.held_copies if not any(held is one for one in waiting)]
    for held in waiting:
        output.header = RecordHeader(uuid=held.record, timestamp=held.timestamp)
        if is_withdrawn:
            _emit_withdrawn(output, held)
            continue
        if held.role == "user":
            emit_user_message(
                output, held.blocks, held.parent_call, is_prompt=is_prompt, synthetic=held.synthetic
            )
        else:
            copies.accept_copy(output.state, held.role, held.text)
            part = Part(role="assistant", blocks=held.blocks)
            for block in held.blocks:
                emit_block(output, part, block, Place(held.parent_call, held.response))
    output.header = header


def _emit_withdrawn(output: LineOutput, held: HeldCopy) -> None:
    """Emit a withdrawn prompt and its retraction."""
    id = output.new_id()
    output.emit("user_message", _user_payload(held.blocks), Place(held.parent_call), id=id)
    output.emit("retraction", {"eventIds": [id], "reason": "withdrawn"})
