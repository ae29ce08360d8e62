"""Convert a conversation to ATIF, the Agent Trajectory Interchange Format of evaluation tools.

A standard message becomes a step; the results of its calls become its observation, whenever they came. Duplicates and
retracted messages are left out. Each subagent becomes a trajectory in `subagent_trajectories`. Values without a
field in ATIF are in `extra.ash` (`records.atif_notes`), so that Ash reads the same blocks from the document.

Documents are valid for Harbor's models (`harbor.models.trajectories`): version 1.7, or 1.8 if they contain audio.
"""

import binascii
import json
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from ash_shared.model.blocks import Block, is_audio, is_valid, pick, without
from ash_shared.model.message import StandardMessage, StandardTokenUsage
from ash_shared.projections.otel_genai import tool_definitions
from ash_shared.records.atif_notes import KEY, MEDIA_TYPES, SEPARATOR, kind_of, order_note
from ash_shared.records.json_fields import items_at, text_at, value_at

VERSION, VERSION_WITH_AUDIO = "ATIF-v1.7", "ATIF-v1.8"

_AGENT_NAMES = {"claude": "claude-code", "cursor": "cursor-cli", "gemini_cli": "gemini-cli"}
"""Harbor's names of agents, by source, where they differ."""
_SOURCES = {"assistant": "agent", "system": "system", "user": "user"}
_UNKNOWN = "unknown"
"""The version of an agent that its messages do not state; ATIF requires one."""
_MEDIA_TYPE_ALIASES = {
    "audio/mp3": "audio/mpeg",
    "audio/mpga": "audio/mpeg",
    "audio/x-mpeg": "audio/mpeg",
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/vnd.wave": "audio/wav",
    "audio/x-m4a": "audio/mp4",
    "audio/m4a": "audio/mp4",
    "audio/x-aac": "audio/aac",
    "audio/x-flac": "audio/flac",
    "audio/x-aiff": "audio/aiff",
}


class AtifExport(NamedTuple):
    """A trajectory, and the files that it refers to."""

    document: dict[str, Any]
    files: Mapping[str, bytes]
    """By path relative to the document; empty without `media_folder`."""


class SubagentMessages(NamedTuple):
    """The session of a subagent."""

    id: str
    messages: Sequence[StandardMessage]
    copied: Collection[str] = ()
    """The ids of messages that are copied from another session, which counts their usage."""


def to_atif(
    messages: Iterable[StandardMessage],
    *,
    session_id: str | None = None,
    records: Iterable[Any] = (),
    subagents: Iterable[SubagentMessages] = (),
    copied: Collection[str] = (),
    media_folder: str | None = None,
) -> AtifExport:
    """Return the conversation as a trajectory.

    Images and recordings are `data:` URLs, or with a `media_folder` files in this folder next to the document. Tool
    definitions come from the last of the decoded `records` that has any. Messages of subagents in a transcript of the
    main agent are left out if `subagents` contains their session. The messages with the ids in `copied` are marked as
    copies from another session, and have no usage.
    """
    requests, known = list(records), list(subagents)
    copies = {each.id: each.copied for each in known}
    main, agents = _split(list(messages))
    agents |= {agent.id: _conversation(agent.messages) for agent in known}
    media = _Media(media_folder)
    document = {
        "schema_version": VERSION,
        **({} if session_id is None else {"session_id": session_id, "trajectory_id": session_id}),
        **_trajectory(main, requests, media, copied),
    }
    embedded = [
        {"schema_version": VERSION, "trajectory_id": id, **_trajectory(own, [], media, copies.get(id, ()))}
        for id, own in agents.items()
    ]
    if embedded:
        document["subagent_trajectories"] = embedded
    for trajectory in (document, *embedded):
        _refer_to_agents(trajectory, agents)
    _add_costs(document, embedded)
    if media.has_audio:
        for trajectory in (document, *embedded):
            trajectory["schema_version"] = VERSION_WITH_AUDIO
    return AtifExport(document, media.files)


def _conversation(messages: Iterable[StandardMessage]) -> list[StandardMessage]:
    return [
        message
        for message in messages
        if message.metadata.shadow_of is None and not message.metadata.retracted
    ]


