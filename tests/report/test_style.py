from tests.report.material import run_of

from fedgs.report.labels import labelled
from fedgs.report.run_view import Run
from fedgs.report.style import looks


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
