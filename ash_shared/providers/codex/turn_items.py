"""Items of a turn: what `codex exec --json` prints, the app server sends, and newer rollout files hold.

Sources: `exec_events.rs`, `TurnItem` and `ThreadItem` of Codex. The same item is spelt `command_execution` by exec,
`CommandExecution` in a rollout file and `commandExecution` by the app server, and its keys in snake or camel case.
One item is a call and, once it has ended, its result.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ash_shared.model.blocks import Block, Translation, pick, raw_block, text_block, translate, translated
from ash_shared.model.message import Kind, Role
from ash_shared.providers._kit.contract import Record, RecordReading
from ash_shared.providers._kit.json_fields import list_or_empty
from ash_shared.providers.codex.content import read_list
from ash_shared.providers.codex.response_items import generated, within

RUNNING = frozenset({"in_progress", "inProgress"})
_FAILED = frozenset({"declined", "failed"})
_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")


class _Reads(NamedTuple):
    kind: Kind
    role: Role
    blocks: Translation


def item_type(item: Record) -> str:
    """The item's type in snake case."""
    return _CAPITAL.sub("_", item["type"]).lower()


def read_turn_item(item: Record, whole: Record) -> RecordReading:
    """An item, and the record that it is in."""
    wire = item_type(item)
    if wire in _MARKS:
        return RecordReading("record", "system", [raw_block("control", whole, item["type"])])
    if wire not in _ITEMS:
        return RecordReading("record", "system", [raw_block("unknown_type", whole, item["type"])])
    kind, role, translation = _ITEMS[wire]
    return RecordReading(kind, role, translate(item["type"], item, translation))


def spelt(item: Record, name: str) -> str:
    """The key that the item has for this name: in snake case, or else in camel case."""
    head, *tail = name.split("_")
    camel = head + "".join(word.capitalize() for word in tail)
    return camel if name not in item and camel in item else name


def _value(item: Record, name: str) -> Any:
    return item.get(spelt(item, name))


def _said(variant: str | None = None) -> Translation:
    """Items whose content is one text, or a list of elements."""

    def read(item: Record) -> list[Block]:
        if "content" in item:
            blocks = [{**block, **pick(item, "phase")} for block in read_list(item["content"])]
            return within(blocks, item, ("content", "phase"))
        typed = text_block(item["text"], variant) | pick(item, "phase")
        return [translated(item, typed, {"text", "phase"}, item["type"])]

    return read


def _user_message(item: Record) -> list[Block]:
    return within(read_list(item["content"]), item, ("content",))


def _hook_prompt(item: Record) -> list[Block]:
    texts = [
        translated(part, text_block(part["text"]), {"text"}, "hook_prompt") for part in item["fragments"]
    ]
    return within(texts, item, ("fragments",))


def _reasoning(item: Record) -> list[Block]:
    if "text" in item:
        return [translated(item, _thought(item["text"], is_summary=True), {"text"}, item["type"])]
    summary, content = ("summary_text", "raw_content") if "summary_text" in item else ("summary", "content")
    thoughts = [_thought(text, is_summary=True) for text in list_or_empty(item.get(summary))]
    thoughts += [_thought(text) for text in list_or_empty(item.get(content))]
    named = [{**thought, "source_type": item["type"]} for thought in thoughts or [_thought("")]]
    return within(named, item, (summary, content))


def _thought(text: str, *, is_summary: bool = False) -> Block:
    summary = {"is_summary": True} if is_summary else {}
    return {"type": "thinking", "thinking": text, **summary}


def _error(item: Record) -> Block:
    return translated(item, text_block(item["message"], "error"), {"message"}, item["type"])


def _call(item: Record, name: str, input: Any, *used: str, **more: str) -> Block:
    """The call, with all of the item that neither it nor its result takes."""
    keys = {spelt(item, key) for key in used}
    typed = {"type": "tool_use", **pick(item, "id", "status"), "name": name, "input": input, **more}
    return translated(item, typed, {"id", "status", *keys}, item["type"])


def _result(item: Record, **typed: Any) -> list[Block]:
    """The result, once the item has ended; it failed where its status says so."""
    status = item.get("status")
    if status in RUNNING:
        return []
    failed = {} if status is None else {"is_error": status in _FAILED}
    made = {
        "type": "tool_result",
        "tool_use_id": item.get("id"),
        **failed,
        **typed,
        "source_type": item["type"],
    }
    return [{key: value for key, value in made.items() if value is not None}]


def _command_execution(item: Record) -> list[Block]:
    ended = _result(item, content=_value(item, "aggregated_output"), exit_code=_value(item, "exit_code"))
    used = ("aggregated_output", "exit_code") if ended else ()
    return [_call(item, "shell", {"command": item["command"]}, "command", *used), *ended]


def _file_change(item: Record) -> list[Block]:
    ended = _result(item, content=item.get("stdout"), structured=pick(item, "status"))
    used = ("stdout",) if ended else ()
    return [_call(item, "apply_patch", {"changes": item["changes"]}, "changes", *used), *ended]


