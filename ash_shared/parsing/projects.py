"""The project of a session: the root of the repository that its agent works in, as far as paths and records say."""

import re


def project_of(folder: str | None, root: str | None = None) -> str | None:
    """Return the project of a working folder; None if no folder is known.

    `root` is the root of the repository, if a record states it. Folders of worktrees belong to their repository. Where
    their path contains only its name, all its worktrees are one project: `~/.codex/worktrees/4f1c/app` becomes
    `~/.codex/worktrees/app`.
    """
    path = _without_end_slash(root or folder or "")
    if not path:
        return None
    inside = _INSIDE_REPOSITORY.match(path)
    if inside is not None:
        return inside["repository"]
    for layout in _OUTSIDE_REPOSITORY:
        if (apart := layout.match(path)) is not None:
            return apart["folder"] + apart["repository"]
    return path


def _without_end_slash(path: str) -> str:
    return path.rstrip("/\\") or path[:1]


_INSIDE_REPOSITORY = re.compile(
    r"(?P<repository>.+?)(?:[/\\]\.claude[/\\]worktrees|[/\\]?\.worktrees)[/\\][^/\\]+(?:[/\\].*)?", re.DOTALL
)
"""Worktrees in or beside their repository: of Claude Code and VS Code, and by a common convention."""

_OUTSIDE_REPOSITORY = tuple(
    re.compile(layout + r"(?:[/\\].*)?\Z", re.DOTALL)
    for layout in (
        r"(?P<folder>.*[/\\]\.codex[/\\]worktrees[/\\])[^/\\]+[/\\](?P<repository>[^/\\]+)",
        r"(?P<folder>.*[/\\]\.cursor[/\\]worktrees[/\\])(?P<repository>[^/\\]+)[/\\][^/\\]+",
    )
)
"""Worktrees in a folder of their tool: of Codex and Cursor."""
