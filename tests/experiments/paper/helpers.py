"""Requests of the paper's experiments on a small federation, and their files."""

import csv
from pathlib import Path
from typing import Any

from fedgs.experiments.paper.catalogue import find
from fedgs.experiments.paper.frame.conditions import Mode, parse_data
from fedgs.experiments.paper.frame.experiment import LoadedRun
from fedgs.experiments.paper.frame.request import ExperimentRequest
from fedgs.experiments.paper.frame.run import Reproduction, checked, reproduce
from fedgs.records import Record
from fedgs.report.run_view import Run

TRAINED = ("table2", "table4", "fig4", "fig5", "tuning")
FAST = (("training.proportion", 0.4), ("training.local_steps", 2), ("evaluation.every", 2))
LDF = (Mode("LDF"),)

CarriedOut = tuple[ExperimentRequest, Path, Reproduction]  # the request, its folder, the result


def request_of(name: str, file: Path | None, **options: Any) -> ExperimentRequest:
    values: dict[str, Any] = {"seeds": (0, 1), "overrides": FAST, **options}
    if name == "tuning":
        values["overrides"] = tuple(
            (key, value) for key, value in FAST if key != "training.local_steps"
        )
    if name not in TRAINED:
        values["overrides"] = options.get("overrides", ())
        values["seeds"] = (0,)
    if "rounds" in find(name).takes:
        values.setdefault("rounds", 4)
    return checked(
        ExperimentRequest(name, () if file is None else parse_data([str(file)]), **values)
    )


def carry_out(request: ExperimentRequest, out: Path) -> Reproduction:
    return reproduce(request, out=out, workers=1, command=f"fedgs reproduce {request.name}")


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def run_with(
    row: str, mode: str, *, seed: int = 0, loss: float, data: str = "synthetic", clients: int = 30
) -> LoadedRun:
    """A finished run of one round with a validation and a test loss."""
    config = {
        "seed": seed,
        "training": {"rounds": 1},
        "run": {"num_clients": clients, "data_title": "Synthetic", "data_fingerprint": "f"},
    }
    records = [Record(0, cohort=[0], test_loss=loss, valid_loss=loss), Record(1)]
    return LoadedRun(data, mode, row, Run(config, records))
