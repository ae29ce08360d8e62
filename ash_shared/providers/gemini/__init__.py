"""Google's Gemini API: `generateContent` with its requests, answers and stream, and the Interactions API.

Source: `Content`, `Candidate` and `GenerateContentResponse` of the `google-genai` package. A chunk of a stream is an
answer itself, and is read as one. Keys are in camel case over HTTP and in snake case where an SDK wrote them.
"""

from collections.abc import Callable, Mapping
from typing import Any

from ash_shared.model.blocks import (
    Block,
    bounded,
    is_native,
    raw_block,
    text_block,
    translate,
    translated,
    with_extra,
    without,
)
from ash_shared.model.message import Facts, Role
from ash_shared.providers._kit.contract import (
    Part,
    Provider,
    Record,
    RecordReading,
    single_message_part,
    speaker_of_role,
    unknown_reading,
)
from ash_shared.providers._kit.fingerprints import body_keys
from ash_shared.providers._kit.gemini_parts import (
    UsageKeys,
    gemini_usage,
    is_part,
    read_part,
    read_parts,
    value_in_either_case,
)
from ash_shared.providers._kit.json_fields import (
    first_text,
    is_one_of,
    message_error,
    text_at,
    to_milliseconds,
    value_at,
)
from ash_shared.providers._kit.steps import Settled, Step, Whole
from ash_shared.providers.gemini.interaction_steps import interaction_steps
from ash_shared.providers.gemini.interactions import (
    event_parts,
    interaction_parts,
    is_event,
    is_interaction,
    is_item,
    read_event,
    read_interaction,
    read_step,
    request_parts,
)
from ash_shared.providers.gemini.steps import answer_steps

_ROLES: Mapping[Any, Role] = {
    "assistant": "assistant",
    "function": "tool",
    "model": "assistant",
    "system": "system",
    "user": "user",
}


def _role(content: Any, otherwise: Role) -> Role:
    """The role of a content; of a tool where functions answer in it, and nothing else."""
    role = _ROLES.get(text_at(content, "role"), otherwise)
    parts = value_at(content, "parts")
    answers = parts.__class__ is list and parts and all(map(_is_answer, parts))
    return "tool" if answers and role == "user" else role


def _is_answer(part: Any) -> bool:
    return part.__class__ is dict and not part.keys().isdisjoint(("functionResponse", "function_response"))


def _read_content(content: Any) -> list[Block]:
    """The parts of a content; where only parts are asked for, a list of them or one of them is a content, too."""
    if content.__class__ is not dict or is_part(content):
        return read_parts(content)
    if content.get("parts") is not None:
        return read_parts(content["parts"])
    return [] if content.keys() <= {"role", "parts"} else [raw_block("malformed", content, "content")]


def _contents(record: Record) -> list[tuple[Role, Any]]:
    """The contents of a request with their roles, the system's first."""
    system, contents = (
        value_in_either_case(record, "systemInstruction", "system_instruction"),
        record["contents"],
    )
    said: list[tuple[Role, Any]] = [] if system is None else [("system", system)]
    listed = contents if contents.__class__ is list else [contents]
    return said + [(_role(content, "user"), content) for content in listed]


def _read_request(record: Record) -> RecordReading:
    blocks = [block for _, content in _contents(record) for block in _read_content(content)]
    return RecordReading("message", "user", bounded(blocks))


def _read_candidate(candidate: Any) -> list[Block]:
    if candidate.__class__ is not dict:
        return [raw_block("malformed", candidate, "candidate")]
    content, index = candidate.get("content"), candidate.get("index")
    blocks = [] if content is None else _read_content(content)
    return [with_extra(block, {"choice_index": index}) for block in blocks] if index else blocks


def _read_answer(record: Record) -> RecordReading:
    """An answer, or a chunk of one; where it says nothing, a block that holds it whole."""
    blocks = [block for candidate in record.get("candidates") or [] for block in _read_candidate(candidate)]
    return RecordReading("message", "assistant", bounded(blocks) or [raw_block("control", record)])


def _read_lone_content(record: Record) -> RecordReading:
    return RecordReading("message", _role(record, "user"), _read_content(record))


def _read_error(record: Record) -> RecordReading:
    return RecordReading("record", "system", translate("error", record["error"], _failure))


def _failure(told: Record) -> Block:
    return translated(told, text_block(told["message"], "error"), ("message",), "error")


