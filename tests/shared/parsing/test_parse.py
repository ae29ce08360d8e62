"""Exact blocks of a few texts, and the discovery of providers; properties are tested in test_properties."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ash_shared import (
    describe_message,
    parse_jsonl,
    parse_message_content,
    parse_message_content_json,
    providers,
)
from ash_shared.parsing.describe import encode_blocks
from ash_shared.parsing.parse import copy_blocks, find_blocks
from ash_shared.parsing.parsed_text import parse_raw

PADDING = f'"pad":"{"x" * 400}",'
TEXT = r'{"text":"a\/b","type":"text"}'


def test_nested_lone_surrogates_are_replaced() -> None:
    value = "[" * 12 + r'"\ud800"' + "]" * 12
    text = f'{{"type":"assistant",{PADDING}"message":{{"content":[{{"type":"tool_use","name":"n","input":{value}}}]}}}}'

    assert json.loads(parse_message_content_json(text)) == [
        {"type": "tool_use", "name": "n", "input": json.loads(value.replace(r"\ud800", "\ufffd"))}
    ]


BLOCK = r'{"type":"text","text":"näive \/ A"}'


@pytest.mark.parametrize(
    ("text", "copied"),
    {
        "a list": (f'{{"é":1,"type":"user","message":{{"content":[{BLOCK}]}}}}', f"[{BLOCK}]"),
        "a string": ('{"type":"user","message":{"content":"a \\u0041"}}', r'"a \u0041"'),
        "a response": (f'{{"type":"message","model":"m","content":[{BLOCK}]}}', f"[{BLOCK}]"),
        "an empty list": ('{"type":"user","message":{"content":[]}}', "[]"),
        "spaces": (f'{{"type":"user","message":{{"content":[ {BLOCK} ]}}}}', f"[ {BLOCK} ]"),
        "a text in a list": ('{"type":"user","message":{"content":["a"]}}', '"a"'),
        "an unknown block": ('{"type":"user","message":{"content":[{"type":"new"}]}}', None),
        "a record": ('{"type":"summary","summary":"a"}', None),
        "no JSON": ("plain words", None),
        "a lone surrogate": ('{"type":"user","message":{"content":"\ud800"}}', None),
        "a large text": (f'{{"type":"user","message":{{"content":"a"}},"x":"{"x" * 70_000}"}}', None),
        "a share of it": (
            f'{{"type":"user","message":{{"content":"{"a" * 9000}"}},"x":"{"x" * 70_000}"}}',
            f'"{"a" * 9000}"',
        ),
    }.values(),
)
def test_place_of_blocks(text: str, copied: str | None) -> None:
    place = find_blocks(text, "claude")

    assert find_blocks(text, "claude", encode_blocks(parse_raw(text, "claude"))) == place
    if place is None:
        assert copied is None
        return
    found = text.encode()[place.start : place.start + place.size]
    assert found.decode() == copied
    assert copy_blocks(found) == parse_message_content_json(text, "claude")


@pytest.mark.parametrize("key", ["citations", "unknown"])
def test_native_content_is_copied_byte_for_byte(key: str) -> None:
    values = "[1E5,-0,1.50,12345678901234567890123]"
    content = rf'[ {{"text":"a\/b\u0041","{key}":{values},"type":"text"}} ]'
    text = f'{{"type":"user",{PADDING}"message":{{"content":{content}}}}}'

    assert parse_message_content_json(text).decode() == content


@pytest.mark.parametrize(
    "content",
    [
        r'"a\/b"',
        rf'[ {{"content":[{TEXT}, {{"type":"image","source":{{"type":"url"}}}}],"type":"tool_result"}} ]',
        '[{"type":"tool_result","content":["a"]}]',
        f'[{{"type":"tool_result","content":[{{"type":"tool_result","content":[{TEXT}]}}]}}]',
        f'[{TEXT},{{"type":"unknown","n":1E5}}]',
        '[{"type":"text","type":"thinking","text":"a","thinking":"b"}]',
        '[{"type":"text","text":1,"text":"a"},"b",5]',
        f'[{{"type":"tool_use","name":"n","input":{"[" * 7}{"]" * 7}}}]',
        f'[{{"type":"tool_result","content":[{",".join([TEXT] * 10_001)}]}}]',
        f"[{','.join([TEXT] * 10_001)}]",
    ],
    ids=lambda content: content[:70],
)
def test_bytes_do_not_depend_on_the_texts_before(content: str) -> None:
    for _ in range(100):
        parse_message_content_json(_user_line("[]"))
    after_native = parse_message_content_json(_user_line(content))
    parse_message_content_json(_user_line('[{"type":"text","text":"a","unknown":1}]'))

    assert parse_message_content_json(_user_line(content)) == after_native


def _user_line(content: str) -> str:
    return f'{{"type":"user","message":{{"content":{content}}}}}'


@pytest.mark.parametrize("result", [r'"a\/b"', rf"[ {TEXT}, {TEXT} ]"])
def test_results_of_native_blocks_are_copied_byte_for_byte(result: str) -> None:
    content = f'[ {{"type":"tool_result","content":{result}}} ]'

    assert parse_message_content_json(_user_line(content)).decode() == content


@pytest.mark.parametrize(
    "block",
    [
        {
            "type": "file",
            "mime_type": "text/plain",
            "source": {"type": "url", "url": "https://example.org/a"},
        },
        {"type": "raw", "raw_type": "x", "raw": 1, "reason": "opaque"},
    ],
    ids=lambda block: block["type"],
)
def test_names_of_python_are_unknown_keys(block: dict[str, Any]) -> None:
    text = _user_line(json.dumps([block]))

    assert [each.model_dump() for each in parse_message_content(text)] == [block]
    assert json.loads(parse_message_content_json(text)) == [block]


def test_keys_with_equal_replacements_stay_distinct() -> None:
    (block,) = parse_message_content(r'{"\ud800":1,"\udc00":2,"�":3}')

    assert block.model_dump()["raw"] == {"�~1": 1, "�~2": 2, "�": 3}


def test_lines_are_numbered_as_in_the_file() -> None:
    lines = parse_jsonl('"one"\r\n\n  \n{"type":"summary","summary":"two"}\n{"cut":')

    assert [
        (line.number, line.raw, line.message.kind, [b.type for b in line.message.parsed]) for line in lines
    ] == [
        (1, '"one"\r', "message", ["text"]),
        (4, '{"type":"summary","summary":"two"}', "record", ["text"]),
        (5, '{"cut":', "record", ["raw"]),
    ]


def test_discovers_a_provider_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hum.py").write_text(
        "from ash_shared.model.blocks import text_block\n"
        "from ash_shared.records.contract import Provider, ParsedRecord, WireType\n"
        "HUM = WireType(lambda record: ParsedRecord('message', 'user', [text_block(record['hum'])]))\n"
        "PROVIDER = Provider(\n"
        "    source='hum',\n"
        "    recognize=lambda record: HUM if 'hum' in record else None,\n"
        "    wire_type=lambda record: HUM,\n"
        "    parse_block=text_block,\n"
        ")\n"
    )
    before = providers.discover()
    monkeypatch.setattr(providers, "__path__", [*providers.__path__, str(tmp_path)])

    discovered = providers.discover()

    assert discovered.keys() - before.keys() == {"hum"}
    assert discovered["hum"].wire_type({}).parse({"hum": "mm"}).blocks == [{"type": "text", "text": "mm"}]


@pytest.mark.slow
def test_library_depends_on_pydantic_and_msgspec_only() -> None:
    code = (
        "import sys, ash_shared\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules} - set(sys.stdlib_module_names)))"
    )

    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()

    allowed = {"annotated_types", "ash_shared", "msgspec", "pydantic", "pydantic_core"}
    allowed |= {"typing_extensions", "typing_inspection", "__main__"}
    assert {name for name in loaded if not name.startswith(("_", "sitecustomize"))} - allowed == set()


@pytest.mark.slow
def test_library_does_no_io() -> None:
    sources = Path(providers.__file__).parents[1].rglob("*.py")
    forbidden = (
        "asyncio",
        "datetime.now",
        "import os",
        r"open\(",
        "pathlib",
        "random",
        "socket",
        "time.time",
        "uuid4",
    )

    violations = [
        (path.name, word)
        for path in sources
        for word in forbidden
        if re.search(rf"(?<!\w){word}", path.read_text())
    ]
    assert violations == []


def test_many_keys_with_equal_replacements_are_fast() -> None:
    halves = [rf"\ud8{n // 256:02x}\udb{n % 256:02x}" for n in range(20_000)]
    text = "{" + ",".join(f'"{half}":{n}' for n, half in enumerate(halves)) + "}"

    encoded = parse_message_content_json(text)

    assert list(json.loads(encoded)[0]["raw"].values()) == list(range(20_000))
    assert len(encoded) < 2 * len(text)


def test_reads_subclasses_of_str_and_bytes() -> None:
    class Marked(str):
        __slots__ = ()

    for raw in ('{"type":"summary","summary":"s"}', "plain"):
        for same in (Marked(raw), bytearray(raw.encode()), memoryview(raw.encode())):
            assert parse_message_content(same) == parse_message_content(raw)  # type: ignore[arg-type]
            assert parse_message_content_json(same) == parse_message_content_json(raw)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"type":"result","result":{"a":"kept"},"errors":["x"]}', "kept"),
        ('{"type":"result","result":["kept"],"errors":["x"]}', "kept"),
        (
            '{"type":"user","isCompactSummary":true,'
            '"message":{"content":[{"type":"text","text":"a","variant":"kept"}]}}',
            "kept",
        ),
        ('{"messages":[],"content":"kept","role":"user"}', "kept"),
        ('{"type":"user","toolUseResult":"a","tool_use_result":"kept"}', "kept"),
    ],
)
def test_keeps_content_in_a_second_key(text: str, value: str) -> None:
    assert value in parse_message_content_json(text).decode()


def test_invalid_bytes_do_not_complete_an_escape() -> None:
    (block,) = parse_message_content(b'{"type":"text","text":"\\\xff"}')

    assert (block.type, block.model_dump().get("reason")) == ("raw", "invalid_json")


@pytest.mark.parametrize("value", ["1e400", "9" * 5000, "[" * 300 + "]" * 300])
def test_reads_a_line_with_an_undecodable_key(value: str) -> None:
    line = '{"type":"user","uuid":"u1",%s"message":{"role":"assistant","content":"hi"},"other":' + value + "}"
    plain, compacted = line % "", line % '"isCompactSummary":true,'

    description = describe_message(plain)
    assert description[:4] == ("claude", "message", "assistant", ("text",))
    assert description.header.uuid == "u1"
    assert json.loads(parse_message_content_json(plain)) == [{"type": "text", "text": "hi"}]
    assert json.loads(parse_message_content_json(compacted)) == [
        {"type": "text", "text": "hi", "variant": "summary"}
    ]


def test_unknown_object_stays_unknown_with_a_source() -> None:
    for source in (None, "claude"):
        (block,) = parse_message_content("{}", source)

        assert block.model_dump() == {"type": "raw", "reason": "unknown_type", "raw": {}}


@pytest.mark.parametrize(
    ("record", "prompt"),
    [
        ({"type": "user", "message": {"content": "Why  is it\nred?"}}, "Why is it red?"),
        ({"type": "user", "message": {"content": "<system-reminder>Soon.</system-reminder>"}}, None),
        ({"type": "user", "isMeta": True, "message": {"content": "You review."}}, None),
        ({"type": "user", "isCompactSummary": True, "message": {"content": "You asked."}}, None),
        ({"type": "user", "parentUuid": "u1", "message": {"content": "Unknown skill: look-around"}}, None),
        (
            {"type": "user", "parentUuid": None, "message": {"content": "Unknown skill: look-around"}},
            "Unknown skill: look-around",
        ),
        (
            {
                "type": "user",
                "parentUuid": "u1",
                "permissionMode": "default",
                "message": {"content": "Unknown skill: look-around"},
            },
            "Unknown skill: look-around",
        ),
        (
            {"type": "user", "parentUuid": "u1", "message": {"content": "Unknown skill: look-around, why?"}},
            "Unknown skill: look-around, why?",
        ),
        ({"type": "user", "message": {"content": [{"type": "text", "text": " "}]}}, None),
        (
            {
                "type": "user",
                "message": {
                    "content": "<command-name>/look</command-name>\n<command-args>at PR 12</command-args>"
                },
            },
            "/look at PR 12",
        ),
        ({"type": "queue-operation", "operation": "enqueue", "content": "And the door?"}, None),
        ({"type": "user", "message": {"content": "x" * 300}}, "x" * 199 + "…"),
        ({"type": "user", "message": {"content": "<b>Why</b> is it\n<i>red</i>?"}}, "Why is it red ?"),
        ({"type": "user", "message": {"content": "Why is <b> red?"}}, "Why is <b> red?"),
        (
            {
                "role": "user",
                "content": "<!DOCTYPE html>\n<!-- a -->\n<title>404</title>\n<style>p{}</style><p>None.</p>",
            },
            "404 None.",
        ),
        ({"role": "user", "content": "<style>p{}"}, None),
        ({"role": "user", "content": f"Use{' ' * 9_994}token now"}, "Use…"),
        ({"role": "user", "content": f"<p>{' ' * 9_994}token now"}, "…"),
        ({"role": "user", "content": f"Why?{' ' * 9_990}"}, "Why?"),
        ({"type": "assistant", "message": {"content": "Because."}}, None),
        ({"system": "Be brief.", "max_tokens": 9, "messages": [{"role": "user", "content": "Why?"}]}, "Why?"),
        ({"model": "m", "instructions": "Be brief.", "input": "Why?"}, "Why?"),
    ],
)
def test_prompt_is_the_first_user_text(record: object, prompt: str | None) -> None:
    assert describe_message(json.dumps(record)).prompt == prompt


COMMAND = "<command-name>/rename</command-name>\n<command-args>The door</command-args>"


@pytest.mark.parametrize(
    ("record", "title", "is_typed"),
    [
        ({"type": "ai-title", "aiTitle": "The door"}, "The door", False),
        ({"type": "custom-title", "customTitle": "The door"}, "The door", True),
        ({"type": "system", "subtype": "local_command", "content": COMMAND}, "The door", True),
        (
            {"type": "system", "subtype": "local_command", "content": COMMAND.replace("rename", "model")},
            None,
            False,
        ),
    ],
)
def test_title_of_a_claude_session(record: object, title: str | None, is_typed: bool) -> None:
    facts = describe_message(json.dumps(record)).header
    assert (facts.title, facts.is_title_of_person) == (title, is_typed)


@pytest.mark.parametrize(
    ("record", "agent"),
    [
        ({"type": "user", "isSidechain": True, "agentId": "a1", "message": {"content": "Dig."}}, "a1"),
        ({"type": "user", "isSidechain": True, "message": {"content": "Dig."}}, None),
        ({"type": "user", "isSidechain": False, "message": {"content": "Dig."}}, ""),
        ({"type": "user", "agent_id": "a1", "message": {"content": "Dig."}}, None),
        ({"type": "session_meta", "payload": {"id": "t1", "source": "cli"}}, ""),
        ({"type": "session_meta", "payload": {"id": "t1", "forked_from_id": "t0"}}, ""),
        ({"type": "session_meta", "payload": {"id": "t1", "parent_thread_id": "t0"}}, "t1"),
        ({"type": "session_meta", "payload": {"id": "t1", "source": {"subagent": "review"}}}, "t1"),
        ({"type": "turn_context", "payload": {"cwd": "/x"}}, None),
    ],
)
def test_agent_of_a_session(record: object, agent: str | None) -> None:
    assert describe_message(json.dumps(record)).header.agent == agent
