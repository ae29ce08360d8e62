"""The reference of the Python packages, from their docstrings.

The packages are read, not imported. A name is listed once, where it is imported from; names with a leading underscore
are left out, and their public members appear in the classes that inherit them.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import griffe

from tools.site.pages import ROOT, Section, write

PACKAGES = ("ash_shared", "ash_client", "ash_stores", "ash_server")
MAX_SIGNATURE = 88
"""Characters of a signature in one line."""
MAX_VALUE = 300
"""Characters of a default value."""
STARS = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}

INTRODUCTION = """# Python reference

What programs import, from its docstrings. The guides are [Python API](../../python.md), [standard
messages](../../standard-message.md), [Python client](../../python-client.md), [session
stores](../../integrations.md) and [the store](../../store.md).
"""


def write_python_reference(folder: Path) -> list[Section]:
    """Write the pages, and return their section of the index page."""
    loader = griffe.GriffeLoader(search_paths=[ROOT], allow_inspection=False)
    for package in PACKAGES:
        loader.load(package)
    loader.resolve_aliases()
    modules = loader.modules_collection
    place = folder / "reference" / "python"
    write(place / "index.md", INTRODUCTION)
    pages = ["index"]
    for title, names in contents(modules):
        write(place / f"{title}.md", "\n\n".join(reference_page(title, names, modules)) + "\n")
        pages.append(title)
    return [("Python reference", [f"reference/python/{page}.md" for page in pages])]


def contents(modules: griffe.ModulesCollection) -> Iterator[tuple[str, Iterable[str]]]:
    """Yield the title of each page, and the public names on it."""
    exported = [f"ash_shared.{name}" for name in modules["ash_shared"].exports or ()]
    known = {target(modules[name]).path for name in exported}
    yield "ash_shared", exported
    models = [
        member.path
        for module in submodules(modules["ash_shared.model"])
        for member in module.members.values()
        if is_public_class(member) and member.path not in known
    ]
    yield "ash_shared.model", models
    for package, module in (("ash_client", "ash_client.requests"), ("ash_stores", None)):
        exported = [f"{package}.{name}" for name in modules[package].exports or ()]
        known = {target(modules[name]).path for name in exported}
        others = modules[module].members.values() if module else ()
        yield (
            package,
            [*exported, *(each.path for each in others if is_query(each) and each.path not in known)],
        )
    exported = [f"ash_server.{name}" for name in modules["ash_server"].exports or ()]
    store = modules["ash_server.store.store.Store"]
    yield "ash_server", [*sorted(exported, reverse=True), *resources(store)]
    errors = modules["ash_server.errors"].members.values()
    yield "ash_server.errors", [each.path for each in errors if is_public_class(each)]


def resources(store: griffe.Object) -> Iterator[str]:
    """Yield the classes of the attributes of `Store`, such as `sessions`."""
    for member in store.members.values():
        annotation = getattr(member, "annotation", None)
        if isinstance(annotation, griffe.ExprName) and annotation.name.endswith(("Store", "Reader")):
            yield annotation.canonical_path


def submodules(module: griffe.Object) -> Iterator[griffe.Object]:
    yield module
    for member in module.modules.values():
        if not member.name.startswith("_"):
            yield from submodules(member)


def is_public_class(member: griffe.Object | griffe.Alias) -> bool:
    return not member.is_alias and member.is_class and not member.name.startswith("_")


def is_query(member: griffe.Object | griffe.Alias) -> bool:
    return is_public_class(member) and any("TypedDict" in str(base) for base in member.bases)


def target(member: griffe.Object | griffe.Alias) -> griffe.Object:
    return member.final_target if member.is_alias else member


def reference_page(title: str, names: Iterable[str], modules: griffe.ModulesCollection) -> Iterator[str]:
    yield f"# {title}"
    yield docstring(modules[title])
    for name in names:
        module, _, short = name.rpartition(".")
        yield f"## {short} {{ #{short} }}"
        if module != title:
            yield f"From `{module}`."
        yield from description(target(modules[name]), short)


def description(member: griffe.Object, name: str) -> Iterator[str]:
    """Yield the declaration, the docstring and the members."""
    yield f"```python\n{declaration(member, name)}\n```"
    yield docstring(member)
    if isinstance(member, griffe.Class):
        shown = list(members(member))
        yield "\n".join(field(each) for each in shown if isinstance(each, griffe.Attribute))
        for each in shown:
            if isinstance(each, griffe.Function):
                yield f"### {each.name} {{ #{name}.{each.name} }}"
                yield from description(each, each.name)


def declaration(member: griffe.Object, name: str) -> str:
    if isinstance(member, griffe.Function):
        labels = [label for label in ("classmethod", "staticmethod") if label in member.labels]
        kind = "async def" if "async" in member.labels else "def"
        returns = f" -> {plain(member.returns)}" if member.returns is not None else ""
        return "\n".join([*(f"@{label}" for label in labels), call(f"{kind} {name}", member, returns)])
    if isinstance(member, griffe.Class):
        init = member.members.get("__init__")
        return call(f"class {name}", init, "") if isinstance(init, griffe.Function) else f"class {name}"
    assert isinstance(member, griffe.Attribute)
    annotation = f": {plain(member.annotation)}" if member.annotation is not None else ""
    return f"{name}{annotation}{default(member.value)}"


def call(head: str, function: griffe.Function, returns: str) -> str:
    """Return a signature, with a line for each parameter if it is long."""
    shown = list(parameters(function))
    line = f"{head}({', '.join(shown)}){returns}"
    if len(line) <= MAX_SIGNATURE:
        return line
    return "\n".join([f"{head}(", *(f"    {each}," for each in shown), f"){returns}"])


def parameters(function: griffe.Function) -> Iterator[str]:
    is_keyword_only = False
    for each in function.parameters:
        if each.name in {"self", "cls"}:
            continue
        if each.kind is griffe.ParameterKind.keyword_only and not is_keyword_only:
            yield "*"
        is_keyword_only |= each.kind in {
            griffe.ParameterKind.keyword_only,
            griffe.ParameterKind.var_positional,
        }
        annotation = f": {plain(each.annotation)}" if each.annotation is not None else ""
        stars = STARS.get(each.kind, "")
        yield f"{stars}{each.name}{annotation}{'' if stars else default(each.default)}"


def field(member: griffe.Attribute) -> str:
    annotation = f": {plain(member.annotation)}" if member.annotation is not None else ""
    text = " ".join(docstring(member).split())
    return f"- `{member.name}{annotation}`" + (f": {text}" if text else "")


def plain(annotation: str | griffe.Expr) -> str:
    return " ".join(str(annotation).split()).strip("\"'")


def default(value: str | griffe.Expr | None) -> str:
    """Return a default value, unless it says only that a key may be absent."""
    text = "" if value is None else " ".join(str(value).split())
    is_left_out = not text or len(text) > MAX_VALUE or text.startswith(("ABSENT", "Field("))
    return "" if is_left_out else f" = {text}"


def members(owner: griffe.Object) -> Iterator[griffe.Object]:
    """Yield the public members of a class, inherited from private bases first."""
    assert isinstance(owner, griffe.Class)
    inherited = [
        member
        for base in owner.resolved_bases
        if isinstance(target(base), griffe.Class) and base.name.startswith("_")
        for member in members(target(base))
    ]
    own = [each for each in owner.members.values() if not each.is_alias and is_shown(each)]
    yield from (each for each in inherited if each.name not in owner.members)
    yield from own


def is_shown(member: griffe.Object) -> bool:
    if member.name.startswith("_") or member.name == "model_config" or member.is_class:
        return False
    return "instance-attribute" not in member.labels or member.docstring is not None


def docstring(member: griffe.Object) -> str:
    text = member.docstring.value if member.docstring else ""
    # A heading of a docstring is not one of the page.
    return re.sub(r"^#+ (.*)$", r"**\1**", text, flags=re.MULTILINE)