def _is_answer_body(record: Record) -> bool:
    candidates = record.get("candidates")
    if candidates is not None:
        return candidates.__class__ is list and all(map(_is_candidate, candidates))
    return record.keys() <= _ANSWER_KEYS | _BESIDE


_ANSWER_KEYS = frozenset({"promptFeedback", "prompt_feedback", "usageMetadata", "usage_metadata"})
"""What an answer carries that has no candidates."""

_BESIDE = frozenset(
    {
        "createTime",
        "create_time",
        "modelVersion",
        "model_version",
        "responseId",
        "response_id",
    }
)


def _is_candidate(candidate: Any) -> bool:
    return candidate.__class__ is dict and "message" not in candidate


def _is_request(record: Record) -> bool:
    contents = record.get("contents")
    if contents.__class__ is list:
        return all(map(_is_asked, contents))
    return contents.__class__ is str or _is_asked(contents)


def _is_asked(content: Any) -> bool:
    return content.__class__ is str or is_part(content) or (content.__class__ is dict and "parts" in content)


def _is_lone_content(record: Record) -> bool:
    parts = record.get("parts")
    if parts.__class__ is not list or "type" in record or not is_one_of(record.get("role", "user"), _ROLES):
        return False
    if not parts:
        return record.keys() <= {"role", "parts"} and record.get("role", "user") in ("model", "user")
    return all(map(is_part, parts))


def _is_error_body(record: Record) -> bool:
    """An error of a Google API: the HTTP status and its name. Other vendors have no such pair."""
    told = record["error"]
    return told.__class__ is dict and told.get("code").__class__ is int and "status" in told


_FORMS: Mapping[str, tuple[Callable[[Record], bool], Callable[[Record], RecordReading]]] = {
    "candidates": (_is_answer_body, _read_answer),
    "contents": (_is_request, _read_request),
    "parts": (_is_lone_content, _read_lone_content),
    "event_type": (is_event, read_event),
    "object": (is_interaction, read_interaction),
    "error": (_is_error_body, _read_error),
    **dict.fromkeys(_ANSWER_KEYS, (_is_answer_body, _read_answer)),
}
"""By the key that tells a form from others: whether a record is of it, and what reads it."""


def _form(record: Record) -> str | None:
    for key, (is_of_form, _) in _FORMS.items():
        if key in record and is_of_form(record):
            return key
    return None


_BESIDE_FORMS: Mapping[str, frozenset[str]] = {
    "candidates": frozenset({"candidates"}),
    "contents": frozenset({"contents", "toolConfig"}),
    "event_type": frozenset({"error", "event_type", "object"}),
    "object": frozenset({"error", "input", "object"}),
    "parts": frozenset({"parts"}),
    "error": frozenset({"error"}),
}


def recognizes(record: Record) -> bool:
    """Whether a record is of the Gemini API."""
    if _FORMS.keys().isdisjoint(record) or (form := _form(record)) is None:
        return False
    return body_keys(record) <= _BESIDE_FORMS.get(form, frozenset())


def read(record: Record) -> RecordReading:
    """Any record of the API; a request for an interaction, too, which looks like another vendor's."""
    form = _form(record)
    if form is not None:
        return _FORMS[form][1](record)
    if "input" in record or "steps" in record or "outputs" in record:
        return read_interaction(record)
    if "parts" in record:
        return _read_lone_content(record)
    if is_part(record) and record:
        return RecordReading("message", "user", read_parts(record))
    return unknown_reading(record)


def read_block(block: Any) -> Block:
    """One part, or one item of an interaction."""
    if is_item(block) and not is_native(block):
        blocks = read_step(block)
        return blocks[0] if len(blocks) == 1 else raw_block("control", block, block["type"])
    return read_part(block)


def facts(record: Record) -> Facts:
    """What a record says of itself. An id of an answer is not the record's own: all chunks of it carry it."""
    body = record["interaction"] if record.get("interaction").__class__ is dict else record
    return Facts(
        timestamp=to_milliseconds(first_text(body, ("createTime", "create_time", "created"))),
        model=first_text(body, ("modelVersion", "model_version", "model")),
    )


def parts(record: Record, reading: RecordReading) -> list[Part]:
    """What a record adds to the standard messages."""
    form = _form(record)
    if form is None and "input" in record:
        return request_parts(record, reading)
    return _PARTS.get(form, single_message_part)(record, reading)


