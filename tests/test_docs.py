"""The reference names what the code has."""

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import fedgs
from fedgs.config import Config, Evaluation, Execution, System, Training
from fedgs.records import Record

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
CODE = re.compile(r"^```python[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_configuration_page_names_every_setting() -> None:
    page = (DOCS / "reference" / "configuration.md").read_text(encoding="utf-8")
    for prefix, settings in (
        ("", Config),
        ("training.", Training),
        ("evaluation.", Evaluation),
        ("execution.", Execution),
        ("system.", System),
    ):
        for name in settings.model_fields:
            assert f"`{prefix}{name}" in page, f"{prefix}{name}"


def test_the_records_page_names_every_key() -> None:
    page = (DOCS / "reference" / "records.md").read_text(encoding="utf-8")
    for name in Record.__dataclass_fields__:
        assert f"`{name}`" in page, name


def test_the_benchmarks_page_shows_every_benchmark() -> None:
    page = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    names = [path.stem for path in (ROOT / "src" / "fedgs" / "cli").glob("bench_*.py")]
    assert names
    for name in names:
        assert f"fedgs {name.replace('_', ' ')}" in page, name


def test_no_page_is_wider_than_100_columns() -> None:
    """Tables and pictures are one line in Markdown."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
    for page in [*pages, *sorted(DOCS.rglob("*.md"))]:
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            assert len(line) <= 100 or line.lstrip().startswith(("|", "![")), (
                f"{page.relative_to(ROOT)}, line {number}, has {len(line)} columns"
            )


def test_every_table_has_a_header() -> None:
    """A row after an empty line is a paragraph, not a row."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
    for page in [*pages, *sorted(DOCS.rglob("*.md"))]:
        text = CODE.sub("", page.read_text(encoding="utf-8"))
        for rows in re.findall(r"(?:^\|[ -].*\n)+", text, re.MULTILINE):
            second = rows.splitlines()[1:2]
            assert second and set(second[0]) <= set("|-: "), f"{page.relative_to(ROOT)}: {rows}"


def public_names() -> dict[str, list[str]]:
    """Module -> the names that the page of the Python interface gives it."""
    page = (DOCS / "reference" / "api.md").read_text(encoding="utf-8")
    names: dict[str, list[str]] = {}
    for section in page.split("\n## ")[1:]:
        heading = section.splitlines()[0].strip("`")
        names.setdefault(heading, [])
        for name in re.findall(r"^\| `([\w.]+)` \| \S.* \|$", section, re.MULTILINE):
            module, _, last = name.rpartition(".")
            names.setdefault(module or heading, []).append(last)
    return names


def snippets() -> Iterator[tuple[Path, ast.Module]]:
    """All Python code that users are shown: of the documentation, the README and the examples."""
    for path in [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]:
        for text in CODE.findall(path.read_text(encoding="utf-8")):
            lines = [
                line[4:] for line in text.splitlines() if line.startswith((">>> ", "... "))
            ] or text.splitlines()
            yield path, ast.parse("\n".join(lines))
    for path in sorted((ROOT / "examples").rglob("*.py")):
        yield path, ast.parse(path.read_text(encoding="utf-8"))


def used_names(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """(module, name) of everything that code takes from the package."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "fedgs":
            yield from ((str(node.module), alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (
                ("fedgs", alias.name.removeprefix("fedgs."))
                for alias in node.names
                if alias.name.startswith("fedgs.")
            )
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "fedgs"
        ):
            yield "fedgs", node.attr


def test_the_interface_page_names_what_the_package_exports() -> None:
    assert sorted([*public_names()["fedgs"], "__version__"]) == sorted(fedgs.__all__)


def test_every_name_of_the_interface_page_exists_and_is_documented() -> None:
    for module, names in public_names().items():
        if module == "fedgs.flower":
            pytest.importorskip("flwr")
        loaded = importlib.import_module(module)
        assert len(names) == len(set(names)), module
        for name in names:
            value = getattr(loaded, name)
            assert (
                not (inspect.isroutine(value) or inspect.isclass(value))
                or (value.__doc__ or "").strip()
            ), f"{module}.{name}"


def test_the_documentation_uses_names_of_the_interface_page_alone() -> None:
    page = public_names()
    used = [(path, module, name) for path, tree in snippets() for module, name in used_names(tree)]
    assert len(used) > 60
    for path, module, name in used:
        named = name in page.get(module, []) or (module in page and name in fedgs.__all__)
        assert named, (
            f"{path.relative_to(ROOT)} uses {module}.{name}, "
            "which docs/reference/api.md does not name"
        )
