import pytest
from tests.report.material import course, notes_of

from fedgs.records import Record
from fedgs.report.concerns import is_by_chance
from fedgs.report.run_view import Run


def test_a_lowest_loss_of_the_untrained_model_is_said() -> None:
    untrained, trained = course(2.3, 1e9, 1e9), course(2.3, 1.0, 0.9, method="uniform")
    said = notes_of(untrained, trained, course(2.3, 2.2, 2.2, seed=1))
    assert "The lowest test loss is that of round 0, before any training: md (1 of 2 runs)." in said
    assert "far above" not in said
    assert "round 0" not in notes_of(trained)
    assert "round 0" not in notes_of(course(2.3))  # nothing else was evaluated yet


@pytest.mark.parametrize(
    ("losses", "risen"),
    [
        ((2.3, 0.4, 0.6), False),  # 1.5 times the lowest, and nearer to it than to round 0
        ((2.3, 0.4, 0.61), True),
        ((2.3, 1.9, 2.09), False),
        ((2.3, 1.9, 2.11), True),  # more than half of the way back to 2.3
        ((2.3, 0.4, float("inf")), True),
        ((2.3, 0.4, float("nan")), True),
        ((2.3, 0.4, 0.4), False),
        ((2.3, 0.001, 0.01), False),  # ten times the lowest, and both nearly 0
    ],
)
def test_a_last_loss_far_above_the_lowest_is_said(losses: tuple[float, ...], risen: bool) -> None:
    assert ("The last test loss is far above the lowest: md." in notes_of(course(*losses))) is risen


@pytest.mark.parametrize(
    ("losses", "accuracies", "guess"),
    [
        ((2.4, 2.31), None, True),  # ln 10 = 2.3026
        ((2.4, 2.285), None, True),  # within one per cent
        ((2.4, 2.27), None, False),
        ((2.4, 2.0), [0.1, 0.1], True),  # always the same label
        ((2.4, 2.0), [0.1, 0.2], False),
        ((2.4,), None, False),  # not trained yet
    ],
)
def test_a_model_that_guesses_is_said(
    losses: tuple[float, ...], accuracies: list[float] | None, guess: bool
) -> None:
    said = notes_of(course(*losses, accuracies=accuracies, run={"num_labels": 10}))
    assert ("No better than a guess among 10 labels (loss 2.303): md." in said) is guess


def test_where_the_number_of_labels_is_not_known_no_guess_is_said() -> None:
    assert "guess" not in notes_of(course(9.0, 8.0))


def test_other_losses_than_cross_entropy_have_no_guess() -> None:
    about = {"run": {"num_labels": 2}}
    records = [Record(0, cohort=[1], test_loss=9.0), Record(1, test_loss=8.0)]
    for loss, by_chance in (
        (None, True),
        ("cross_entropy", True),
        ({"name": "cross_entropy", "label_smoothing": 0.1}, True),
        ("mean_squared_error", False),
        ({"name": "huber", "delta": 2.0}, False),
    ):
        training = {} if loss is None else {"training": {"loss": loss}}
        assert is_by_chance(Run({**about, **training}, records)) is by_chance
