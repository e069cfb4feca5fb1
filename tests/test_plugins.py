"""Plug-in files: they can import modules beside them, and they do not affect each other."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.commands import fedgs

from fedgs.errors import ConfigError
from fedgs.registry import build, load_plugin, loaded_plugins, variant_names

SMALL = [
    "--set",
    "data.clients=6",
    "--set",
    "training.rounds=3",
    "--set",
    "training.proportion=0.5",
    "--set",
    "seed=0",
]


@pytest.fixture(autouse=True)
def helpers_are_forgotten() -> Iterator[None]:
    yield
    for name in [name for name in sys.modules if name.startswith("idp_")]:
        del sys.modules[name]
    importlib.invalidate_caches()


def plugin(
    folder: Path, name: str, *, imports: str = "", file: str = "plug.py", inside: str = ""
) -> Path:
    """A plug-in that registers a sampler; `inside` is done when it selects."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / file).write_text(
        f"import fedgs\n{imports}\n"
        f"@fedgs.sampler('{name}')\ndef chosen(view, rng):\n    {inside or 'pass'}\n"
        "    return fedgs.Selection(view.available[:1])\n"
    )
    return folder / file


@pytest.mark.parametrize(
    ("imports", "inside"),
    [
        ("import idp_help", "idp_help.one()"),
        ("from idp_pack.inner import one", "one()"),
        ("", "import idp_help; idp_help.one()"),
    ],
)
def test_a_file_beside_the_plugin_can_be_imported(
    imports: str, inside: str, tmp_path: Path
) -> None:
    (tmp_path / "idp_help.py").write_text("def one(): return 1\n")
    (tmp_path / "idp_pack").mkdir()
    (tmp_path / "idp_pack" / "__init__.py").write_text("")
    (tmp_path / "idp_pack" / "inner.py").write_text(
        "from . import idp_low\ndef one(): return idp_low.one()\n"
    )
    (tmp_path / "idp_pack" / "idp_low.py").write_text("def one(): return 1\n")
    load_plugin(plugin(tmp_path, "idp-beside", imports=imports, inside=inside))
    type(build("method", "idp-beside"))
    assert sys.path[-1] == str(tmp_path) and str(tmp_path) not in sys.path[:-1]


