"""Imports between the viewer's modules."""

import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import ash_server

VIEWER = Path(ash_server.__file__).parent / "viewer"
IMPORT = re.compile(r'^(?:import|export)\b[^;"]*"(\.[^"]+)";', re.MULTILINE)


def imports(module: Path) -> set[Path]:
    return {(module.parent / path).resolve() for path in IMPORT.findall(module.read_text())}


def test_no_module_imports_itself_through_others() -> None:
    modules = [path for path in VIEWER.rglob("*.js") if "vendor" not in path.parts]
    graph = {module.resolve(): imports(module) for module in modules}

    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle = [path.relative_to(VIEWER.resolve()).as_posix() for path in error.args[1]]
        raise AssertionError(" <- ".join(circle)) from None
    assert sum(map(len, graph.values())) > len(modules)
