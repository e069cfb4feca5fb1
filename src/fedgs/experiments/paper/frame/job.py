"""An experiment to carry out, and one whose runs or results are all stored."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from fedgs.errors import OutputError
from fedgs.experiments.crew import Progress
from fedgs.experiments.paper.frame.request import ExperimentRequest
from fedgs.experiments.paper.frame.store import Manifest, read_manifests

__all__ = ["ExperimentJob", "ProgressDisplay", "StoredExperiment", "refuse_folder_of_runs"]

ProgressDisplay = Callable[[int, int], AbstractContextManager[Callable[[Progress], None]]]


@dataclass(frozen=True, eq=False)
class ExperimentJob:
    """An experiment to carry out: the arguments of `frame.run.reproduce`."""

    request: ExperimentRequest
    out: Path
    data_dir: Path | None
    command: str
    display: ProgressDisplay

    def earlier(self) -> Manifest | None:
        """The manifest of an earlier call with the same request."""
        request = _without_execution(self.request)
        for manifest in read_manifests(self.out)[0]:
            if _without_execution(manifest.request) == request:
                return manifest
        return None


def _without_execution(request: ExperimentRequest) -> ExperimentRequest:
    return replace(request, overrides=request.changes)


@dataclass(frozen=True, eq=False)
class StoredExperiment:
    """An experiment whose runs or results are all stored, and how many of them were reused."""

    manifest: Manifest
    reused: int
    total: int


def refuse_folder_of_runs(out: Path) -> None:
    """Refuse the output folder of `fedgs run`: runs of an experiment lie one level deeper."""
    if any(out.glob("*/config.toml")):
        raise OutputError(
            f"--out {str(out)!r} holds runs of fedgs run; choose a folder of its own for "
            "fedgs reproduce"
        )
