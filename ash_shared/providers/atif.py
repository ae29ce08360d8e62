"""ATIF, the Agent Trajectory Interchange Format: a run of an agent as one JSON document.

Source: Harbor's RFC 0001 and its models (`harbor.models.trajectories`), versions 1.0 to 1.8, and captured documents.
A step is a message of the system or the user, or an answer with its calls and their results. Harbor rejects unknown
keys; other writers add some (Devin: `metadata` of a step), and they are in `extra`. The trajectories in
`subagent_trajectories` are documents of their own, which `ash import` stores as sessions.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import chain, groupby
from typing import Any, NamedTuple

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
    with_extra,
    without,
)
from ash_shared.model.message import Identity, RecordHeader
from ash_shared.records.atif_notes import (
    CALL_NOTES,
    RESULT_NOTES,
    STEP_NOTES,
    NotesDoNotFit,
    in_noted_order,
    notes_of,
    split_text,
    with_noted_blocks,
    with_noted_fields,
    without_notes,
)
from ash_shared.records.contract import Marks, ParsedRecord, Part, Provider, Record, Speaker, WireType
from ash_shared.records.documents import keyed_part
from ash_shared.records.fingerprints import body_keys
from ash_shared.records.json_fields import (
    cost_at,
    count_at,
    decode_arguments,
    first_count,
    is_one_of,
    items_at,
    latest_time,
    list_or_empty,
    mime_fields,
    subtract_counts,
    text_at,
    to_milliseconds,
    token_usage,
    url_source,
    value_at,
)
from ash_shared.records.steps import (
    CurrentAgent,
    DocumentStart,
    Emit,
    MessageSender,
    Origin,
    Step,
    TurnEnd,
)

_FOREIGN_KEYS = frozenset({"role", "segments"})
"""Keys of messages and transcriptions, which other providers recognise without a type."""
_ROLES: Mapping[str, Speaker] = {"agent": "assistant", "system": "system", "user": "user"}
_AGENT_KEYS = ("llm_call_count", "metrics", "model_name", "reasoning_content", "tool_calls")
"""Keys that only steps of the agent have."""
_BULK_METRICS = ("completion_token_ids", "logprobs", "prompt_token_ids")
"""Lists with a value for each token. They are not counts, and stay in the step."""


def recognize(record: Record) -> WireType | None:
    version = record.get("schema_version")
    is_trajectory = (
        isinstance(version, str)
        and version.startswith("ATIF-v")
        and isinstance(record.get("steps"), list)
        and _FOREIGN_KEYS.isdisjoint(record)
        and not body_keys(record)
    )
    return _TRAJECTORY if is_trajectory else None


def _parse_trajectory(record: Record) -> ParsedRecord:
    """Return the blocks of the head, of all steps, and one for each embedded trajectory."""
    blocks = [raw_block("control", without(record, "steps", "subagent_trajectories"), "trajectory")]
    for step in list_or_empty(record["steps"]):
        blocks += [block for section in _sections(step) for block in section.blocks]
    embedded = list_or_empty(record.get("subagent_trajectories"))
    blocks += [raw_block("control", trajectory, "subagent_trajectory") for trajectory in embedded]
    return ParsedRecord("message", "user", bounded(blocks))


# Blocks of a step.


class _Section(NamedTuple):
    """Blocks of a step that belong to one message."""

    role: Speaker
    blocks: list[Block]
    timestamp: int | None
    is_own: bool = False
    """True for the message of the step; the others are results."""


def _sections(step: Any) -> list[_Section]:
    """Return the message of a step, the results of its calls, and reports of the environment without a call."""
    if not isinstance(step, dict):
        return [_Section("system", [raw_block("malformed", step, "step")], None, is_own=True)]
    results = [
        (result, block)
        for result in items_at(step, "observation", "results")
        for block in _translate("result", result, _translate_result)
    ]
    inline = [block for result, block in results if _is_inline(result)]
    own = _translate("step", step, lambda each, notes: _own_blocks(each, inline, notes))
    time = _step_time(step)
    is_message = bool(own) or "id" in notes_of(step)
    sections = [_Section(_role_of(step), own, time, is_own=True)] if is_message else []
    others = [
        (_result_place(result, block, time), block) for result, block in results if not _is_inline(result)
    ]
    for (role, result_time), group in groupby(others, key=lambda placed: placed[0]):
        sections.append(_Section(role, [block for _, block in group], result_time))
    return sections


def _translate(wire_type: str, value: Any, translation: Callable[[Any, Block], Any]) -> list[Block]:
    """Return the blocks of an object with its notes. Notes that do not fit have no effect, and stay in its `extra`."""
    notes = notes_of(value)
    try:
        return translate(wire_type, value, lambda each: translation(each, notes))
    except NotesDoNotFit:
        return translate(wire_type, value, lambda each: translation(each, {}))


def _is_inline(result: Any) -> bool:
    """True for a result in the answer itself, such as the result of a tool that the vendor runs."""
    return notes_of(result).get("isInline") is True


def _result_place(result: Any, block: Block, step_time: int | None) -> tuple[Speaker, int | None]:
    notes = notes_of(result)
    time = to_milliseconds(notes["timestamp"]) if "timestamp" in notes else step_time
    return "user" if block["type"] == "tool_result" else "system", time


def _role_of(step: Record) -> Speaker:
    """Return the speaker of a step. A step with an unknown source is the agent's if it has keys of the agent."""
    source = step.get("source")
    if isinstance(source, str) and source in _ROLES:
        return _ROLES[source]
    return "assistant" if any(step.get(key) is not None for key in _AGENT_KEYS) else "system"


