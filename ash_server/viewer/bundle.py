"""The modules that an entry reaches as one classic script: what a page needs that is opened from a disk.

Each module becomes a function whose names are its own. It first tells what it exports, then takes what it imports and
runs. Modules run in the order in which a browser would run them, and functions are there before their module has run,
so that modules may import each other.

It knows the forms that our modules are written in, and that minified libraries end in, and refuses others.
"""

import re
from collections.abc import Iterator, Mapping
from posixpath import dirname, join, normpath
from typing import NamedTuple

_NAMED_IMPORT = re.compile(r'^import\s*\{([^}]*)\}\s*from\s*"(\.{1,2}/[^"]+)";?[ \t]*$', re.MULTILINE)
_EXPORTED = re.compile(
    r"^export\s+(default\s+)?((?:async\s+)?(?:function\*?|class|const)\s+([\w$]+))", re.MULTILINE
)
_LIST_AT_END = re.compile(r"\bexport\s*\{([^{}]*)\}\s*;?\s*$")
_DEFAULT_AT_END = re.compile(r"\bexport\s+default\s+([\w$]+(?:\([^()]*\))?)\s*;?\s*$")
_SOURCE_MAP = re.compile(r"^//[#@] sourceMappingURL=.*$", re.MULTILINE)
_MODULE_WORD = re.compile(r"^(?:import|export)\b.*|\bimport(?:\.meta\b|\().*", re.MULTILINE)
_ENDS_SCRIPT = re.compile(r"<(?=/script|!--|script)", re.IGNORECASE)

_DEFAULT = "$default"

_SCRIPT = """\
"use strict";
(() => {{
const $modules = [], $exports = [];
{modules}
for (const [place, module] of $modules.entries()) $exports[place] = module.next().value;
for (const module of $modules) module.next();
}})();
"""
_MODULE = """\
// {path}
$modules.push((function* () {{
yield {{ {exports} }};
{imports}
{body}
}})());
"""


class NotBundled(Exception):
    """A module is written in a form that is not known."""


class _Import(NamedTuple):
    names: tuple[tuple[str, str], ...]
    """What the other module calls it, and what this one does."""
    path: str


class _Module(NamedTuple):
    path: str
    imports: tuple[_Import, ...]
    exports: Mapping[str, str]
    """By what they are called outside, what they are called inside."""
    body: str


def bundle(sources: Mapping[str, str], entry: str) -> str:
    """A script that can stand in a page as it is. Raises NotBundled, and KeyError for a module that there is not."""
    modules: dict[str, _Module] = {}
    _gather(sources, entry, modules, set())
    places = {path: place for place, path in enumerate(modules)}
    written = "".join(_written(module, places) for module in modules.values())
    return _ENDS_SCRIPT.sub(r"\\x3C", _SCRIPT.format(modules=written))


def _gather(sources: Mapping[str, str], path: str, modules: dict[str, _Module], seen: set[str]) -> None:
    if path in seen:
        return
    seen.add(path)
    module = _read(path, sources[path])
    for each in module.imports:
        _gather(sources, each.path, modules, seen)
    modules[path] = module


def _read(path: str, source: str) -> _Module:
    source = _SOURCE_MAP.sub("", source).rstrip()
    source, exports = _take_exports(source)
    imports = tuple(_imports(path, source))
    body = _NAMED_IMPORT.sub("", source).strip()
    if left := _MODULE_WORD.search(_without_comments(body)):
        raise NotBundled(f"{path}: {left[0][:80]}")
    return _Module(path, imports, exports, body)


def _take_exports(source: str) -> tuple[str, dict[str, str]]:
    """The source without them, and what they are."""
    exports = {"default" if default else name: name for default, _, name in _EXPORTED.findall(source)}
    source = _EXPORTED.sub(r"\2", source)
    if found := _LIST_AT_END.search(source):
        exports |= {outside: inside for inside, outside in _names(found[1])}
        source = source[: found.start()]
    elif found := _DEFAULT_AT_END.search(source):
        exports["default"] = _DEFAULT
        source = f"{source[: found.start()]}\nconst {_DEFAULT} = {found[1]};"
    return source, exports


def _imports(path: str, source: str) -> Iterator[_Import]:
    for match in _NAMED_IMPORT.finditer(source):
        yield _Import(_names(match[1]), normpath(join(dirname(path), match[2])))


def _names(listed: str) -> tuple[tuple[str, str], ...]:
    """Each name on the left of `as` with the one on its right, which is the same where there is none."""
    names = (each.split() for each in listed.split(",") if each.strip())
    return tuple((words[0], words[-1]) for words in names)


def _without_comments(body: str) -> str:
    return re.sub(r"^\s*(?://|/?\*).*$", "", body, flags=re.MULTILINE)


def _written(module: _Module, places: Mapping[str, int]) -> str:
    exports = ", ".join(
        f"get {outside}() {{ return {inside}; }}" for outside, inside in module.exports.items()
    )
    imports = "\n".join(
        f"const {{ {_taken(each.names)} }} = $exports[{places[each.path]}];" for each in module.imports
    )
    return _MODULE.format(path=module.path, exports=exports, imports=imports, body=module.body)


def _taken(names: tuple[tuple[str, str], ...]) -> str:
    return ", ".join(outside if outside == inside else f"{outside}: {inside}" for outside, inside in names)
