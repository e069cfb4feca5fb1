"""What processes of a cluster have in common: how they come to have the runs of a study."""

import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedgs.collector import collect_rarely
from fedgs.data import Federation
from fedgs.experiments.prepared import PreparedRun
from fedgs.experiments.transfer import register_variants, unpack_runs
from fedgs.experiments.transferred_files import stored_files
from fedgs.experiments.transferred_sources import Source, import_sources, show_lines

__all__ = ["Member", "MemberSetup"]

PREFIX = "fedgs-member-"  # of temporary folders; the process's number follows


@dataclass(frozen=True)
class MemberSetup:
    """What every member needs once.

    Attributes:
        variants: from `pack_variants`.
        sources: plug-ins, from `plugin_sources`.
        lines: what tracebacks show, from `user_lines`.
        files: those that settings name, from `named_files`.
        driver_folders: folders of the study's program that are no place to import from here.
        threads: of torch in a member's process.
        log_level: of the study's logger "fedgs".
        tells_records: whether the study wants each record before it is stored.
    """

    variants: list[tuple[str, str, bytes]]
    sources: list[Source]
    lines: dict[str, str]
    files: dict[str, bytes]
    driver_folders: list[str]
    threads: int
    log_level: int
    tells_records: bool


class Member:
    """A process on a node, which shares no file with the study.

    Args:
        setup: what it needs.
    """

    def __init__(self, setup: MemberSetup) -> None:
        collect_rarely()
        self.setup = setup
        own = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        sys.path[:] = [p for p in sys.path if p not in setup.driver_folders or p in own]
        _remove_leftovers()
        self._scratch = tempfile.TemporaryDirectory(
            prefix=f"{PREFIX}{os.getpid()}-", ignore_cleanup_errors=True
        )
        self._places: dict[str, str] | None = None

    @property
    def scratch(self) -> Path:
        """A folder of its own."""
        return Path(self._scratch.name)

    def process(self) -> int:
        """The number of the process."""
        return os.getpid()

    def clean(self) -> None:
        """Remove the temporary files; the member gets no further work."""
        self._scratch.cleanup()

    def load(self, packed: bytes, federations: Sequence[Federation]) -> list[PreparedRun]:
        """The runs of `pack_runs`, with the plug-ins and files that they need."""
        import torch

        torch.set_num_threads(self.setup.threads)
        if self._places is None:
            show_lines(self.setup.lines)
            import_sources(self.setup.sources)
            register_variants(self.setup.variants)
            self._places = stored_files(self.setup.files, self.scratch / "settings")
        return unpack_runs(packed, federations, self._places)


def _remove_leftovers() -> None:
    """Remove the temporary folders of members whose processes were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        number = folder.name.removeprefix(PREFIX).partition("-")[0]
        if number.isdecimal() and not _process_is_there(int(number)):
            shutil.rmtree(folder, ignore_errors=True)


def _process_is_there(number: int) -> bool:
    """Whether a process with this number is running on this computer."""
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
