"""What the records of the family add to the log of events, where their parts do not say it all.

Two streams carry the same pieces. That of the API stands alone: its pieces are all there is, and `message_delta` names
why the answer stopped. In the stream of Claude Code they are wrapped as `stream_event`, and an `assistant` line for
each block follows, mostly before the block is said to have stopped: the line counts, its pieces only announce it.

A run says when its turns begin (`init`) and end (`result`); a session file says so of an end at most, since 2.1.
"""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from ash_shared.model.blocks import Block, pick, raw_block, read_content
from ash_shared.providers._kit.contract import Part, Record, RecordReading
from ash_shared.providers._kit.json_fields import count_at, is_one_of, text_at, value_at
from ash_shared.providers._kit.steps import (
    Closed,
    Counted,
    Fragment,
    Interrupts,
    ResponseEnds,
    ResponseStarts,
    Says,
    Step,
    Taken,
    TurnEnds,
    TurnStarts,
    Whole,
)
from ash_shared.providers.claude.content import read_block
from ash_shared.providers.claude.messages import line_error, parts, usage_of
from ash_shared.providers.claude.records import read


def steps(record: Record, reading: RecordReading) -> list[Step] | None:
    """None where the parts of a record are all that it adds."""
    wire = record.get("type")
    return _STEPS[wire](record, reading) if is_one_of(wire, _STEPS) else None


# --- Pieces of a stream

_Event = Mapping[str, Any]


def _streamed(record: Record, reading: RecordReading) -> list[Step]:
    """An event of the API's own stream."""
    return _pieces(_OF_API, record, record, "")


def _wrapped(record: Record, reading: RecordReading) -> list[Step]:
    """The same in the stream of Claude Code: lines tell what counts."""
    return _pieces(_OF_CLI, record["event"], record, text_at(record, "parent_tool_use_id") or "")


_Pieces = Mapping[str, Callable[[_Event, str], list[Step]]]


def _pieces(table: _Pieces, event: _Event, record: Record, lane: str) -> list[Step]:
    """What is not as its type promises, and what no table has, is shown as it is."""
    try:
        return table[event["type"]](event, lane)
    except (AttributeError, KeyError, TypeError):
        return [Whole(Part(role="system", blocks=[raw_block("unknown_type", record)]))]


def _starts(event: _Event, lane: str) -> list[Step]:
    """Its end is not told: lines may follow behind it."""
    return [ResponseStarts(text_at(event, "message", "id"), is_explicit=False, is_stable=True, lane=lane)]


def _starts_answer(event: _Event, lane: str) -> list[Step]:
    message = event["message"]
    given = [Whole(_said(read_block(block))) for block in message.get("content") or []]
    return [ResponseStarts(text_at(message, "id")), *given, *_revised(message.get("usage"))]


def _revised(usage: Any) -> list[Step]:
    """Counts of an answer so far: `message_delta` repeats some of those that `message_start` had."""
    counts = usage_of(usage)
    if counts is None:
        return []
    untold = [name for name in ("input_tokens", "output_tokens") if count_at(usage, name) is None]
    return [Counted({name: counts[name] for name in counts if name not in untold}, revises=True)]


def _opens(event: _Event, lane: str) -> list[Step]:
    """A block begins, and may hold something already; one that comes whole is announced by nothing."""
    slot, block = _slot(event), event["content_block"]
    if block["type"] == "compaction":
        return [Fragment("text", block.get("content") or "", slot, more=_SUMMARY, lane=lane)]
    typed = read_block(block)
    opened = None if typed.get("redacted") else _OPENED.get(typed["type"])
    return [] if opened is None else [opened(typed, slot, lane)]


def _opens_answer(event: _Event, lane: str) -> list[Step]:
    opened = _opens(event, lane)
    return opened or [Whole(_said(read_block(event["content_block"])), _slot(event))]


def _said(block: Block) -> Part:
    return Part(role="assistant", blocks=[block])


def _slot(event: _Event) -> str:
    return str(event["index"])


_SUMMARY = {"variant": "summary"}


def _open_text(block: Block, slot: str, lane: str) -> Step:
    more = pick(block, "variant") | ({"citations": block["citations"]} if block.get("citations") else {})
    return Fragment("text", block["text"], slot, more=more, lane=lane)


def _open_thinking(block: Block, slot: str, lane: str) -> Step:
    more = pick(block, "signature") if block.get("signature") else {}
    return Fragment("thinking", block["thinking"], slot, more=more, lane=lane)


def _open_call(block: Block, slot: str, lane: str) -> Step:
    call, more = block.get("id"), pick(block, "executor")
    return Fragment(
        "input", "", slot, call=call, name=block["name"], given=block["input"], more=more, lane=lane
    )


_OPENED: Mapping[str, Callable[[Block, str, str], Step]] = {
    "text": _open_text,
    "thinking": _open_thinking,
    "tool_use": _open_call,
}


def _adds(event: _Event, lane: str) -> list[Step]:
    delta = event["delta"]
    kind, text, more = _DELTAS[delta["type"]](delta)
    if text.__class__ is not str:
        raise TypeError
    return [Fragment(kind, text, _slot(event), more=more, lane=lane)]


