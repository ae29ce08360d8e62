"""What is read: the sample files beside the repository, or a few messages made here where they are absent."""

import json
import re
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

CORPUS = Path(__file__).parents[2] / "shared" / "corpus"
CLAUDE_FAMILY = frozenset({"agent_sdk_stream", "anthropic_api", "claude_code_jsonl", "claude_stream_json"})

_WORDS = re.findall(
    r"\w+", "the test fails on one platform since its path has a space that the script has to quote"
)


class Samples(NamedTuple):
    lines: list[bytes]
    """User and assistant lines of sessions, in their natural order and proportion."""
    folders: dict[str, list[bytes]]
    """Every record, by the folder of its format."""
    origin: str


def load(*, smoke: bool) -> Samples:
    """Without the few records that are no JSON at all, which the decoders beside Ash refuse."""
    if smoke or not CORPUS.is_dir():
        lines = [dump(line) for line in islice(_conversation(), 60)]
        folders = {"claude_code_jsonl": lines, **_made_answers()}
        return Samples(lines, folders, "60 lines and 3 answers made by the bench itself")
    folders = {folder.name: list(_records(folder)) for folder in sorted(CORPUS.glob("*/"))}
    lines = [line for line in folders["claude_code_jsonl"] if of_type(line, "user", "assistant")]
    records = sum(map(len, folders.values()))
    return Samples(
        lines, folders, f"the {records} records of the corpus, {len(lines)} of them lines of the mix"
    )


def repeated(items: list[bytes], count: int) -> list[bytes]:
    return list(islice(cycle(items), count))


def dump(value: Any) -> bytes:
    """As the writers of these lines spell JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def of_type(line: bytes, *types: str) -> bool:
    record = json.loads(line)
    return (
        isinstance(record, dict) and record.get("type") in types and isinstance(record.get("message"), dict)
    )


def bare_messages(lines: list[bytes]) -> list[bytes]:
    """The messages of the API, complete, that are inside assistant lines."""
    messages = (json.loads(line)["message"] for line in lines if of_type(line, "assistant"))
    return [dump(message) for message in messages if message.keys() >= {"id", "model", "usage", "content"}]


def answers(records: list[bytes], key: str) -> list[bytes]:
    """Those that are whole answers of an API, by the key that has what they say."""
    return [raw for raw in records if isinstance(json.loads(raw).get(key), list)]


def with_new_key(line: bytes) -> bytes:
    """The line as a later version may write it: every block has a key nobody knows."""
    return _changed(line, lambda blocks: [{**block, "brand_new": {"n": 1}} for block in blocks])


def with_new_block(line: bytes) -> bytes:
    """Every message has one block nobody knows."""
    return _changed(line, lambda blocks: [*blocks, {"type": "brand_new", "data": {"n": 1, "of": "many"}}])


def _changed(line: bytes, change: Callable[[list[Any]], list[Any]]) -> bytes:
    record = json.loads(line)
    content = record["message"].get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if isinstance(content, list) and all(isinstance(block, dict) for block in content):
        record["message"]["content"] = change(content)
    return dump(record)


def _records(folder: Path) -> Iterator[bytes]:
    for path in sorted(folder.iterdir()):
        text = path.read_bytes()
        for record in [text] if path.suffix == ".json" else text.split(b"\n"):
            if _is_json(record):
                yield record


def _is_json(record: bytes) -> bool:
    try:
        json.loads(record)
    except ValueError:
        return False
    return True


def agent_line(number: int, size: int) -> str:
    """A line of a session of about so many bytes, as an agent writes it."""
    record = _line("assistant", number, [{"type": "text", "text": ""}])
    words = Random(number).choices(_WORDS, k=size // 5)
    record["message"]["content"][0]["text"] = " ".join(words)[: max(1, size - len(dump(record)))]
    return dump(record).decode()


def stream_line(number: int) -> str:
    """The nth event of a stream of answers, one behind the other, as the Messages API sends it."""
    answer, place = divmod(number, _PIECES)
    begins, ends = _frame_of_answer(answer)
    if place < len(begins):
        return dump(begins[place]).decode()
    if place >= _PIECES - len(ends):
        return dump(ends[place - _PIECES]).decode()
    delta = {"type": "text_delta", "text": " ".join(Random(number).choices(_WORDS, k=4)) + " "}
    return dump({"type": "content_block_delta", "index": 0, "delta": delta}).decode()


_PIECES = 300
"""Events of one answer: some 6 KB of text."""


def _frame_of_answer(number: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What comes ahead of the pieces of its text, and behind them."""
    usage = {"input_tokens": 12, "output_tokens": 1}
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5"}
    ended = {"stop_reason": "end_turn", "stop_sequence": None}
    return [
        {"type": "message_start", "message": {**message, "content": [], "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    ], [
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 1500}},
        {"type": "message_stop"},
    ]