def _split(messages: list[StandardMessage]) -> tuple[list[StandardMessage], dict[str, list[StandardMessage]]]:
    """Return the messages of the main agent, and of each subagent by its id. In the session of a subagent, all messages
    are the main agent's."""
    known = _conversation(messages)
    agents: dict[str, list[StandardMessage]] = {}
    main = [message for message in known if _agent_of(message) is None]
    if not main:
        return known, {}
    started = _agents_by_call(known)
    for message in known:
        if (agent := _agent_of(message)) is not None:
            agents.setdefault(started.get(agent, agent), []).append(message)
    return main, agents


def _agents_by_call(messages: Iterable[StandardMessage]) -> dict[str, str]:
    """Return the subagents by the call that started them; some of their messages have only one of the two ids."""
    ids = ((message.metadata.parent_tool_use_id, message.metadata.agent_id) for message in messages)
    return {call: agent for call, agent in ids if call is not None and agent is not None}


def _agent_of(message: StandardMessage) -> str | None:
    """Return the subagent that wrote a message, or else the call that started it; None for the calls of a script, which
    the agent itself ran."""
    metadata = message.metadata
    return metadata.agent_id or (None if metadata.ran_by_tool_use_id else metadata.parent_tool_use_id)


def _trajectory(
    messages: Sequence[StandardMessage], requests: Sequence[Any], media: "_Media", copied: Collection[str]
) -> dict[str, Any]:
    steps = _Steps(media)
    for message in messages:
        steps.add(message, is_copy=message.metadata.inherited is True or message.id in copied)
    finished = steps.finished()
    metrics = _final_metrics(finished)
    return {
        "agent": _agent(messages, requests),
        "steps": finished,
        **({} if metrics is None else {"final_metrics": metrics}),
    }


def _agent(messages: Sequence[StandardMessage], requests: Sequence[Any]) -> dict[str, Any]:
    """Return the agent; of a trajectory that was imported, the agent it states."""
    agents = (value_at(record, "agent") for record in requests)
    stated: Block = next((agent for agent in agents if _is_agent(agent)), {})
    metadata = [message.metadata for message in messages]
    source = next((each.source for each in metadata), _UNKNOWN)
    version = next((each.cli_version for each in metadata if each.cli_version), _UNKNOWN)
    models = [message.metadata.model for message in messages if message.role == "assistant"]
    model = models[0] if models and all(models) else None  # a step without a model inherits this one
    tools = [{"type": "function", "function": without(tool, "type")} for tool in tool_definitions(requests)]
    return {
        "name": _AGENT_NAMES.get(source, source),
        "version": version,
        **({} if model is None else {"model_name": model}),
        **({"tool_definitions": tools} if tools else {}),
        **pick(stated, "name", "version", "model_name", "tool_definitions"),
    }


def _is_agent(value: Any) -> bool:
    return text_at(value, "name") is not None and text_at(value, "version") is not None


class _Steps:
    """Folds standard messages into steps."""

    def __init__(self, media: "_Media") -> None:
        self._media = media
        self._steps: list[Block] = []
        self._step_by_call: dict[str, Block] = {}

    def add(self, message: StandardMessage, *, is_copy: bool) -> None:
        blocks = [block.model_dump() for block in message.content]
        calls = {block.get("id") for block in blocks if block["type"] == "tool_use"} - {None}
        is_answer = message.role == "assistant"
        own, results = list[Block](), list[Block]()
        for block in blocks:
            is_inline = is_answer and block.get("tool_use_id") in calls
            (own if block["type"] != "tool_result" or is_inline else results).append(block)
        if own or not results or message.usage is not None or message.error is not None:
            self._add_step(message, own, is_copy=is_copy)
        for result in results:
            self._add_result(message, result)

    def finished(self) -> list[Block]:
        """Return the numbered steps. ATIF requires at least one."""
        steps = self._steps or [_step("system", "", {"isEmpty": True})]
        return [{"step_id": number, **step} for number, step in enumerate(steps, 1)]

    def _add_step(self, message: StandardMessage, blocks: list[Block], *, is_copy: bool) -> None:
        place = len(self._steps) + 1
        step = _answer(message, blocks, self._media, place) if message.role == "assistant" else None
        step = step or _message_step(message, blocks, self._media)
        if is_copy:
            step = {**without(step, "metrics"), "is_copied_context": True}
        self._steps.append(step)
        for call in step.get("tool_calls", ()):
            self._step_by_call[call["tool_call_id"]] = step
        for block in blocks:
            if message.role == "assistant" and block["type"] == "tool_result":
                _observe(step, _result(block, self._media, block["tool_use_id"], {"isInline": True}))

    def _add_result(self, message: StandardMessage, block: Block) -> None:
        call = block.get("tool_use_id")
        step = self._step_by_call.get(call) if isinstance(call, str) else None
        if step is None:
            step = _dated(_step("system", "", {"isEmpty": True, **_script_notes(message)}), message)
            self._steps.append(step)
            _observe(step, _result(block, self._media, None, _orphan_notes(block)))
            return
        time = _iso_time(message.timestamp)
        notes = {} if time == step.get("timestamp") else {"timestamp": time}
        observed = _result(block, self._media, call, notes)
        if (agent := _started_agent(message, block)) is not None:
            observed[_AGENT] = agent
        _observe(step, observed)


