"""The architecture, checked by parsing imports.

A module may import from layers below, from its own folder, and from the left of its own layer.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "fedgs"
LAYERS = [
    [
        "arrays",
        "plurals",
        "palette",
        "collector",
        "machine",
        "errors",
        "file_writing",
        "compiling",
        "rng",
        "sketches",
        "identity",
        "plugins",
        "families",
        "suggestions",
        "registry",
        "listeners",
        "targets",
    ],
    [
        "client_names",
        "client_sample",
        "per_client",
        "clients",
        "sampler_answers",
        "requests",
        "members",
        "record",
        "stopping",
        "system_settings",
        "execution_settings",
        "training_settings",
        "evaluation_settings",
        "config",
        "fingerprint",
    ],
    ["graph", "solver", "secure", "traces", "availability", "system"],
    ["data", "models"],
    [
        "losses",
        "optimizers",
        "schedules",
        "metrics",
        "weighting",
        "server_steps",
        "aggregation",
        "local",
        "sampling",
        "features",
    ],
    [
        "available_clients",
        "records",
        "checkpoint",
        "optimizer_states",
        "plan",
        "round_records",
        "simulation",
        "driver",
    ],
    ["report", "export", "cluster", "experiments", "flower", "bench"],
    ["cli"],
]
PLACE = {
    name: (row, column) for row, names in enumerate(LAYERS) for column, name in enumerate(names)
}
WITHOUT_TORCH = [
    "collector",
    "compiling",
    "sketches",
    "graph",
    "solver",
    "secure",
    "traces",
    "availability",
    "system",
    "sampling",
    "losses",
    "optimizers",
    "schedules",
    "metrics",
    "weighting",
    "server_steps",
    "flower",
    "cluster",
    "data",
    "file_writing",
    "members",
    "record",
    "available_clients",
    "records",
    "report",
    "export",
    "config",
    "clients",
]


def room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """Imported modules with their line; those for type checkers only are left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    hidden = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in hidden:
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import in line {node.lineno}"
            if node.module == "fedgs":
                yield from ((f"fedgs.{alias.name}", node.lineno) for alias in node.names)
            else:
                yield str(node.module), node.lineno


def modules() -> list[Path]:
    return [
        path
        for path in sorted(SOURCE.rglob("*.py"))
        if path.parent != SOURCE or not path.name.startswith("__")
    ]


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_module_imports_only_from_below_or_its_left(path: Path) -> None:
    importer = room(path)
    assert importer in PLACE, f"{importer} has no layer; give it a place in LAYERS"
    for imported, line in imports(path):
        parts = imported.split(".")
        if (
            parts[0] != "fedgs"
            or len(parts) == 1
            or parts[1] == importer
            or parts[1].startswith("__")
        ):
            continue
        row, column = PLACE[parts[1]]
        assert row < PLACE[importer][0] or (
            row == PLACE[importer][0] and column < PLACE[importer][1]
        ), (
            f"{path.relative_to(SOURCE)}:{line} imports {imported}, "
            "which lies above it or to its right"
        )


def test_no_module_imports_itself_through_others() -> None:
    """Neither at the top nor lazily inside a function; imports for type checkers are left out."""
    files = {
        ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(
            ".__init__"
        ): path
        for path in SOURCE.rglob("*.py")
    }
    graph = {
        name: {imported for imported, _ in imported_modules(path) if imported in files} - {name}
        for name, path in files.items()
    }
    assert len(graph) > 150 and sum(map(len, graph.values())) > 500
    while leaves := [name for name, below in graph.items() if not below & graph.keys()]:
        for name in leaves:
            del graph[name]
    assert graph == {}, f"modules in circles, or above one: {sorted(graph)}"


def imported_modules(path: Path) -> Iterator[tuple[str, int]]:
    """As `imports`, with the modules that `from package import module` imports."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    named = {
        (node.module, node.lineno): [alias.name for alias in node.names]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
    }
    for module, line in imports(path):
        names = named.get((module, line), [])
        below = [
            name
            for name in names
            if (SOURCE.parent / module.replace(".", "/") / f"{name}.py").is_file()
        ]
        yield from ((f"{module}.{name}", line) for name in below)
        if len(below) < len(names) or not names:
            yield module, line


@pytest.mark.parametrize(
    "path",
    [p for p in modules() if room(p) in WITHOUT_TORCH],
    ids=lambda p: str(p.relative_to(SOURCE)),
)
def test_module_does_not_import_torch_at_the_top(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    top = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    names = [alias.name for node in top if isinstance(node, ast.Import) for alias in node.names]
    names += [str(node.module) for node in top if isinstance(node, ast.ImportFrom)]
    assert not [name for name in names if name.split(".")[0] in ("torch", "numba")]
