"""The names of `fedgs.flower`, at run time and for a type checker."""

import ast
from pathlib import Path

import pytest

pytest.importorskip("flwr")

import fedgs.flower


def test_a_type_checker_sees_what_the_package_exports() -> None:
    tree = ast.parse(Path(fedgs.flower.__file__).read_text(encoding="utf-8"))
    (block,) = [
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    seen = {alias.name: node.module for node in imports for alias in node.names}
    assert sorted(seen) == sorted(fedgs.flower.__all__)
    for name, module in seen.items():
        assert getattr(fedgs.flower, name).__module__ == module
    assert not [node for node in tree.body if isinstance(node, ast.FunctionDef)]


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'fedgs\.flower' has no attribute 'Sampled'"):
        fedgs.flower.Sampled  # noqa: B018


def test_flower_has_no_secure_aggregation_for_this_interface() -> None:
    """`docs/how-to/flower.md` says so; if a version adds it, the page and a test of it are due."""
    import flwr.clientapp.mod
    import flwr.serverapp.strategy

    names = [*dir(flwr.clientapp.mod), *dir(flwr.serverapp.strategy)]
    assert len(names) > 20
    assert [name for name in names if "secagg" in name.lower()] == []
