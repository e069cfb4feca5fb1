"""Where the files of public data sets are found, and how they are fetched."""

import os
import shutil
import tarfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from fedgs.errors import DataError, require_extra

__all__ = ["cache_folder", "fetch", "find_folder", "reason_of", "search_folders", "unpack"]

_REMEDY = "put the files into a folder and name it with --data-dir or FEDGS_DATA"


def cache_folder() -> Path:
    """Where downloads are kept: `$XDG_CACHE_HOME/fedgs`, else `~/.cache/fedgs`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "fedgs"


def search_folders(
    data_dir: Path | None, subfolders: Sequence[str], system: Sequence[str] = ()
) -> list[Path]:
    """The folders to search, in order.

    These are `data_dir`, `$FEDGS_DATA` and the cache, each followed by its subfolders, then
    `system`.
    """
    named = [
        data_dir,
        Path(os.environ["FEDGS_DATA"]) if os.environ.get("FEDGS_DATA") else None,
        cache_folder(),
    ]
    bases = [Path(folder).expanduser() for folder in named if folder is not None]
    return [place for base in bases for place in (base, *(base / sub for sub in subfolders))] + [
        Path(place) for place in system
    ]


def find_folder(files: Sequence[str], folders: Sequence[Path]) -> Path | None:
    """The first folder that has all `files`."""
    for folder in folders:
        if all((folder / file).is_file() for file in files):
            return folder
    return None


def fetch(
    base_url: str, files: Mapping[str, str], folder: Path, *, searched: Sequence[Path]
) -> Path:
    """Download `files` into `folder` and check them; returns the folder.

    Args:
        base_url: prefix of every file's address.
        files: name -> pooch hash, such as "md5:...".
        folder: where the files are kept.
        searched: the folders that lack the files, for the messages.

    Raises:
        DataError: pooch is not installed, no connection, or a file whose hash is not the expected
            one (it is not kept).
    """
    places = ", ".join(str(place) for place in dict.fromkeys(searched))
    try:
        import pooch
    except ImportError:
        raise DataError(
            f"{next(iter(files))} is not in {places}; {_REMEDY}, or have it downloaded: "
            f"{require_extra('pooch', 'sim')}"
        ) from None
    for name, known_hash in files.items():
        try:
            pooch.retrieve(
                base_url + name, known_hash=known_hash, fname=name, path=folder, progressbar=False
            )
        except ValueError as error:
            raise DataError(
                f"{base_url}{name} has the wrong hash, so it was not kept: {error}"
            ) from None
        except OSError as error:
            raise DataError(
                f"{name} is not in {places}, and {base_url}{name} could not be downloaded "
                f"({reason_of(error)}); {_REMEDY}"
            ) from None
    return folder


def reason_of(error: OSError) -> str:
    """Why a download failed, without the chain of causes in the library's text."""
    return str(error).split("(Caused by")[0].strip() or type(error).__name__


def unpack(archive: Path, members: Sequence[str], folder: Path) -> Path:
    """Unpack only the named members of a .tar.gz into `folder`; returns the folder.

    Each file is written completely or not at all.

    Raises:
        DataError: the archive is truncated or lacks a member.
    """
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for member in members:
                content = tar.extractfile(member)
                if content is None:
                    raise DataError(f"{archive} holds no file {member}")
                target = folder / member
                target.parent.mkdir(parents=True, exist_ok=True)
                partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
                with content, partial.open("wb") as out:
                    shutil.copyfileobj(content, out)
                partial.replace(target)
    except (tarfile.TarError, zlib.error, EOFError, KeyError, OSError) as error:
        raise DataError(f"{archive} is truncated or not what it should be: {error}") from None
    return folder
