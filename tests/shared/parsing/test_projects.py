import pytest

from ash_shared.parsing.projects import project_of

PROJECTS = [
    (None, None, None),
    ("", None, None),
    ("/", None, "/"),
    ("/home/ada/app", None, "/home/ada/app"),
    ("/home/ada/app/", None, "/home/ada/app"),
    ("/home/ada/app/src", "/home/ada/app", "/home/ada/app"),
    ("/home/ada/app/.claude/worktrees/fix", None, "/home/ada/app"),
    ("/home/ada/app/.claude/worktrees/fix/src/.worktrees/x", None, "/home/ada/app"),
    ("/home/ada/app/.claude/worktrees", None, "/home/ada/app/.claude/worktrees"),
    ("/home/ada/app/.worktrees/fix/src", None, "/home/ada/app"),
    ("/home/ada/app.worktrees/fix", None, "/home/ada/app"),
    (r"C:\work\app\.claude\worktrees\fix", None, r"C:\work\app"),
    ("C:\\work\\app\\", None, r"C:\work\app"),
    ("/home/ada/.codex/worktrees/4f1c/app", None, "/home/ada/.codex/worktrees/app"),
    ("/home/ada/.codex/worktrees/9a2b/app/src", None, "/home/ada/.codex/worktrees/app"),
    ("/home/ada/.codex/worktrees/4f1c", None, "/home/ada/.codex/worktrees/4f1c"),
    ("/home/ada/.cursor/worktrees/app/x1", None, "/home/ada/.cursor/worktrees/app"),
    ("/home/ada/.codex/worktrees/4f1c/app", "/srv/app", "/srv/app"),
    ("/home/ada/app/.claude/worktrees/fix", "/home/ada/app/.claude/worktrees/fix", "/home/ada/app"),
]


@pytest.mark.parametrize(("folder", "root", "project"), PROJECTS)
def test_project_is_the_root_of_the_repository(
    folder: str | None, root: str | None, project: str | None
) -> None:
    assert project_of(folder, root) == project
