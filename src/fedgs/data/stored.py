"""The data set `folder`: a federation in a folder of memory-mapped arrays."""

from pathlib import Path

from fedgs.data.base import Data
from fedgs.data.federation import Federation
from fedgs.data.folder import open_folder
from fedgs.errors import DataError
from fedgs.registry import register

__all__ = ["Folder"]


@register("data", "folder")
class Folder(Data):
    """A federation in a folder that `fedgs data export --format folder` or `FolderWriter` wrote.

    Its arrays are memory-mapped, so it can be larger than the memory. Opening it reads neither
    examples nor labels; `fedgs data check` compares them with their digests.

    Attributes:
        path: the folder; a relative path is looked up in --data-dir first, then in the current
            folder.
    """

    path: str

    @property
    def title(self) -> str:
        """The folder's name."""
        return Path(self.path).name

    def load(self, data_dir: Path | None = None) -> Federation:
        """The federation of the folder.

        Raises:
            DataError: no such folder, or one that is not complete.
        """
        places = [Path(self.path)]
        if data_dir is not None and not places[0].is_absolute():
            places.insert(0, data_dir / self.path)
        found = next((place for place in places if place.is_dir()), None)
        if found is None:
            raise DataError(f"data.path must be a folder of a federation, got {self.path!r}")
        return open_folder(found)
