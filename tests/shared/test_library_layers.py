"""The layers of the library: imports lead down only, and no two files need each other."""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import ash_shared

ROOT = Path(ash_shared.__file__).parent
LAYERS = (
    {"model"},
    {"records"},
    {"providers"},
    {"parsing", "relations"},
    {"conversation", "eventlog"},
    {"projections"},
    {"testing"},
)
"""Packages from the bottom up; packages in a layer do not import each other."""
HEIGHTS = {package: height for height, layer in enumerate(LAYERS) for package in sorted(layer)}

MODULES = {
    ".".join(("ash_shared", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in ROOT.rglob("*.py")
}


def imported_modules(name: str) -> Iterator[str]:
    """Yield the modules of the library that a module imports; `from package import module` imports the module."""
    for node in ast.walk(ast.parse(MODULES[name].read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in MODULES else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@cache
def library_imports() -> Mapping[str, set[str]]:
    """Return the modules that each module imports. Parsing all files takes seconds, in each process that collects."""
    return {name: {each for each in imported_modules(name) if each in MODULES} for name in MODULES}


def package_of(module: str) -> str:
    return module.split(".")[1]


def test_each_package_has_a_layer() -> None:
    assert {path.name for path in ROOT.iterdir() if (path / "__init__.py").is_file()} == HEIGHTS.keys()


@pytest.mark.parametrize("package", HEIGHTS)
def test_imports_lead_down(package: str) -> None:
    arrows = [
        (name, imported)
        for name in MODULES
        if name.startswith(f"ash_shared.{package}")
        for imported in library_imports()[name]
        if imported == "ash_shared" or package_of(imported) != package
    ]

    assert [
        (name, imported)
        for name, imported in arrows
        if imported == "ash_shared" or HEIGHTS[package_of(imported)] >= HEIGHTS[package]
    ] == []


def test_no_modules_import_each_other() -> None:
    order = list(TopologicalSorter(library_imports()).static_order())

    assert sorted(order) == sorted(MODULES)


def test_private_modules_are_imported_within_their_package_only() -> None:
    assert [
        (name, imported)
        for name in MODULES
        for imported in library_imports()[name]
        if (at := imported.find("._")) >= 0 and not name.startswith(imported[:at])
    ] == []
