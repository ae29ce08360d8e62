"""Items of a turn: printed by `codex exec --json`, sent by the app server, and stored in newer rollout files.

Sources: `exec_events.rs`, `TurnItem` and `ThreadItem` of Codex. The same item is `command_execution` in exec,
`CommandExecution` in a rollout file and `commandExecution` in the app server, with keys in snake or camel case.
One item is a call and, once it has ended, its result.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from ash_shared.model.blocks import Block, Translation, pick, text_block, translate, translated, without
from ash_shared.model.message import Kind, Role
from ash_shared.providers.codex.content import generated_image_result, keep_item_keys, parse_list
from ash_shared.records.contract import ParsedRecord, Record, control_record, unknown_record
from ash_shared.records.json_fields import list_or_empty

RUNNING_STATUSES = frozenset({"in_progress", "inProgress"})
_WORD_START = re.compile(r"(?<=[a-z])(?=[A-Z])")


class _ItemReader(NamedTuple):
    kind: Kind
    role: Role
    blocks: Translation


def item_type(item: Record) -> str:
    wire_type: str = item["type"]
    return wire_type if wire_type in _ITEMS else _WORD_START.sub("_", wire_type).lower()


def parse_turn_item(item: Record, record: Record) -> ParsedRecord:
    wire_type = item_type(item)
    if wire_type in _CONTROL_ITEMS:
        return control_record(record, item["type"])
    if wire_type not in _ITEMS:
        return unknown_record(record, item["type"])
    kind, role, translation = _ITEMS[wire_type]
    return ParsedRecord(kind, role, translate(item["type"], item, translation))


def spelling_used(item: Record, name: str) -> str:
    """Return the key that the item uses for this name: snake case, or else camel case."""
    return name if name in item or _camel_case(name) not in item else _camel_case(name)


@cache
def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def value_in_either_case(item: Record, name: str) -> Any:
    return item.get(spelling_used(item, name))


def _text_translation(variant: str | None = None) -> Translation:

    def parse(item: Record) -> list[Block]:
        if "content" in item:
            blocks = [{**block, **pick(item, "phase")} for block in parse_list(item["content"])]
            return keep_item_keys(blocks, item, ("content", "phase"))
        typed = text_block(item["text"], variant) | pick(item, "phase")
        return [translated(item, typed, {"text", "phase"}, item["type"])]

    return parse


def _translate_user_message(item: Record) -> list[Block]:
    return keep_item_keys(parse_list(item["content"]), item, ("content",))


def _translate_hook_prompt(item: Record) -> list[Block]:
    parts = item["fragments"]
    texts = [translated(part, text_block(part["text"]), {"text"}, "hook_prompt") for part in parts]
    return keep_item_keys(texts, item, ("fragments",))


def _translate_reasoning(item: Record) -> list[Block]:
    if "text" in item:
        return [translated(item, _thinking_block(item["text"], is_summary=True), {"text"}, item["type"])]
    summary, content = ("summary_text", "raw_content") if "summary_text" in item else ("summary", "content")
    thoughts = [_thinking_block(text, is_summary=True) for text in list_or_empty(item.get(summary))]
    thoughts += [_thinking_block(text) for text in list_or_empty(item.get(content))]
    blocks = [{**thought, "source_type": item["type"]} for thought in thoughts or [_thinking_block("")]]
    return keep_item_keys(blocks, item, (summary, content))


def _thinking_block(text: str, *, is_summary: bool = False) -> Block:
    summary = {"is_summary": True} if is_summary else {}
    return {"type": "thinking", "thinking": text, **summary}


def _translate_error(item: Record) -> Block:
    return translated(item, text_block(item["message"], "error"), {"message"}, item["type"])


def _tool_use_block(item: Record, name: str, input: Any, *used: str, **more: str) -> Block:
    """Return the call; the item's keys that neither the call nor its result consumes go to `extra`."""
    keys = {spelling_used(item, key) for key in used}
    typed = {"type": "tool_use", **pick(item, "id", "status"), "name": name, "input": input, **more}
    return translated(item, typed, {"id", "status", *keys}, item["type"])


def _tool_result_block(item: Record, **typed: Any) -> list[Block]:
    """Return the result if the item has ended; its status shows whether it failed."""
    status = item.get("status")
    if status in RUNNING_STATUSES:
        return []
    error_flag = {} if status is None else {"is_error": status in {"declined", "failed"}}
    ids, source = {"tool_use_id": item.get("id")}, {"source_type": item["type"]}
    block = {"type": "tool_result", **ids, **error_flag, **typed, **source}
    return [{key: value for key, value in block.items() if value is not None}]


def _translate_command_execution(item: Record) -> list[Block]:
    output, code = (value_in_either_case(item, name) for name in ("aggregated_output", "exit_code"))
    result = _tool_result_block(item, content=output, exit_code=code)
    used = ("aggregated_output", "exit_code") if result else ()
    return [_tool_use_block(item, "shell", {"command": item["command"]}, "command", *used), *result]


def _translate_file_change(item: Record) -> list[Block]:
    result = _tool_result_block(item, content=item.get("stdout"), structured=pick(item, "status"))
    used = ("stdout",) if result else ()
    return [_tool_use_block(item, "apply_patch", {"changes": item["changes"]}, "changes", *used), *result]


def _translate_mcp_tool_call(item: Record) -> list[Block]:
    result, used = _parse_mcp_result(item)
    more = {"executor": "mcp", "server_name": item["server"]}
    names = ("server", "tool", "arguments")
    return [_tool_use_block(item, item["tool"], item["arguments"], *names, *used, **more), *result]


