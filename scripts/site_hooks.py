"""Hooks of MkDocs: pages of the site that are made from other files.

The changelog is the file of the repository. `docs/reference/api.md` lists the stable names by
module, and each module gets a page with the docstrings of all that it exports.
"""

import ast
import posixpath
import re
from functools import partial
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

__all__ = [
    "exported",
    "on_config",
    "on_files",
    "on_page_markdown",
    "other_names",
    "public_modules",
]

_ROOT = Path(__file__).resolve().parents[1]
_API = "reference/api.md"
_OUTSIDE = re.compile(r"\[([^\]\n]+)\]\(((?:\.\./)+[^)\s]+)\)")
_DOCTEST = re.compile(r"^```python(?=\n>>> )", re.MULTILINE)
_ROW = re.compile(r"^\| `([\w.]+)` \| (\S.*) \|$", re.MULTILINE)


def public_modules(page: str) -> dict[str, list[str]]:
    """Module -> full names of what the page of the Python interface lists for it, in order."""
    modules: dict[str, list[str]] = {}
    for section in page.split("\n## ")[1:]:
        module = section.splitlines()[0].strip("`")
        names = [found[1] for found in _ROW.finditer(section)]
        modules[module] = [name if "." in name else f"{module}.{name}" for name in names]
    return modules


def _modules() -> dict[str, list[str]]:
    return public_modules((_ROOT / "docs" / _API).read_text(encoding="utf-8"))


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the modules' pages to the navigation, below the page that lists their names."""
    reference = next(tab["Reference"] for tab in config["nav"] if "Reference" in tab)
    interface = next(entry for entry in reference if "Python interface" in entry)
    interface["Python interface"] += [{module: _path(module)} for module in _modules()]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the changelog and a page for each public module."""
    changelog = (_ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "changelog.md", content=changelog.replace("](docs/", "](")))
    modules = _modules()
    for module, names in modules.items():
        stable = [name for name in names if name not in modules]  # modules have pages of their own
        others = other_names(module, modules)
        content = _module_page(module, stable, others)
        files.append(File.generated(config, _path(module), content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Link names to their docstrings, and unlink files that are not part of the site.

    Doctests are highlighted as sessions, so that their prompts and output are not copied.
    """
    markdown = _DOCTEST.sub("```pycon", markdown)
    if page.file.src_uri != _API:
        return _OUTSIDE.sub(partial(_unlinked, page=page.file.src_uri), markdown)
    heading, *sections = markdown.split("\n## ")
    linked = [heading]
    for section in sections:
        module = section.splitlines()[0].strip("`")
        linked.append(_ROW.sub(partial(_linked, module=module), section))
    return "\n## ".join(linked)


def other_names(module: str, modules: dict[str, list[str]]) -> list[str]:
    """Full names that a module exports and that the page of the Python interface does not list."""
    place = _ROOT / "src" / module.replace(".", "/")
    source = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    listed = {name.rpartition(".")[2] for name in [*modules["fedgs"], *modules[module]]}
    return [f"{module}.{name}" for name in exported(source) if name not in listed]


def exported(source: Path) -> list[str]:
    """The names of `__all__` of a source file."""
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [name for name in ast.literal_eval(node.value) if not name.startswith("__")]
    return []


def _unlinked(link: re.Match[str], page: str) -> str:
    """The text of a link alone if it leads out of the documentation, such as to an example."""
    target = posixpath.normpath(posixpath.join(posixpath.dirname(page), link[2]))
    return link[1] if target.startswith("../") else link[0]


def _linked(row: re.Match[str], module: str) -> str:
    name = row[1] if "." in row[1] else f"{module}.{row[1]}"
    target = f"(api/{name}.md)" if name in _modules() else f"[{name}]"
    return f"| [`{row[1]}`]{target} | {row[2]} |"


def _path(module: str) -> str:
    return f"reference/api/{module}.md"


def _module_page(module: str, stable: list[str], others: list[str]) -> str:
    lines = [f"# `{module}`", ""] + [f"::: {name}\n" for name in stable]
    if others:
        lines += ["## Other names", "", "These names may change without notice.", ""]
        lines += [f"::: {name}\n    options: {{heading_level: 3}}\n" for name in others]
    return "\n".join(lines)