def _started_agent(message: StandardMessage, result: Block) -> str | None:
    """Return the subagent that the call of a result started, by the id of its session."""
    stated = text_at(message.metadata.tool_use_result, "agentId") or text_at(
        result, "structured", "sessionId"
    )
    refs = items_at(result, "extra", "subagent_trajectory_ref")
    return stated or next((text_at(ref, "trajectory_id") for ref in refs), None)


def _orphan_notes(block: Block) -> dict[str, Any]:
    """Return the call of a result as written: no call in the trajectory has this id."""
    return {"toolUseId": block["tool_use_id"]} if "tool_use_id" in block else {"hasNoCall": True}


def _script_notes(message: StandardMessage) -> dict[str, str]:
    caller = message.metadata.ran_by_tool_use_id
    return {} if caller is None else {"ranByToolUseId": caller}


def _step(source: str, message: Any, notes: Mapping[str, Any]) -> Block:
    return {"source": source, "message": message, **_extra(notes)}


def _extra(notes: Mapping[str, Any]) -> Block:
    return {"extra": {KEY: dict(notes)}} if notes else {}


def _dated(step: Block, message: StandardMessage) -> Block:
    time = _iso_time(message.timestamp)
    return step if time is None else {"timestamp": time, **step}


def _observe(step: Block, result: Block) -> None:
    step.setdefault("observation", {"results": []})["results"].append(result)


def _message_step(message: StandardMessage, blocks: list[Block], media: "_Media") -> Block:
    """Return the step of a message of the system or the user."""
    content, notes = _content(blocks, media)
    if not blocks:
        notes["isEmpty"] = True
    if (metrics := _metrics(message)) is not None:
        notes["metrics"] = metrics
    step = {
        "source": _SOURCES[message.role],
        "message": content,
        **_extra({**_message_notes(message), **notes}),
    }
    return _dated(step, message)


def _answer(message: StandardMessage, blocks: list[Block], media: "_Media", place: int) -> Block:
    """Return the step of an answer."""
    thoughts = [block for block in blocks if block["type"] == "thinking"]
    calls = [block for block in blocks if block["type"] == "tool_use"]
    content, notes = _content([block for block in blocks if kind_of(block) == "text"], media)
    order, metrics = order_note(blocks), _metrics(message)
    if order is not None:
        notes["order"] = order
    if thoughts and (thinking_notes := _thinking_notes(thoughts)):
        notes["thinking"] = thinking_notes
    if not blocks:
        notes["isEmpty"] = True
    is_of_script = message.metadata.ran_by_tool_use_id is not None
    is_of_program = bool(calls) and (is_of_script or all(call.get("executor") == "host" for call in calls))
    is_asked = bool(thoughts) or metrics is not None or not is_of_program
    step = {
        "source": "agent",
        **({} if message.metadata.model is None else {"model_name": message.metadata.model}),
        "message": content,
        **({"reasoning_content": SEPARATOR.join(each["thinking"] for each in thoughts)} if thoughts else {}),
        **(
            {"tool_calls": [_call(call, place, index) for index, call in enumerate(calls, 1)]}
            if calls
            else {}
        ),
        **({} if metrics is None else {"metrics": metrics}),
        **({} if is_asked else {"llm_call_count": 0}),
        **_extra({**_message_notes(message), **notes}),
    }
    return _dated(step, message)


def _thinking_notes(thoughts: Sequence[Block]) -> list[Block] | None:
    """Return the length and the other fields of each thought; None if there is one with only a text."""
    fields = [without(thought, "type", "thinking") for thought in thoughts]
    if len(thoughts) == 1 and not fields[0]:
        return None
    return [
        {"length": len(thought["thinking"]), **more} for thought, more in zip(thoughts, fields, strict=True)
    ]