def _own_blocks(step: Record, inline_results: list[Block], notes: Block) -> list[Block]:
    """Return the reasoning, message and calls of a step. The other fields are in `extra` of the first block."""
    thoughts = _thoughts(step, notes)
    calls = [block for call in list_or_empty(step.get("tool_calls")) for block in _call_blocks(call, step)]
    others = [*thoughts, *calls, *inline_results]
    is_noted = notes.get("isEmpty") is True or "blocks" in notes
    has_content = bool(others) or is_noted or bool(items_at(step, "observation", "results"))
    message = with_noted_blocks(_message_blocks(step, is_optional=has_content), notes)
    blocks = in_noted_order([*thoughts, *message, *calls, *inline_results], notes)
    rest = _other_fields(step, notes)
    if not blocks and rest:
        return [raw_block("control", rest, "step")]
    return [with_extra(blocks[0], rest), *blocks[1:]] if blocks else []


_CONSUMED = frozenset(
    {"message", "metrics", "model_name", "reasoning_content", "step_id", "timestamp", "tool_calls"}
)
"""Keys of a step that become blocks, or the time, model and usage of its message."""


def _other_fields(step: Record, notes: Block) -> Block:
    fields = without_notes(step, STEP_NOTES) if notes else step
    rest = {key: value for key, value in fields.items() if key not in _CONSUMED}
    observation = rest.pop("observation", None)
    more = without(observation, "results") if isinstance(observation, dict) else None
    if is_one_of(rest.get("source"), _ROLES):
        del rest["source"]
    if notes:
        rest.pop("llm_call_count", None)  # the executor of the calls states the same
        rest.pop("is_copied_context", None)  # in the metadata
    return {**rest, "observation": more} if more else rest


def _thoughts(step: Record, notes: Block) -> list[Block]:
    text = step.get("reasoning_content")
    if text is None:
        return []
    return [
        {"type": "thinking", "thinking": thought, **fields} for thought, fields in split_text(text, notes)
    ]


def _message_blocks(step: Record, *, is_optional: bool) -> list[Block]:
    """Return the parts of the message. An empty text next to other content is only a placeholder."""
    message = step.get("message", "")
    if isinstance(message, list):
        return [_parse_part(part) for part in message]
    if message == "" and is_optional:
        return []
    return [text_block(message, "notice" if _context_change(step) is not None else None)]


def _context_change(step: Any) -> str | None:
    """Return how the agent's program changed the context, such as by a compaction."""
    return text_at(step, "extra", "context_management", "type")


def _parse_part(part: Any) -> Block:
    wire_type = text_at(part, "type")
    if wire_type is not None and wire_type in _PART_TRANSLATIONS:
        return translate(wire_type, part, _PART_TRANSLATIONS[wire_type])[0]
    return text_block(part) if isinstance(part, str) else raw_block("unknown_type", part, wire_type)


def _translate_text(part: Block) -> Block:
    extra = _present(part, "type", "text")
    return {**text_block(part["text"]), **({"extra": extra} if extra else {})}


def _translate_image(part: Block) -> Block:
    return _media_block(part, {"type": "image"})


def _translate_audio(part: Block) -> Block:
    return _media_block(part, {"type": "file", **mime_fields(part["source"]["media_type"])})