def chunk_event(number: int) -> str:
    """An event of the log, as a proxy of an agent posts it: a piece of an answer, of about 300 bytes."""
    event = {
        "id": f"5b0c2e60-8f7e-4a53-9d55-{number:012x}",
        "timestamp": 1793611915002 + number,
        "sessionId": "0b8f1f2e-60aa-4a53-9d55-7c1e0d9c8f7e",
        "type": "assistant_chunk",
        "turnId": "7c1e0d9c-8f7e-4a53-9d55-60aa0b8f1f2e",
        "responseId": "msg_1",
        "payload": {"text": " ".join(Random(number).choices(_WORDS, k=10)) + " "},
    }
    return dump(event).decode()


def _conversation() -> Iterator[dict[str, Any]]:
    """Question, call and result, over and over."""
    random = Random(7)
    for number in range(10**6):
        said = " ".join(random.choices(_WORDS, k=30))
        printed = "\n".join(" ".join(random.choices(_WORDS, k=12)) for _ in range(random.randint(5, 60)))
        call = {"type": "tool_use", "id": f"toolu_{number}", "name": "Bash", "input": {"command": said}}
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": printed, "is_error": False}
        thought = {"type": "thinking", "thinking": said, "signature": "c2lnbmVk" * 20}
        yield _line("user", number, said)
        yield _line("assistant", number, [thought, {"type": "text", "text": said}])
        yield _line("assistant", number, [call])
        yield {**_line("user", number, [result]), "toolUseResult": {"stdout": printed, "stderr": ""}}


def _line(role: str, number: int, content: Any) -> dict[str, Any]:
    message: dict[str, Any] = {"role": role, "content": content}
    if role == "assistant":
        usage = {"input_tokens": 12, "output_tokens": 40, "cache_read_input_tokens": 31000}
        message = {"id": f"msg_{number}", "type": "message", "model": "claude-sonnet-4-5", **message}
        message |= {"stop_reason": "end_turn", "stop_sequence": None, "usage": usage}
    return {
        "parentUuid": f"7c1e0d9c-8f7e-4a53-9d55-{number:012x}",
        "isSidechain": False,
        "userType": "external",
        "cwd": "/home/user/project",
        "sessionId": "0b8f1f2e-60aa-4a53-9d55-7c1e0d9c8f7e",
        "version": "2.1.0",
        "gitBranch": "main",
        "type": role,
        "message": message,
        "uuid": f"5b0c2e60-8f7e-4a53-9d55-{number:012x}",
        "timestamp": "2026-11-02T09:31:55.002Z",
    }


def _made_answers() -> dict[str, list[bytes]]:
    """One answer of each other API, in the folder of its format."""
    said = "The test fails on one platform."
    message = {"role": "assistant", "content": said}
    item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed"}
    part = {"type": "output_text", "text": said, "annotations": []}
    made: dict[str, dict[str, Any]] = {
        "openai_chat_response": {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1762075915,
            "model": "gpt-5",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        },
        "openai_responses_response": {
            "id": "resp_1",
            "object": "response",
            "created_at": 1762075915,
            "model": "gpt-5",
            "output": [{**item, "content": [part]}],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
        },
        "gemini_api_response": {
            "candidates": [{"content": {"role": "model", "parts": [{"text": said}]}, "finishReason": "STOP"}],
            "modelVersion": "gemini-3-pro",
        },
    }
    return {folder: [dump(record)] for folder, record in made.items()}
