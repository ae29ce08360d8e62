"""What a line of Codex adds to the log of events, where its parts do not say it all.

A rollout file tells most calls and texts twice, as a response item and as an event: the items count, and what events
say is an `echo` of theirs. `codex exec --json` numbers its items anew in each process, so that its call ids hold in
their turn only; of old it printed events alone, with pieces of texts that name no place. The notifications of the app
server are as exec's items, with ids of their own.
"""

import json
import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import Any

from msgspec.structs import replace

from ash_shared.model.blocks import Block, pick, text_block
from ash_shared.providers._kit.contract import Part, Record, RecordReading
from ash_shared.providers._kit.json_fields import count_at, first_text, list_or_empty, text_at
from ash_shared.providers._kit.steps import Fragment, Interrupts, Says, Step, TurnEnds, TurnStarts, Whole
from ash_shared.providers.codex.events import TOOL_EVENTS
from ash_shared.providers.codex.messages import failure, parts, used
from ash_shared.providers.codex.turn_items import RUNNING, SERVER_TOOLS, WITH_TEXT, item_type, spelt

Steps = list[Step] | None
"""None where the parts say it all."""


def steps(record: Record, reading: RecordReading) -> Steps:
    """What a line adds."""
    wire = record.get("type")
    if wire == "response_item":
        return _of_item(record["payload"], record, reading)
    if wire == "event_msg":
        return _of_event(record["payload"], record, reading, alone=False)
    if wire.__class__ is str and wire in _LINES:
        return _LINES[wire](record, reading)
    if wire is None and record.get("msg").__class__ is dict:
        return _of_event(record["msg"], record, reading, alone=True)
    if wire is None and "method" in record:
        return _of_notification(record, reading)
    return _of_item(record, record, reading)


def _value(item: Record, name: str) -> Any:
    return item.get(spelt(item, name))


# --- Items of the Responses API


def _of_item(item: Record, record: Record, reading: RecordReading) -> Steps:
    wire = item.get("type")
    if reading.kind != "message" or wire.__class__ is not str or wire not in _ITEMS:
        return None
    (part,) = parts(record, reading)
    return _ITEMS[wire](item, part)


def _message(item: Record, part: Part) -> Steps:
    """What the person said is told once more by an event, without the marks that Codex puts around pictures."""
    if part.role == "system":
        return [Whole(replace(part, blocks=[_INSTRUCTIONS | block for block in part.blocks]))]
    if part.role != "user":
        return None
    command = _shell_command(part.blocks)
    if command is not None:
        return command
    said = [block for block in part.blocks if not _LABEL.fullmatch(block.get("text") or "")]
    return [Whole(replace(part, blocks=said or part.blocks))]


_INSTRUCTIONS: Block = {"variant": "instructions"}
"""What Codex tells the model of itself and of its surroundings, as the developer."""
_LABEL = re.compile(r"</?(?:image|audio)(?: [^<>\n]{0,300})?>")
_SHELL = re.compile(
    r"\s*<user_shell_command>\n<command>\n(?P<command>.*)\n</command>\n<result>\n"
    r"Exit code: (?P<code>-?\d{1,10})\n(?:Duration: [^\n]*\n)?Output:\n(?P<output>.*?)\n?</result>\n"
    r"</user_shell_command>\s*",
    re.DOTALL,
)
_UNESCAPED = re.compile(r"[<>]|&(?!amp;|lt;|gt;)")


def _shell_command(blocks: list[Block]) -> list[Step] | None:
    """A command that the person ran themselves, from the text that the model was given of it."""
    found = _SHELL.fullmatch(blocks[0].get("text") or "") if len(blocks) == 1 else None
    if found is None:
        return None
    command, output = _unescaped(found["command"], found["output"])
    code = int(found["code"])
    call = {"type": "tool_use", "name": "shell", "input": {"command": command}, "executor": "user"}
    result = {"content": output, "exit_code": code, "is_error": code != 0, "extra": {"name": "shell"}}
    return [
        Whole(Part(role="assistant", blocks=[call])),
        Whole(Part(role="user", blocks=[{"type": "tool_result", **result}])),
    ]


