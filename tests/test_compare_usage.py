"""The comparison of usage with ccusage."""

from collections.abc import Mapping

from tools.compare_usage import Comparison, Figures, compare

COUNTS = {
    "input_tokens": 10,
    "cache_read_input_tokens": 3,
    "cache_creation_input_tokens": 2,
    "output_tokens": 5,
}


def ash_row(id: str, **changed: float) -> dict[str, object]:
    return {"session": {"id": id}, **COUNTS, "computedCostUsd": 0.5, **changed}


def counted(id: str, **changed: object) -> dict[str, object]:
    row = {"inputTokens": 10, "cacheReadTokens": 3, "cacheCreationTokens": 2, "totalTokens": 20}
    return {"sessionId": id, **row, "totalCost": 0.5, **changed}


def session(id: str, name: str, **metadata: str) -> Mapping[str, object]:
    return {"id": id, "externalId": name, "metadata": metadata}


def test_sessions_are_found_by_file_or_by_the_id_in_their_records() -> None:
    sessions = [
        session("1", "/home/.claude/projects/one/abc.jsonl"),
        session("2", "/home/.claude/projects/two/abc.jsonl"),
        session("3", "sessions/2026/01/01/rollout-1.jsonl"),
        session("4", "session-state/def/events.jsonl"),
        session("5", "tmp/x/chats/session-1.json", sessionId="ghi"),
        session("6", "/home/opencode.db/ses_1"),
        session("7", "unread.jsonl"),
    ]
    usage = [ash_row(str(each["id"]), output_tokens=number) for number, each in enumerate(sessions)]
    rows = [
        counted("abc", projectPath="two"),
        counted("2026/01/01/rollout-1"),
        counted("def", projectPath="GitHub Copilot CLI"),
        counted("ghi"),
        counted("ses_1"),
        counted("absent"),
    ]

    compared, unmatched = compare(sessions, usage, rows, cost="computedCostUsd")

    assert [each.ash.output for each in compared] == [1, 2, 3, 4, 5, 0]
    assert unmatched == ["/home/.claude/projects/one/abc.jsonl", "unread.jsonl"]


def test_output_of_ccusage_includes_reasoning() -> None:
    compared, _ = compare(
        [session("1", "a.jsonl")], [ash_row("1")], [counted("a", outputTokens=3)], cost="computedCostUsd"
    )

    assert compared == [Comparison("a", Figures(10, 3, 2, 5, 0.5), Figures(10, 3, 2, 5, 0.5))]
    assert compared[0].has_equal_tokens
    assert compared[0].has_equal_cost
