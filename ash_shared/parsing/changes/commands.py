"""Shell commands that may change files: all that do not consist of known commands that only read."""

import re


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_READERS = _words(
    """[ basename cat cd column cut date df diff dirname du echo egrep false fgrep file grep head hostname id jq
    less ls md5sum nl printenv printf ps pwd readlink realpath rg sha256sum sleep sort stat tail test tr true type
    uname uniq wc which whoami"""
)
_GIT_READERS = _words(
    "blame cat-file describe diff grep log ls-files ls-tree merge-base rev-list rev-parse shortlog show status"
)
_WRITING_OPTIONS = {
    "find": re.compile(r"\s-(?:delete|exec|execdir|ok|okdir|fprint|fprintf|fls)\b"),
    "sed": re.compile(r"\s(?:-[a-zA-Z]*i|--in-place)|/w\s"),
    "sort": re.compile(r"\s(?:-[a-zA-Z]*o|--output)"),
    "tree": re.compile(r"\s-[a-zA-Z]*o"),
    "git": re.compile(r"\s--output\b"),
}
_QUOTED = re.compile(r"'[^']*'|\"[^\"`$]*\"")
_HARMLESS_REDIRECTION = re.compile(r"\d{0,9}(?:>&\d|>>?\s*/dev/null)|&>>?\s*/dev/null|<<<")
_SEPARATOR = re.compile(r"[;|&\n()`]|\$\(")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=\S*$")
_KEYWORDS = _words("if then elif else fi while until do done ! { } time command env")


def may_change_files(command: str) -> bool:
    """True unless a command is known to read only. Never raises; the time is linear in its length."""
    bare = _HARMLESS_REDIRECTION.sub(" ", _QUOTED.sub("Q", command))
    return ">" in bare or not all(map(_only_reads, _SEPARATOR.split(bare)))


def _only_reads(command: str) -> bool:
    words = [word for word in command.split() if not _ASSIGNMENT.match(word) and word not in _KEYWORDS]
    if not words:
        return True
    name = words[0].rpartition("/")[2]
    writes = _WRITING_OPTIONS.get(name)
    if writes is not None and writes.search(command):
        return False
    if name == "git":
        return next((word for word in words[1:] if not word.startswith("-")), "") in _GIT_READERS
    return name in _READERS or name in _WRITING_OPTIONS
