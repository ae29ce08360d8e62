"""The last plan of a session, from the calls of its tools for plans and tasks."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from ash_shared.model.reports.facts import Plan, PlanItem, PlanState
from ash_shared.parsing.changes import outcome_of
from ash_shared.parsing.tool_names import normal_name
from ash_shared.records.json_fields import first_text, text_at, value_at

MAX_ITEMS = 500
"""Items of a plan; further ones are left out."""

MAX_CHARACTERS = 64 * 1024
"""Characters of the items of a plan; those after them are left out."""

MAX_CALLS = 500
"""Last calls of plan tools that are read."""

_TOOLS = frozenset(
    {
        *("todo", "todowrite", "todolist", "updatetodos", "writetodos", "managetodolist", "updateplan"),
        *("taskcreate", "taskupdate"),
    }
)
_LISTS = ("todos", "plan", "items", "newTodos", "tasks", "todoList")
_TEXTS = ("content", "step", "text", "title", "subject", "description", "task")
_IDS = ("taskId", "task_id", "id")
_STATES: Mapping[str, PlanState] = {
    **dict.fromkeys(("completed", "complete", "done", "finished"), "done"),
    **dict.fromkeys(("inprogress", "active", "doing", "running", "started"), "active"),
    **dict.fromkeys(("cancelled", "canceled", "skipped", "deleted"), "cancelled"),
}


def is_plan_tool(tool: str) -> bool:
    """True for a tool that writes a plan or a list of tasks."""
    return normal_name(tool) in _TOOLS


class PlanLog:
    """Collects the last calls of plan tools from events in wire form, without failed ones."""

    def __init__(self) -> None:
        self._calls: dict[str, tuple[str, Any]] = {}

    def expects(self, call_id: Any) -> bool:
        """True if the log needs the result of this call."""
        return str(call_id) in self._calls

    def add(self, event: Mapping[str, Any]) -> None:
        """Add an event; types other than calls, their results and `reset` are ignored."""
        payload = event["payload"]
        if event["type"] == "reset":
            self._calls.clear()
        elif event["type"] == "tool_call":
            self._add_call(str(payload.get("toolCallId")), payload)
        elif event["type"] == "tool_result" and outcome_of(payload) != "ok":
            self._calls.pop(str(payload.get("toolCallId")), None)

    def _add_call(self, id: str, payload: Mapping[str, Any]) -> None:
        tool = payload.get("toolName")
        if isinstance(tool, str) and is_plan_tool(tool):
            self._calls[id] = (tool, payload.get("args"))
            if len(self._calls) > MAX_CALLS:
                del self._calls[next(iter(self._calls))]

    def plan(self) -> Plan | None:
        return plan_of(self._calls.values())


def plan_of(calls: Iterable[tuple[str, Any]]) -> Plan | None:
    """Return the plan after some calls that did not fail, each a tool with its arguments; None without a plan.

    Claude numbers tasks in the order of their creation, and the calls that change them state the number.
    """
    items: dict[str, PlanItem] = {}
    created = 0
    for tool, args in calls:
        match normal_name(tool):
            case "taskcreate":
                created += 1
                items |= _new_task(str(created), args)
            case "taskupdate":
                items = _with_update(items, args)
            case name if name in _TOOLS:
                items = _with_list(items, args)
    return Plan(items=_within_limits(items.values())) if items else None


def _within_limits(items: Collection[PlanItem]) -> list[PlanItem]:
    sizes = accumulate(len(item.text) for item in items)
    return [item for item, size in zip(items, sizes, strict=True) if size <= MAX_CHARACTERS][:MAX_ITEMS]


def _with_list(items: dict[str, PlanItem], args: Any) -> dict[str, PlanItem]:
    listed = _items_in(args)
    if listed is None:
        return items
    is_merged = isinstance(args, Mapping) and args.get("merge") is True
    return {**items, **listed} if is_merged else listed


def _new_task(id: str, args: Any) -> dict[str, PlanItem]:
    text = text_at(args, "subject") or text_at(args, "description")
    return {} if text is None else {id: PlanItem(text=text, state="open")}


def _with_update(items: dict[str, PlanItem], args: Any) -> dict[str, PlanItem]:
    known = items.get(_id_of(args) or "")
    if known is None:
        return items
    status = text_at(args, "status")
    if status == "deleted":
        return {id: item for id, item in items.items() if item is not known}
    state = known.state if status is None else _state(status)
    changed = PlanItem(text=text_at(args, "subject") or known.text, state=state)
    return {id: changed if item is known else item for id, item in items.items()}


def _id_of(value: Any) -> str | None:
    id = next((found for name in _IDS if (found := value_at(value, name)) is not None), None)
    return str(id) if isinstance(id, str | int) else None


def _items_in(args: Any) -> dict[str, PlanItem] | None:
    """Return the items of a list in the arguments, by id or place; None without a list of items."""
    lists = [args] if isinstance(args, list) else [value_at(args, name) for name in _LISTS]
    listed: Sequence[Any] | None = next((each for each in lists if isinstance(each, list)), None)
    if listed is None:
        return None
    read = [(_id_of(each) or f"#{place}", _item(each)) for place, each in enumerate(listed)]
    return {id: item for id, item in read if item is not None}


def _item(value: Any) -> PlanItem | None:
    if isinstance(value, str):
        return PlanItem(text=value, state="open")
    text = first_text(value, _TEXTS) if isinstance(value, Mapping) else None
    if text is None:
        return None
    is_done = next(
        (value[name] for name in ("completed", "done") if isinstance(value.get(name), bool)), False
    )
    return PlanItem(
        text=text, state="done" if is_done else _state(first_text(value, ("status", "state")) or "")
    )


def _state(status: str) -> PlanState:
    return _STATES.get(normal_name(status).removeprefix("todostatus"), "open")