def _mcp_tool_call(item: Record) -> list[Block]:
    ended, used = _mcp_result(item)
    more = {"executor": "mcp", "server_name": item["server"]}
    names = ("server", "tool", "arguments")
    return [_call(item, item["tool"], item["arguments"], *names, *used, **more), *ended]


def _mcp_result(item: Record) -> tuple[list[Block], tuple[str, ...]]:
    """The result of the call, if it has ended, and the keys of the item that it takes."""
    error, answer = item.get("error"), item.get("result")
    if error is not None:
        rest = {key: value for key, value in error.items() if key != "message"}
        made = _result(item, content=error["message"], is_error=True, extra=rest or None)
        return made, ("error",) if made else ()
    made = _result(item, **({} if answer is None else mcp_answer(answer)))
    return made, ("result",) if made else ()


def mcp_answer(answer: Record) -> Block:
    """The keys of a tool result for what an MCP server answered."""
    structured, failed = spelt(answer, "structured_content"), spelt(answer, "is_error")
    named = {"structured": answer.get(structured), "is_error": answer.get(failed)}
    rest = {key: value for key, value in answer.items() if key not in ("content", structured, failed)}
    told = {key: value for key, value in named.items() if value is not None}
    return {"content": read_list(answer["content"])} | told | ({"extra": rest} if rest else {})


def _dynamic_tool_call(item: Record) -> list[Block]:
    ended = _result(item, **dynamic_answer(item))
    used = ("content_items", "success", "error") if ended else ()
    return [_call(item, item["tool"], item["arguments"], "tool", "arguments", *used), *ended]


def dynamic_answer(item: Record) -> Block:
    """The keys of a tool result for what a tool of the client answered; an error beside content is kept apart."""
    items, error, success = (_value(item, name) for name in ("content_items", "error", "success"))
    failed = {} if success is None else {"is_error": not success}
    if items is None:
        return failed if error is None else failed | {"content": error}
    return (
        failed | {"content": read_list(items)} | ({} if error is None else {"structured": {"error": error}})
    )


def _collab_tool_call(item: Record) -> list[Block]:
    names = ("prompt", "model", "reasoning_effort", "receiver_thread_ids")
    ended = _result(item, structured=_value(item, "agents_states"))
    used = ("tool", *names, *(("agents_states",) if ended else ()))
    input = pick(item, *(spelt(item, name) for name in names))
    return [_call(item, item["tool"], input, *used, executor="agent"), *ended]


def _web_search(item: Record) -> list[Block]:
    """A search of the vendor's; an extension is one under a name of its own."""
    found = [] if item.get("results") is None else _result(item, structured=item["results"])
    used = ("query", "action", "kind", *(("results",) if found else ()))
    name = item.get("kind") or "web_search"
    return [_call(item, name, pick(item, "query", "action"), *used, executor="server"), *found]


def _image_generation(item: Record) -> list[Block]:
    prompt = spelt(item, "revised_prompt")
    made = _call(item, "image_generation", pick(item, prompt), prompt, "result", executor="server")
    return [made, *generated(item, item.get("id"))]


def _one_argument(name: str, argument: str) -> Translation:
    def read(item: Record) -> list[Block]:
        key = spelt(item, argument)
        return [_call(item, name, {key: item[key]}, key)]

    return read


def _todo_list(item: Record) -> list[Block]:
    return [_call(item, "todo_list", item["items"], "items")]


def _function_call_output(item: Record) -> Block:
    output = item["output"]
    content = read_list(output) if output.__class__ is list else output
    typed = {"type": "tool_result", "content": content}
    return translated(item, typed, {"output"}, item["type"])


_MARKS = frozenset({"context_compaction", "entered_review_mode", "exited_review_mode", "sub_agent_activity"})


def _assistant(translation: Translation) -> _Reads:
    return _Reads("message", "assistant", translation)


_ITEMS: Mapping[str, _Reads] = {
    **dict.fromkeys(("collab_agent_tool_call", "collab_tool_call"), _assistant(_collab_tool_call)),
    **dict.fromkeys(("extension", "web_search"), _assistant(_web_search)),
    "agent_message": _assistant(_said()),
    "command_execution": _assistant(_command_execution),
    "dynamic_tool_call": _assistant(_dynamic_tool_call),
    "error": _Reads("record", "system", _error),
    "file_change": _assistant(_file_change),
    "function_call_output": _Reads("message", "tool", _function_call_output),
    "hook_prompt": _Reads("message", "user", _hook_prompt),
    "image_generation": _assistant(_image_generation),
    "image_view": _assistant(_one_argument("view_image", "path")),
    "mcp_tool_call": _assistant(_mcp_tool_call),
    "plan": _assistant(_said("plan")),
    "reasoning": _assistant(_reasoning),
    "sleep": _assistant(_one_argument("sleep", "duration_ms")),
    "todo_list": _assistant(_todo_list),
    "user_message": _Reads("message", "user", _user_message),
}

SERVER_TOOLS = frozenset({"extension", "image_generation", "web_search"})
"""Items whose result is the vendor's: it stays in the answer."""
WITH_TEXT = frozenset({"agent_message", "reasoning", "user_message"})
"""Items that repeat, in a rollout file, a text that is in a response item, too."""
