"""The benchmarks run; no duration is asserted."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "RESULTS.md"
SECURITY = ROOT / "docs" / "security.md"
SCALE = ROOT / "docs" / "scale.md"


@pytest.mark.slow
def test_smoke_run_has_a_row_for_every_goal_and_writes_nothing() -> None:
    before = RESULTS.read_bytes() if RESULTS.exists() else None

    result = run("--smoke")

    assert (result.returncode, result.stderr) == (0, "")
    assert set(re.findall(r"^\| (P\d+) ", result.stdout, re.MULTILINE)) == {
        *(f"P{n}" for n in range(1, 19)),
    }
    assert (RESULTS.read_bytes() if RESULTS.exists() else None) == before


@pytest.mark.slow
def test_runs_selected_goals() -> None:
    result = run("--smoke", "--only", "P2,p8")

    assert re.findall(r"^\| (P\d) ", result.stdout, re.MULTILINE) == ["P2", "P2", "P2", "P8"]


@pytest.mark.slow
def test_rejects_an_unknown_goal() -> None:
    result = run("--only", "P0")

    assert result.returncode == 2
    assert "unknown goals: P0" in result.stderr


@pytest.mark.slow
def test_chaos_has_a_row_for_each_kind_of_kill_and_writes_nothing() -> None:
    before = SECURITY.read_bytes()

    result = run("--smoke", module="benchmarks.chaos")

    assert (result.returncode, result.stderr) == (0, "")
    kinds = ["PostgreSQL", "the server", "`ash push`", "one of three servers"]
    assert re.findall(rf"^\| ({'|'.join(kinds)}) +\| 1 ", result.stdout, re.MULTILINE) == kinds
    assert set(re.findall(r"^\| (memory|stalled) ", result.stdout, re.MULTILINE)) == {"memory", "stalled"}
    assert SECURITY.read_bytes() == before


@pytest.mark.slow
def test_soak_has_a_verdict_and_writes_nothing() -> None:
    before = SECURITY.read_bytes()

    result = run("--smoke", module="benchmarks.soak")

    assert (result.returncode, result.stderr) == (0, "")
    assert re.findall(r"^\| soak +\| failed requests .*", result.stdout, re.MULTILINE)
    assert SECURITY.read_bytes() == before


@pytest.mark.slow
def test_scale_has_a_row_for_each_goal_and_writes_nothing() -> None:
    before = SCALE.read_bytes()

    result = run("--smoke", module="benchmarks.scale")

    assert result.returncode == 0, result.stderr
    assert len(re.findall(r"^\| scale \|", result.stdout, re.MULTILINE)) == 34
    assert re.findall(r"^\| ([\d,]+) +\| \d+ +\| ", result.stdout, re.MULTILINE) == ["2,201", "4,406"]
    assert SCALE.read_bytes() == before


def run(*arguments: str, module: str = "benchmarks") -> subprocess.CompletedProcess[str]:
    """Run a benchmark with servers that ignore the settings of the environment."""
    command = [sys.executable, "-m", "tests.forked_commands", module, *arguments]
    environment = {**os.environ, "ASH_DIRECT_URL": "postgresql://127.0.0.1:1/none"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
