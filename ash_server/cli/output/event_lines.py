"""The events of a session as a person reads them: what was said as it is said, and the rest in a line or a few."""

import json
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any

import msgspec
from rich.console import Console
from rich.text import Text

from ash_server.cli.output.terminal import visible

Event = Mapping[str, Any]
Payload = Mapping[str, Any]
_Key = tuple[str, Any, Any, Any]

_LONGEST_LINE = 160
_MOST_LINES = 4
_LONGEST_TURN = 24 * 60 * 60 * 1000
"""Milliseconds. What seems to take longer began by the recording's clock and ended by the server's."""

_MAIN = (
    "command",
    "cmd",
    "pattern",
    "query",
    "file_path",
    "filePath",
    "path",
    "url",
    "description",
    "prompt",
    "name",
)
"""Which argument of a call tells most, the first of them that there is."""

_MARKS = {"user": "> ", "assistant": "● ", "thinking": "✻ "}
_STYLES = {"user": "bold cyan", "assistant": "default", "thinking": "dim italic"}


class Story:
    """Writes it, one event after the other."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._line: _Key | None = None
        """What is being said on the line that has no end yet."""
        self._said: dict[_Key, str] = {}
        """What was said in pieces, of what is not whole yet."""
        self._turn_began = 0
        self._has_shown = False

    def show(self, data: str) -> None:
        """An event as the wire has it."""
        event = msgspec.json.decode(data)
        _SHOW.get(event["type"], Story._line_of)(self, event)

    def pause(self) -> None:
        """Ends the line, for somebody else to write."""
        if self._line is not None:
            self._line = None
            self._console.print()

    def restart(self) -> None:
        """What was shown, if anything was, is an older reading."""
        self.pause()
        self._said.clear()
        if not self._has_shown:
            return
        if self._console.is_terminal:
            self._console.clear()
        self._print("the log begins anew", "dim", {})

    def _reset(self, event: Event) -> None:
        self.restart()

    def _turn_start(self, event: Event) -> None:
        self._turn_began = event["timestamp"]

    def _turn_end(self, event: Event) -> None:
        began, self._turn_began = self._turn_began, 0
        took = event["timestamp"] - began
        seconds = took / 1000 if began and 0 <= took <= _LONGEST_TURN else None
        self._print(f"─ {_end_of(event['payload'], seconds)}", "dim", event)
        self._said.clear()

    def _chunk(self, event: Event) -> None:
        key = _key(event)
        self._say(key, event, event["payload"]["text"])
        self._said[key] = self._said.get(key, "") + event["payload"]["text"]

    def _done(self, event: Event) -> None:
        """The rest of what was said in pieces, or all of it."""
        key, whole = _key(event), event["payload"]["text"] or _blocks(event["payload"].get("content"))
        said = self._said.pop(key, "")
        if not whole.startswith(said):
            self.pause()
            said = ""
        if whole[len(said) :]:
            self._say(key, event, whole[len(said) :])
        self.pause()

    def _say(self, key: _Key, event: Event, text: str) -> None:
        kind = key[0]
        if self._line != key:
            self.pause()
            self._line = key
            text = _MARKS[kind] + text
            self._put(_indent(event) + visible(text).replace("\n", f"\n{_indent(event)}  "), _STYLES[kind])
        else:
            self._put(visible(text).replace("\n", f"\n{_indent(event)}  "), _STYLES[kind])

    def _call(self, event: Event) -> None:
        payload = event["payload"]
        call = Text.assemble(
            _indent(event),
            ("→ ", "cyan"),
            (visible(_one_line(payload["toolName"])), "bold cyan"),
            (f" {visible(_argument(payload['args']))}", "cyan"),
        )
        self.pause()
        self._has_shown = True
        self._console.print(call, soft_wrap=True)

    def _result(self, event: Event) -> None:
        payload = event["payload"]
        failed = "error" in payload
        lines = (_result_text(payload) or "(nothing)").strip("\n").split("\n")
        shown = [_cut(line) for line in lines[:_MOST_LINES]]
        if lines[_MOST_LINES:]:
            shown.append(f"… {len(lines) - _MOST_LINES:,} lines more")
        marked = ("✗ " if failed else "  ") + "\n".join(shown).replace("\n", f"\n{_indent(event)}    ")
        self._print(f"  {marked}", "red" if failed else "dim", event)

    def _error(self, event: Event) -> None:
        self._print(f"✗ {headline(event)}", "bold red", event)

    def _notice(self, event: Event) -> None:
        self._print(f"! {headline(event)}", "yellow", event)

    def _nothing(self, event: Event) -> None:
        """Pieces of arguments and of output: the call and its result tell them."""

    def _line_of(self, event: Event) -> None:
        self._print(f"· {event['type']} {headline(event)}", "dim", event)

    def _print(self, text: str, style: str, event: Event) -> None:
        self.pause()
        self._has_shown = True
        self._console.print(Text(_indent(event) + visible(text), style), soft_wrap=True)

    def _put(self, text: str, style: str) -> None:
        self._has_shown = True
        self._console.print(Text(text, style), soft_wrap=True, end="")


def headline(event: Event) -> str:
    """What an event says, in one line; it may hold what steers a terminal."""
    say = _HEADLINES.get(event["type"]) or _compact
    return _one_line(say(event["payload"]))


def _key(event: Event) -> _Key:
    kind = event["type"].partition("_")[0]
    return kind, event.get("turnId"), event.get("responseId"), event["payload"].get("parentToolCallId")


def _indent(event: Event) -> str:
    """What a subagent does stands further in."""
    return "  │ " if event.get("payload", {}).keys() & {"parentToolCallId", "sidechain"} else ""


def _argument(args: Any) -> str:
    if isinstance(args, dict):
        main = next((args[name] for name in _MAIN if isinstance(args.get(name), str)), None)
        return _one_line(main if main is not None else _compact(args) if args else "")
    return _one_line(args if isinstance(args, str) else _compact(args))


def _result_text(payload: Payload) -> str:
    result = payload["result"]
    if isinstance(result, list):
        return "\n".join(map(_block_text, result))
    text = result if isinstance(result, str) else "" if result is None else _compact(result)
    return text or payload.get("error", {}).get("message", "")


def _blocks(content: Any) -> str:
    return " ".join(map(_block_text, content or ()))


def _block_text(block: Any) -> str:
    if isinstance(block, dict) and isinstance(block.get("text"), str):
        return str(block["text"])
    return f"[{block['type']}]" if isinstance(block, dict) and "type" in block else _compact(block)


def _end_of(payload: Payload, seconds: float | None = None) -> str:
    usage = payload.get("usage") or {}
    facts = (
        "the turn was left" if payload.get("partial") else "the turn has ended",
        f"{usage['total_tokens']:,} tokens" if "total_tokens" in usage else None,
        f"${payload['costUsd']:.4f}" if "costUsd" in payload else None,
        f"{seconds:.1f} s" if seconds is not None else None,
    )
    return " · ".join(fact for fact in facts if fact)


def _failure(payload: Payload) -> str:
    return f"{payload['code']}: {payload['message']}"


def _raw(payload: Payload) -> str:
    raw = payload["raw"]
    return raw if isinstance(raw, str) else _compact(raw)


def _one_line(text: str) -> str:
    return _cut(" ".join(text[: 4 * _LONGEST_LINE].split()))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_LINE else f"{text[: _LONGEST_LINE - 1]}…"


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


_HEADLINES: Mapping[str, Callable[[Payload], str]] = {
    **dict.fromkeys(
        (
            *("user_message", "assistant_chunk", "assistant_done", "thinking_chunk", "thinking_done"),
            *("summary", "system_message"),
        ),
        itemgetter("text"),
    ),
    "turn_start": itemgetter("trigger"),
    "turn_end": _end_of,
    "tool_call": lambda payload: f"{payload['toolName']} {_argument(payload['args'])}",
    "tool_input_chunk": itemgetter("chunk"),
    "tool_output_chunk": itemgetter("chunk"),
    "tool_result": lambda payload: ("✗ " if "error" in payload else "") + _result_text(payload),
    "agent_message": itemgetter("message"),
    "agent_callback": itemgetter("result"),
    "interrupt": lambda payload: f"interrupted: {payload['reason']}",
    "error": _failure,
    "raw": _raw,
}

_SHOW: Mapping[str, Callable[[Story, Event], None]] = {
    "reset": Story._reset,
    "turn_start": Story._turn_start,
    "turn_end": Story._turn_end,
    "user_message": Story._done,
    "assistant_chunk": Story._chunk,
    "assistant_done": Story._done,
    "thinking_chunk": Story._chunk,
    "thinking_done": Story._done,
    "tool_call": Story._call,
    "tool_input_chunk": Story._nothing,
    "tool_output_chunk": Story._nothing,
    "tool_result": Story._result,
    "interrupt": Story._notice,
    "error": Story._error,
}
