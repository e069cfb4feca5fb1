import itertools
import re

import numpy as np
from tests.report.material import run_of

from fedgs.arrays import FloatArray
from fedgs.experiments.presets import PRESETS
from fedgs.report.labels import labelled
from fedgs.report.run_view import Run
from fedgs.report.style import looks


def lab(colour: str) -> FloatArray:
    """CIELAB of "#RRGGBB" under D65: lightness 0 to 100, and two axes of colour."""
    red_green_blue = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(
        red_green_blue <= 0.04045, red_green_blue / 12.92, ((red_green_blue + 0.055) / 1.055) ** 2.4
    )
    to_xyz = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750]]
    to_xyz.append([0.0193339, 0.1191920, 0.9503041])
    x, y, z = np.cbrt(np.array(to_xyz) @ linear / [0.95047, 1.0, 1.08883])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def test_a_method_has_the_same_colour_whatever_stands_beside_it(study: list[Run]) -> None:
    alone = looks([run_of(study, "fedgs")])["fedgs"]
    assert looks(study)["fedgs"] == alone
    named = labelled([Run({"method": {"name": "fedgs"}, "label": "ours"}, ())])
    assert looks(named)["ours"].colour == alone.colour


def test_variants_of_a_method_and_unknown_methods_are_told_apart() -> None:
    alphas = [Run({"method": {"name": "fedgs", "alpha": float(alpha)}}, ()) for alpha in range(5)]
    others = [Run({"method": {"name": f"mine{n}"}}, ()) for n in range(5)]
    made = looks(labelled([*alphas, *others]))
    assert len({(look.colour, look.dash) for look in made.values()}) == 10
    assert len({look.colour for label, look in made.items() if label.startswith("mine")}) == 5


def test_every_published_method_has_a_colour_of_its_own() -> None:
    runs = [Run({"method": {"name": p.sampler}, "label": name}, ()) for name, p in PRESETS.items()]
    colours = {label: look.colour for label, look in looks(labelled(runs)).items()}
    assert list(colours) == sorted(PRESETS)
    assert all(re.fullmatch("#[0-9A-F]{6}", colour) for colour in colours.values())
    for run in labelled(runs):  # whatever stands beside it
        assert looks([run])[run.label].colour == colours[run.label]
    for one, other in itertools.combinations(colours.values(), 2):
        # A difference of 2 can be seen side by side; 12 is safe for thin lines.
        assert np.linalg.norm(lab(one) - lab(other)) > 12, (one, other)
    assert max(lab(colour)[0] for colour in colours.values()) < 80  # readable on white


def test_other_methods_get_a_colour_by_their_name_if_it_is_free() -> None:
    def colour(name: str, *beside: str) -> str:
        runs = [Run({"method": {"name": other}}, ()) for other in (name, *beside)]
        return looks(labelled(runs))[name].colour

    assert colour("mine") == colour("mine", "fedgs", "fedau", "rpow_d")
    others = [f"mine{n}" for n in range(40)]
    assert len({colour(name) for name in others}) == 5
    same = next(name for name in others if colour(name) == colour("mine"))
    assert {colour("mine", same), colour(same, "mine")} > {colour("mine")}