def test_a_file_beside_the_plugin_does_not_hide_the_standard_library_or_a_distribution(
    tmp_path: Path,
) -> None:
    for name in ("random", "colorsys", "pooch"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('hidden')\n")
    sys.modules.pop("colorsys", None)
    load_plugin(plugin(tmp_path, "idp-hiding", imports="import random, colorsys"))
    import colorsys

    assert not str(colorsys.__file__).startswith(str(tmp_path))
    with pytest.raises(
        ConfigError, match=r"imports 'pooch', which is beside it, but the name belongs to .*pooch"
    ):
        load_plugin(plugin(tmp_path, "idp-hidden", imports="import pooch", file="other.py"))


@pytest.mark.parametrize("lazily", [False, True])
def test_two_plugins_with_helpers_of_one_name_do_not_share_them(
    lazily: bool, tmp_path: Path
) -> None:
    use = {"inside": "import idp_help"} if lazily else {"imports": "import idp_help"}
    for folder in ("a", "b"):
        plugin(tmp_path / folder, f"idp-{folder}", **use)
        (tmp_path / folder / "idp_help.py").write_text(f"name = {folder!r}\n")
    load_plugin(tmp_path / "a" / "plug.py")
    before = list(sys.path)
    with pytest.raises(
        ConfigError, match=r"b/plug.py' imports 'idp_help', which .*a/idp_help.py.* rename the file"
    ):
        load_plugin(tmp_path / "b" / "plug.py")
    assert sys.path == before and "idp-b" not in variant_names("method")
    load_plugin(tmp_path / "a" / "plug.py")  # again: the same file, the same helper


def test_a_helper_of_a_helper_is_looked_at_too(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "idp_low.py").write_text("")
        (tmp_path / folder / f"idp_{folder}.py").write_text("import idp_low\n")
    load_plugin(plugin(tmp_path / "a", "idp-a", imports="import idp_a"))
    with pytest.raises(ConfigError, match="imports 'idp_low'"):
        load_plugin(plugin(tmp_path / "b", "idp-b", imports="import idp_b"))


def test_plugins_of_one_stem_do_not_replace_each_other(tmp_path: Path) -> None:
    files = [plugin(tmp_path / folder, f"idp-{folder}") for folder in ("a", "b")]
    for file in files:
        load_plugin(file)
    methods = [build("method", f"idp-{folder}") for folder in ("a", "b")]
    modules = [sys.modules[type(method).__module__] for method in methods]
    assert [Path(str(module.__file__)) for module in modules] == files
    assert list(loaded_plugins().values()) == [file.resolve() for file in files]


def test_one_name_from_two_plugins_is_refused(tmp_path: Path) -> None:
    load_plugin(plugin(tmp_path / "a", "idp-same"))
    with pytest.raises(
        ConfigError, match="method 'idp-same' is already registered by fedgs_plugin_plug"
    ):
        load_plugin(plugin(tmp_path / "b", "idp-same"))


def test_a_plugin_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    before = list(sys.path)
    with pytest.raises(ConfigError, match="raised ZeroDivisionError"):
        load_plugin(plugin(tmp_path, "idp-failing", imports="1 / 0"))
    assert sys.path == before and "fedgs_plugin_plug" not in sys.modules


@pytest.mark.long
def test_a_changed_helper_makes_other_runs_and_leaves_the_old_ones(tmp_path: Path) -> None:
    """Three starts: the second finds everything done, the third sees another helper."""
    (tmp_path / "plugs").mkdir()
    helper = tmp_path / "plugs" / "idp_help.py"
    helper.write_text("def pick(view):\n    return view.available[: view.cohort_limit]\n")
    (tmp_path / "plugs" / "plug.py").write_text(
        "import fedgs, idp_help\n"
        "@fedgs.sampler('helped')\n"
        "def helped(view, rng):\n"
        "    return fedgs.Selection(idp_help.pick(view))\n"
    )
    command = ["run", "--plugin", "plugs/plug.py", "--set", "method=helped", *SMALL, "--out"]
    first, again = fedgs(tmp_path, *command, "old"), fedgs(tmp_path, *command, "old")
    assert "already complete" in again.stdout and again.stderr == "", again.stderr
    helper.write_text("def pick(view):\n    return view.available[-view.cohort_limit :]\n")
    changed, new = fedgs(tmp_path, *command, "old"), fedgs(tmp_path, *command, "new")
    lines = [
        [line for line in done.stdout.splitlines() if line.startswith("helped")]
        for done in (first, again, changed, new)
    ]
    assert lines[0] == lines[1] != lines[2] == lines[3], first.stderr
    assert (
        "1 run starts afresh next to an earlier one of the same configuration, which stays in old"
        in changed.stderr
    )
    assert "the code of method 'helped' changed" in changed.stderr and new.stderr == ""
    assert len(list((tmp_path / "old").glob("*/rounds.jsonl"))) == 2


@pytest.mark.long
def test_workers_reach_the_files_beside_a_plugin(tmp_path: Path) -> None:
    (tmp_path / "plugs").mkdir()
    (tmp_path / "plugs" / "idp_help.py").write_text("def one(): return 1\n")
    file = plugin(tmp_path / "plugs", "idp-worker", inside="import idp_help; idp_help.one()")
    methods = ["--set", 'method=["idp-worker", "uniform"]', "--set", "execution.workers=2"]
    done = fedgs(tmp_path, "run", "--plugin", str(file), *methods, *SMALL)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list((tmp_path / "fedgs-runs").glob("*/rounds.jsonl"))) == 2