def _message_notes(message: StandardMessage) -> dict[str, Any]:
    metadata = message.metadata
    notes = {
        "id": message.id,
        "messageId": metadata.message_id,
        "stopReason": metadata.stop_reason,
        "stopSequence": metadata.stop_sequence,
        "synthetic": metadata.synthetic or None,
        "sender": metadata.sender,
        "senderName": metadata.sender_name,
        "ranByToolUseId": metadata.ran_by_tool_use_id,
        "error": None if message.error is None else message.error.model_dump(),
    }
    return {name: value for name, value in notes.items() if value is not None}


def _call(block: Block, place: int, index: int) -> Block:
    arguments, id = block["input"], block.get("id")
    notes: dict[str, Any] = {}
    if not isinstance(arguments, dict):
        notes["hasBareInput"] = True
    if id is None:
        notes["hasNoId"] = True
    if more := without(block, "type", *(() if id is None else ("id",)), "name", "input"):
        notes["block"] = more
    return {
        "tool_call_id": f"call_{place}_{index}" if id is None else id,
        "function_name": block["name"],
        "arguments": arguments if isinstance(arguments, dict) else {"input": arguments},
        **_extra(notes),
    }


def _result(block: Block, media: "_Media", call: str | None, notes: Mapping[str, Any]) -> Block:
    content, content_notes = _result_content(block.get("content"), media)
    consumed = ("type", "tool_use_id", *(() if content is None else ("content",)))
    more = without(block, *consumed)
    return {
        **({} if call is None else {"source_call_id": call}),
        **({} if content is None else {"content": content}),
        **_extra({**notes, **content_notes, **({"block": more} if more else {})}),
    }


def _result_content(content: Any, media: "_Media") -> tuple[Any, dict[str, Any]]:
    """Return the content of a result as ATIF accepts it: a text or parts, and other values as JSON text."""
    if content is None or isinstance(content, str):
        return content, {}
    if isinstance(content, list) and all(_is_block(block) for block in content):
        parts, notes = _parts(content, media)
        return parts, notes
    return json.dumps(content, ensure_ascii=False), {"isJson": True}


def _is_block(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("type"), str) and is_valid(value)


def _content(blocks: Sequence[Block], media: "_Media") -> tuple[Any, dict[str, Any]]:
    """Return a message as text or parts, and its notes."""
    parts, notes = _parts(blocks, media)
    is_text = len(parts) == 1 and parts[0]["type"] == "text" and parts[0]["text"] and not notes
    return (parts[0]["text"] if is_text else parts or ""), notes


def _parts(blocks: Iterable[Block], media: "_Media") -> tuple[list[Block], dict[str, Any]]:
    """Return the parts of blocks. The notes have the other fields of each, and the blocks without a form in ATIF."""
    parts, fields, placed = list[Block](), list[Block](), list[Block]()
    for place, block in enumerate(blocks):
        part = _text_part(block) if block["type"] == "text" else media.part(block)
        if part is None:
            placed.append({"place": place, "block": block})
        else:
            parts.append(part)
            fields.append(
                without(block, "type", "text") if block["type"] == "text" else media.other_fields(block)
            )
    notes: dict[str, Any] = {"parts": fields} if any(fields) else {}
    return parts, notes | ({"blocks": placed} if placed else {})


def _text_part(block: Block) -> Block:
    return {"type": "text", "text": block["text"]}


class _Media:
    """Images and recordings: `data:` URLs, or files next to the document."""

    def __init__(self, folder: str | None) -> None:
        self._folder = folder
        self.files: dict[str, bytes] = {}
        self.has_audio = False

    def part(self, block: Block) -> Block | None:
        """Return the part of an image or a recording; None if ATIF does not accept its type or place."""
        kind = _kind_of_media(block)
        source = block.get("source") or {}
        media_type = _media_type(block)
        if kind is None or media_type not in MEDIA_TYPES[kind]:
            return None
        path = self._path(source, media_type)
        if path is None:
            return None
        self.has_audio |= kind == "audio"
        return {"type": kind, "source": {"media_type": media_type, "path": path}}

    def other_fields(self, block: Block) -> Block:
        """Return the fields of an image or a recording that its part does not have."""
        source = block["source"]
        kept = {"type", "media_type", "data" if source["type"] == "base64" else "url"}
        is_whole = source.keys() <= kept and source.get("media_type") == _media_type(block)
        return without(block, "type", *(("source",) if is_whole or source["type"] == "base64" else ()))

    def _path(self, source: Block, media_type: str) -> str | None:
        data, url = source.get("data"), source.get("url")
        if source.get("type") == "url" and isinstance(url, str) and not url.startswith("data:"):
            return url
        content = _decoded(data) if source.get("type") == "base64" else None
        if content is None:
            return None
        if self._folder is None:
            return f"data:{media_type};base64,{data}"
        path = f"{self._folder}/{len(self.files) + 1}.{media_type.partition('/')[2]}"
        self.files[path] = content
        return path