def _request_parts(record: Record, reading: RecordReading) -> list[Part]:
    return [
        Part(role=speaker_of_role(role), blocks=_read_content(content), original=content)
        for role, content in _contents(record)
    ]


_COUNTS = (
    UsageKeys(
        prompt="promptTokenCount",
        tool="toolUsePromptTokenCount",
        cached="cachedContentTokenCount",
        answer="candidatesTokenCount",
        thoughts="thoughtsTokenCount",
    ),
    UsageKeys(
        prompt="prompt_token_count",
        tool="tool_use_prompt_token_count",
        cached="cached_content_token_count",
        answer="candidates_token_count",
        thoughts="thoughts_token_count",
    ),
)


def _answer_usage(record: Record) -> Block | None:
    usage = value_in_either_case(record, "usageMetadata", "usage_metadata")
    tier = first_text(usage, ("serviceTier", "service_tier"))
    return gemini_usage(usage, _COUNTS[0], tier) or gemini_usage(usage, _COUNTS[1], tier)


def _answer_parts(record: Record, reading: RecordReading) -> list[Part]:
    """An answer. Chunks of older models name no answer that they are of, and go on the chunk before."""
    id = first_text(record, ("responseId", "response_id"))
    candidate = next(iter(record.get("candidates") or []), None)
    return [
        Part(
            role="assistant",
            blocks=[] if reading.blocks[0].get("raw") is record else reading.blocks,
            key=id,
            adjoins=id is None,
            usage=_answer_usage(record),
            metadata={
                "messageId": id,
                "model": first_text(record, ("modelVersion", "model_version")),
                "stop_reason": first_text(candidate, ("finishReason", "finish_reason")),
            },
            error=_blocked(record) or _failed(candidate),
        )
    ]


def _blocked(record: Record) -> Block | None:
    feedback = value_in_either_case(record, "promptFeedback", "prompt_feedback")
    reason = first_text(feedback, ("blockReason", "block_reason"))
    message = first_text(feedback, ("blockReasonMessage", "block_reason_message"))
    if reason is None and message is None:
        return None
    return message_error(reason or "promptFeedback", message, feedback)


_GOOD_ENDS = frozenset({"FINISH_REASON_UNSPECIFIED", "MAX_TOKENS", "STOP"})
"""Reasons to finish that are no errors; all others say that something kept the model from answering."""


def _failed(candidate: Any) -> Block | None:
    reason = first_text(candidate, ("finishReason", "finish_reason"))
    if reason is None or reason in _GOOD_ENDS:
        return None
    message = first_text(candidate, ("finishMessage", "finish_message"))
    return message_error(reason, message, without(candidate, "content"))


def _error_parts(record: Record, reading: RecordReading) -> list[Part]:
    told = record["error"]
    code = text_at(told, "status") or str(told["code"])
    return [
        Part(role="system", blocks=reading.blocks, error=message_error(code, text_at(told, "message"), told))
    ]


_PARTS: Mapping[str | None, Callable[[Record, RecordReading], list[Part]]] = {
    "candidates": _answer_parts,
    "contents": _request_parts,
    "error": _error_parts,
    "event_type": event_parts,
    "object": interaction_parts,
    **dict.fromkeys(_ANSWER_KEYS, _answer_parts),
}


def steps(record: Record, reading: RecordReading) -> list[Step] | None:
    """What a record adds to the log of events."""
    form = _form(record)
    return _STEPS[form](record, reading) if form in _STEPS else None


def _asked_steps(record: Record, reading: RecordReading) -> list[Step]:
    """What the user's side says: the answer before it is whole."""
    told = parts(record, reading)
    is_answer = any(block["type"] == "tool_result" for part in told for block in part.blocks)
    return [*([Settled()] if is_answer else []), *map(Whole, told)]


def _answered_steps(record: Record, reading: RecordReading) -> list[Step]:
    (part,) = _answer_parts(record, reading)
    return answer_steps(record, part)


_STEPS: Mapping[str | None, Callable[[Record, RecordReading], list[Step] | None]] = {
    "candidates": _answered_steps,
    "contents": _asked_steps,
    "event_type": interaction_steps,
    "object": interaction_steps,
    "parts": _asked_steps,
    **dict.fromkeys(_ANSWER_KEYS, _answered_steps),
}


PROVIDER = Provider(
    source="gemini",
    recognizes=recognizes,
    marks=_FORMS.keys(),
    read=read,
    read_block=read_block,
    facts=facts,
    parts=parts,
    steps=steps,
)
