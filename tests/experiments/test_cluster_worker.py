"""A member of a cluster, without Ray: its runs give the records of this process, from any start."""

import logging
import pickle
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.experiments.test_this_process import (
    ROUNDS,
    carried_out,
    folder_of,
    prepared_runs,
    record_files,
)

from fedgs.data import Federation
from fedgs.experiments.cluster_worker import ClusterWorker, FilesChanged
from fedgs.experiments.crew import Progress, RunEnded, ShareEnded
from fedgs.experiments.member import MemberSetup
from fedgs.experiments.mirror import apply_changes, content_of
from fedgs.experiments.prepared import PreparedRun
from fedgs.experiments.transfer import pack_runs
from fedgs.experiments.transferred_sources import import_sources, plugin_sources, show_lines
from fedgs.experiments.worker import NewRecord, Unloadable
from fedgs.records import RunFolder
from fedgs.registry import load_plugin, variant_class

MEMBERS: list[ClusterWorker] = []  # that a test has made


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    """A member changes its process for good: logger, threads and `sys.path`."""
    import torch

    logger, threads, finders = logging.getLogger("fedgs"), torch.get_num_threads(), sys.meta_path[:]
    handlers, level, propagate = logger.handlers[:], logger.level, logger.propagate
    yield
    logger.handlers[:], logger.propagate = handlers, propagate
    logger.setLevel(level)
    torch.set_num_threads(threads)
    sys.meta_path[:] = finders
    while MEMBERS:
        MEMBERS.pop().clean()


def member(**changes: Any) -> ClusterWorker:
    nothing: dict[str, Any] = {
        "variants": [], "sources": [], "lines": {}, "files": {}, "driver_folders": [],
        "threads": 1, "log_level": logging.WARNING, "tells_records": False,
    }  # fmt: skip
    MEMBERS.append(ClusterWorker(MemberSetup(**{**nothing, **changes})))
    return MEMBERS[-1]


def worked(
    worker: ClusterWorker,
    runs: Sequence[PreparedRun],
    *,
    folders: bool = True,
    packed: bytes | None = None,
) -> list[object]:
    """All messages of a share; files are written as the study does."""
    federations = [runs[0].plan.federation]
    shared = set[str]()
    contents = [content_of(folder_of(run), shared) for run in runs] if folders else None
    messages = []
    packed = packed or pack_runs(runs, federations, elsewhere=())
    for gathered in worker.work(packed, contents, *federations):
        for message in map(pickle.loads, gathered):
            messages.append(message)
            if isinstance(message, FilesChanged):
                apply_changes(folder_of(runs[message.position]).path, message.changes)
    return messages


def test_a_members_runs_are_those_of_this_process(
    toy_federation: Federation, tmp_path: Path
) -> None:
    here = prepared_runs(toy_federation, tmp_path / "here")
    carried_out(here)
    there = prepared_runs(toy_federation, tmp_path / "there")
    worker = member()
    messages = worked(worker, there)
    assert record_files(there) == record_files(here)
    assert all(run.is_finished() for run in there)
    assert isinstance(messages[-1], ShareEnded)
    assert [m.position for m in messages if isinstance(m, RunEnded)] == [0, 1]
    assert max(m.rounds for m in messages if isinstance(m, Progress)) == 2 * ROUNDS
    names = [{path.name for path in folder_of(runs[1]).path.iterdir()} for runs in (here, there)]
    assert names[0] == names[1]
    graphs = [sorted(p.name for p in (tmp_path / o / "graphs").glob("*.npz")) for o in ("here", "there")]  # noqa: E501 # fmt: skip
    assert graphs[0] == graphs[1] != []


@pytest.mark.parametrize("after", [1, 3])
def test_runs_that_were_stopped_resume_on_another_member(
    toy_federation: Federation, tmp_path: Path, after: int
) -> None:
    here = prepared_runs(toy_federation, tmp_path / "here")
    carried_out(here)
    there = prepared_runs(toy_federation, tmp_path / "there")
    first = member()
    asked = iter([False] * after + [True] * 9)
    first._stopped.is_set = lambda: next(asked)  # type: ignore[method-assign]
    messages = worked(first, there)
    assert not any(isinstance(message, RunEnded | ShareEnded) for message in messages)
    assert not any(run.is_finished() for run in there)
    rounds = [len(folder_of(run).records()) for run in there]
    assert sum(rounds) == after + 1  # the last whole rounds are saved
    with (folder_of(there[0]).path / "rounds.jsonl").open("a") as file:
        file.write("a line that was cut o")  # by a driver that was killed
    worked(member(), there)
    assert record_files(there) == record_files(here)


def test_without_folders_records_and_models_come_with_the_end(toy_federation: Federation) -> None:
    runs = prepared_runs(toy_federation)
    ended = [m for m in worked(member(), runs, folders=False) if isinstance(m, RunEnded)]
    expected = carried_out(runs)
    assert [message.records for message in ended] == [message.records for message in expected]
    assert all(message.snapshots for message in ended)


