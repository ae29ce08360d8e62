"""Write the result as docs/wire.md."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from tools.wire.comparison import Compared, Ignored
from tools.wire.sources import NOT_COMPARED

_INTRODUCTION = """\
# Types in the vendors' packages

`make wire` writes this page, and a weekly workflow runs it: it downloads the newest packages, extracts the names of
records and events, and compares them with the tables of the providers. Nothing of a package is executed, except
Codex's program, which prints the schema of its files. [Adding a provider](adding-a-provider.md) says what to do with an
unknown name.
"""


def to_page(compared: Sequence[Compared], ignored: Iterable[Ignored], day: str) -> str:
    """Return the page in Markdown."""
    lines = chain(
        [_INTRODUCTION, f"Compared on {day}.\n"],
        _overview(compared),
        ["\n## Unknown\n"],
        _unknown(compared) or ["Unknown: none.\n"],
        [
            "\n## Ignored\n",
            "These names are in the packages, but not in a record that is stored or printed.\n",
        ],
        _ignored(compared, ignored),
        ["\n## Known\n"],
        (f"**{each.names.title}**: {_names(each.known)}\n" for each in compared),
        ["\n## Not compared\n"],
        (f"- {program}: {reason}" for program, reason in NOT_COMPARED.items()),
    )
    return "\n".join(lines).replace("\n\n\n", "\n\n") + "\n"


def _overview(compared: Iterable[Compared]) -> Iterator[str]:
    yield "| list | package | version | known | ignored | unknown |"
    yield "|---|---|---|---|---|---|"
    for each in compared:
        package = f"{each.names.package.registry} `{each.names.package.name}`"
        counts = " | ".join(str(len(names)) for names in (each.known, each.ignored, each.unknown))
        yield f"| {each.names.title} | {package} | {each.version} | {counts} |"


def _unknown(compared: Iterable[Compared]) -> list[str]:
    rows = [
        f"| `{literal.name}` | {each.names.title} | {each.version} | {_code(literal.place)} |"
        for each in compared
        for literal in each.unknown
    ]
    return ["| name | list | version | place |", "|---|---|---|---|", *rows] if rows else []


def _ignored(compared: Iterable[Compared], ignored: Iterable[Ignored]) -> Iterator[str]:
    present = {(each.names.title, name) for each in compared for name in each.ignored}
    for group in ignored:
        places = {
            name: place
            for name, place in group.places.items()
            if not present.isdisjoint((title, name) for title in group.lists)
        }
        if places:
            yield f"**{', '.join(group.lists)}**: {group.reason}.\n"
            yield "| name | shown by |"
            yield "|---|---|"
            yield from (f"| `{name}` | {_code(place)} |" for name, place in sorted(places.items()))
            yield ""


def _code(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"
