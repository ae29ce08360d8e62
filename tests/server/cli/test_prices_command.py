"""`ash prices`: it needs no database."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from genai_prices import __version__

from tests.server.cli.test_cli import Ran, ran_here

Prices = Callable[..., Ran]
REVISION = f"genai-prices {__version__}"


@pytest.fixture
def prices(tmp_path: Path) -> Prices:
    def run(*arguments: str, **variables: str) -> Ran:
        environment = {"HOME": str(tmp_path), "ASH_HOME": str(tmp_path / "ash"), **variables}
        return ran_here(("prices", *arguments), environment, tmp_path)

    return run


def rows(out: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in out.splitlines()]


def test_show_all_prices_of_a_model(prices: Prices) -> None:
    ran = prices("show", "claude-opus-4-6[1m]", "--at", "2026-03-01")

    assert (ran.code, ran.err) == (0, "")
    assert rows(ran.out) == [
        [
            f"claude-opus-4-6 of anthropic, 2026-03-01 00:00 UTC, {REVISION}; "
            "dollars per million tokens; searches: per thousand"
        ],
        ["REQUESTS", "INPUT", "CACHE READ", "WRITE 5M", "WRITE 1H", "OUTPUT", "SEARCHES"],
        ["standard", "5", "0.5", "6.25", "10", "25", "10"],
        ["above 200,000 tokens", "10", "1", "12.5", "20", "37.5", "10"],
        ["processing batch", "2.5", "0.25", "3.125", "5", "12.5", "10"],
        ["processing batch, above 200,000 tokens", "5", "0.5", "6.25", "10", "18.75", "10"],
        ["region us", "5.5", "0.55", "6.875", "11", "27.5", "10"],
        ["region us, above 200,000 tokens", "11", "1.1", "13.75", "22", "41.25", "10"],
        ["speed fast", "30", "3", "37.5", "60", "150", "10"],
        ["speed fast, above 200,000 tokens", "60", "6", "75", "120", "225", "10"],
    ]


def test_show_the_prices_of_a_program_that_resells_models(prices: Prices) -> None:
    ran = prices("show", "claude-opus-4.8", "--source", "copilot_cli", "--at", "2026-11-01T12:00+02:00")

    assert rows(ran.out)[0][0].startswith("claude-opus-4.8 of github-copilot, 2026-11-01 10:00 UTC")
    assert rows(ran.out)[2:] == [["standard", "5", "0.5", "6.25", "10", "25", "10"]]


def test_list_the_models_that_contain_all_words(prices: Prices, tmp_path: Path) -> None:
    own = tmp_path / "own.json"
    own.write_text(json.dumps({"claude-opus-5": {"input": 0.0125, "output": 2}}))

    ran = prices("list", "Opus-4.8", "GitHub-Copilot/")
    with_own = prices("list", "own/claude-opus", ASH_PRICES=str(own))

    assert rows(ran.out)[1:] == [
        ["github-copilot", "claude-opus-4.8", "5", "0.5", "6.25", "10", "25", "10"],
        ["github-copilot", "claude-opus-4.8-fast", "10", "1", "12.5", "20", "50", "10"],
        [f"2 models, {REVISION}; dollars per million tokens; searches: per thousand"],
    ]
    assert rows(with_own.out)[1] == ["own", "claude-opus-5", "0.0125", "0.0125", "0.0125", "0.0125", "2"]


@pytest.mark.slow
def test_list_all_models_without_a_command(prices: Prices) -> None:
    ran = prices()

    assert ran.code == 0
    assert len(rows(ran.out)) > 2000


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ["show", "no-such-model"],
            1,
            "no price list has no-such-model: its usage is unpriced. Set ASH_PRICES",
        ),
        (
            ["show", "gpt-4.1", "--source", "copilot_cli", "--at", "2026-11-01"],
            1,
            "gpt-4.1 of github-copilot has no price on 2026-11-01: its usage is unpriced. Set ASH_PRICES",
        ),
        (["show", "gpt-5", "--at", "May"], 2, "it is a date, or a time such as 2026-11-02T09:00"),
        (["show", ""], 2, "empty"),
        (["list", "no such model"], 1, "no model with a price contains these words"),
        (["update", "--url", "http://localhost/"], 1, "http://localhost/ is not an https address"),
        (["update", "--url", "https://localhost:1/"], 1, "localhost cannot be reached"),
    ],
)
def test_errors_say_what_to_do(prices: Prices, arguments: list[str], code: int, message: str) -> None:
    ran = prices(*arguments)

    assert (ran.code, ran.out) == (code, "")
    assert message in ran.err


def test_an_invalid_file_of_own_prices_is_an_error(prices: Prices, tmp_path: Path) -> None:
    own = tmp_path / "own.json"
    own.write_text('{"a": {"input": 1}}')

    ran = prices("list", "a", ASH_PRICES=str(own))

    assert (ran.code, ran.err) == (1, f'ash: {own}: "a" needs "output", in dollars per million tokens\n')
