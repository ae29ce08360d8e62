"""When agents delete their transcripts."""

from datetime import timedelta
from pathlib import Path

import pytest

from ash_server.transfer.agents import AGENTS
from ash_server.transfer.importing.transcript_files import Home
from ash_server.transfer.retention import RULES, Retention, read_retention


def claude(days: float) -> Retention:
    return Retention("cleanupPeriodDays", timedelta(days=days))


def gemini(**age: int) -> Retention:
    return Retention("general.sessionRetention", timedelta(**age))


@pytest.mark.parametrize(
    ("agent", "settings", "expected"),
    [
        ("claude", None, claude(30)),
        ("claude", '{"model": "opus"}', claude(30)),
        ("claude", '{"cleanupPeriodDays": 365}', claude(365)),
        ("claude", '{"cleanupPeriodDays": "never"}', None),
        ("claude", '{"cleanupPeriodDays": 1e99}', None),
        ("claude", '{"cleanupPeriodDays": NaN}', None),
        ("claude", "[]", None),
        ("claude", "{", None),
        ("gemini_cli", None, gemini(days=30)),
        ("gemini_cli", '{"general": {"sessionRetention": {"maxAge": "4w"}}}', gemini(weeks=4)),
        ("gemini_cli", '{"general": {"sessionRetention": {"maxAge": "24h"}}}', gemini(hours=24)),
        ("gemini_cli", '{"general": {"sessionRetention": {"enabled": false}}}', None),
        ("gemini_cli", '{"general": {"sessionRetention": {"maxAge": "soon"}}}', None),
        ("gemini_cli", '{"general": 1}', gemini(days=30)),
        ("codex", None, None),
    ],
)
def test_retention_follows_the_settings(
    agent: str, settings: str | None, expected: Retention | None, tmp_path: Path
) -> None:
    if settings is not None:
        (tmp_path / "settings.json").write_text(settings)
    [known] = [each for each in AGENTS if each.id == agent]

    assert read_retention(Home(tmp_path, known)) == expected


def test_rules_are_of_known_agents() -> None:
    assert RULES.keys() <= {agent.id for agent in AGENTS}
