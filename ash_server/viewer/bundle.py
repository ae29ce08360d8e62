"""Bundle ES modules into one classic script, as needed by pages opened from disk, or into one module.

Each module becomes a function, so its names stay local. It binds its imports, runs and returns its exports. Modules run
in the order that a browser runs them.

Only the syntax of our own modules and of the vendored libraries is supported; other syntax, and circular imports, raise
BundleError. A script that is one variable becomes a module that exports it. `import("../bundled/….js")` stays, and
loads another bundle when it is called.
"""

import re
from collections.abc import Iterator, Mapping
from posixpath import dirname, join, normpath
from typing import NamedTuple

_NAMED_IMPORT = re.compile(r'^import\s*\{([^}]*)\}\s*from\s*"(\.{1,2}/[^"]+)";?[ \t]*$', re.MULTILINE)
_EXPORTED = re.compile(
    r"^export\s+(default\s+)?((?:async\s+)?(?:function\*?|class|const)\s+([\w$]+))", re.MULTILINE
)
_EXPORT_LIST = re.compile(r"\bexport\s*\{([^{}]*)\}\s*;?\s*$")
_DEFAULT_EXPORT = re.compile(r"\bexport\s+default\s+([\w$]+(?:\([^()]*\))?)\s*;?\s*$")
_SCRIPT_VARIABLE = re.compile(r"^var ([\w$]+)=")
_SOURCE_MAP = re.compile(r"^//[#@] sourceMappingURL=.*$", re.MULTILINE)
_MODULE_SYNTAX = re.compile(r"^(?:import|export)\b.*|\bimport(?:\.meta\b|\().*", re.MULTILINE)
_BUNDLE_LATER = re.compile(r'\bimport\("\.\./bundled/[\w-]+\.js"\)')
_SCRIPT_TAG = re.compile(r"<(?=/script|!--|script)", re.IGNORECASE)

_DEFAULT = "$default"

# Libraries create errors when they load. The stack of such an error would make V8 parse the whole script again.
_SCRIPT = """\
"use strict";
(() => {{
const $exports = [];
const $limit = Error.stackTraceLimit;
Error.stackTraceLimit = undefined;
{modules}
Error.stackTraceLimit = $limit;
}})();
"""
_LIBRARY = """\
const $exports = [];
{modules}
export const {{ {exports} }} = $exports[{index}];
"""
_MODULE = """\
// {path}
$exports.push((() => {{
{imports}
{body}
return {{ {exports} }};
}})());
"""


class BundleError(Exception):
    """A module uses syntax that is not supported, or imports itself through others."""


class _Import(NamedTuple):
    names: tuple[tuple[str, str], ...]
    """Exported and local names."""
    path: str


class _Module(NamedTuple):
    path: str
    imports: tuple[_Import, ...]
    exports: Mapping[str, str]
    """Local names by exported names."""
    body: str


def bundle(sources: Mapping[str, str], entry: str) -> str:
    """Return a script that can be inlined into a page. Raises BundleError, and KeyError for a missing module."""
    return _SCRIPT_TAG.sub(r"\\x3C", _SCRIPT.format(modules=_code_of(_collect_modules(sources, entry))))


def bundle_library(sources: Mapping[str, str], entry: str) -> str:
    """Return a module with the named exports of the entry. Raises as `bundle` does."""
    modules = _collect_modules(sources, entry)
    exports = ", ".join(modules[entry].exports)
    return _LIBRARY.format(modules=_code_of(modules), exports=exports, index=len(modules) - 1)


def _collect_modules(sources: Mapping[str, str], entry: str) -> dict[str, _Module]:
    """Return the modules in execution order; the entry is the last one."""
    modules: dict[str, _Module] = {}
    _collect(sources, (entry,), modules)
    return modules


def _code_of(modules: Mapping[str, _Module]) -> str:
    indices = {path: index for index, path in enumerate(modules)}
    return "".join(_module_code(module, indices) for module in modules.values())


def _collect(sources: Mapping[str, str], chain: tuple[str, ...], modules: dict[str, _Module]) -> None:
    """Parse the last module of a chain of imports, and its imports, and add them in execution order."""
    *importers, path = chain
    if path in importers:
        raise BundleError(f"circular imports: {' -> '.join(chain)}")
    if path in modules:
        return
    module = _parse_module(path, sources[path])
    for imported in module.imports:
        _collect(sources, (*chain, imported.path), modules)
    modules[path] = module


def _parse_module(path: str, source: str) -> _Module:
    source = _SOURCE_MAP.sub("", source).rstrip()
    source, exports = _split_exports(source)
    imports = tuple(_parse_imports(path, source))
    body = _NAMED_IMPORT.sub("", source).strip()
    if unsupported := _MODULE_SYNTAX.search(_BUNDLE_LATER.sub("", _remove_comments(body))):
        raise BundleError(f"{path}: {unsupported[0][:80]}")
    return _Module(path, imports, exports, body)


def _split_exports(source: str) -> tuple[str, dict[str, str]]:
    """Return the source without `export` keywords, and the exports."""
    exports = {"default" if default else name: name for default, _, name in _EXPORTED.findall(source)}
    source = _EXPORTED.sub(r"\2", source)
    if match := _EXPORT_LIST.search(source):
        exports |= {exported: local for local, exported in _parse_names(match[1])}
        source = source[: match.start()]
    elif match := _DEFAULT_EXPORT.search(source):
        exports["default"] = _DEFAULT
        source = f"{source[: match.start()]}\nconst {_DEFAULT} = {match[1]};"
    elif not exports and (match := _SCRIPT_VARIABLE.match(source)):
        exports["default"] = match[1]
    return source, exports


def _parse_imports(path: str, source: str) -> Iterator[_Import]:
    for match in _NAMED_IMPORT.finditer(source):
        yield _Import(_parse_names(match[1]), normpath(join(dirname(path), match[2])))


def _parse_names(names: str) -> tuple[tuple[str, str], ...]:
    """The names on both sides of `as`, which are equal without `as`."""
    words = (name.split() for name in names.split(",") if name.strip())
    return tuple((each[0], each[-1]) for each in words)


def _remove_comments(body: str) -> str:
    return re.sub(r"^\s*(?://|/?\*).*$", "", body, flags=re.MULTILINE)


def _module_code(module: _Module, indices: Mapping[str, int]) -> str:
    exports = ", ".join(f"{exported}: {local}" for exported, local in module.exports.items())
    imports = "\n".join(
        f"const {{ {_destructuring(each.names)} }} = $exports[{indices[each.path]}];"
        for each in module.imports
    )
    return _MODULE.format(path=module.path, exports=exports, imports=imports, body=module.body)


def _destructuring(names: tuple[tuple[str, str], ...]) -> str:
    return ", ".join(exported if exported == local else f"{exported}: {local}" for exported, local in names)