_DELTAS: Mapping[str, Callable[[Record], tuple[Any, Any, Mapping[str, Any]]]] = {
    "citations_delta": lambda delta: ("text", "", {"citations": [delta["citation"]]}),
    "compaction_delta": lambda delta: ("text", delta.get("content") or "", _SUMMARY),
    "input_json_delta": lambda delta: ("input", delta["partial_json"], {}),
    "signature_delta": lambda delta: ("thinking", "", {"signature": delta["signature"]}),
    "text_delta": lambda delta: ("text", delta["text"], {}),
    "thinking_delta": lambda delta: ("thinking", delta["thinking"], {}),
}


def _stops(event: _Event, lane: str) -> list[Step]:
    """Why the answer stopped, with what it cost; the user's side has to go on where a call waits for it."""
    stop = text_at(event, "delta", "stop_reason")
    error = line_error({}, event["delta"])
    trouble: list[Step] = [] if error is None else [Says("error", error)]
    ends: list[Step] = [] if stop is None else [ResponseEnds(stop, is_final=stop not in _OPEN_ENDS)]
    return [*_revised(event.get("usage")), *ends, *trouble]


_OPEN_ENDS = frozenset({"compaction", "pause_turn", "tool_use"})
"""Reasons to stop after which the same turn goes on."""


def _silent(event: _Event, lane: str) -> list[Step]:
    return []


_OF_API: _Pieces = {
    "content_block_delta": _adds,
    "content_block_start": _opens_answer,
    "content_block_stop": lambda event, lane: [Closed(_slot(event), lane=lane)],
    "message_delta": _stops,
    "message_start": _starts_answer,
    "message_stop": lambda event, lane: [ResponseEnds(), Counted(None)],
    "ping": _silent,
}

_OF_CLI: _Pieces = {
    "content_block_delta": _adds,
    "content_block_start": _opens,
    "content_block_stop": lambda event, lane: [Closed(_slot(event), waits=True, lane=lane)],
    "message_delta": _silent,
    "message_start": _starts,
    "message_stop": _silent,
    "ping": _silent,
}


# --- Lines


def _user(record: Record, reading: RecordReading) -> list[Step]:
    """What was said, or answered by a tool, or that the user stopped it all."""
    [part] = parts(record, reading)
    if _is_aside(record, part):
        return _said_aside(part)
    stopped = [] if part.metadata.get("parentToolUseId") else list(filter(_is_interrupt, part.blocks))
    blocks = [block for block in part.blocks if block not in stopped]
    part = replace(part, blocks=_with_structure(_with_summary(blocks, part), part))
    if _is_local_output(blocks):
        part = replace(part, metadata={**part.metadata, "synthetic": True})
    ends: list[Step] = [Interrupts("user_cancel", ends="session_id" not in record)] if stopped else []
    if any(_ends_command(block) for block in blocks):
        ends = [ResponseEnds(is_final=True)]
    if stopped and not blocks:
        return list(ends)
    return [Whole(part, within=record.get("isSidechain") is True), *ends]


def _is_aside(record: Record, part: Part) -> bool:
    """Whether a subagent is at work here, of which the line does not say what started it: before 2.0.28 their lines
    stand among those of the main conversation. Later ones name the agent, and have a file of their own."""
    is_named = part.metadata.get("agentId") or part.metadata.get("parentToolUseId")
    return record.get("isSidechain") is True and not is_named


_ASIDE = {"sidechain": True}


def _said_aside(part: Part) -> list[Step]:
    """What the subagent is told, which the assistant wrote; its results go to its calls."""
    results = [block for block in part.blocks if block["type"] == "tool_result"]
    said = [block for block in part.blocks if block["type"] not in ("raw", "tool_result")]
    beside = [block for block in part.blocks if block["type"] == "raw"]
    told: list[Step] = []
    if results or beside:
        told.append(Whole(replace(part, blocks=_with_structure(results, part) + beside)))
    if said:
        texts = [block["text"] for block in said if block["type"] == "text"]
        content = {"content": said} if len(said) > 1 or not texts else {}
        told.append(
            Says("user_message", {"text": "\n\n".join(texts), **content, "synthetic": True, **_ASIDE})
        )
    return told


def _is_interrupt(block: Block) -> bool:
    said: str = block["text"] if block["type"] == "text" else ""
    return said.startswith("[Request interrupted by user")


def _ends_command(block: Block) -> bool:
    """Whether this is what a command of the person gave out, which ends its turn; `/clear` may give nothing out."""
    said: str = block["text"] if block["type"] == "text" else ""
    return said.startswith((*_LOCAL_OUTPUT, "<bash-stdout>", "<command-name>/clear</command-name>"))


_LOCAL_OUTPUT = ("<local-command-stdout>", "<local-command-stderr>")


def _is_local_output(blocks: list[Block]) -> bool:
    return len(blocks) == 1 and (text_at(blocks[0], "text") or "").startswith(_LOCAL_OUTPUT)


