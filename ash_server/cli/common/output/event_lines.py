"""Readable view of events: streamed texts as they arrive, everything else in one line or a few."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from operator import itemgetter
from typing import Any

import msgspec
from rich.console import Console
from rich.text import Text

from ash_server.cli.common.output.terminal import visible
from ash_shared.model.event_types import CATALOGUE
from ash_shared.model.events import failure_of, text_of_json
from ash_shared.parsing.tool_names import MAIN_ARGUMENTS

PrintedEvent = Mapping[str, Any]
Payload = Mapping[str, Any]
_Key = tuple[str, Any, Any, Any]

_MAX_LINE_LENGTH = 160
_MAX_RESULT_LINES = 4
_MAX_TURN_MILLISECONDS = 24 * 60 * 60 * 1000
"""Longer durations are not shown: the recording set the start time of the turn, and the server its end time."""

_MARKS = {"user": "> ", "assistant": "● ", "thinking": "✻ "}
_STYLES = {"user": "bold cyan", "assistant": "default", "thinking": "dim italic"}


class EventPrinter:
    """Prints events as they arrive."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._open_line: _Key | None = None
        """The text on the current line, if the line has no newline yet."""
        self._streamed: dict[_Key, str] = {}
        """Streamed parts of incomplete texts."""
        self._turn_start_time = 0
        self._has_output = False

    def show(self, data: str) -> None:
        """Print an event in wire form."""
        event = msgspec.json.decode(data)
        _PRINTERS.get(event["type"], EventPrinter._print_headline)(self, event)

    def pause(self) -> None:
        """End the line of a streamed text, so that other output can follow."""
        if self._open_line is not None:
            self._open_line = None
            self._console.print()

    def restart(self) -> None:
        """Clear the screen and the state: the log was rebuilt, and all its events follow."""
        self.pause()
        self._streamed.clear()
        if not self._has_output:
            return
        if self._console.is_terminal:
            self._console.clear()
        self._print("the log was rebuilt", "dim", {})

    def _on_reset(self, event: PrintedEvent) -> None:
        self.restart()

    def _on_turn_start(self, event: PrintedEvent) -> None:
        self._turn_start_time = event["timestamp"]

    def _on_turn_end(self, event: PrintedEvent) -> None:
        start, self._turn_start_time = self._turn_start_time, 0
        duration = event["timestamp"] - start
        seconds = duration / 1000 if start and 0 <= duration <= _MAX_TURN_MILLISECONDS else None
        self._print(f"─ {_format_turn_end(event['payload'], seconds)}", "dim", event)
        self._streamed.clear()

    def _on_chunk(self, event: PrintedEvent) -> None:
        key = _text_key(event)
        self._print_text(key, event, event["payload"]["text"])
        self._streamed[key] = self._streamed.get(key, "") + event["payload"]["text"]

    def _on_text(self, event: PrintedEvent) -> None:
        """Print the rest of a complete text after the part that was already streamed."""
        key, payload = _text_key(event), event["payload"]
        text = _format_sender(payload) + (payload["text"] or _format_blocks(payload.get("content")))
        streamed = self._streamed.pop(key, "")
        start = text.find(streamed)
        has_joined_late = start > 0 and not self._turn_start_time
        if start == 0 or has_joined_late:
            text = text[start + len(streamed) :]
        else:
            self.pause()
        if text:
            self._print_text(key, event, text)
        self.pause()

    def _print_text(self, key: _Key, event: PrintedEvent, text: str) -> None:
        kind = key[0]
        if self._open_line != key:
            self.pause()
            self._open_line = key
            text = _MARKS[kind] + text
            self._print_open(
                _indent(event) + visible(text).replace("\n", f"\n{_indent(event)}  "), _STYLES[kind]
            )
        else:
            self._print_open(visible(text).replace("\n", f"\n{_indent(event)}  "), _STYLES[kind])

    def _on_tool_call(self, event: PrintedEvent) -> None:
        payload = event["payload"]
        call = Text.assemble(
            _indent(event),
            ("→ ", "cyan"),
            (visible(_one_line(payload["toolName"])), "bold cyan"),
            (f" {visible(_main_argument(payload['args']))}", "cyan"),
        )
        self.pause()
        self._has_output = True
        self._console.print(call, soft_wrap=True)

    def _on_tool_result(self, event: PrintedEvent) -> None:
        payload = event["payload"]
        failed = failure_of(payload) is not None
        lines = (_result_text(payload) or "(nothing)").strip("\n").split("\n")
        shown = [_truncate(line) for line in lines[:_MAX_RESULT_LINES]]
        if lines[_MAX_RESULT_LINES:]:
            shown.append(f"… {len(lines) - _MAX_RESULT_LINES:,} more lines")
        text = ("✗ " if failed else "  ") + "\n".join(shown).replace("\n", f"\n{_indent(event)}    ")
        self._print(f"  {text}", "red" if failed else "dim", event)

    def _on_error(self, event: PrintedEvent) -> None:
        self._print(f"✗ {headline(event)}", "bold red", event)

    def _on_interrupt(self, event: PrintedEvent) -> None:
        self._print(f"! {headline(event)}", "yellow", event)

    def _on_retraction(self, event: PrintedEvent) -> None:
        """Print nothing in the place of a deleted event, which is a retraction of itself."""
        if event["payload"].get("eventIds") != [event.get("id")]:
            self._print_headline(event)

    def _skip(self, event: PrintedEvent) -> None:
        """Print nothing: the complete call or result contains these chunks; chunks of speech are not readable."""

    def _print_headline(self, event: PrintedEvent) -> None:
        self._print(f"· {event['type']} {headline(event)}", "dim", event)

    def _print(self, text: str, style: str, event: PrintedEvent) -> None:
        self.pause()
        self._has_output = True
        self._console.print(Text(_indent(event) + visible(text), style), soft_wrap=True)

    def _print_open(self, text: str, style: str) -> None:
        self._has_output = True
        self._console.print(Text(text, style), soft_wrap=True, end="")


