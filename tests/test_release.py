"""What users install: the wheel, the sdist, the declared dependencies, and the project's facts."""

import hashlib
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import fedgs

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]


def run(*command: str, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
    return done.stdout


def contents(wheel: Path) -> dict[str, str]:
    """File in a wheel -> hash of its content."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: hashlib.sha256(archive.read(name)).hexdigest() for name in archive.namelist()}


def tracked(folder: str) -> list[Path]:
    """The files of a folder of the repository, without what programs leave there."""
    return [
        path.relative_to(ROOT)
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    ]


@pytest.mark.long
def test_the_sdist_and_the_wheel_work_in_an_empty_environment(tmp_path: Path) -> None:
    run(sys.executable, "-m", "build", "--outdir", str(tmp_path / "dist"), cwd=ROOT)
    (wheel,) = (tmp_path / "dist").glob("*.whl")  # `build` makes it from the sdist
    (sdist,) = (tmp_path / "dist").glob("*.tar.gz")
    direct = tmp_path / "direct"
    options = ("--wheel", "--no-isolation", "--outdir", str(direct))
    run(sys.executable, "-m", "build", *options, cwd=ROOT)
    assert contents(wheel) == contents(direct / wheel.name)
    package = {str(path.relative_to("src")) for path in tracked("src/fedgs")}
    assert package == {name for name in contents(wheel) if name.startswith("fedgs/")}
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "README.md", "CHANGELOG.md", "CITATION.cff", "tests/conftest.py"} <= names

    run(sys.executable, "-m", "venv", str(tmp_path / "empty"), cwd=tmp_path)
    programs = tmp_path / "empty" / "bin"
    run(str(programs / "python"), "-m", "pip", "install", "--quiet", str(wheel), cwd=tmp_path)
    selected = run(
        str(programs / "python"),
        "-c",
        "import fedgs, numpy as np\n"
        "distance = np.ones((6, 6)) - np.eye(6)\n"
        "counts, available = np.array([2, 0, 1, 0, 3, 0]), np.array([0, 1, 2, 4, 5])\n"
        "print(fedgs.select(distance, counts, available, 2))",
        cwd=tmp_path,
    )
    assert selected == "[1 5]\n"  # the available clients that were never selected
    assert run(str(programs / "fedgs"), "--version", cwd=tmp_path) == f"fedgs {fedgs.__version__}\n"
    assert "Usage: fedgs" in run(str(programs / "fedgs"), "--help", cwd=tmp_path)
    run(str(programs / "python"), "-m", "pip", "check", cwd=tmp_path)


def declared() -> dict[str, Version]:
    """Dependency -> the oldest version that is allowed, of the core and the extras for users."""
    extras = PROJECT["optional-dependencies"]
    lines = [
        *PROJECT["dependencies"],
        *(line for name in ("sim", "report", "secure", "flower", "test") for line in extras[name]),
    ]
    bounds: dict[str, Version] = {}
    for requirement in map(Requirement, lines):
        if requirement.name != "fedgs":
            (bound,) = requirement.specifier
            assert bound.operator == ">=", requirement
            bounds[requirement.name] = Version(bound.version)
    return bounds


def test_the_oldest_versions_that_are_tested_are_those_that_are_declared() -> None:
    text = (ROOT / "scripts" / "oldest.txt").read_text(encoding="utf-8")
    pinned = {
        name: Version(version)
        for name, version in re.findall(r"^([\w-]+)==([\w.]+)$", text, re.MULTILINE)
    }
    assert pinned == {name: bound for name, bound in declared().items() if name != "torch"}


def test_the_version_is_the_same_everywhere() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert fedgs.__version__ == PROJECT["version"]
    assert f"\nversion: {fedgs.__version__}\n" in citation


def test_the_addresses_of_the_project_are_those_of_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (address,) = set(re.findall(r"git clone (\S+)\.git ", readme))
    assert PROJECT["urls"] and all(url.startswith(address) for url in PROJECT["urls"].values())
    for url in PROJECT["urls"].values():
        path = url.removeprefix(address).removeprefix("/blob/main/").strip("/")
        assert not path or path == "issues" or (ROOT / path).exists(), url


def test_the_workflow_tests_the_versions_of_python_that_are_declared() -> None:
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")
    classified = [
        text.rpartition(" ")[2]
        for text in PROJECT["classifiers"]
        if re.search(r"Python :: 3\.\d+$", text)
    ]
    matrices = re.findall(r"python-version: \[(.*)\]", workflow)
    assert matrices and set(matrices) == {", ".join(f'"{version}"' for version in classified)}
    assert workflow.startswith("# Written, and not run by the maintainers")


def test_the_changelogs_first_section_has_its_headings_in_order() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    section = text.partition("\n## ")[2].partition("\n## ")[0]
    assert section.partition("\n")[0] in ("Unreleased", fedgs.__version__)
    headings = re.findall(r"^### (.*)$", section, re.MULTILINE)
    assert headings
    assert headings == [name for name in ("Added", "Changed", "Fixed") if name in headings]
    before = section.partition("\n")[2].partition("\n### ")[0]
    assert not before.strip(), "every entry is below a heading"