def _parse_mcp_result(item: Record) -> tuple[list[Block], tuple[str, ...]]:
    """Return the result of the call, if it has ended, and the item's keys that the result consumes."""
    error, response = item.get("error"), item.get("result")
    if error is not None:
        rest = without(error, "message")
        result = _tool_result_block(item, content=error["message"], is_error=True, extra=rest or None)
        return result, ("error",) if result else ()
    result = _tool_result_block(item, **({} if response is None else mcp_result_fields(response)))
    return result, ("result",) if result else ()


def mcp_result_fields(response: Record) -> Block:
    structured_key = spelling_used(response, "structured_content")
    error_key = spelling_used(response, "is_error")
    fields = {"structured": response.get(structured_key), "is_error": response.get(error_key)}
    rest = without(response, "content", structured_key, error_key)
    non_null = {key: value for key, value in fields.items() if value is not None}
    return {"content": parse_list(response["content"])} | non_null | ({"extra": rest} if rest else {})


def _translate_dynamic_tool_call(item: Record) -> list[Block]:
    result = _tool_result_block(item, **dynamic_result_fields(item))
    used = ("content_items", "success", "error") if result else ()
    return [_tool_use_block(item, item["tool"], item["arguments"], "tool", "arguments", *used), *result]


def dynamic_result_fields(item: Record) -> Block:
    """Return the result fields of a client tool's response; an error in addition to content becomes `structured`."""
    names = ("content_items", "error", "success")
    items, error, success = (value_in_either_case(item, name) for name in names)
    error_flag = {} if success is None else {"is_error": not success}
    if items is None:
        return error_flag if error is None else error_flag | {"content": error}
    structured = {} if error is None else {"structured": {"error": error}}
    return {**error_flag, "content": parse_list(items), **structured}


def _translate_collab_tool_call(item: Record) -> list[Block]:
    names = ("prompt", "model", "reasoning_effort", "receiver_thread_ids")
    result = _tool_result_block(item, structured=value_in_either_case(item, "agents_states"))
    used = ("tool", *names, *(("agents_states",) if result else ()))
    input = pick(item, *(spelling_used(item, name) for name in names))
    return [_tool_use_block(item, item["tool"], input, *used, executor="agent"), *result]


def _translate_web_search(item: Record) -> list[Block]:
    """Translate a web search, or a call of an extension, which has the same form and is named by its `kind`."""
    result = [] if item.get("results") is None else _tool_result_block(item, structured=item["results"])
    used = ("query", "action", "kind", *(("results",) if result else ()))
    name = item.get("kind") or "web_search"
    return [_tool_use_block(item, name, pick(item, "query", "action"), *used, executor="server"), *result]


def _translate_image_generation(item: Record) -> list[Block]:
    prompt = spelling_used(item, "revised_prompt")
    call = _tool_use_block(item, "image_generation", pick(item, prompt), prompt, "result", executor="server")
    return [call, *generated_image_result(item, item.get("id"))]


def _single_argument_call(name: str, argument: str) -> Translation:
    def parse(item: Record) -> list[Block]:
        key = spelling_used(item, argument)
        return [_tool_use_block(item, name, {key: item[key]}, key)]

    return parse


def _translate_function_call_output(item: Record) -> Block:
    output = item["output"]
    content = parse_list(output) if isinstance(output, list) else output
    typed = {"type": "tool_result", "content": content}
    return translated(item, typed, {"output"}, item["type"])


_CONTROL_ITEMS = frozenset(
    {"context_compaction", "entered_review_mode", "exited_review_mode", "sub_agent_activity"}
)


def _assistant_item(translation: Translation) -> _ItemReader:
    return _ItemReader("message", "assistant", translation)


_ITEMS: Mapping[str, _ItemReader] = {
    **dict.fromkeys(
        ("collab_agent_tool_call", "collab_tool_call"), _assistant_item(_translate_collab_tool_call)
    ),
    **dict.fromkeys(("extension", "web_search"), _assistant_item(_translate_web_search)),
    "agent_message": _assistant_item(_text_translation()),
    "command_execution": _assistant_item(_translate_command_execution),
    "dynamic_tool_call": _assistant_item(_translate_dynamic_tool_call),
    "error": _ItemReader("record", "system", _translate_error),
    "file_change": _assistant_item(_translate_file_change),
    "function_call_output": _ItemReader("message", "tool", _translate_function_call_output),
    "hook_prompt": _ItemReader("message", "user", _translate_hook_prompt),
    "image_generation": _assistant_item(_translate_image_generation),
    "image_view": _assistant_item(_single_argument_call("view_image", "path")),
    "mcp_tool_call": _assistant_item(_translate_mcp_tool_call),
    "plan": _assistant_item(_text_translation("plan")),
    "reasoning": _assistant_item(_translate_reasoning),
    "sleep": _assistant_item(_single_argument_call("sleep", "duration_ms")),
    "todo_list": _assistant_item(lambda item: _tool_use_block(item, "todo_list", item["items"], "items")),
    "user_message": _ItemReader("message", "user", _translate_user_message),
}

SERVER_TOOLS = frozenset({"extension", "image_generation", "web_search"})
"""Items with a result from the vendor, which stays in the response."""
TEXT_ITEMS = frozenset({"agent_message", "reasoning", "user_message"})
"""Items with a text that a response item repeats in a rollout file."""
