"""Steps of the Codex lines with events that cannot be derived from their parts.

A rollout file records most calls and texts twice, as a response item and as an event: items are authoritative
and events are their copies. `codex exec --json` restarts its item numbers in each process, so its call ids
are unique only within a turn; the legacy version printed only events, with fragments without a position. The
notifications of the app server contain the same items as exec, with unique ids.
"""

import json
import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import Any

from msgspec.structs import replace

from ash_shared.model.blocks import Block, pick, text_block
from ash_shared.providers.codex import messages
from ash_shared.providers.codex.bodies import EventSteps, Steps
from ash_shared.providers.codex.turn_items import (
    RUNNING_STATUSES,
    SERVER_TOOLS,
    TEXT_ITEMS,
    item_type,
    value_in_either_case,
)
from ash_shared.records.contract import ParsedRecord, Part, Record
from ash_shared.records.json_fields import (
    decode_arguments,
    first_text,
    list_or_empty,
    text_at,
    value_at,
)
from ash_shared.records.steps import Chunk, Emit, Relation, Scope, Step, TurnEnd

# Items of the Responses API


def message_steps(item: Record, parsed: ParsedRecord) -> Steps:
    """Return the steps of a message. Labels that Codex puts around media are removed from the user's text, because the
    event that repeats the text does not have them."""
    if parsed.kind != "message":
        return None
    [part] = messages.message_parts(item, parsed)
    if part.role == "system":
        return [replace(part, blocks=[_INSTRUCTIONS | block for block in part.blocks])]
    if part.role != "user":
        return None
    command = _user_command_steps(part.blocks)
    if command is not None:
        return command
    callback = _subagent_callback(part.blocks)
    if callback is not None:
        return [callback]
    unlabelled = [block for block in part.blocks if not _MEDIA_LABEL.fullmatch(block.get("text") or "")]
    return [replace(part, blocks=unlabelled or part.blocks)]


def _subagent_callback(blocks: list[Block]) -> Step | None:
    """Return the callback of a subagent, which Codex reports in the user's role; None for any other message."""
    text = (text_at(blocks[0], "text") or "").strip() if len(blocks) == 1 else ""
    if not (text.startswith(_NOTIFICATION) and text.endswith(_NOTIFICATION_END)):
        return None
    report = decode_arguments(text[len(_NOTIFICATION) : -len(_NOTIFICATION_END)])
    thread, agent, status = (
        text_at(report, "agent_id"),
        text_at(report, "agent_path"),
        value_at(report, "status"),
    )
    if not (thread or agent) or not status:
        return None
    name, message = _parse_agent_state(status)
    return _agent_callback(thread or agent, thread, name, message, agent=agent)


_NOTIFICATION, _NOTIFICATION_END = "<subagent_notification>", "</subagent_notification>"
_INSTRUCTIONS: Block = {"variant": "instructions"}
"""Marks the instructions that Codex gives the model about itself and its environment, in the developer role."""
_MEDIA_LABEL = re.compile(r"</?(?:image|audio)(?: [^<>\n]{0,300})?>")
_USER_SHELL_COMMAND = re.compile(
    r"\s*<user_shell_command>\n<command>\n(?P<command>.*)\n</command>\n<result>\n"
    r"Exit code: (?P<code>-?\d{1,10})\n(?:Duration: [^\n]*\n)?Output:\n(?P<output>.*?)\n?</result>\n"
    r"</user_shell_command>\s*",
    re.DOTALL,
)
_UNESCAPED_MARKUP = re.compile(r"[<>]|&(?!amp;|lt;|gt;)")


def _user_command_steps(blocks: list[Block]) -> list[Step] | None:
    """Return the steps of a command run by the user, parsed from the text that Codex sends to the model."""
    match = _USER_SHELL_COMMAND.fullmatch(blocks[0].get("text") or "") if len(blocks) == 1 else None
    if match is None:
        return None
    command, output = _unescape(match["command"], match["output"])
    code = int(match["code"])
    call = {"type": "tool_use", "name": "shell", "input": {"command": command}, "executor": "user"}
    result = {"content": output, "exit_code": code, "is_error": code != 0, "extra": {"name": "shell"}}
    answer = Part(role="user", blocks=[{"type": "tool_result", **result}])
    return [Part(role="assistant", blocks=[call]), answer]


