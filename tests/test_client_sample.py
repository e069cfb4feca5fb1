"""`evaluation.sample`: some clients stand for all in evaluations."""

from dataclasses import replace

import numpy as np
import pytest
from tests.driving import driven, make_plan
from tests.local.material import make_federation, replies

from fedgs.client_sample import client_sample
from fedgs.data.part import Part
from fedgs.errors import ConfigError
from fedgs.evaluation_settings import ClientEvaluation, Evaluation
from fedgs.local import LoopEngine, StackedEngine, initial_parameters
from fedgs.models import LogisticRegression
from fedgs.report.by_client import client_losses
from fedgs.report.run_view import Run
from fedgs.requests import Evaluate, Losses, Work


def test_a_sample_is_distinct_sorted_and_drawn_by_the_seed() -> None:
    drawn = client_sample(3, 1000, 400)
    assert len(drawn) == 400 and (np.diff(drawn) > 0).all() and 0 <= drawn[0] <= drawn[-1] < 1000
    assert drawn.tolist() == client_sample(3, 1000, 400).tolist()
    assert drawn.tolist() != client_sample(4, 1000, 400).tolist()


def test_each_client_is_drawn_about_equally_often() -> None:
    counts = np.bincount(np.concatenate([client_sample(s, 20, 5) for s in range(2000)]))
    # Mean 500, standard deviation sqrt(2000 * .25 * .75) = 19.4
    assert len(counts) == 20 and np.abs(counts - 500).max() < 5 * 19.4


def test_without_a_sample_the_settings_are_those_of_earlier_versions() -> None:
    assert Evaluation().model_dump() == {"every": 5}
    assert Evaluation(sample=7).model_dump() == {"every": 5, "sample": 7}


@pytest.mark.parametrize("objective", ["data_size", "equal"])
def test_only_the_sampled_clients_are_evaluated(objective: str) -> None:
    federation = make_federation((7, 1, 40, 12, 3, 20))
    work = Work(federation, LogisticRegression(), 0.0, 1, 4, objective=objective)
    theta = initial_parameters(work.model, federation, 0)
    chosen = np.array([0, 2, 5])
    for engine in (LoopEngine(), StackedEngine()):
        part, alone = replies(
            engine,
            Evaluate(work, theta, "validation", clients=chosen),
            Losses(work, theta, chosen, "validation"),
        )
        sizes = federation.clients.data_sizes[chosen] if objective == "data_size" else np.ones(3)
        assert part.loss == pytest.approx(np.average(alone, weights=sizes), rel=1e-6)
        every, some = replies(
            engine,
            Evaluate(work, theta, "validation", by_client=True),
            Evaluate(work, theta, "validation", by_client=True, clients=chosen),
        )
        np.testing.assert_array_equal(some.losses, every.losses[chosen])


def test_records_hold_the_sampled_clients_and_figures_read_them_back() -> None:
    federation = make_federation((7, 5, 40, 12, 9, 20))
    settings = {"per_client": ClientEvaluation(every=2, part="validation"), "seed": 4}
    whole, sampled = driven(
        make_plan(federation, rounds=2, **settings),
        make_plan(federation, rounds=2, sample=3, **settings),
    )
    record = sampled.records[-1]
    assert record.per_client is not None and len(record.per_client["loss"]) == 3
    assert record.valid_loss != whole.records[-1].valid_loss
    run = Run({"seed": 4, "run": {"num_clients": 6}}, sampled.records)
    losses, all_losses = client_losses(run), client_losses(Run({"seed": 4}, whole.records))
    assert losses is not None and all_losses is not None
    drawn = client_sample(4, 6, 3)
    np.testing.assert_allclose(losses[drawn], all_losses[drawn], rtol=1e-12)
    assert np.isnan(np.delete(losses, drawn)).all()


@pytest.mark.parametrize(
    ("sample", "has_validation", "sentence"),
    [
        (7, True, "evaluation.sample must be at most 6, the number of clients, got 7"),
        (2, False, "evaluation.sample has no effect without validation parts"),
    ],
)
def test_a_sample_that_cannot_be_is_refused(
    sample: int, has_validation: bool, sentence: str
) -> None:
    federation = make_federation((7, 5, 40, 12, 9, 20))
    if not has_validation:
        federation = replace(federation, validation=None)
    with pytest.raises(ConfigError, match=sentence):
        make_plan(federation, sample=sample)


def test_a_sample_without_validation_examples_is_refused() -> None:
    federation = make_federation((7, 5, 40))
    validation = federation.validation
    assert validation is not None
    owner = int(client_sample(0, 3, 1)[0])
    sizes = np.diff(validation.offsets)
    sizes[owner] = 0
    rows = np.delete(np.arange(len(validation)), validation.rows(owner))
    part = Part(validation.x[rows], validation.y[rows], np.concatenate([[0], np.cumsum(sizes)]))
    with pytest.raises(ConfigError, match="draws no client with validation examples for seed 0"):
        make_plan(replace(federation, validation=part), sample=1)
