"""docs/python-client.md: its examples print the shown output, and it covers the public names."""

import io
import re
import threading
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

import ash_client

PAGE = (Path(__file__).parents[2] / "docs" / "python-client.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", PAGE, re.DOTALL)


def test_examples_print_the_shown_output(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASH_URL", server)
    monkeypatch.delenv("ASH_KEY", raising=False)
    printed: list[str] = []

    def run_examples() -> None:
        namespace: dict[str, Any] = {"__name__": "page"}
        for code, _ in EXAMPLES:
            with redirect_stdout(io.StringIO()) as output:
                exec(compile(code, "docs/python-client.md", "exec"), namespace)  # a page of the repository
            printed.append(output.getvalue())

    # In a thread, because the page starts an event loop.
    thread = threading.Thread(target=run_examples)
    thread.start()
    thread.join()

    assert printed == [output for _, output in EXAMPLES]


def test_every_code_block_is_an_example() -> None:
    assert PAGE.count("```python\n") == len(EXAMPLES)


def test_page_covers_the_public_names() -> None:
    assert [name for name in ash_client.__all__ if name not in PAGE] == ["MessageToAppend"]
