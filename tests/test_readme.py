"""The Python examples of the README print the output that it shows."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
SAMPLES = README.parent / "ash_server" / "samples"
SAMPLE_OF_EACH_CLI = (
    "bird-counter",
    "bread-timer",
    "csv-export",
    "recipe-scaler",
    "trail-map",
    "watering-plan",
)


def test_library_example_prints_the_shown_output() -> None:
    program, output = example_of("Import the parser into your own service")

    assert run(program) == output


def test_store_example_prints_the_shown_output(database_url: str) -> None:
    program, output = example_of("Use the store from Python")

    assert len(program.splitlines()) <= 10
    assert run(program.replace("Store.open(None)", f"Store.open({database_url!r})")) == output


@pytest.mark.parametrize("name", SAMPLE_OF_EACH_CLI)
def test_report_script_reads_the_transcripts_of_all_clis(name: str) -> None:
    """The report contains texts, tool calls, results and costs."""
    program, shown = report_script()

    printed = run(program, str(SAMPLES / f"{name}.jsonl"))

    assert {"said", "ran ", "got ", "cost"} <= {line[:4] for line in printed.splitlines()}
    assert len(program.splitlines()) <= 10
    assert (cut_lines(shown) in cut_lines(printed)) is (name == "trail-map")


def example_of(section: str) -> tuple[str, str]:
    """Return the first program of a section of the README, and the output shown below it."""
    text = README.read_text().split(f"### {section}\n")[1]
    match = re.search(r"```python\n([^`]*?)```\n\n```\n(.*?)```", text, re.DOTALL)
    assert match is not None
    return match[1], match[2]


def report_script() -> tuple[str, str]:
    """Return the program, and the part of its output that the README shows."""
    program, rest = README.read_text().split("```python\n", 1)[1].split("```", 1)
    return program, rest.split("```\n", 2)[1]


def run(program: str, *arguments: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True
    )
    return result.stdout


def cut_lines(text: str) -> str:
    """Cut the lines to the width of the page."""
    return "\n".join(line[:110].rstrip() for line in text.strip().splitlines())
