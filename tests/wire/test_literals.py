"""Names of records are extracted from small packages of each form."""

import json
from pathlib import Path

import pytest

from tools.wire.declarations import Declarations
from tools.wire.literals import Extractor, Literal, cases, matches, printed_schema, schema, table_keys, union

TYPES = """
import { Usage } from "./usage.js";
/** A comment with type Event = 'wrong' | 'wrong too'; */
export declare type Event = Started | Nested | {
    type: 'inline'; // type: 'comment'
    fields: { type: 'inner' }[];
    on(handler: (event: { type: 'argument' }) => void): void;
} | coreTypes.Other | (Grouped) | Missing;
type Nested = Ended
  | Both;
interface Started extends Base<string>, Named {
    /** Always "started". */
    readonly "type": "started";
    time?: number | null;
}
interface Base<T> { type: string; subtype: 'from_base'; value: T }
declare type Ended = Base<number> & { type: 'ended' } & ({ subtype: 'well' } | { subtype: 'badly' | 'never' });
type Both = { type: "one" | "two"; payload: { type: 'deep'; } | { type: 'deeper' } };
export enum Kinds { FIRST = "first", SECOND = "second", COUNT = 3 }
interface Other { type: Kinds.SECOND; ephemeral: true }
type Grouped = { type: typeof KIND | Kinds };
type Lookup = Event['type'];
type Choice<T> = T extends string ? { type: 'never' } : { type: 'nor' };
type Indexed = { [key: string]: 'value'; type: 'indexed' };
type Loop = Loop | { type: 'loop' };
"""


def test_reads_the_members_of_a_union(tmp_path: Path) -> None:
    declarations = Declarations(TYPES)

    assert [
        (
            member.name,
            declarations.literals_at(member, "type"),
            declarations.literals_at(member, "subtype"),
            declarations.literals_at(member, "payload.type"),
        )
        for member in declarations.members("Event")
    ] == [
        ("Started", ["started"], ["from_base"], []),
        ("Ended", ["ended"], ["well"], []),
        ("Ended", ["ended"], ["badly", "never"], []),
        ("Both", ["one", "two"], [], ["deep", "deeper"]),
        ("Event", ["inline"], [], []),
        ("Other", ["second"], [], []),
        ("Grouped", ["first", "second"], [], []),
    ]


@pytest.mark.parametrize(
    ("name", "literals"), [("Lookup", []), ("Choice", []), ("Indexed", ["indexed"]), ("Loop", ["loop"])]
)
def test_other_types_have_few_literals(name: str, literals: list[str]) -> None:
    declarations = Declarations(TYPES)

    found = [
        value for member in declarations.members(name) for value in declarations.literals_at(member, "type")
    ]
    assert sorted(set(found)) == literals


def test_a_union_that_is_gone_is_an_error() -> None:
    with pytest.raises(KeyError):
        Declarations(TYPES).members("Renamed")


@pytest.mark.parametrize(
    "text",
    [
        "type A = ",
        "type A = {",
        "type A = {a",
        "interface A",
        "enum A {",
        "type A = (",
        "type A = " + "(" * 5000,
        "<" * 5000,
    ],
)
def test_broken_files_end(text: str) -> None:
    Declarations(text)


BUNDLE = (
    b'\x00\xff\x7fELF..."custom-title":"x"; var a={user:"kept","custom-title":"last","ai-title":"last",tag:"last"},b=1;'
    b'f({type:"cost-state",sessionId:e});g({type:"host-row",v:1,sessionId:e});h({type:"text",text:e});'
    b'var c={"custom-title":"x",n:5};var d={"custom-title":"always","continued-in":"always"};'
    b'if(e==="repl-mode"||e==="hybrid-mode"?"last-wins":0)'
)

PARSER = """
match message["type"]:
    case "user" | "assistant":
        match message.get("subtype"):
            case "init":
                pass
            case other:
                print("not a case")
    case 5 | None:
        pass
"""

SCHEMA = {
    "title": "Line",
    "oneOf": [
        {"properties": {"type": {"enum": ["session_meta"]}}},
        {"properties": {"type": {"const": "event_msg"}}},
        {"$ref": "#/definitions/Other"},
    ],
    "definitions": {
        "Other": {"properties": {"type": {"enum": ["other"]}}},
        "Event": {
            "oneOf": [{"properties": {"type": {"type": "string", "enum": ["a", "b"]}}}, {"type": "null"}]
        },
    },
}

EXTRACTED: list[tuple[str, bytes, Extractor, list[Literal]]] = [
    (
        "a union, with subtypes",
        TYPES.encode(),
        union("Nested", "type", "subtype"),
        [
            Literal("ended/well", "Ended"),
            Literal("ended/badly", "Ended"),
            Literal("ended/never", "Ended"),
            Literal("one", "Both"),
            Literal("two", "Both"),
        ],
    ),
    (
        "a table in a program",
        BUNDLE,
        table_keys("custom-title"),
        [
            Literal(name, "table with `custom-title`")
            for name in ("user", "custom-title", "ai-title", "tag", "custom-title", "continued-in")
        ],
    ),
    (
        "code in a program",
        BUNDLE,
        matches(r'type:"([a-z-]+)",(?:v:\w+,)?sessionId:', 'type:"{}"', "record/{}"),
        [Literal("record/cost-state", 'type:"cost-state"'), Literal("record/host-row", 'type:"host-row"')],
    ),
    (
        "cases of Python",
        PARSER.encode(),
        cases,
        [Literal(name, f'case "{name}"') for name in ("user", "assistant", "init")],
    ),
    (
        "the root of a schema",
        json.dumps(SCHEMA).encode(),
        schema(""),
        [Literal(name, "Line") for name in ("session_meta", "event_msg", "other")],
    ),
    (
        "a definition of a schema",
        json.dumps(SCHEMA).encode(),
        schema("Event", "event_msg/{}"),
        [Literal("event_msg/a", "Event"), Literal("event_msg/b", "Event")],
    ),
]


@pytest.mark.parametrize(
    ("title", "content", "extract", "literals"), EXTRACTED, ids=[row[0] for row in EXTRACTED]
)
def test_extracts_names(
    tmp_path: Path, title: str, content: bytes, extract: Extractor, literals: list[Literal]
) -> None:
    (tmp_path / "file").write_bytes(content)

    assert sorted(extract(tmp_path / "file")) == sorted(literals)


def test_a_program_prints_its_schema_in_an_empty_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "program"
    program.write_text(
        "#!/bin/sh\n"
        'mkdir "$4" && cat > "$4/Line.json" <<END\n'
        '{"oneOf": [{"properties": {"type": {"enum": '
        '["$1", "$2", "${ASH_SECRET:-no secret}", "$(ls -A "$HOME")"]}}}]}\n'
        "END\n"
    )
    monkeypatch.setenv("ASH_SECRET", "secret")

    extracted = printed_schema(["server", "print"], "Line.json", schema(""))(program)

    assert [literal.name for literal in extracted] == ["server", "print", "no secret", "schema"]
