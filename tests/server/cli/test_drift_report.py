"""`ash drift --report`: names of types and fields leave the machine, values do not."""

import json
from pathlib import Path
from typing import Any

import pytest

from ash_server.cli.drift.shapes import Shape, is_literal, shape_of
from tests.secret_samples import SECRETS
from tests.server.cli.test_cli import USER, Ash, Ran, ash, written
from tests.shared.records import claude

__all__ = ["ash"]

NO_DATABASE = {"ASH_DATABASE_URL": "postgresql://127.0.0.1:1/none"}
HOLOGRAM = {
    "type": "holo-frame",
    "sessionId": "s1",
    "version": "2.1.331",
    "timestamp": "2026-11-02T09:00:01Z",
    "frames": [
        {"width": 7, "isLast": True},
        {"width": 8, "isLast": None},
        {"subtype": "still", "width": 9.5},
    ],
    "costUSD": 0.25,
}
SHAPE = {
    "type": "'holo-frame'",
    "sessionId": "string",
    "version": "string",
    "timestamp": "string",
    "frames": [
        {"width": "number", "isLast": "boolean"},
        {"width": "number", "isLast": "null"},
        {"subtype": "'still'", "width": "number"},
    ],
    "costUSD": "number",
}


def lines(*records: Any) -> str:
    return "".join(f"{json.dumps(record)}\n" for record in records)


def test_report_has_the_shapes_of_unknown_records(ash: Ash, tmp_path: Path) -> None:
    older = {**HOLOGRAM, "version": "2.1.330"}
    first = {**json.loads(USER), "version": "2.1.329"}
    path = written(tmp_path / "s.jsonl", lines(first, older, HOLOGRAM, {**HOLOGRAM, "uuid": "u9"}))
    expected = {
        "source": "claude",
        "rawType": "holo-frame",
        "reason": "unknown_type",
        "count": 3,
        "clientVersions": {"2.1.331": 2, "2.1.330": 1},
        "shapes": [SHAPE, {**SHAPE, "uuid": "string"}],
    }

    done = ash("drift", "s.jsonl", "--report", "r.json", **NO_DATABASE)
    report = json.loads((tmp_path / "r.json").read_text())

    assert done == Ran(
        0,
        "wrote r.json: 2 kinds in 4 lines of 1 file; it contains names of types and fields, and no values: "
        "read it before you share it\n",
        "",
    )
    assert report["drift"] == [expected]

    ash("import", str(path), "--as", "s")
    ash("drift", "--report", "stored.json")
    [stored] = json.loads((tmp_path / "stored.json").read_text())["drift"]
    assert {**stored, "shapes": sorted(stored["shapes"], key=len)} == {
        **expected,
        "clientVersions": {"2.1.329": 3},  # of the session
    }


def test_there_is_no_report_without_drift(ash: Ash, tmp_path: Path) -> None:
    written(tmp_path / "s.jsonl", lines(claude.line("user", "hi")))

    done = ash("drift", "s.jsonl", "--report", "r.json", **NO_DATABASE)

    assert done == Ran(0, "no drift in 1 line of 1 file: nothing was unknown or malformed\n", "")
    assert not (tmp_path / "r.json").exists()


def test_report_excludes_json_and_needs_a_folder(ash: Ash, tmp_path: Path) -> None:
    written(tmp_path / "s.jsonl", lines(HOLOGRAM))

    both = ash("drift", "s.jsonl", "--json", "--report", "r.json", **NO_DATABASE)
    nowhere = ash("drift", "s.jsonl", "--report", "none/r.json", **NO_DATABASE)

    assert (both.code, both.err) == (2, "ash: Give --json or --report, not both (see `ash drift --help`)\n")
    assert nowhere.code == 1
    assert "none" in nowhere.err


