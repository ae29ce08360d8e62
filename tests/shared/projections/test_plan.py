"""The last plan of a session."""

from typing import Any

import pytest

from ash_shared.projections.plan import MAX_CHARACTERS, plan_of

CASES: dict[str, tuple[list[tuple[str, Any]], list[tuple[str, str]] | None]] = {
    "no plan": (
        [("Bash", {"plan": ["a"]}), ("TodoWrite", {}), ("TodoWrite", None), ("TaskUpdate", {})],
        None,
    ),
    "the last list": (
        [
            ("TodoWrite", {"todos": [{"content": "Dig", "status": "pending"}]}),
            (
                "TodoWrite",
                {
                    "todos": [
                        {"content": "Dig", "status": "completed"},
                        {"content": "Plant", "status": "in_progress"},
                        {"content": "Water", "status": "cancelled"},
                        {"content": "Weed", "status": "later"},
                        {"status": "pending"},
                        7,
                    ]
                },
            ),
        ],
        [("Dig", "done"), ("Plant", "active"), ("Water", "cancelled"), ("Weed", "open")],
    ),
    "steps of Codex": (
        [("update_plan", {"plan": [{"step": "Dig", "status": "completed"}, {"step": "Plant"}]})],
        [("Dig", "done"), ("Plant", "open")],
    ),
    "items with a flag": (
        [
            (
                "todo_list",
                {"items": [{"text": "Dig", "completed": True}, {"text": "Plant", "completed": False}]},
            )
        ],
        [("Dig", "done"), ("Plant", "open")],
    ),
    "texts": ([("write_todos", {"todos": ["Dig", "Plant"]})], [("Dig", "open"), ("Plant", "open")]),
    "changes of a list": (
        [
            ("todo_write", {"todos": [{"id": "1", "content": "Dig"}, {"id": "2", "content": "Plant"}]}),
            (
                "todo_write",
                {"merge": True, "todos": [{"id": "1", "content": "Dig", "status": "TODO_STATUS_COMPLETED"}]},
            ),
        ],
        [("Dig", "done"), ("Plant", "open")],
    ),
    "tasks": (
        [
            ("TaskCreate", {"subject": "Dig", "description": "Dig a bed."}),
            ("TaskCreate", {"description": "Plant it."}),
            ("TaskCreate", {"subject": "Water"}),
            ("TaskUpdate", {"taskId": "1", "status": "completed"}),
            ("TaskUpdate", {"taskId": "2", "status": "deleted"}),
            ("TaskUpdate", {"taskId": 3, "subject": "Water well"}),
            ("TaskCreate", {"subject": "Weed"}),
            ("TaskUpdate", {"taskId": "4", "status": "in_progress"}),
            ("TaskUpdate", {"taskId": "9", "status": "in_progress"}),
        ],
        [("Dig", "done"), ("Water well", "open"), ("Weed", "active")],
    ),
}


@pytest.mark.parametrize(("calls", "expected"), CASES.values(), ids=CASES)
def test_plan(calls: list[tuple[str, Any]], expected: list[tuple[str, str]] | None) -> None:
    plan = plan_of(calls)

    assert (plan and [(item.text, item.state) for item in plan.items]) == expected


def test_long_plan_has_its_first_items() -> None:
    texts = ["a" * (MAX_CHARACTERS - 1), "b", "c"]
    plan = plan_of([("TodoWrite", {"todos": [{"content": text} for text in texts]})])

    assert plan is not None
    assert [item.text for item in plan.items] == texts[:2]
