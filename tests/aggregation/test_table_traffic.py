"""What a round allocates under aggregations with a table: rows of the cohort, never the table."""

import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.driving import RecordedRun, make_plan
from torch.utils._python_dispatch import TorchDispatchMode

import fedgs
from fedgs.aggregation import Aggregation, ClientTable, Gossip, Scaffold, Stale
from fedgs.availability import Ideal
from fedgs.checkpoint import State
from fedgs.data import Federation
from fedgs.driver import drive
from fedgs.local import LoopEngine

EXAMPLE = 1200  # numbers of an example
COHORT = 3
TABLES: list[Any] = [Stale(), Scaffold(), Gossip()]


class Allocations(TorchDispatchMode):
    """Counts the bytes of all tensors that operations of PyTorch make."""

    bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        given = {
            value.untyped_storage().data_ptr() for value in args if isinstance(value, torch.Tensor)
        }
        for value in result if isinstance(result, tuple | list) else [result]:
            if isinstance(value, torch.Tensor):
                storage = value.untyped_storage()
                self.bytes += 0 if storage.data_ptr() in given else storage.nbytes()
        return result


def federation(count: int) -> Federation:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2 * count, EXAMPLE)).astype(np.float32)
    y = np.arange(2 * count) % 10
    return Federation.from_arrays(x, y, client=np.repeat(np.arange(count), 2), test=(x[:5], y[:5]))


class Filled(RecordedRun):
    """A run in whose tables every client has a row from the start."""

    path: Path | None = None  # of the tables' files; None: in memory

    def on_start(self, state: State) -> State:
        vectors = dict(state.vectors)
        like = vectors.get("control", state.parameters)  # SCAFFOLD's rows are float64
        for key, table in vectors.items():
            if isinstance(table, ClientTable):
                filled = ClientTable([torch.zeros_like(like) for _ in range(len(table))])
                vectors[key] = filled if self.path is None else filled.kept_in(self.path / key)
        return replace(state, vectors=vectors)


def allocated(aggregation: Aggregation, count: int, path: Path | None) -> tuple[int, int]:
    """Bytes that a round of so many clients allocates in tensors, and the peak in NumPy arrays."""
    plan = make_plan(
        federation(count),
        fedgs.Uniform(weighting="equal"),
        aggregation=aggregation,
        rounds=2,
        cohort_limit=COHORT,
        availability=Ideal(),
        evaluate_every=100,
    )
    run = Filled(plan)
    run.path = path
    counted, marks = Allocations(), []

    class Marking(LoopEngine):
        def answer(self, requests: Any) -> Any:
            marks.append(counted.bytes)
            return super().answer(requests)

    with counted:
        tracemalloc.start()
        drive([run.live], Marking())
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert run.failed is None and run.final is not None
    _evaluation, _round_0, round_1, final_evaluation = marks
    return final_evaluation - round_1, peak


@pytest.mark.parametrize("mapped", [False, True], ids=["memory", "file"])
@pytest.mark.parametrize("aggregation", TABLES, ids=repr)
def test_a_round_does_not_copy_the_table(
    aggregation: Aggregation, mapped: bool, tmp_path: Path
) -> None:
    few, many = 20, 120
    small, _ = allocated(aggregation, few, tmp_path if mapped else None)
    large, peak = allocated(aggregation, many, tmp_path if mapped else None)
    row = 4 * (EXAMPLE + 1) * 10
    table = many * row
    assert large < 40 * COHORT * row  # local training included
    assert (
        large - small < row
    )  # whatever depends on the number of clients is no vector of the model
    assert peak < table / 2