def _media_block(part: Block, typed: Block) -> Block:
    """Return the block of an image or a recording at a path relative to the document, or at a URL."""
    source = part["source"]
    place = {**url_source(source["path"]), "media_type": source["media_type"]}
    more = _present(source, "media_type", "path")
    rest = {**_present(part, "type", "source"), **({"source": more} if more else {})}
    return translated(rest, {**typed, "source": place}, (), part["type"])


def _present(fields: Block, *consumed: str) -> Block:
    """Return the fields that are not consumed. Optional fields may be written as null, and are then left out."""
    return {key: value for key, value in fields.items() if value is not None and key not in consumed}


_PART_TRANSLATIONS = {"audio": _translate_audio, "image": _translate_image, "text": _translate_text}


def _call_blocks(call: Any, step: Record) -> list[Block]:
    is_of_program = step.get("llm_call_count") == 0 and "ranByToolUseId" not in notes_of(step)
    return _translate(
        "tool_call", call, lambda each, notes: _translate_call(each, notes, is_of_program=is_of_program)
    )


def _translate_call(call: Block, notes: Block, *, is_of_program: bool) -> Block:
    """Translate a call. Its executor is `host` if the agent's program made it without the model."""
    arguments = call["arguments"]
    is_bare = notes.get("hasBareInput") is True and arguments.keys() == {"input"}
    typed = {
        "type": "tool_use",
        **({} if notes.get("hasNoId") is True else renamed(call, id="tool_call_id")),
        "name": call["function_name"],
        "input": arguments["input"] if is_bare else arguments,
        **({"executor": "host"} if is_of_program else {}),
    }
    rest = _present(without_notes(call, CALL_NOTES) if notes else call)
    block = translated(rest, typed, ("tool_call_id", "function_name", "arguments"), "tool_call")
    return with_noted_fields(block, notes.get("block"))


def _translate_result(result: Block, notes: Block) -> Block | list[Block]:
    """Translate the result of a call; a result without a call is a report of the environment."""
    call = pick(notes, "toolUseId") or renamed(result, toolUseId="source_call_id")
    has_no_call = notes.get("hasNoCall") is True
    if call.get("toolUseId") is None and "toolUseId" not in notes and not has_no_call:
        return _environment_blocks(result)
    typed = {
        "type": "tool_result",
        **({} if has_no_call else renamed(call, tool_use_id="toolUseId")),
        **({} if result.get("content") is None else {"content": _result_content(result["content"], notes)}),
    }
    rest = _present(without_notes(result, RESULT_NOTES) if notes else result)
    block = translated(rest, typed, ("source_call_id", "content"), "result")
    return with_noted_fields(block, notes.get("block"))


def _result_content(content: Any, notes: Block) -> Any:
    if isinstance(content, str):
        return decode_arguments(content) if notes.get("isJson") is True else content
    return with_noted_blocks([_parse_part(part) for part in list_or_empty(content)], notes)


def _environment_blocks(result: Block) -> list[Block]:
    content = result.get("content")
    parts = [
        _parse_part(part) for part in ([content] if isinstance(content, str) else list_or_empty(content))
    ]
    if not parts:
        return [raw_block("control", result, "result")]
    blocks = [{**block, "variant": "notice"} if block["type"] == "text" else block for block in parts]
    rest = _present(result, "content")
    return [with_extra({**blocks[0], "source_type": "result"}, rest), *blocks[1:]]


def parse_block(block: Any) -> Block:
    """Parse one part of a message."""
    return block if is_native(block) else _parse_part(block)


# Messages.


def _trajectory_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    return [part for step, key in _keyed_steps(record) for part in _step_parts(step, key)]


def _keyed_steps(record: Record) -> Iterator[tuple[Any, str | None]]:
    """Yield each step with its name in all versions of the document, if it has one."""
    name = _name_of(record)
    for number, step in enumerate(record["steps"], 1):
        yield step, None if name is None else f"{name}/{number}"


def _name_of(record: Record) -> str | None:
    """Return a name that all versions of a document have: its id, or else its run and first time.

    The documents of a run have the same `session_id`, and each begins with step 1.
    """
    run, begin = text_at(record, "session_id"), next(iter(_times(record)), None)
    name = f"{run}/{begin}" if run is not None and begin is not None else None
    return text_at(record, "trajectory_id") or name