def _kind_of_media(block: Block) -> Literal["audio", "image"] | None:
    if block["type"] == "image":
        return "image"
    return "audio" if is_audio(block) else None


def _media_type(block: Block) -> str:
    declared = (block.get("source") or {}).get("media_type") or block.get("mimeType") or ""
    name = declared.strip().lower()
    return _MEDIA_TYPE_ALIASES.get(name, name)


def _decoded(data: Any) -> bytes | None:
    """Return the bytes of base64 text in its usual form, which gives the same text again."""
    try:
        content = b64decode(data, validate=True)
    except (binascii.Error, TypeError, ValueError):
        return None
    return content if b64encode(content).decode() == data else None


def _metrics(message: StandardMessage) -> Block | None:
    """Return the usage and cost of an answer. The prompt includes tokens that were read from or written to a cache."""
    cost = message.metadata.cost_usd
    counts = {} if message.usage is None else _counts(message.usage)
    metrics = {**counts, **({} if cost is None else {"cost_usd": cost})}
    return metrics or None


def _counts(usage: StandardTokenUsage) -> Block:
    read, written = usage.cache_read_input_tokens, usage.cache_creation_input_tokens
    extra = {"cache_creation_input_tokens": written, "reasoning_tokens": usage.reasoning_tokens}
    known = {name: count for name, count in extra.items() if count is not None}
    return {
        "prompt_tokens": usage.input_tokens + (read or 0) + (written or 0),
        "completion_tokens": usage.output_tokens,
        **({} if read is None else {"cached_tokens": read}),
        **({"extra": known} if known else {}),
    }


_TOTALS = {
    "total_prompt_tokens": "prompt_tokens",
    "total_completion_tokens": "completion_tokens",
    "total_cached_tokens": "cached_tokens",
    "total_cost_usd": "cost_usd",
}


def _final_metrics(steps: Sequence[Block]) -> Block | None:
    metrics = [step["metrics"] for step in steps if "metrics" in step]
    totals = {
        total: sum(each[name] for each in metrics if name in each)
        for total, name in _TOTALS.items()
        if any(name in each for each in metrics)
    }
    return {**totals, "total_steps": len(steps)} if totals else None


def _add_costs(document: Block, embedded: Iterable[Block]) -> None:
    """Add the costs of the subagents to the total cost, which includes them by the definition of ATIF."""
    costs = [cost for each in embedded if (cost := value_at(each, "final_metrics", "total_cost_usd"))]
    if costs:
        metrics = document.setdefault("final_metrics", {"total_steps": len(document["steps"])})
        metrics["total_cost_usd"] = metrics.get("total_cost_usd", 0) + sum(costs)


def _refer_to_agents(document: Block, agents: Mapping[str, Sequence[StandardMessage]]) -> None:
    """Refer to the trajectory of each subagent in the results of the call that started it."""
    by_call = {
        call: agent
        for agent, messages in agents.items()
        for message in messages
        if (call := message.metadata.parent_tool_use_id) is not None
    }
    for step in document["steps"]:
        for result in value_at(step, "observation", "results") or ():
            started = result.pop(_AGENT, None)
            agent = by_call.get(result.get("source_call_id"), started)
            if agent in agents:
                result["subagent_trajectory_ref"] = [{"trajectory_id": agent}]


_AGENT = "agent"
"""A temporary key of a result: the subagent that its call started."""


def _iso_time(milliseconds: int | None) -> str | None:
    """Return a time as ISO 8601; None if it is unknown or out of range."""
    if milliseconds is None:
        return None
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
    except (OSError, OverflowError, ValueError):
        return None
