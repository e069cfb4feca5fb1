"""Which modules are sent to other computers as text."""

from pathlib import Path
from types import ModuleType

import pytest

from fedgs.experiments.transferred_sources import is_installed


@pytest.mark.parametrize(
    ("folder", "installed"),
    [
        ("lib/python3/dist-packages", True),
        (".local/lib/python3.11/site-packages/package", True),
        ("project", False),
    ],
)
def test_a_module_belongs_to_a_distribution_by_its_folder(
    folder: str, installed: bool, tmp_path: Path
) -> None:
    module = ModuleType("further")
    module.__file__ = str(tmp_path / folder / "further.py")
    assert is_installed(module) is installed


def test_a_module_without_a_file_is_installed_unless_it_is_the_main_one() -> None:
    assert is_installed(ModuleType("builtin_like"))
    assert not is_installed(ModuleType("__main__"))