def _unescaped(*texts: str) -> tuple[str, ...]:
    """The texts as they were: Codex came to escape what XML marks; none of them then holds one."""
    if any(_UNESCAPED.search(text) for text in texts):
        return texts
    return tuple(text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&") for text in texts)


def _thoughts(part: Part) -> list[Step]:
    """Each as a part of its own: events tell them one by one. What cannot be read is left out."""
    told = [block for block in part.blocks if block["type"] != "thinking" or block["thinking"]]
    return [Whole(replace(part, blocks=[block])) for block in told]


def _hosted(item: Record, part: Part) -> Steps:
    return [Whole(replace(part, blocks=[*part.blocks, *_ended(item, part.blocks, item.get("id"))]))]


def _ended(item: Record, blocks: list[Block], call: Any) -> list[Block]:
    """The result of a call that the item says to have ended, without saying what came of it."""
    status = item.get("status")
    if status in RUNNING or any(block["type"] == "tool_result" for block in blocks):
        return []
    failed = {"is_error": True} if status == "failed" else {}
    told = {"structured": pick(item, "items")} if item.get("type") == "todo_list" else {}
    names = [block["name"] for block in blocks if block["type"] == "tool_use"]
    return [
        {
            "type": "tool_result",
            "tool_use_id": call,
            "content": None,
            **failed,
            **told,
            "extra": {"name": name},
        }
        for name in names
    ]


def _callback(item: Record, part: Part) -> Steps:
    """What another agent sent."""
    texts = [block["text"] for block in part.blocks if block["type"] == "text"]
    author = text_at(item, "author")
    message = first_text(item, ("id", "author")) or ""
    told = {"messageId": message, **({} if author is None else {"fromAgentId": author})}
    return [Says("agent_callback", {**told, "result": "\n\n".join(texts)})]


_ITEMS: Mapping[str, Callable[[Record, Part], Steps]] = {
    "agent_message": _callback,
    "message": _message,
    "reasoning": lambda item, part: _thoughts(part),
    "web_search_call": _hosted,
}


# --- Events


def _of_event(event: Record, record: Record, reading: RecordReading, *, alone: bool) -> Steps:
    """An event: in a rollout file items say most of it, too; in the stream of old it stands alone."""
    wire = event["type"]
    if wire in _EVENTS:
        return _EVENTS[wire](event)
    if wire in _WITH_PARTS:
        return _WITH_PARTS[wire](event, record, reading)
    if wire in (_HOSTED_ENDS if alone else _BEGUN):
        return _of_end(event, reading.blocks, echo=not alone)
    if wire in _ALONE and alone:
        return _ALONE[wire](event, record, reading)
    if wire in TOOL_EVENTS and not (alone or wire in _HOSTED_ENDS):
        return [] if wire.endswith("_begin") else _calls(reading.blocks, [], echo=True)
    return None


def _of_end(event: Record, blocks: list[Block], *, echo: bool) -> list[Step]:
    """A call that has ended, with all that the event says of it. The person's own are told by an item, too."""
    if event.get("source") in _OF_PERSON:
        return []
    results = [block for block in blocks if block["type"] == "tool_result"]
    return _calls([_call_of(event)], _explained(results, event), echo=echo)


def _explained(results: list[Block], event: Record) -> list[Block]:
    """A patch that failed says why beside its output."""
    why = text_at(event, "stderr")
    return [
        {**block, "content": why} if why and block.get("is_error") and not block.get("content") else block
        for block in results
    ]


def _call_of(event: Record) -> Block:
    wire = event["type"]
    made = _HOSTED_ENDS[wire](event) if wire in _HOSTED_ENDS else TOOL_EVENTS[_BEGUN[wire]][1](event)
    return made if isinstance(made, dict) else made[0]


def _calls(calls: list[Block], results: list[Block], *, echo: bool) -> list[Step]:
    """Calls with their results."""
    told = (Part(role="assistant", blocks=calls, echo=echo), Part(role="user", blocks=results, echo=echo))
    return [Whole(part, holds=echo) for part in told if part.blocks]


_OF_PERSON = frozenset({"userShell", "user_shell"})


def _hosted_call(name: str, *arguments: str) -> Callable[[Record], Block]:
    """The call of a tool of the vendor's, whose arguments are known when it ends."""

    def read(event: Record) -> Block:
        typed = {"type": "tool_use", "id": event["call_id"], "name": name, "executor": "server"}
        return {**typed, "input": pick(event, *arguments)}

    return read


_BEGUN: Mapping[str, str] = {
    "dynamic_tool_call_response": "dynamic_tool_call_request",
    "exec_command_end": "exec_command_begin",
    "mcp_tool_call_end": "mcp_tool_call_begin",
    "patch_apply_end": "patch_apply_begin",
}
"""The event that tells the call, by the one that tells its end."""

_HOSTED_ENDS: Mapping[str, Callable[[Record], Block]] = {
    "image_generation_end": _hosted_call("image_generation", "revised_prompt"),
    "web_search_end": _hosted_call("web_search", "query", "action"),
}
"""Of these a rollout file has the item always, often without an id: there they only add to its result."""


def _of_completed(item: Record, record: Record, reading: RecordReading) -> Steps:
    """An item of a turn beside response items, which tell all but plans and what has no item of theirs."""
    wire = item_type(item)
    if wire in _COMPLETED:
        return _COMPLETED[wire](item)
    if wire == "reasoning":
        return [step for part in parts(record, reading) for step in _thoughts(part)]
    if wire in WITH_TEXT or wire in _HOSTED or reading.kind != "message":
        return None
    if _value(item, "source") in _OF_PERSON:
        return []
    calls = [block for block in reading.blocks if block["type"] == "tool_use"]
    if not calls:
        return [Whole(replace(part, key=None), slot=text_at(item, "id")) for part in parts(record, reading)]
    results = [block for block in reading.blocks if block["type"] == "tool_result"]
    return _calls(calls, results or _ended(item, calls, item.get("id")), echo=True)


_HOSTED = frozenset({"image_generation", "web_search"})


def _has_text(reading: RecordReading) -> bool:
    return any(block.get("text") for block in reading.blocks)


def _piece(slot: str) -> Callable[[Record], Steps]:
    """A piece of the one text of its kind that is being written."""
    kind: Any = "text" if slot == "message" else "thinking"
    return lambda event: [Fragment(kind, event["delta"], slot, reopens=True)]


def _plan_piece(event: Record) -> Steps:
    name = first_text(event, ("item_id", "itemId", "id")) or ""
    return [Fragment("text", event["delta"], name, more={"variant": "plan"}, response=name)]


def _output_piece(event: Record) -> Steps:
    """Bytes: in base64, or, of old, number by number."""
    chunk = event["chunk"]
    data = b64decode(chunk) if chunk.__class__ is str else bytes(chunk)
    text = data.decode("utf-8", "replace")
    return [Fragment("output", text, call=event["call_id"], more=pick(event, "stream"))]


def _task_end(event: Record) -> Steps:
    """The last text is told only where none came."""
    told: list[Step] = [] if not event.get("error") else _errors([Part(role=None, error=failure(event))])
    last = text_at(event, "last_agent_message")
    if not last:
        return [*told, TurnEnds()]
    return [*told, Whole(Part(role="assistant", blocks=[text_block(last)], echo=True, usage_of_turn=True))]


def _errors(made: Iterable[Part]) -> list[Step]:
    """What went wrong is often said twice: by itself, and where the turn ends."""
    errors = [part.error for part in made if part.error is not None]
    return [Says("error", dict(told), once=f"error/{told['message']}") for told in errors]


def _asked(event: Record) -> Steps:
    call = {"type": "tool_use", "id": event["call_id"], "name": "request_user_input"}
    return _calls([{**call, "input": pick(event, "questions")}], [], echo=True)


def _rolled_back(event: Record) -> Steps:
    turns = count_at(event, "num_turns")
    return [] if turns is None else [Says("retraction", {"turns": turns})]


def _undone(event: Record) -> Steps:
    return [Says("retraction", {"turns": 1})] if event.get("success") is True else []


# --- Other agents


def _to_agent(
    id: Any, thread: Any, message: Any, *, agent: Any = None, wait: bool = False, scoped: bool = False
) -> Step:
    named = {"targetAgentId": agent, "targetSessionId": thread}
    told = {name: value for name, value in named.items() if value.__class__ is str}
    payload = {"messageId": id, **told, "message": message or "", "wait": wait}
    return Says("agent_message", payload, once=f"agent/{id}", scoped=scoped)


def _activity(event: Record) -> Steps:
    """An agent was started, spoken to or stopped; what was said to it is in a call."""
    id = first_text(event, ("event_id", "eventId", "id")) or ""
    thread, path = _value(event, "agent_thread_id"), _value(event, "agent_path")
    return [_to_agent(id, thread, "", agent=path)]


def _spoken_to(event: Record) -> Steps:
    thread = first_text(event, ("new_thread_id", "receiver_thread_id"))
    agent = first_text(event, ("new_agent_nickname", "receiver_agent_nickname"))
    return [_to_agent(event["call_id"], thread, event["prompt"], agent=agent)]


def _waited(event: Record) -> Steps:
    """The states of the agents that were waited for: by thread, or, newer, in a list that names them."""
    named = {
        text_at(entry, "thread_id"): entry["status"] for entry in list_or_empty(event.get("agent_statuses"))
    }
    states = {**(event.get("statuses") or {}), **named}
    told = (_from_agent(event["call_id"], thread, *_outcome(state)) for thread, state in states.items())
    return [step for step in told if step is not None]


def _outcome(state: Any) -> tuple[str, Any]:
    """The name of a state, and what was said with it: Rust writes a name, or an object with the name as its key."""
    if state.__class__ is not dict:
        return str(state), None
    return next(iter(state.items()), ("", None))


def _from_agent(id: Any, thread: Any, status: str, message: Any, *, scoped: bool = False) -> Step | None:
    """None of an agent that has not ended."""
    if status in _AT_WORK:
        return None
    payload = {"messageId": id, **({"fromSessionId": thread} if thread else {}), "result": message or status}
    return Says("agent_callback", payload, scoped=scoped)


_AT_WORK = frozenset({"pendingInit", "pending_init", "running", ""})


def _collab(item: Record, phase: str, *, scoped: bool) -> Steps:
    """A message to agents, or the wait for their answers; None where it is another call, or has failed."""
    id, prompt, wait = item["id"], item.get("prompt"), item["tool"] == "wait"
    threads = list_or_empty(_value(item, "receiver_thread_ids"))
    if item.get("status") == "failed" or not (prompt or wait):
        return None
    if phase != "completed" and not threads:
        return []
    sent = _to_agent(id, next(iter(threads), None), prompt, wait=wait, scoped=scoped)
    return [sent, *(_answers(item, scoped=scoped) if phase == "completed" else ())]


def _answers(item: Record, *, scoped: bool) -> list[Step]:
    states: Mapping[str, Block] = _value(item, "agents_states") or {}
    told = (
        _from_agent(item["id"], thread, state["status"], state.get("message"), scoped=scoped)
        for thread, state in states.items()
    )
    return [step for step in told if step is not None]


_EVENTS: Mapping[str, Callable[[Record], Steps]] = {
    **dict.fromkeys(
        (
            "agent_message_content_delta",
            "image_generation_begin",
            "item_started",
            "raw_response_item",
            "reasoning_content_delta",
            "reasoning_raw_content_delta",
            "web_search_begin",
        ),
        lambda event: [],
    ),
    **dict.fromkeys(("collab_agent_interaction_end", "collab_agent_spawn_end"), _spoken_to),
    **dict.fromkeys(("task_complete", "turn_complete"), _task_end),
    **dict.fromkeys(("task_started", "turn_started"), lambda event: [TurnStarts(text_at(event, "turn_id"))]),
    "agent_message_delta": _piece("message"),
    "agent_reasoning_delta": _piece("reasoning"),
    "agent_reasoning_raw_content_delta": _piece("raw reasoning"),
    "collab_waiting_end": _waited,
    "exec_command_output_delta": _output_piece,
    "plan_delta": _plan_piece,
    "request_user_input": _asked,
    "sub_agent_activity": _activity,
    "thread_rolled_back": _rolled_back,
    "turn_aborted": lambda event: [Interrupts("user_cancel")],
    "undo_completed": _undone,
}
"""Pieces that are told by another event, too, say nothing; neither do calls whose arguments are not known yet."""

_WITH_PARTS: Mapping[str, Callable[[Record, Record, RecordReading], Steps]] = {
    "error": lambda event, record, reading: _errors(parts(record, reading)),
    "item_completed": lambda event, record, reading: _of_completed(event["item"], record, reading),
    "user_message": lambda event, record, reading: None if _has_text(reading) else [],
}
"""A prompt without a text cannot be told from another: its item counts."""


def _end_alone(event: Record, record: Record, reading: RecordReading) -> Steps:
    made = parts(record, reading)
    return [Whole(replace(part, blocks=_explained(part.blocks, event))) for part in made]


_ALONE: Mapping[str, Callable[[Record, Record, RecordReading], Steps]] = {
    "context_compacted": lambda event, record, reading: [Says("summary", {"text": ""})],
    "patch_apply_end": _end_alone,
}
"""Events that a rollout file has beside another line that says it."""

_COMPLETED: Mapping[str, Callable[[Record], Steps]] = {
    **dict.fromkeys(
        ("collab_agent_tool_call", "collab_tool_call"), lambda item: _collab(item, "completed", scoped=False)
    ),
    "context_compaction": lambda item: [],
    "hook_prompt": lambda item: [],
    "sub_agent_activity": _activity,
}

# --- Items of a turn


def _of_line(record: Record, reading: RecordReading) -> Steps:
    return _of_turn_item(record["item"], record["type"][5:], record, reading, scoped=True)


def _of_turn_item(item: Record, phase: str, record: Record, reading: RecordReading, *, scoped: bool) -> Steps:
    """An item that is told when it starts, when it changes and when it ends."""
    wire = item_type(item)
    if wire in _COLLAB:
        told = _collab(item, phase, scoped=scoped)
        if told is not None:
            return told
    if wire in _MARKS:
        return _MARKS[wire](item) if phase == "completed" else []
    if reading.kind != "message":
        return None
    if not any(block["type"] == "tool_use" for block in reading.blocks):
        return _texts(item, parts(record, reading)) if phase == "completed" else []
    return _call(item, phase, reading.blocks, scoped=scoped)


def _texts(item: Record, made: list[Part]) -> list[Step]:
    """What was said, in the places that its pieces name: of reasoning, each text has its own."""
    id = text_at(item, "id")
    beside = {"messageId": id, **({"synthetic": True} if item_type(item) == "hook_prompt" else {})}
    told = [replace(part, key=None, replaces=False, metadata={**part.metadata, **beside}) for part in made]
    if item_type(item) != "reasoning":
        return [Whole(part, slot=id) for part in told]
    thoughts = [step.part for part in told for step in _thoughts(part) if isinstance(step, Whole)]
    places = {True: count(), False: count()}
    return [
        Whole(part, slot=_place(id, next(places[_is_summary(part)]), _is_summary(part))) for part in thoughts
    ]


def _is_summary(part: Part) -> bool:
    return bool(part.blocks[0].get("is_summary"))


def _place(id: str | None, index: Any, is_summary: bool) -> str:
    return f"{id}/{index}" if is_summary else f"{id}/content/{index}"


def _call(item: Record, phase: str, blocks: list[Block], *, scoped: bool) -> Steps:
    """A call with what the tool wrote so far, or with its result."""
    if phase != "completed" and item_type(item) in SERVER_TOOLS:
        return []
    uses = [_with_items(block) for block in blocks if block["type"] == "tool_use"]
    began: list[Step] = [_changing("assistant", uses, scoped)]
    if phase != "completed":
        return [*began, *_written(item, phase, scoped=scoped)]
    results = [_judged(block) for block in blocks if block["type"] == "tool_result"]
    return [*began, _changing("user", results or _ended(item, uses, item.get("id")), scoped)]


def _changing(role: Any, blocks: list[Block], scoped: bool) -> Whole:
    return Whole(Part(role=role, blocks=blocks, replaces=True), scoped=scoped)


def _with_items(block: Block) -> Block:
    is_list = block["name"] == "todo_list" and block["input"].__class__ is list
    return {**block, "input": {"items": block["input"]}} if is_list else block


def _judged(block: Block) -> Block:
    return {**block, "is_error": True} if block.get("exit_code") not in (None, 0) else block


def _written(item: Record, phase: str, *, scoped: bool) -> list[Step]:
    """What a command wrote so far is told anew each time; a list that has changed, as the one line that it is."""
    call, output = item.get("id"), _value(item, "aggregated_output")
    if item_type(item) == "todo_list" and phase == "updated":
        line = json.dumps({"items": item["items"]}, ensure_ascii=False)
        return [Fragment("output", f"{line}\n", call=call, scoped=scoped)]
    return [Fragment("output", output, call=call, is_whole=True, scoped=scoped)] if output else []


_COLLAB = frozenset({"collab_agent_tool_call", "collab_tool_call"})
_MARKS: Mapping[str, Callable[[Record], Steps]] = {
    "context_compaction": lambda item: [Says("summary", {"text": ""})],
    "sub_agent_activity": _activity,
}


# --- Other lines


def _failed(record: Record, reading: RecordReading) -> Steps:
    ends: list[Step] = [TurnEnds()] if record["type"] == "turn.failed" else []
    return [*_errors(parts(record, reading)), *ends]


def _compacted(record: Record, reading: RecordReading) -> Steps:
    """One event for each compaction, also where what it says is sealed."""
    return [Says("summary", {"text": text_at(record, "payload", "message") or ""})]


def _between_agents(record: Record, reading: RecordReading) -> Steps:
    if reading.kind != "message":
        return None
    return _callback(record["payload"], Part(role="user", blocks=reading.blocks))


_LINES: Mapping[str, Callable[[Record, RecordReading], Steps]] = {
    **dict.fromkeys(("error", "turn.failed"), _failed),
    **dict.fromkeys(("item.completed", "item.started", "item.updated"), _of_line),
    "compacted": _compacted,
    "inter_agent_communication": _between_agents,
    "item.plan.delta": lambda record, reading: _plan_piece(record),
    "turn.started": lambda record, reading: [TurnStarts(text_at(record, "turn_id"))],
}


# --- Notifications of the app server


def _of_notification(record: Record, reading: RecordReading) -> Steps:
    method, params = record["method"], record["params"]
    if method in ("item/completed", "item/started"):
        return _of_turn_item(params["item"], method[5:], record, reading, scoped=False)
    return _NOTIFICATIONS[method](params) if method in _NOTIFICATIONS else None


def _text_piece(params: Record) -> Steps:
    return [Fragment("text", params["delta"], params["itemId"], response=params["itemId"])]


def _thought_piece(index: str) -> Callable[[Record], Steps]:
    def read(params: Record) -> Steps:
        id = params["itemId"]
        place = _place(id, params[index], index == "summaryIndex")
        return [Fragment("thinking", params["delta"], place, response=id)]

    return read


def _tool_piece(params: Record) -> Steps:
    return [Fragment("output", params["delta"], call=params["itemId"])]


def _ended_turn(params: Record) -> Steps:
    """A turn that was interrupted, that failed, or that came to its end."""
    turn = params["turn"]
    if turn.get("status") == "interrupted":
        return [Interrupts("user_cancel")]
    return [*_failure(turn), TurnEnds()]


def _failure(told: Record) -> list[Step]:
    return _errors([Part(role=None, error=failure(told))]) if told.get("error") else []


def _counted(params: Record) -> Steps:
    counts = {name: _snake(params["tokenUsage"][name]) for name in ("last", "total")}
    return [Whole(part) for part in used(counts["last"], counts["total"])]


def _snake(counts: Record) -> Record:
    return {
        re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", name): value for name, value in counts.items()
    }


_NOTIFICATIONS: Mapping[str, Callable[[Record], Steps]] = {
    "error": _failure,
    "item/agentMessage/delta": _text_piece,
    "item/commandExecution/outputDelta": _tool_piece,
    "item/fileChange/outputDelta": _tool_piece,
    "item/plan/delta": _plan_piece,
    "item/reasoning/summaryTextDelta": _thought_piece("summaryIndex"),
    "item/reasoning/textDelta": _thought_piece("contentIndex"),
    "thread/tokenUsage/updated": _counted,
    "turn/completed": _ended_turn,
    "turn/started": lambda params: [TurnStarts(text_at(params, "turn", "id"))],
}