VALUE = "violet-marmot"
"""Every value and every key that is data contains it."""
PATH_KEY = f"/home/{VALUE}/notes.md"
HOSTILE: list[dict[str, Any]] = [
    {"type": "holo-frame", "title": VALUE, "count": 9182736455},
    {"type": "holo-frame", "nested": json.dumps({VALUE: {"type": VALUE}})},
    {"type": "holo-frame", "backups": {PATH_KEY: {"name": VALUE}}},
    {"type": "holo-frame", "backup": {PATH_KEY: 1, VALUE: 2}},
    {"type": "holo-frame", "files": {VALUE: {"size": 1}}},
    {"type": "holo-frame", "people": {VALUE: {"age": 1}, "marmot": {"age": 2}}},
    {"type": "holo-frame", "input": {VALUE: VALUE, "type": VALUE, "deep": [{"kind": VALUE}]}},
    *({"type": "holo-frame", name: {"a": {VALUE: 1}, "kind": VALUE}} for name in ("output", "toolUseResult")),
    {"type": "holo-frame", "env": {"VIOLET_MARMOT": VALUE}},
    {"type": "holo-frame", "list": [VALUE, [VALUE], {"text": VALUE}]},
    {"type": "holo-frame", "kind": f"the {VALUE} plan"},
    {"type": "holo-frame", "kind": f"{VALUE}@example.org"},
    {"type": "holo-frame", "kind": [VALUE], "role": {"type": [VALUE]}},
    {"type": f"/{VALUE}", "a": 1},
    {"type": "holo-frame", "version": f"2.1.0-{VALUE}"},
    claude.line("user", [{"type": "text", "text": {VALUE: 5, "a b": 1}}]),
    {"type": "holo-frame", **{f"{VALUE}:{number}": number for number in range(200)}},
]


def claude_line(record: dict[str, Any]) -> dict[str, Any]:
    return {"uuid": "u1", "sessionId": VALUE, "cwd": f"/home/{VALUE}", "version": "2.1.331", **record}


def test_report_contains_no_values(ash: Ash, tmp_path: Path) -> None:
    records = [claude_line(record) for record in HOSTILE]
    records += [claude_line({"type": "holo-frame", "note": {secret: secret}}) for secret in SECRETS.values()]
    records += [claude_line({"type": secret}) for secret in SECRETS.values()]
    written(tmp_path / "s.jsonl", f"{USER}\n" + lines(*records))

    listed = ash("drift", "s.jsonl", "--json", **NO_DATABASE)
    ash("drift", "s.jsonl", "--report", "r.json", **NO_DATABASE)
    report = (tmp_path / "r.json").read_text()

    assert VALUE in listed.out
    assert {group["source"] for group in json.loads(report)["drift"]} == {"claude"}
    assert [
        word for word in ("violet", "marmot", "VIOLET", "example.org", "9182736455") if word in report
    ] == []
    assert [label for label, secret in SECRETS.items() if secret in report] == []
    assert "'holo-frame'" in report
    assert (tmp_path / "r.json").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("record", HOSTILE)
def test_shapes_contain_no_values(record: dict[str, Any]) -> None:
    assert VALUE not in json.dumps(shape_of(claude_line(record)))


SHAPES: list[tuple[Any, Shape]] = [
    (None, "null"),
    (1.5, "number"),
    ([], []),
    ({}, {}),
    ({"$set": {"isMeta": True}}, {"$set": {"isMeta": "boolean"}}),
    ({"data": {"type": "session.next.step.ended.2"}}, {"data": {"type": "'session.next.step.ended.2'"}}),
    ({"Cost": 1}, {"<key>": ["number"]}),
    ({"usage": {"input": 1, "output": 2}}, {"usage": {"input": "number", "output": "number"}}),
    ({"models": {"small": 1, "large": 2}}, {"models": {"<key>": ["number"]}}),
    ([[[[[[[[[[[[[1]]]]]]]]]]]]], [[[[[[[[[[[["..."]]]]]]]]]]]]),
    (
        [1, "a", None, True, {"a": 1}, {"b": 1}],
        ["number", "string", "null", "boolean", {"a": "number"}, "..."],
    ),
]


@pytest.mark.parametrize(("value", "shape"), SHAPES)
def test_shape_of_a_value(value: Any, shape: Shape) -> None:
    assert shape_of(value) == shape


LITERALS = {
    "PLANNER_RESPONSE": True,
    "SDKMessage": True,
    "computer_20241022": True,
    "item/completed": True,
    "session.next.step.ended.2": True,
    "": False,
    "a b": False,
    "a" * 30: False,
    "aBcDeFgH": False,
    "x9k2m4": False,
    **dict.fromkeys(SECRETS.values(), False),
}


def test_literals_are_made_of_words() -> None:
    assert {text: is_literal(text) for text in LITERALS} == LITERALS
