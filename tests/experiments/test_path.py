"""The path of a configuration from the command line to the first record."""

import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import fedgs.experiments
import fedgs.experiments.study  # so that no module is imported while the path is followed
from fedgs.cli.run import run
from fedgs.experiments.sinks import FolderSink

FOLDER = Path(fedgs.experiments.__file__).parent


class FirstRecordError(Exception):
    """Ends the run at its first record."""


def test_no_module_of_experiments_is_entered_twice(tmp_path: Path, monkeypatch: Any) -> None:
    """A module is entered where one of its functions is called while no code of it runs.

    Methods do not count: the objects that carry the configuration are asked for their parts.
    """
    entered: Counter[str] = Counter()
    running: list[str] = []
    begun: set[FrameType] = set()

    def stop(*record: object) -> None:
        raise FirstRecordError

    monkeypatch.setattr(FolderSink, "on_round", stop)

    def profile(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        path = Path(code.co_filename)
        if path.parent != FOLDER:
            return
        if event == "call":
            is_function = "." not in code.co_qualname and frame not in begun  # a resumed generator
            entered[path.stem] += is_function and path.stem not in running
            begun.add(frame)
            running.append(path.stem)
        elif event == "return":
            running.pop()

    settings = ["method=uniform", "data.clients=6", "training.rounds=2", "seed=0"]
    sys.setprofile(profile)
    try:
        run(set_=settings, out=tmp_path / "out")
    except FirstRecordError:
        pass
    finally:
        sys.setprofile(None)
    assert {"grid", "study", "preparing", "prepared", "runner", "this_process"} <= set(entered)
    entered.pop("snapshots")  # a run's sink asks it for the figure, the module and the best model
    entered.pop("presets")  # names are looked up in it while the configuration is made
    assert entered.pop("runner") == 2  # the command line asks it how many runs are distinct
    assert entered.pop("grid") == len(settings) + 1  # each setting is parsed, then all are expanded
    assert {module for module, count in entered.items() if count > 1} == set(), entered
