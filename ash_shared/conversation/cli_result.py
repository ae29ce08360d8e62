"""Parse the output of an agent's CLI."""

import json
from collections.abc import Iterator
from itertools import chain
from typing import Any, Generic, Literal, TypeVar, overload

from pydantic import BaseModel, Field, ValidationError

from ash_shared.conversation.standard_messages import transform_messages
from ash_shared.conversation.transcript import split_transcript
from ash_shared.model.base import ABSENT, AshModel, Omittable
from ash_shared.model.content import TextContent, ToolUseContent
from ash_shared.model.message import MessageError, StandardMessage
from ash_shared.parsing.parsed_text import parse_raw
from ash_shared.records.json_text import decode_json, exact_text, is_blank, shown_text

T = TypeVar("T")
Model = TypeVar("Model", bound=BaseModel)


class ExecutionResponse(AshModel, Generic[T]):
    """The result of a CLI run."""

    data: T | None
    """The last answer: its text, or its JSON as the requested model. Null if there is none."""
    messages: list[StandardMessage]
    session_id: Omittable[str] = Field(default=ABSENT, alias="sessionId")
    """The CLI's session id, to resume the session."""
    status: Literal["success", "error"]
    """`error` if the process failed, the run ended with an error, or the answer does not fit the model."""
    exit_code: Omittable[int] = Field(default=ABSENT, alias="exitCode")
    duration: Omittable[float] = ABSENT
    """In seconds, as the caller measured it."""
    error: Omittable[MessageError] = ABSENT
    """The last error of the run; `invalid_response` if the answer does not fit the model."""


@overload
def parse_cli_output(
    stdout: str | bytes,
    source: str | None = None,
    *,
    duration: float | None = None,
    exit_code: int | None = None,
) -> "ExecutionResponse[str]": ...


@overload
def parse_cli_output(
    stdout: str | bytes,
    source: str | None = None,
    *,
    duration: float | None = None,
    exit_code: int | None = None,
    response_model: type[Model],
) -> "ExecutionResponse[Model]": ...


def parse_cli_output(
    stdout: str | bytes,
    source: str | None = None,
    *,
    duration: float | None = None,
    exit_code: int | None = None,
    response_model: type[BaseModel] | None = None,
) -> "ExecutionResponse[Any]":
    """Return the output of a run, which is JSONL, one JSON document or plain text. Never raises on texts.

    `duration` (in seconds) and `exit_code` are copied to the response if known. With a `response_model`, `data` is the
    first value that the model accepts: the run's `structured_output`, the input of its last `StructuredOutput` call,
    and the JSON in the last answer: the whole answer, a fenced block, or an object or list within the text.
    """
    stdout = exact_text(stdout)
    messages = _plain_answer(stdout) or list(map(_with_client_role, transform_messages(stdout, source)))
    answer = _last_answer(messages)
    data: Any = answer
    if response_model is not None:
        data = _parse_answer(_structured_outputs(stdout, messages), answer, response_model)
    invalid = data if isinstance(data, MessageError) else None
    error = invalid or _last_error(messages, exit_code)
    values = {
        "data": None if invalid else data,
        "messages": messages,
        "sessionId": _last_session(messages) or _first_session(stdout, source),
        "status": "success" if error is None else "error",
        "exitCode": exit_code,
        "duration": duration,
        "error": error,
    }
    kept = {key: value for key, value in values.items() if value is not None or key == "data"}
    return ExecutionResponse[Any].model_validate(kept)


def _last_answer(messages: list[StandardMessage]) -> str | None:
    for message in reversed(messages):
        texts = [block.text for block in message.content if isinstance(block, TextContent)]
        if message.role == "assistant" and any(texts):
            return "".join(texts)
    return None


def _plain_answer(stdout: str | bytes) -> list[StandardMessage]:
    """Return the output of a run as one message if it is plain text; no message if any line may be JSON."""
    lines = [parse_raw(text, None) for text in split_transcript(stdout) if not is_blank(text)]
    if not lines or any(line.record is not None or line.content.kind != "message" for line in lines):
        return []
    answer = transform_messages([shown_text(stdout).strip()])
    return [message.model_copy(update={"role": "assistant"}) for message in answer]


def _with_client_role(message: StandardMessage) -> StandardMessage:
    """Return a plain text between records, such as a warning, as a system message: it is not a prompt."""
    is_plain = all(isinstance(original, str) for original in message.original)
    return message.model_copy(update={"role": "system"}) if is_plain else message


def _last_error(messages: list[StandardMessage], exit_code: int | None) -> MessageError | None:
    """Return the error that the run ended with; errors before a later answer do not count."""
    ends = (message for message in reversed(messages) if message.role != "user")
    error = next((message.error for message in ends), None)
    if error is not None:
        return error
    if exit_code:
        return MessageError(code=f"exit_{exit_code}", message=f"The process ended with {exit_code}.")
    return None


def _last_session(messages: list[StandardMessage]) -> str | None:
    sessions = (message.metadata.session_id for message in reversed(messages))
    return next((session for session in sessions if isinstance(session, str)), None)


def _first_session(stdout: str | bytes, source: str | None) -> str | None:
    """Return the session id of a run without messages."""
    sessions = (parse_raw(text, source).header().session_id for text in split_transcript(stdout))
    return next(filter(None, sessions), None)


def _parse_answer(
    structured: Iterator[Any], answer: str | None, model: type[Model]
) -> Model | MessageError | None:
    problem: ValidationError | None = None
    for value in chain(structured, _json_values(answer or "")):
        try:
            return model.model_validate(value)
        except ValidationError as error:
            problem = problem or error
    if problem is None and answer is None:
        return None
    if problem is None:
        return MessageError(code="invalid_response", message="There is no JSON in the answer.")
    details = problem.errors(include_url=False, include_context=False, include_input=False)
    text = "The JSON in the answer does not fit."
    return MessageError(code="invalid_response", message=text, details=details)


def _structured_outputs(stdout: str | bytes, messages: list[StandardMessage]) -> Iterator[Any]:
    """Yield the structured outputs of a run of Claude, the last first."""
    records = [parse_raw(text, "claude").record or {} for text in split_transcript(stdout)]
    outputs = (record.get("structured_output") for record in reversed(records))
    yield from (output for output in outputs if output is not None)
    for block in reversed([block for message in messages for block in message.content]):
        if isinstance(block, ToolUseContent) and block.name == "StructuredOutput":
            yield block.input


_DECODER = json.JSONDecoder()
_MAX_TRIES = 1000


def _json_values(answer: str) -> Iterator[Any]:
    """Yield the JSON values in an answer, the likeliest first."""
    fenced = [piece.partition("\n")[2] for piece in answer.split("```")[1::2]]
    for text in (answer, *fenced, *_embedded_json(answer)):
        try:
            yield decode_json(text)
        except (ValueError, RecursionError):
            continue


def _embedded_json(answer: str) -> Iterator[str]:
    """Yield the texts of objects and lists in an answer, in order, within a budget proportional to its length."""
    start, budget = 0, 4 * len(answer) + 100_000
    for _ in range(_MAX_TRIES):
        places = [place for opening in "{[" if (place := answer.find(opening, start)) >= 0]
        if not places or budget < 0:
            return
        place, start = min(places), min(places) + 1
        try:
            _, start = _DECODER.raw_decode(answer, place)
            yield answer[place:start]
        except json.JSONDecodeError as error:
            budget -= error.pos - place
        except (ValueError, RecursionError):  # a number, or nesting, beyond what Python decodes
            budget -= _MAX_TRIES
