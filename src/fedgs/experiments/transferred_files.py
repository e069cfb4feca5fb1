"""Files that settings name, such as an availability matrix, on a computer that lacks them."""

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

from pydantic import BaseModel

from fedgs.config import Config

__all__ = ["named_files", "stored_files", "with_files"]

_LONGEST_PATH = 4096
_CARRIED_OUT_ELSEWHERE = ("data", "execution")  # the federation is loaded already


def named_files(config: Config) -> dict[str, bytes]:
    """Path, as it is written in the settings -> content of the files that they name."""
    return {
        text: Path(text).expanduser().read_bytes()
        for key in type(config).model_fields
        if key not in _CARRIED_OUT_ELSEWHERE
        for text in _files(getattr(config, key))
    }


def stored_files(files: Mapping[str, bytes], folder: Path) -> dict[str, str]:
    """Write the files into a folder; path in the settings -> path there."""
    places = {}
    for number, (path, content) in enumerate(files.items()):
        place = folder / str(number) / Path(path).name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        places[path] = str(place)
    return places


def with_files(config: Config, places: Mapping[str, str]) -> Config:
    """The configuration with other paths of the files."""
    changed = {
        key: _replaced(getattr(config, key), places)
        for key in type(config).model_fields
        if key not in _CARRIED_OUT_ELSEWHERE
    }
    return config.model_copy(update=changed) if places else config


def _files(value: object) -> Iterator[str]:
    if isinstance(value, str | PurePath):
        if _is_file(str(value)):
            yield str(value)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _files(item)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from _files(item)
    elif isinstance(value, BaseModel):
        for key in type(value).model_fields:
            yield from _files(getattr(value, key))


def _replaced(value: Any, places: Mapping[str, str]) -> Any:
    """The value with other paths; the value itself where it names none of the files."""
    if isinstance(value, str | PurePath):
        place = places.get(str(value))
        return value if place is None else type(value)(place)
    if isinstance(value, BaseModel):
        changed = {
            key: new
            for key in type(value).model_fields
            if (new := _replaced(old := getattr(value, key), places)) is not old
        }
        return value.model_copy(update=changed) if changed else value
    if type(value) is dict:
        table = {key: _replaced(item, places) for key, item in value.items()}
        return table if any(table[key] is not value[key] for key in value) else value
    if type(value) in (list, tuple, set, frozenset):
        items = [_replaced(item, places) for item in value]
        same = all(new is old for new, old in zip(items, value, strict=True))
        return value if same else type(value)(items)
    return value


def _is_file(text: str) -> bool:
    """Whether a setting is the path of a file; a plain word is none, such as "mean"."""
    if not text or len(text) >= _LONGEST_PATH or "\0" in text or not ("." in text or "/" in text):
        return False
    try:
        return Path(text).expanduser().is_file()
    except OSError:  # a name that the file system cannot have
        return False
