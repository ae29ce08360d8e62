"""The README's examples of the library print what the README says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
SAMPLES = README.parent / "ash_server" / "samples"
ONE_OF_EACH_CLI = ("bird-counter", "bread-timer", "csv-export", "recipe-scaler", "trail-map", "watering-plan")


def test_the_library_example_prints_what_stands_below_it() -> None:
    program, output = example_of("Import the parser into your own service")

    assert run(program) == output


def test_the_store_example_prints_what_stands_below_it(database_url: str) -> None:
    program, output = example_of("Use the store from Python")

    assert len(program.splitlines()) <= 10
    assert run(program.replace("Store.open(None)", f"Store.open({database_url!r})")) == output


@pytest.mark.parametrize("name", ONE_OF_EACH_CLI)
def test_ten_lines_tell_what_an_agent_of_any_cli_did(name: str) -> None:
    """What the assistant said, which tools it ran, with what result, at what cost."""
    program, shown = ten_lines()

    printed = run(program, str(SAMPLES / f"{name}.jsonl"))

    assert {"said", "ran ", "got ", "cost"} <= {line[:4] for line in printed.splitlines()}
    assert len(program.splitlines()) <= 10
    assert (cut(shown) in cut(printed)) is (name == "trail-map")


def example_of(section: str) -> tuple[str, str]:
    """The first program of a section of the README, and its output."""
    text = README.read_text().split(f"### {section}\n")[1]
    found = re.search(r"```python\n([^`]*?)```\n\n```\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1], found[2]


def ten_lines() -> tuple[str, str]:
    """The program, and the part of its output that the README shows."""
    program, rest = README.read_text().split("```python\n", 1)[1].split("```", 1)
    return program, rest.split("```\n", 2)[1]


def run(program: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout


def cut(text: str) -> str:
    """Its lines as far as a page is wide."""
    return "\n".join(line[:110].rstrip() for line in text.strip().splitlines())