def headline(event: PrintedEvent) -> str:
    """Return an event's text in one line; it may contain control characters."""
    format_payload = _HEADLINES.get(event["type"]) or _to_json
    return _one_line(format_payload(event["payload"]))


def _text_key(event: PrintedEvent) -> _Key:
    kind = event["type"].partition("_")[0]
    return kind, event.get("turnId"), event.get("responseId"), event["payload"].get("parentToolCallId")


def _indent(event: PrintedEvent) -> str:
    """Indent events of subagents."""
    return "  │ " if event.get("payload", {}).keys() & {"parentToolCallId", "sidechain"} else ""


def _main_argument(args: Any) -> str:
    if isinstance(args, dict):
        main = next((args[name] for name in MAIN_ARGUMENTS if isinstance(args.get(name), str)), None)
        return _one_line(main if main is not None else _to_json(args) if args else "")
    return _one_line(args if isinstance(args, str) else _to_json(args))


def _result_text(payload: Payload) -> str:
    result = payload["result"]
    if isinstance(result, list):
        return "\n".join(map(_format_block, result))
    text = result if isinstance(result, str) else "" if result is None else _to_json(result)
    failure = failure_of(payload)
    return text or (failure.message if failure is not None else "")


def _format_blocks(content: Any) -> str:
    return " ".join(map(_format_block, content or ()))


def _format_block(block: Any) -> str:
    if isinstance(block, dict) and isinstance(block.get("text"), str):
        return str(block["text"])
    return f"[{block['type']}]" if isinstance(block, dict) and "type" in block else _to_json(block)


def _format_text(field: str, payload: Payload) -> str:
    return text_of_json(payload[field])


def _format_sender(payload: Payload) -> str:
    """Return the agent that sent a prompt, if no person did."""
    agent = payload.get("fromAgentId")
    return f"from {_one_line(agent)} · " if isinstance(agent, str) and agent else ""


def _format_prompt(payload: Payload) -> str:
    return _format_sender(payload) + text_of_json(payload["text"])


def _format_speech(payload: Payload) -> str:
    seconds = f"{payload['durationMs'] / 1000:.1f} s" if "durationMs" in payload else ""
    return payload.get("transcription") or seconds or _format_blocks(payload.get("content"))


def _format_turn_end(payload: Payload, seconds: float | None = None) -> str:
    usage = payload.get("usage") or {}
    facts = (
        "the turn was cut off" if payload.get("partial") else "the turn has ended",
        f"{usage['total_tokens']:,} tokens" if "total_tokens" in usage else None,
        f"${payload['costUsd']:.4f}" if "costUsd" in payload else None,
        f"{seconds:.1f} s" if seconds is not None else None,
    )
    return " · ".join(fact for fact in facts if fact)


def _format_error(payload: Payload) -> str:
    return f"{payload['code']}: {payload['message']}"


def _format_raw(payload: Payload) -> str:
    raw = payload["raw"]
    return raw if isinstance(raw, str) else _to_json(raw)


def _one_line(text: str) -> str:
    return _truncate(" ".join(text[: 4 * _MAX_LINE_LENGTH].split()))


def _truncate(text: str) -> str:
    return text if len(text) <= _MAX_LINE_LENGTH else f"{text[: _MAX_LINE_LENGTH - 1]}…"


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


_HEADLINES: Mapping[str, Callable[[Payload], str]] = {
    **{name: partial(_format_text, row.text) for name, row in CATALOGUE.items() if row.text is not None},
    "turn_start": itemgetter("trigger"),
    "turn_end": _format_turn_end,
    "tool_call": lambda payload: f"{payload['toolName']} {_main_argument(payload['args'])}",
    "tool_result": lambda payload: ("✗ " if failure_of(payload) else "") + _result_text(payload),
    "user_message": _format_prompt,
    "user_audio": lambda payload: _format_sender(payload) + _format_speech(payload),
    "audio_done": _format_speech,
    "interrupt": lambda payload: f"interrupted: {payload['reason']}",
    "error": _format_error,
    "raw": _format_raw,
}
"""By type; the payload as JSON for any other type."""

_PRINTERS: Mapping[str, Callable[[EventPrinter, PrintedEvent], None]] = {
    "reset": EventPrinter._on_reset,
    "turn_start": EventPrinter._on_turn_start,
    "turn_end": EventPrinter._on_turn_end,
    "user_message": EventPrinter._on_text,
    "assistant_chunk": EventPrinter._on_chunk,
    "assistant_done": EventPrinter._on_text,
    "thinking_chunk": EventPrinter._on_chunk,
    "thinking_done": EventPrinter._on_text,
    "tool_call": EventPrinter._on_tool_call,
    "tool_input_chunk": EventPrinter._skip,
    "tool_output_chunk": EventPrinter._skip,
    "tool_result": EventPrinter._on_tool_result,
    "audio_chunk": EventPrinter._skip,
    "interrupt": EventPrinter._on_interrupt,
    "retraction": EventPrinter._on_retraction,
    "error": EventPrinter._on_error,
}
"""By type; the headline for any other type."""