def _unescape(*texts: str) -> tuple[str, ...]:
    """Unescape the texts, unless they contain markup, which early versions of Codex did not escape."""
    if any(_UNESCAPED_MARKUP.search(text) for text in texts):
        return texts
    return tuple(text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&") for text in texts)


def reasoning_steps(item: Record, parsed: ParsedRecord) -> Steps:
    return [thought for part in messages.item_parts(item, parsed) for thought in _thinking_parts(part)]


def _thinking_parts(part: Part) -> list[Part]:
    """Return each thinking block as a separate part, as in the events. Unreadable blocks are left out."""
    readable = [block for block in part.blocks if block["type"] != "thinking" or block["thinking"]]
    return [replace(part, blocks=[block]) for block in readable]


def hosted_call_steps(item: Record, parsed: ParsedRecord) -> Steps:
    return [
        replace(part, blocks=[*part.blocks, *_empty_results(item, part.blocks, item.get("id"))])
        for part in messages.item_parts(item, parsed)
    ]


def _empty_results(item: Record, blocks: list[Block], call: Any) -> list[Block]:
    """Return the result of a call that has ended, if the item does not contain it."""
    status = item.get("status")
    if status in RUNNING_STATUSES or any(block["type"] == "tool_result" for block in blocks):
        return []
    error_flag = {"is_error": True} if status == "failed" else {}
    structured = {"structured": pick(item, "items")} if item.get("type") == "todo_list" else {}
    names = [block["name"] for block in blocks if block["type"] == "tool_use"]
    empty = {"type": "tool_result", "tool_use_id": call, "content": None, **error_flag, **structured}
    return [{**empty, "extra": {"name": name}} for name in names]


def agent_message_steps(item: Record, parsed: ParsedRecord) -> Steps:
    if parsed.kind != "message":
        return None
    texts = [block["text"] for block in parsed.blocks if block["type"] == "text"]
    author = text_at(item, "author")
    message = first_text(item, ("id", "author")) or ""
    sender = {"messageId": message, **({} if author is None else {"fromAgentId": author})}
    return [Emit("agent_callback", {**sender, "result": "\n\n".join(texts)})]


# Events


def copied_call_steps(event: Record, parsed: ParsedRecord) -> Steps:
    """Return the steps of a call that an item repeats."""
    return _call_steps(parsed.blocks, [], is_copy=True)


def call_end_steps(parse_call: Callable[[Record], Block], *, is_copy: bool) -> EventSteps:
    """Return the steps of events that end a call. Commands of the user have no steps, because items report them."""

    def make_steps(event: Record, parsed: ParsedRecord) -> Steps:
        if event.get("source") in _USER_SHELL_SOURCES:
            return []
        results = [block for block in parsed.blocks if block["type"] == "tool_result"]
        return _call_steps([parse_call(event)], _with_stderr(results, event), is_copy=is_copy)

    return make_steps


def _with_stderr(results: list[Block], event: Record) -> list[Block]:
    """Use the error output as the content of a failed patch without content."""
    stderr = text_at(event, "stderr")
    return [
        {**block, "content": stderr}
        if stderr and block.get("is_error") and not block.get("content")
        else block
        for block in results
    ]


def _call_steps(calls: list[Block], results: list[Block], *, is_copy: bool) -> list[Step]:
    relation: Relation = "held_copy" if is_copy else "new"
    call = Part(role="assistant", blocks=calls, relation=relation)
    result = Part(role="user", blocks=results, relation=relation)
    return [part for part in (call, result) if part.blocks]


_USER_SHELL_SOURCES = frozenset({"userShell", "user_shell"})


def hosted_call_parser(name: str, *arguments: str) -> Callable[[Record], Block]:
    """Return a parser of a call to a vendor tool. Its arguments are known when it ends."""

    def parse(event: Record) -> Block:
        typed = {"type": "tool_use", "id": event["call_id"], "name": name, "executor": "server"}
        return {**typed, "input": pick(event, *arguments)}

    return parse


def completed_item_steps(item: Record, parsed: ParsedRecord) -> Steps:
    """Return the steps of a completed item. Response items repeat most items, but not plans or Codex's own."""
    wire_type = item_type(item)
    if wire_type in _COMPLETED_ITEM_STEPS:
        return _COMPLETED_ITEM_STEPS[wire_type](item, parsed)
    if wire_type == "reasoning":
        item_parts = messages.completed_item_parts(item, parsed)
        return [thought for part in item_parts for thought in _thinking_parts(part)]
    if wire_type in TEXT_ITEMS or wire_type in _HOSTED_ITEMS or parsed.kind != "message":
        return None
    if value_in_either_case(item, "source") in _USER_SHELL_SOURCES:
        return []
    calls = [block for block in parsed.blocks if block["type"] == "tool_use"]
    if not calls:
        item_parts = messages.completed_item_parts(item, parsed)
        return [replace(part, key=None, slot=text_at(item, "id")) for part in item_parts]
    results = [block for block in parsed.blocks if block["type"] == "tool_result"]
    return _call_steps(calls, results or _empty_results(item, calls, item.get("id")), is_copy=True)


_HOSTED_ITEMS = frozenset({"image_generation", "web_search"})


def prompt_steps(event: Record, parsed: ParsedRecord) -> Steps:
    """Return no steps for a prompt without text: it cannot be deduplicated, so only its item is used."""
    return None if any(block.get("text") for block in parsed.blocks) else []


def delta_steps(slot: str) -> EventSteps:
    """Return a parser of deltas without an item: they continue the only open text of their kind."""
    kind: Any = "text" if slot == "message" else "thinking"
    return lambda event, parsed: [Chunk(kind, event["delta"], slot, anonymous_slot=True)]


def plan_delta_steps(event: Record, parsed: ParsedRecord) -> Steps:
    name = first_text(event, ("item_id", "itemId", "id")) or ""
    return [Chunk("text", event["delta"], name, fields={"variant": "plan"}, response=name)]


def output_delta_steps(event: Record, parsed: ParsedRecord) -> Steps:
    """Return an output delta. Its bytes are in base64, or a list of numbers in legacy versions."""
    chunk = event["chunk"]
    data = b64decode(chunk) if isinstance(chunk, str) else bytes(chunk)
    text = data.decode("utf-8", "replace")
    return [Chunk("output", text, call={"id": event["call_id"]}, fields=pick(event, "stream"))]


def task_end_steps(event: Record, parsed: ParsedRecord) -> Steps:
    """End a turn. The last text is emitted only if it was not emitted before."""
    errors, last = turn_error_steps(event, parsed), text_at(event, "last_agent_message")
    if not last:
        return [*errors, TurnEnd()]
    return [*errors, Part(role="assistant", blocks=[text_block(last)], relation="turn_end")]


def _error_steps(error_parts: Iterable[Part]) -> list[Step]:
    """Return an error event for each error, once per turn: many errors are reported again at its end."""
    errors = [part.error for part in error_parts if part.error is not None]
    return [Part(role=None, error=error, relation="copy") for error in errors]


def question_steps(event: Record, parsed: ParsedRecord) -> Steps:
    call = {"type": "tool_use", "id": event["call_id"], "name": "request_user_input"}
    return _call_steps([{**call, "input": pick(event, "questions")}], [], is_copy=True)


# Other agents


def _agent_message(id: Any, thread: Any, message: Any, *, agent: Any = None, wait: bool = False) -> Step:
    targets = {"targetAgentId": agent, "targetSessionId": thread}
    target = {name: value for name, value in targets.items() if isinstance(value, str)}
    payload = {"messageId": id, **target, "message": message or "", "wait": wait}
    return Emit("agent_message", payload)


def agent_activity_steps(event: Record, parsed: ParsedRecord) -> Steps:
    """Return the step of an agent that was started, messaged or stopped; the text of a message is in a call."""
    id = first_text(event, ("event_id", "eventId", "id")) or ""
    thread, path = value_in_either_case(event, "agent_thread_id"), value_in_either_case(event, "agent_path")
    started = _started_agent_steps(id, thread) if event.get("kind") == "started" else []
    return [*started, _agent_message(id, thread, "", agent=path)]


def _started_agent_steps(call: str, thread: Any) -> list[Step]:
    """Add the thread that a call started to the result of the call, which follows."""
    if not isinstance(thread, str):
        return []
    return [Part(role=None, blocks=[{"type": "tool_result", "tool_use_id": call, "agent_id": thread}])]


def agent_prompt_steps(event: Record, parsed: ParsedRecord) -> Steps:
    thread = first_text(event, ("new_thread_id", "receiver_thread_id"))
    agent = first_text(event, ("new_agent_nickname", "receiver_agent_nickname"))
    call = event["call_id"]
    started = _started_agent_steps(call, thread) if "new_thread_id" in event else []
    return [*started, _agent_message(call, thread, event["prompt"], agent=agent)]


def agent_wait_steps(event: Record, parsed: ParsedRecord) -> Steps:
    """Return the results of the agents waited for: by thread, or in a list of entries in newer versions."""
    listed = {
        text_at(entry, "thread_id"): entry["status"] for entry in list_or_empty(event.get("agent_statuses"))
    }
    states = {**(event.get("statuses") or {}), **listed}
    callbacks = (
        _agent_callback(event["call_id"], thread, *_parse_agent_state(state))
        for thread, state in states.items()
    )
    return [step for step in callbacks if step is not None]


def _parse_agent_state(state: Any) -> tuple[str, Any]:
    """Return a state's name and message: Rust writes a name, or an object with the name as its key."""
    if not isinstance(state, dict):
        return str(state), None
    return next(iter(state.items()), ("", None))


def _agent_callback(id: Any, thread: Any, status: str, message: Any, *, agent: Any = None) -> Step | None:
    if status in _RUNNING_STATES:
        return None
    sender = {name: value for name, value in (("fromAgentId", agent), ("fromSessionId", thread)) if value}
    return Emit("agent_callback", {"messageId": id, **sender, "result": message or status})


_RUNNING_STATES = frozenset({"pendingInit", "pending_init", "running", ""})


def _collab_steps(item: Record, phase: str) -> Steps:
    """Return the steps of a message to agents or a wait for their answers; None for other calls and failed ones."""
    id, prompt, wait = item["id"], item.get("prompt"), item["tool"] == "wait"
    threads = list_or_empty(value_in_either_case(item, "receiver_thread_ids"))
    if item.get("status") == "failed" or not (prompt or wait):
        return None
    if phase != "completed" and not threads:
        return []
    message = _agent_message(id, next(iter(threads), None), prompt, wait=wait)
    return [message, *(_agent_state_steps(item) if phase == "completed" else ())]


def _agent_state_steps(item: Record) -> list[Step]:
    states: Mapping[str, Block] = value_in_either_case(item, "agents_states") or {}
    callbacks = (
        _agent_callback(item["id"], thread, state["status"], state.get("message"))
        for thread, state in states.items()
    )
    return [step for step in callbacks if step is not None]


def patch_end_steps(event: Record, parsed: ParsedRecord) -> Steps:
    text_parts = messages.text_parts(event, parsed)
    return [replace(part, blocks=_with_stderr(part.blocks, event)) for part in text_parts]


_COMPLETED_ITEM_STEPS: Mapping[str, EventSteps] = {
    **dict.fromkeys(
        ("collab_agent_tool_call", "collab_tool_call"), lambda item, parsed: _collab_steps(item, "completed")
    ),
    "context_compaction": lambda item, parsed: [],
    "hook_prompt": lambda item, parsed: [],
    "sub_agent_activity": agent_activity_steps,
}

# Items of a turn


def turn_item_steps(item: Record, phase: str, parsed: ParsedRecord, *, has_local_ids: bool = False) -> Steps:
    """Return the steps of an item that is reported when it starts, changes and ends."""
    wire_type = item_type(item)
    scope = [Scope(has_local_ids=True)] if has_local_ids else []
    if wire_type in {"collab_agent_tool_call", "collab_tool_call"}:
        collab_steps = _collab_steps(item, phase)
        if collab_steps is not None:
            return [*scope, *collab_steps]
    if wire_type in _CONTROL_ITEM_STEPS:
        return _CONTROL_ITEM_STEPS[wire_type](item, parsed) if phase == "completed" else []
    if parsed.kind != "message":
        return None
    if not any(block["type"] == "tool_use" for block in parsed.blocks):
        return _text_steps(item, messages.turn_item_parts(item, parsed)) if phase == "completed" else []
    return [*scope, *_tool_item_steps(item, phase, parsed.blocks)]


def _text_steps(item: Record, text_parts: list[Part]) -> list[Step]:
    """Return the steps of the texts of an item, in the slots of their deltas; each reasoning text has its own slot."""
    id = text_at(item, "id")
    is_hook = item_type(item) == "hook_prompt"
    unkeyed = [
        replace(part, key=None, message_id=id, origin="synthetic" if is_hook else part.origin, relation="new")
        for part in text_parts
    ]
    if item_type(item) != "reasoning":
        return [replace(part, slot=id) for part in unkeyed]
    thoughts = [thought for part in unkeyed for thought in _thinking_parts(part)]
    indexes = {True: count(), False: count()}
    return [
        replace(part, slot=_reasoning_slot(id, next(indexes[_is_summary(part)]), _is_summary(part)))
        for part in thoughts
    ]


def _is_summary(part: Part) -> bool:
    return bool(part.blocks[0].get("is_summary"))


def _reasoning_slot(id: str | None, index: Any, is_summary: bool) -> str:
    return f"{id}/{index}" if is_summary else f"{id}/content/{index}"


def _tool_item_steps(item: Record, phase: str, blocks: list[Block]) -> list[Step]:
    """Return the steps of a call with the output so far, or with its result."""
    if phase != "completed" and item_type(item) in SERVER_TOOLS:
        return []
    uses = [_with_todo_items(block) for block in blocks if block["type"] == "tool_use"]
    call_steps: list[Step] = [_replacing_step("assistant", uses)]
    if phase != "completed":
        return [*call_steps, *_output_so_far_steps(item, phase)]
    results = [_with_failure_flag(block) for block in blocks if block["type"] == "tool_result"]
    return [*call_steps, _replacing_step("user", results or _empty_results(item, uses, item.get("id")))]


def _replacing_step(role: Any, blocks: list[Block]) -> Part:
    return Part(role=role, blocks=blocks, relation="revision")


def _with_todo_items(block: Block) -> Block:
    is_list = block["name"] == "todo_list" and isinstance(block["input"], list)
    return {**block, "input": {"items": block["input"]}} if is_list else block


def _with_failure_flag(block: Block) -> Block:
    return {**block, "is_error": True} if block.get("exit_code") not in (None, 0) else block


def _output_so_far_steps(item: Record, phase: str) -> list[Step]:
    """Return the complete output so far, or one line of JSON for a changed to-do list."""
    call, output = item.get("id"), value_in_either_case(item, "aggregated_output")
    if item_type(item) == "todo_list" and phase == "updated":
        line = json.dumps({"items": item["items"]}, ensure_ascii=False)
        return [Chunk("output", f"{line}\n", call={"id": call})]
    return [Chunk("output_so_far", output, call={"id": call})] if output else []


_CONTROL_ITEM_STEPS: Mapping[str, EventSteps] = {
    "context_compaction": lambda item, parsed: [Emit("summary", {"text": ""})],
    "sub_agent_activity": agent_activity_steps,
}


# Other lines


def error_steps(fields: Record, parsed: ParsedRecord) -> list[Step]:
    return _error_steps(messages.error_parts(fields, parsed))


def turn_failure_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    return [*_error_steps(messages.turn_failure_parts(record, parsed)), TurnEnd()]


def compaction_steps(record: Record, parsed: ParsedRecord) -> Steps:
    """Return one summary event per compaction, also if its text is encrypted."""
    return [Emit("summary", {"text": text_at(record, "payload", "message") or ""})]


# Notifications of the app server


def text_delta_steps(params: Record, parsed: ParsedRecord) -> Steps:
    return [Chunk("text", params["delta"], params["itemId"], response=params["itemId"])]


def reasoning_delta_steps(index: str) -> EventSteps:
    def make_steps(params: Record, parsed: ParsedRecord) -> Steps:
        id = params["itemId"]
        slot = _reasoning_slot(id, params[index], index == "summaryIndex")
        return [Chunk("thinking", params["delta"], slot, response=id)]

    return make_steps


def tool_output_steps(params: Record, parsed: ParsedRecord) -> Steps:
    return [Chunk("output", params["delta"], call={"id": params["itemId"]})]


def turn_end_steps(params: Record, parsed: ParsedRecord) -> Steps:
    turn = params["turn"]
    if turn.get("status") == "interrupted":
        return [TurnEnd("user_cancel")]
    return [*turn_error_steps(turn, parsed), TurnEnd()]


def turn_error_steps(fields: Record, parsed: ParsedRecord) -> list[Step]:
    return _error_steps(messages.task_end_parts(fields, parsed))


def usage_steps(params: Record, parsed: ParsedRecord) -> Steps:
    counts = {name: _snake_case_keys(params["tokenUsage"][name]) for name in ("last", "total")}
    return [*messages.usage_parts(counts["last"], counts["total"])]


def _snake_case_keys(counts: Record) -> Record:
    return {
        re.sub("[A-Z]", lambda match: f"_{match[0].lower()}", name): value for name, value in counts.items()
    }
