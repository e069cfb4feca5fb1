"""`fedgs methods`: the table of methods, and one method with its settings."""

import tomllib
from pathlib import Path

import pytest
from tests.cli.test_run import fedgs

from fedgs.cli.methods import COLUMNS, described, known_methods, markdown, row_of
from fedgs.experiments.grid import build_config
from fedgs.experiments.presets import PRESETS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "methods.md"

PLUGIN = """
import numpy as np
import fedgs

@fedgs.sampler("mine")
def mine(view, rng):
    return fedgs.Selection(view.available[:1])

from fedgs.sampling import PowerOfChoice
from fedgs.registry import register

@register("method", "lossy")
class Lossy(PowerOfChoice):
    "The losses, otherwise used."

@register("method", "told")
class Told(fedgs.Sampler):
    "The last losses."
    @property
    def wanted_reports(self):
        return ("mean_loss",)

@register("method", "normed")
class Normed(fedgs.Sampler):
    "The norms of the last updates."
    wanted: str
    @property
    def wanted_reports(self):
        return (self.wanted,)

@register("method", "long")
class Long(fedgs.Sampler):
    "The norms of the last updates, by default."
    wanted: str = "update_norm"
    @property
    def wanted_reports(self):
        return (self.wanted,)
"""


def test_the_page_holds_the_table_of_the_command() -> None:
    page = PAGE.read_text(encoding="utf-8")
    lines = [line for line in page.splitlines(keepends=True) if line.startswith("| ")]
    assert "".join(lines) == markdown(PRESETS.values())


def test_the_page_holds_the_differences_of_the_command() -> None:
    sections = PAGE.read_text(encoding="utf-8").split("\n## ")[1:]
    shown = {section.split("`")[1]: " ".join(section.split()) for section in sections}
    for preset in PRESETS.values():
        sentences = "".join(f" * {sentence}" for sentence in preset.differences)
        assert shown[preset.name] == f"`{preset.name}`{sentences}"
    assert len(sections) == len(PRESETS)


def test_the_command_lists_every_method(tmp_path: Path) -> None:
    done = fedgs(tmp_path, "methods")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split("  ")[0] == "method"
    assert [line.split()[0] for line in lines[1 : 1 + len(PRESETS)]] == list(PRESETS)
    for preset, line in zip(PRESETS.values(), lines[1:], strict=False):
        assert [cell.strip() for cell in line.split("  ") if cell.strip()] == list(row_of(preset))


def test_samplers_of_a_plugin_are_listed_with_what_they_ask_for(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PLUGIN)
    done = fedgs(tmp_path, "methods", "--plugin", "mine.py")
    assert done.returncode == 0, done.stderr
    rows = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
    assert rows["mine"].split()[1:4] == ["plug-in", "mine.py", "-"]
    assert "losses" in rows["lossy"] and "losses" not in rows["mine"]
    assert "losses" in rows["told"] and "norms" not in rows["told"]
    assert "norms of updates" in rows["long"] and "losses" not in rows["long"]
    assert "losses, norms of updates" in rows["normed"]  # its settings have no default
    one = fedgs(tmp_path, "methods", "lossy", "--plugin", "mine.py")
    assert "sampler    lossy: The losses, otherwise used." in one.stdout


def test_one_method_is_shown_with_settings_and_differences(tmp_path: Path) -> None:
    done = fedgs(tmp_path, "methods", "fedau")
    assert done.returncode == 0, done.stderr
    assert "Wang and Ji, 2024, ICLR" in done.stdout
    for sentence in PRESETS["fedau"].differences:
        assert f"  * {sentence}" in done.stdout


@pytest.mark.parametrize("name", PRESETS)
def test_the_settings_that_are_shown_are_those_of_the_preset(name: str) -> None:
    shown = described(PRESETS[name]).partition("It stands for\n\n")[2]
    indented = [line for line in shown.splitlines() if line.startswith("    ") or not line]
    settings = tomllib.loads("\n".join(line.strip() for line in indented))
    base = {"data": "synthetic", "availability": "LDF"}
    by_hand = build_config({**base, **settings}).tables()
    made = build_config({**base, "method": name}).tables()
    assert by_hand == {key: value for key, value in made.items() if key != "label"}


def test_an_unknown_method_is_refused_with_the_nearest(tmp_path: Path) -> None:
    done = fedgs(tmp_path, "methods", "fedavgg")
    assert done.returncode == 2 and done.stdout == ""
    assert "NAME must be one of fedavg, " in done.stderr
    assert "got 'fedavgg'; did you mean 'fedavg'?" in done.stderr


def test_every_row_has_a_cell_for_every_column() -> None:
    for preset in known_methods().values():
        assert len(row_of(preset)) == len(COLUMNS) and all(row_of(preset))
