"""docs/glossary.md: the names listed for names in the original documents exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "glossary.md").read_text()
ROWS = re.findall(
    r"^\| (.+) \| (.+) \|$", PAGE.split("## Names in the documents Ash comes from")[1], re.MULTILINE
)
NAME = re.compile(r"`[\w.]*?(\w+)`")


@pytest.mark.slow
def test_names_exist() -> None:
    source = "\n".join(
        path.read_text()
        for folder in ("ash_shared", "ash_server")
        for path in (ROOT / folder).rglob("*.*")
        if path.suffix in (".py", ".js") and "vendor" not in path.parts
    )
    words = set(re.findall(r"[\w]+", source))

    named = {name for _, here in ROWS for name in NAME.findall(here)}

    assert {"transform_messages", "get_events_since", "Context"} <= named
    assert named - words == set()


def test_names_of_all_documents_are_listed() -> None:
    there = {name for names, _ in ROWS for name in NAME.findall(names)}

    assert there >= {
        "NormalizerContext",
        "StandardMessageSchema",
        "isStreaming",
        "parseClaudeOutput",
        "parseMessageContent",
        "responseSchema",
        "selectFilteredMessages",
        "toClaudeCLIPrompt",
        "transformClaudeMessages",
    }