def _with_structure(blocks: list[Block], part: Part) -> list[Block]:
    """The structured twin of a result stands beside it on the line, and names none: it is told of a lone one."""
    answer = part.metadata.get("toolUseResult")
    results = [block for block in blocks if block["type"] == "tool_result"]
    if len(results) != 1 or answer.__class__ not in (dict, list):
        return blocks
    return [{"structured": answer, **block} if block["type"] == "tool_result" else block for block in blocks]


def _with_summary(blocks: list[Block], part: Part) -> list[Block]:
    """In the stream, the summary of a compaction is marked as written by the tool, and by nothing else."""
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    if not part.metadata.get("synthetic") or not any(text.startswith(_SUMMARY_BEGINS) for text in texts):
        return blocks
    return [{**_SUMMARY, **block} if block["type"] == "text" else block for block in blocks]


_SUMMARY_BEGINS = "This session is being continued from a previous conversation"


def _assistant(record: Record, reading: RecordReading) -> list[Step]:
    """An error that Claude Code words as an answer is told as the error alone."""
    [part] = parts(record, reading)
    if part.error is not None and part.metadata.get("synthetic"):
        part = replace(part, blocks=[block for block in part.blocks if block["type"] != "text"])
    more = {"partial": True} if record.get("aborted") is True else {}
    return [Whole(part, more={**more, **_ASIDE} if _is_aside(record, part) else more)]


def _answer(record: Record, reading: RecordReading) -> list[Step]:
    """A whole answer of the API."""
    stop = text_at(record, "stop_reason")
    is_final = stop is not None and stop not in _OPEN_ENDS
    return [*map(Whole, parts(record, reading)), *([TurnEnds()] if is_final else [])]


def _result(record: Record, reading: RecordReading) -> list[Step]:
    """The end of a turn. What it says of an error is the error, and of a run that the user stopped, nothing new."""
    [part] = parts(record, reading)
    if (text_at(record, "terminal_reason") or "").startswith("aborted"):
        return [Interrupts("user_cancel", if_open=True, end=TurnEnds(part.usage, part.total_cost))]
    if part.error is not None:
        return [Whole(replace(part, role="assistant", blocks=[]))]
    return [Whole(part if text_at(record, "result") is not None else replace(part, blocks=[]))]


def _error(record: Record, reading: RecordReading) -> list[Step]:
    """An error of the API, in place of an answer or in the midst of one."""
    return [*map(Whole, parts(record, reading)), Interrupts("error", if_open=True)]


def _queued(record: Record, reading: RecordReading) -> list[Step]:
    if record.get("operation") == "remove":
        return [Taken()]
    return [Whole(part, holds=True) for part in parts(record, reading)]


def _attached(record: Record, reading: RecordReading) -> list[Step]:
    """A prompt that was queued while the turn was running, where the model gets to know it; other attachments are
    written for the model alone."""
    attachment = record["attachment"]
    if text_at(attachment, "type") != "queued_command":
        return []
    blocks = read_content(attachment["prompt"], read_block)
    synthetic = attachment.get("commandMode") == "task-notification" or record.get("isMeta") is True
    return [Whole(Part(role="user", blocks=blocks, metadata={"synthetic": synthetic or None}), within=True)]


def _progress(record: Record, reading: RecordReading) -> list[Step]:
    """What a subagent says and does: whole lines, which the stream writes with `parent_tool_use_id`."""
    data = record["data"]
    if text_at(data, "type") != "agent_progress":
        return []
    line = {
        **data["message"],
        "agentId": data.get("agentId"),
        "parent_tool_use_id": record["parentToolUseID"],
    }
    return steps(line, read(line)) or []


def _tool_summary(record: Record, reading: RecordReading) -> list[Step]:
    return [Says("system_message", {"text": record["summary"], "variant": "tool_use_summary"})]


def _system(record: Record, reading: RecordReading) -> list[Step] | None:
    subtype = record.get("subtype")
    return _SYSTEM[subtype](record) if is_one_of(subtype, _SYSTEM) else None


def _compacted(record: Record) -> list[Step]:
    """The summary follows as a line of its own, if at all."""
    text = text_at(record, "content") or "Conversation compacted"
    trigger = value_at(record, "compactMetadata", "trigger") or value_at(
        record, "compact_metadata", "trigger"
    )
    more = {"trigger": trigger} if trigger.__class__ is str else {}
    return [Says("system_message", {"text": text, "variant": "compact_boundary", **more})]


_SYSTEM: Mapping[Any, Callable[[Record], list[Step]]] = {
    "compact_boundary": _compacted,
    "init": lambda record: [TurnStarts()],
    "turn_duration": lambda record: [TurnEnds()],
}

_STEPS: Mapping[Any, Callable[[Record, RecordReading], list[Step] | None]] = {
    **dict.fromkeys(_OF_API, _streamed),
    "assistant": _assistant,
    "attachment": _attached,
    "completion": _answer,
    "error": _error,
    "message": _answer,
    "progress": _progress,
    "queue-operation": _queued,
    "result": _result,
    "stream_event": _wrapped,
    "summary": lambda record, reading: [],  # the title of a conversation, often of another
    "system": _system,
    "tool_use_summary": _tool_summary,
    "user": _user,
}
