"""docs/python.md: its examples print the shown output, and it covers the public names."""

import io
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import ash_server
import ash_server.transfer
import ash_shared

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "python.md").read_text()

PUBLIC_NAMES = [
    "CHUNKS",
    "EVENT_TYPES",
    "NORMALIZER_VERSION",
    "PARSER_VERSION",
    "BlockSource",
    "ChatEvent",
    "Context",
    "Description",
    "Drift",
    "ExecutionResponse",
    "RecordHeader",
    "FileContent",
    "ImageContent",
    "Kind",
    "KnownEvent",
    "Message",
    "MessageContent",
    "MessageError",
    "MessageMetadata",
    "Normalizer",
    "OtherEvent",
    "ParsedLine",
    "RawContent",
    "RawReason",
    "ParsedMessage",
    "Role",
    "SessionSummary",
    "StandardMessage",
    "StandardTokenUsage",
    "TextContent",
    "ThinkingContent",
    "ToolResultContent",
    "ToolUseContent",
    "describe_message",
    "filter_system_messages",
    "is_system_message",
    "parse_cli_output",
    "parse_jsonl",
    "parse_message_content",
    "parse_message_content_json",
    "read_event",
    "parse_message",
    "split_lines",
    "to_anthropic_messages",
    "to_atif",
    "to_claude_prompt",
    "to_codex_prompt",
    "to_openai_messages",
    "to_otel_genai",
    "to_otlp",
    "to_session_summary",
    "to_ui_messages",
    "transform_messages",
    "visible_text",
]
"""Released names: removing or renaming one breaks programs that import it."""


SAMPLE_OF_EACH_CLI = (
    "bird-counter",
    "bread-timer",
    "csv-export",
    "recipe-scaler",
    "trail-map",
    "watering-plan",
)


class Example(NamedTuple):
    code: str
    output: str


EXAMPLES = [Example(*match) for match in re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", PAGE, re.DOTALL)]


def test_public_names_are_stable() -> None:
    assert sorted(ash_shared.__all__) == sorted(PUBLIC_NAMES)
    assert sorted(ash_server.__all__) == ["NewMessage", "Store"]
    assert ash_server.transfer.__all__ == ["load_session", "load_sessions"]
    assert [name for name in ash_shared.__all__ if not hasattr(ash_shared, name)] == []


def test_examples_print_the_shown_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "page"}

    for code, output in EXAMPLES:
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(compile(code, "docs/python.md", "exec"), namespace)  # a page of the repository
        assert printed.getvalue() == output, code


def test_every_code_block_is_an_example() -> None:
    assert PAGE.count("```python\n") == len(EXAMPLES) > 10


def test_page_covers_exactly_the_public_names() -> None:
    code = "\n".join(example.code for example in EXAMPLES)
    imports = re.findall(r"^from ash_shared import (?:\(([^)]*)\)|(.*))$", code, re.MULTILINE)
    imported = {name.strip() for groups in imports for name in "".join(groups).split(",")} - {""}

    assert imported == set(ash_shared.__all__)
    assert [name for name in imported if len(re.findall(rf"\b{name}\b", code)) < 2] == []
    assert [
        name for name in (*ash_shared.__all__, *ash_server.__all__, "load_session") if name not in PAGE
    ] == []


@pytest.mark.parametrize("name", SAMPLE_OF_EACH_CLI)
def test_report_reads_the_transcripts_of_all_clis(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The report contains texts, tool calls, results and costs."""
    [program] = [example.code for example in EXAMPLES if "def report" in example.code]
    sample = ROOT / "ash_server" / "samples" / f"{name}.jsonl"

    exec(compile(program.replace('"session.jsonl"', repr(str(sample))), "docs/python.md", "exec"), {})

    printed = capsys.readouterr().out
    shown = PAGE.split("(cut to the width of this\npage)")[1].split("```\n")[1]
    assert {"said", "ran ", "got ", "cost"} <= {line[:4] for line in printed.splitlines()}
    assert (cut_lines(shown) in cut_lines(printed)) is (name == "trail-map")


def cut_lines(text: str) -> str:
    """Cut the lines to the width of the page."""
    return "\n".join(line[:110].rstrip() for line in text.strip().splitlines())


def test_table_of_blocks_has_every_field() -> None:
    rows = dict(re.findall(r"^\| `(\w+Content)` \| (.*) \|$", PAGE, re.MULTILINE))
    common = {"source_type", "extra", "type"}

    documented = {name: set(re.findall(r"`([a-z_]+)`", row)) for name, row in rows.items()}

    assert documented == {name: {*getattr(ash_shared, name).model_fields} - common for name in rows}
    assert len(rows) == 7
