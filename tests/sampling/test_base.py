"""The base of samplers, and samplers made from functions."""

import numpy as np
import pydantic
import pytest

import fedgs
from fedgs import Clients, Sampler, Selection, View
from fedgs.registry import build, table
from fedgs.sampling.base import AsksLosses, LearnsFromModels, Remembers

VIEW = View(
    0,
    Clients((0, 1, 2), np.ones(3, dtype=np.int64)),
    available=np.array([0, 2]),
    counts=np.zeros(3, dtype=np.int64),
    cohort_limit=1,
)


def test_a_sampler_without_select_is_named() -> None:
    class Empty(Sampler):
        pass

    with pytest.raises(TypeError, match=r"^Empty must define select\(view, rng\)$"):
        Empty().select(VIEW, np.random.default_rng(0))


def test_functions_belong_to_their_own_class_and_are_no_settings() -> None:
    @fedgs.sampler("base-first")
    def first(view: View, rng: np.random.Generator, *, skip: int = 0) -> Selection:
        return Selection(view.available[skip:][:1])

    @fedgs.sampler("base-last")
    def last(view: View, rng: np.random.Generator) -> Selection:
        return Selection(view.available[-1:])

    made = build("method", "base-first"), build("method", "base-last")
    cohorts = [
        sampler.select(VIEW, np.random.default_rng(0)).clients.tolist()
        for sampler in made
        if isinstance(sampler, Sampler)
    ]
    assert cohorts == [[0], [2]]
    assert table(made[0]) == {"name": "base-first", "skip": 0, "weighting": "data_size"}
    # pydantic keeps what is assigned to a class variable apart from the fields.
    assert set(type(made[0]).model_fields) == {"skip", "weighting"}, pydantic.VERSION


@pytest.mark.parametrize("loss_on", ["train", "validation"])
def test_protocols_are_recognised_by_their_members(loss_on: str) -> None:
    choice = build("method", {"name": "power_of_choice", "loss_on": loss_on})
    assert isinstance(choice, AsksLosses)
    assert choice.loss_on == loss_on
    assert not isinstance(choice, Remembers | LearnsFromModels)
    assert isinstance(fedgs.FedGS(), Remembers)
    assert isinstance(fedgs.FedGS(), LearnsFromModels)
    assert not isinstance(fedgs.FedGS(), AsksLosses)