def _times(record: Record) -> list[int]:
    return [time for step in items_at(record, "steps") if (time := _step_time(step)) is not None]


def _step_parts(step: Any, key: str | None) -> list[Part]:
    """Return the parts of a step. With a key, a later version of the document replaces them."""
    notes = notes_of(step)
    caller, is_copied = text_at(notes, "ranByToolUseId"), _is_copied(step)
    parts = []
    for number, section in enumerate(_sections(step)):
        name = f"{key}/{number}" if number else key
        noted_id = text_at(notes, "id") if section.is_own else None
        sender = _sender(notes) if section.is_own else None
        part = Part(
            role=section.role,
            blocks=section.blocks,
            origin=_origin(step, sender) if section.is_own else "prompt",
            sender=sender,
            header=RecordHeader(uuid=noted_id or name, timestamp=section.timestamp),
            is_undated=section.timestamp is None,
            original=step,
            parent_call=caller,
            metadata={"inherited": is_copied or None, "ranByToolUseId": caller},
        )
        part = part if key is None else _keyed(part, key, number, is_own=section.is_own)
        parts.append(_with_answer_fields(part, step) if section.is_own else part)
    return parts


def _keyed(part: Part, key: str, number: int, *, is_own: bool) -> Part:
    """Return the part as the section of a message."""
    has_results = not is_own and all(block["type"] == "tool_result" for block in part.blocks)
    own = key if is_own else f"{key}/{number}"
    section = f"{key}/calls" if is_own or has_results else own
    return keyed_part(part, own, section, has_results=has_results)


def _is_copied(step: Any) -> bool:
    return value_at(step, "is_copied_context") is True


def _sender(notes: Block) -> MessageSender | None:
    kind = text_at(notes, "sender")
    return None if kind is None else MessageSender(kind, text_at(notes, "senderName"))


def _origin(step: Any, sender: MessageSender | None) -> Origin:
    """Return the origin of a message. A copied message is no prompt, because it was one in the trajectory before."""
    is_of_program = sender is not None and sender.is_program
    if _is_copied(step):
        return "synthetic" if is_of_program or _is_synthetic(step) else "mid_turn"
    if is_of_program:
        return "program"
    return "synthetic" if _is_synthetic(step) else "prompt"


def _with_answer_fields(part: Part, step: Any) -> Part:
    """Return the part with the model, usage and error of its step. A copied step counts in the trajectory before."""
    notes = notes_of(step)
    if part.role != "assistant":
        noted = pick(notes, "metrics")
        return replace(
            part, usage=_usage(noted), cost=cost_at(noted, "metrics", "cost_usd"), error=_error(notes)
        )
    is_counted = step.get("llm_call_count") != 0 and not _is_copied(step)
    return replace(
        part,
        usage=_usage(step) if is_counted else None,
        cost=cost_at(step, "metrics", "cost_usd") if is_counted else None,
        message_id=text_at(notes, "messageId") or text_at(step, "metadata", "request_id"),
        metadata={
            **part.metadata,
            "model": text_at(step, "model_name") or text_at(step, "metadata", "generation_model"),
            "stop_reason": text_at(notes, "stopReason"),
            "stop_sequence": text_at(notes, "stopSequence"),
        },
        error=_error(notes),
    )


def _error(notes: Block) -> Block | None:
    error = notes.get("error")
    return error if isinstance(error, dict) and text_at(error, "code") is not None else None


def _is_synthetic(step: Any) -> bool:
    """True if neither the person nor the model wrote the step."""
    return notes_of(step).get("synthetic") is True or value_at(step, "metadata", "is_user_input") is False


def _step_time(step: Any) -> int | None:
    created = value_at(step, "metadata", "created_at")
    return to_milliseconds(value_at(step, "timestamp")) or to_milliseconds(created)


def _usage(step: Record) -> Block | None:
    """Return the usage of a step. The prompt includes tokens that were read from or written to a cache."""
    metrics = step.get("metrics")
    if not isinstance(metrics, dict):
        return _devin_usage(value_at(step, "metadata", "metrics"))
    cached, written = count_at(metrics, "cached_tokens"), first_count(metrics.get("extra"), *_CACHE_WRITES)
    return token_usage(
        without(metrics, *_BULK_METRICS),
        input=subtract_counts(count_at(metrics, "prompt_tokens"), cached, written),
        output=count_at(metrics, "completion_tokens"),
        cache_read=cached,
        cache_creation=written,
        reasoning=first_count(metrics.get("extra"), *_REASONING),
    )


