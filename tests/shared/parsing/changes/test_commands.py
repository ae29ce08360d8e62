"""Shell commands that may change files."""

import pytest

from ash_shared.parsing.changes import may_change_files

READING = [
    "",
    "ls -la",
    "cd /w && git status",
    "git -P log --oneline | head -5",
    "grep -rn 'rm -rf|mv' src; wc -l \"a b\"",
    "rg TODO 2>/dev/null || true",
    "LANG=C sed -n '1,20p' a.py 2>&1",
    "find . -name '*.py' | sort | uniq -c",
    "echo $(git rev-parse HEAD)",
    "if [ -f a ]; then cat a; fi",
    "/usr/bin/cat a",
    "env",
    "tree -a &>/dev/null",
    "echo " + "1" * 1_000_000,  # hours in quadratic time
]
CHANGING = [
    "rm a",
    "ls > files",
    "echo x >> a",
    "cat a | tee b",
    "sed -i s/a/b/ a",
    "sed --in-place s/a/b/ a",
    "find . -delete",
    "find . -exec rm {} +",
    "git checkout -- a",
    "git commit -m x",
    "git diff --output=a",
    "make",
    "python -c 'print(1)'",
    "ls && npm install",
    "sort -o a a",
    "sort -uo a a",
    "env rm a",
    "tree -o a",
    "echo `rm a`",
    "git",
]


@pytest.mark.parametrize("command", READING, ids=lambda each: each[:40])
def test_reading_commands(command: str) -> None:
    assert not may_change_files(command)


@pytest.mark.parametrize("command", CHANGING)
def test_commands_that_may_change_files(command: str) -> None:
    assert may_change_files(command)