def test_the_study_can_answer_each_record(toy_federation: Federation, tmp_path: Path) -> None:
    (run,) = prepared_runs(toy_federation, tmp_path, methods=["uniform"])
    worker = member(tells_records=True)
    for answer in [None] * 3 + [("on_record raised ValueError: enough", "traceback")]:
        worker.reply(answer)
    messages = worked(worker, [run])
    assert [m.position for m in messages if isinstance(m, NewRecord)] == [0] * 4
    failure = folder_of(run).failure()
    assert failure is not None and failure["error"] == "on_record raised ValueError: enough"
    assert len(folder_of(run).records()) == 3


def test_runs_that_cannot_be_loaded_are_said_to_be(toy_federation: Federation) -> None:
    messages = [
        pickle.loads(content)
        for gathered in member().work(b"no pickle", None, toy_federation)
        for content in gathered
    ]
    (message,) = messages
    assert isinstance(message, Unloadable) and "UnpicklingError" in message.reason


PLUGIN = """
import fedgs
from beside import chosen


@fedgs.sampler("transferred-test")
def transferred(view, rng):
    return fedgs.Selection(chosen(view))
"""
BESIDE = """
def chosen(view):
    if view.round == 2:
        raise ArithmeticError("not in this round")
    return view.available[: view.cohort_limit]
"""


def test_plugins_are_sent_as_text_and_raise_with_their_own_lines(
    toy_federation: Federation, tmp_path: Path
) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "transferred.py").write_text(PLUGIN)
    (folder / "beside.py").write_text(BESIDE)
    load_plugin(folder / "transferred.py")
    (run,) = prepared_runs(toy_federation, tmp_path / "out", methods=["transferred-test"])
    sources = plugin_sources()
    packed = pack_runs([run], [toy_federation], elsewhere={source.module for source in sources})
    assert [source.module for source in sources] == ["beside", "fedgs_plugin_transferred"]
    for name in ("beside", "fedgs_plugin_transferred"):
        del sys.modules[name]
    (folder / "transferred.py").unlink()
    (folder / "beside.py").unlink()
    sys.path.remove(str(folder))
    worked(member(sources=sources), [run], packed=packed)
    failure = folder_of(run).failure()
    assert failure is not None and failure["round"] == 2
    assert str(failure["error"]) == "ArithmeticError: not in this round"
    assert f'File "{folder / "beside.py"}", line 4, in chosen' in str(failure["traceback"])
    assert 'raise ArithmeticError("not in this round")' in str(failure["traceback"])
    del sys.modules["beside"]


def test_a_plugin_that_does_not_arrive_as_it_was_sent_is_refused(tmp_path: Path) -> None:
    from dataclasses import replace

    from fedgs.errors import ConfigError

    (tmp_path / "whole.py").write_text("import fedgs\nfedgs.sampler('whole-test')(lambda v, r: v)")
    load_plugin(tmp_path / "whole.py")
    (source,) = plugin_sources()
    with pytest.raises(ConfigError, match="did not arrive as it was sent"):
        import_sources([replace(source, text="import os")])
    assert variant_class("method", "whole-test")


def test_functions_of_a_main_module_raise_with_their_own_lines(
    toy_federation: Federation, tmp_path: Path
) -> None:
    path = tmp_path / "script.py"
    text = "import fedgs\n@fedgs.sampler('script-test')\ndef mine(view, rng):\n    return 1 / 0\n"
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(text, str(path), "exec"), space)
    (run,) = prepared_runs(toy_federation, tmp_path / "out", methods=[space["mine"]])
    worked(member(lines={str(path): text}), [run])
    failure = folder_of(run).failure()
    assert failure is not None
    assert f'File "{path}", line 4, in mine\n    return 1 / 0' in str(failure["traceback"])


def test_lines_of_a_file_that_is_not_here_are_shown(tmp_path: Path) -> None:
    path = str(tmp_path / "gone.py")
    show_lines({path: "def f():\n    return 1 / 0\n"})
    space: dict[str, Any] = {}
    exec(compile("def f():\n    return 1 / 0\n", path, "exec"), space)
    with pytest.raises(ZeroDivisionError) as raised:
        space["f"]()
    assert "return 1 / 0" in "".join(traceback.format_exception(raised.value))


def test_files_that_settings_name_are_sent(toy_federation: Federation, tmp_path: Path) -> None:
    from fedgs.experiments.compare import _Given
    from fedgs.experiments.grid import build_config
    from fedgs.experiments.preparing import prepare
    from fedgs.experiments.transferred_files import named_files

    matrix = tmp_path / "matrix.csv"
    matrix.write_text("\n".join("1,0,1,1" for _ in range(6)))
    tables = {
        "data": _Given(federation=toy_federation),
        "availability": {"name": "file", "path": str(matrix)},
        "method": "uniform",
        "training": {"rounds": 3, "local_steps": 1},
    }
    (run,) = prepare([build_config(tables)])
    files = named_files(run.config)
    assert files == {str(matrix): matrix.read_bytes()}
    (expected,) = carried_out([run])
    packed = pack_runs([run], [toy_federation], elsewhere=())
    matrix.unlink()
    messages = [
        pickle.loads(content)
        for gathered in member(files=files).work(packed, None, toy_federation)
        for content in gathered
    ]
    (ended,) = [message for message in messages if isinstance(message, RunEnded)]
    assert ended.records == expected.records
    assert ended.tables["availability"]["path"] == str(matrix)  # the record names the user's file
    assert isinstance(run.folder, RunFolder | None)