_CACHE_WRITES = ("cache_creation_input_tokens", "cache_write_input_tokens")
"""Counts in `extra` that are included in the prompt, under the names of Harbor's converters."""
_REASONING = ("reasoning_tokens", "reasoning_output_tokens", "thoughts_tokens")


def _devin_usage(metrics: Any) -> Block | None:
    """Return the usage in Devin's own field. Its input does not include cached tokens."""
    return token_usage(
        metrics,
        input=count_at(metrics, "input_tokens"),
        output=count_at(metrics, "output_tokens"),
        cache_read=count_at(metrics, "cache_read_tokens"),
        cache_creation=count_at(metrics, "cache_creation_tokens"),
    )


# Events.


def _trajectory_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    """Return the steps of a document. It contains a whole run, so its last turn has ended."""
    name = text_at(record, "agent", "name")
    agent: list[Step] = [] if name is None else [CurrentAgent(name)]
    elements = [(step, [*_event_steps(step, key)]) for step, key in _keyed_steps(record)]
    key = _name_of(record)
    start = [] if key is None else [DocumentStart(key, [(step, len(steps)) for step, steps in elements])]
    steps = chain.from_iterable(steps for _, steps in elements)
    return [*agent, *start, *steps, *_continuation(record), TurnEnd()]


def _event_steps(step: Any, key: str | None) -> Iterator[Step]:
    is_change = _context_change(step) is not None and _role_of(step) == "system"
    agents = _agents_by_call(step)
    for number, part in enumerate(_step_parts(step, key)):
        if is_change and number == 0:
            payload = {"text": _joined(part), "variant": "compact_boundary"}
            yield Emit("system_message", payload, key=key or "")
        else:
            yield _as_event(_with_agents(part, agents) if agents else part)


def _as_event(part: Part) -> Part:
    """Return the part for the log. A copied message is `synthetic` there: it begins no turn. A part with a key is
    compared with its earlier version, not with all messages of earlier documents."""
    return replace(
        part,
        origin="synthetic" if part.origin == "mid_turn" else part.origin,
        original=part.original if part.key is None else None,
    )


def _continuation(record: Record) -> Iterator[Step]:
    """Yield a notice with the file that continues the trajectory."""
    file = text_at(record, "continued_trajectory_ref")
    if file is not None:
        text = f"Continued in {file}"
        yield Emit("system_message", {"text": text, "variant": "notice"}, key=f"continued/{text}")


def _joined(part: Part) -> str:
    return "\n\n".join(block["text"] for block in part.blocks if block["type"] == "text")


def _agents_by_call(step: Any) -> Mapping[str, str]:
    """Return the embedded trajectories of subagents, by the call that started them."""
    refs = (
        (text_at(result, "source_call_id"), text_at(ref, "trajectory_id"))
        for result in items_at(step, "observation", "results")
        for ref in items_at(result, "subagent_trajectory_ref")
    )
    return {call: agent for call, agent in refs if call is not None and agent is not None}


def _with_agents(part: Part, agents: Mapping[str, str]) -> Part:
    return replace(part, blocks=[_with_agent(block, agents) for block in part.blocks])


def _with_agent(block: Block, agents: Mapping[str, str]) -> Block:
    agent = agents.get(text_at(block, "tool_use_id") or "")
    return block if agent is None else {**block, "agent_id": agent}


# The document.


def header(record: Record) -> RecordHeader:
    """Return the header of a document. One without a session id is embedded in the document of another agent."""
    times = _times(record)
    session, trajectory = text_at(record, "session_id"), text_at(record, "trajectory_id")
    return RecordHeader(
        timestamp=times[0] if times else None,
        session_id=session or trajectory,
        client_version=text_at(record, "agent", "version"),
        model=text_at(record, "agent", "model_name"),
        agent=trajectory if session is None else None,
        last_timestamp=latest_time(times),
    )


def identify(record: Record) -> Identity:
    return Identity(agent=text_at(record, "trajectory_id"), record=_name_of(record))


_TRAJECTORY = WireType(_parse_trajectory, _trajectory_parts, _trajectory_steps)

PROVIDER = Provider(
    source="atif",
    recognize=recognize,
    marks=Marks(untyped_keys={"schema_version"}),
    wire_type=lambda record: _TRAJECTORY,
    parse_block=parse_block,
    header=header,
    identify=identify,
)
