"""`fedgs list`: the names of every family, and the variants of one with their settings."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.test_run import fedgs

from fedgs.availability import LessDataFirst
from fedgs.cli.list import described, list_, names_of, settings_of
from fedgs.config import Config
from fedgs.errors import ConfigError
from fedgs.experiments.grid import build_config
from fedgs.families import FAMILIES
from fedgs.registry import variant_class, variant_names

FUNCTION = """
from fedgs.losses import loss


@loss("mine-of-a-list")
def mine(outputs, targets):
    \"\"\"What I minimise.\"\"\"
    return (outputs - targets).abs().mean()
"""
PLUGIN = """
from fedgs import Availability, register

@register("availability", "weekend")
class Weekend(Availability):
    "Clients are available at weekends."

    share: float = 0.25
"""


def test_every_family_is_listed_with_all_its_names(tmp_path: Path) -> None:
    done = fedgs(tmp_path, "list")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    for family in FAMILIES.values():
        (heading,) = [line for line in lines if line.startswith(f"{family.title} ")]
        assert heading.endswith(f"--set {family.setting}=NAME")
        listed = lines[lines.index(heading) + 1].strip().split(", ")
        # Other tests of this process may have registered further variants.
        assert listed == [name for name in names_of(family) if name in listed] and listed
    assert "fedprox" in done.stdout and "dirichlet_over_clients" in done.stdout


@pytest.mark.parametrize("key", [key for key in FAMILIES if key != "engine"])
def test_a_family_is_described_with_the_settings_of_its_variants(key: str) -> None:
    text = described(FAMILIES[key])
    for name in variant_names(key):
        settings = settings_of(variant_class(key, name))
        fields = variant_class(key, name).model_fields
        for field in [field for field, about in fields.items() if not about.exclude]:
            assert re.search(rf"(^|, ){field}( |\.)", settings), field
        assert f"\n  {name}\n    " in text and (not settings or f"Settings: {settings}" in text)


def test_the_names_and_keys_that_are_listed_make_configurations() -> None:
    base = {"data": "synthetic", "availability": "IDL", "method": "fedgs"}
    for name in names_of(FAMILIES["method"]):
        assert build_config({**base, "method": name}).method is not None
    for key, family in FAMILIES.items():
        path = family.setting.split(".")
        assert path[-1] in (key, f"{key}s")  # one, or a list of them
        assert len(path) == 1 or path[0] in Config.model_fields


def test_a_function_of_a_plugin_is_listed_without_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text(FUNCTION)
    list_("loss", plugin=[tmp_path / "mine.py"])
    assert capsys.readouterr().out.endswith("  mine-of-a-list\n    What I minimise.\n")


def test_a_variant_of_a_plugin_is_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "weekend.py").write_text(PLUGIN)
    list_("modes", plugin=[tmp_path / "weekend.py"])
    shown = capsys.readouterr().out
    assert "  weekend\n    Clients are available at weekends.\n" in shown
    assert "share = 0.25" in shown
    beta = LessDataFirst.model_fields["beta"].default
    assert f'empty_round = "redraw", beta = {beta}\n' in shown


def test_an_unknown_family_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"^FAMILY must be .*'modell'; did you mean 'model'\?$"):
        list_("modell")


def test_without_torch_a_family_that_needs_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['torch'] = None; from fedgs.cli.list import list_; list_()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout[done.stdout.index("\naggregations ") :].splitlines()
    assert lines[2] == "  this needs 'torch', which is not installed: pip install 'fedgs[sim]'"
    assert "IDL, MDF" in done.stdout
