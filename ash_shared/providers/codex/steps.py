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
from dataclasses import replace
from itertools import count
from typing import Any

from ash_shared.blocks import Block, Translation, pick, text_block
from ash_shared.providers import Part, Record, RecordReading
from ash_shared.providers.codex.events import TOOL_EVENTS
from ash_shared.providers.codex.messages import parts
from ash_shared.providers.codex.turn_items import RUNNING, SERVER_TOOLS, WITH_TEXT, item_type, spelt
from ash_shared.steps import Fragment, Interrupts, Says, Step, TurnEnds, TurnStarts, Whole
from ash_shared.wire import count_at, first_text, items_of, one_of, text_at, value_at

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
    if reading.kind != "message" or not one_of(wire, _ITEMS):
        return None
    (part,) = parts(record, reading)
    return _ITEMS[wire](item, part)


def _message(item: Record, part: Part) -> Steps:
    """What the person said is told once more by an event, without the marks that Codex puts around pictures."""
    if part.role != "user":
        return None
    command = _shell_command(part.blocks)
    if command is not None:
        return command
    said = [block for block in part.blocks if not _LABEL.fullmatch(block.get("text") or "")]
    return [Whole(replace(part, blocks=said or part.blocks))]


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
    return tuple(
        text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&") for text in texts
    )


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
    names = [block["name"] for block in blocks if block["type"] == "tool_use"]
    return [
        {"type": "tool_result", "tool_use_id": call, "content": None, **failed, "extra": {"name": name}}
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
    if wire in _ERRORS:
        return _errors(parts(record, reading))
    if wire == "context_compacted":
        return [Says("summary", {"text": ""})] if alone else []
    if wire == "item_completed":
        return _of_completed(event["item"], record, reading)
    if wire in _CALLS:
        return _of_end(event, _CALLS[wire](event), reading.blocks, echo=not alone)
    if wire in TOOL_EVENTS and not alone:
        return _of_call(event, reading.blocks)
    return None


def _of_call(event: Record, blocks: list[Block]) -> list[Step]:
    """What begins a call is told by the item, as is the picture that was looked at."""
    if event["type"].endswith("_begin"):
        return []
    return [Whole(Part(role="assistant", blocks=blocks, echo=True))]


def _of_end(event: Record, call: Any, blocks: list[Block], *, echo: bool) -> list[Step]:
    """A call that has ended, with all that the event says of it. The person's own are told by an item, too."""
    if event.get("source") in _OF_PERSON:
        return []
    made = [*items_of(call), *([call] if call.__class__ is dict else [])]
    results = [block for block in blocks if block["type"] == "tool_result"]
    return _call_with_result(made, results, echo=echo)


def _call_with_result(calls: list[Block], results: list[Block], *, echo: bool) -> list[Step]:
    return [
        Whole(Part(role="assistant", blocks=calls, echo=echo)),
        Whole(Part(role="user", blocks=results, echo=echo)),
    ]


_OF_PERSON = frozenset({"userShell", "user_shell"})


def _hosted_call(name: str, *arguments: str) -> Translation:
    """The call of a tool of the vendor's, whose arguments are known when it ends."""

    def read(event: Record) -> Block:
        input = pick(event, *arguments)
        return {
            "type": "tool_use",
            "id": event["call_id"],
            "name": name,
            "input": input,
            "executor": "server",
        }

    return read


_CALLS: Mapping[str, Translation] = {
    "image_generation_end": _hosted_call("image_generation", "revised_prompt"),
    "web_search_end": _hosted_call("web_search", "query", "action"),
}
