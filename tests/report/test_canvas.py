import sys
from pathlib import Path

import matplotlib as mpl
import pytest

from fedgs.errors import ConfigError, MissingExtraError
from fedgs.report.figures import loss_curves, save_figure
from fedgs.report.run_view import Run


def test_figures_are_the_same_files_each_time_and_leave_settings_alone(
    study: list[Run], tmp_path: Path
) -> None:
    before = dict(mpl.rcParams)
    first = [path.read_bytes() for path in save_figure(loss_curves(study), tmp_path / "a" / "loss")]
    second = [
        path.read_bytes() for path in save_figure(loss_curves(study), tmp_path / "b" / "loss")
    ]
    assert first == second
    assert dict(mpl.rcParams) == before
    assert (first[0][:4], first[1][1:4]) == (b"%PDF", b"PNG")


def test_a_name_with_an_ending_is_written_in_that_form_alone(
    study: list[Run], tmp_path: Path
) -> None:
    figure = loss_curves(study)
    assert save_figure(figure, tmp_path / "loss.PNG") == [tmp_path / "loss.PNG"]
    assert [path.name for path in save_figure(figure, str(tmp_path / "beta-0.7"))] == [
        "beta-0.7.pdf",
        "beta-0.7.png",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "beta-0.7.pdf",
        "beta-0.7.png",
        "loss.PNG",
    ]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("loss.svg", r"writes \.pdf and \.png, both where the name has no ending; got 'loss\.svg'"),
        ("", r"takes a name such as 'figures/loss'; got ''"),
        (None, "takes a name such as 'figures/loss'; got None"),
        (3, "takes a name such as 'figures/loss'; got 3"),
    ],
)
def test_other_names_are_refused(name: object, message: str, study: list[Run]) -> None:
    with pytest.raises(ConfigError, match=message):
        save_figure(loss_curves(study), name)


def test_only_figures_are_saved(study: list[Run], tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError,
        match=r"save_figure takes a figure, such as loss_curves\(runs\), and a name; got 'loss'",
    ):
        save_figure("loss", loss_curves(study))


def test_without_matplotlib_a_figure_says_what_to_install(
    study: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'fedgs\[report\]'"):
        loss_curves(study)
