"""Reading files of other programs: which form a file has, and what it holds."""

import re
from pathlib import Path

from fedgs.errors import ConfigError, DataError
from fedgs.traces.collected import Collected
from fedgs.traces.csv_text import read_csv
from fedgs.traces.fedscale import read_fedscale
from fedgs.traces.flame import read_trainers, read_yaml
from fedgs.traces.flash import read_flash
from fedgs.traces.rules import DEFAULT_RULE

__all__ = ["FORMS", "form_of", "read_form"]

FORMS = ("csv", "fedscale", "flash", "flame")
_MOST_BYTES = {"csv": 192 << 20, "fedscale": 64 << 20, "flash": 192 << 20, "flame": 64 << 20}
_SUFFIXES = {
    ".csv": "csv", ".pkl": "fedscale", ".pickle": "fedscale", ".yaml": "flame", ".yml": "flame",
}  # fmt: skip
_TRAINER = re.compile(r"trainer_(\d{1,9})\.json")


def form_of(path: Path) -> str:
    """The form of a file, one of `FORMS`, from its name and its first bytes.

    >>> form_of(Path("phones.csv"))
    'csv'
    """
    if path.is_dir():
        return "flame"
    if path.suffix.lower() in _SUFFIXES:
        return _SUFFIXES[path.suffix.lower()]
    with path.open("rb") as file:
        head = file.read(1 << 16)
    if head.lstrip()[:1] == b"{":
        return "flash" if b'"messages"' in head and b'"hyperparameters"' not in head else "flame"
    return "fedscale" if head[:1] in (b"\x80", b"(") else "csv"


def read_form(path: Path, form: str, rule: str | None) -> Collected:
    """The devices of a file, or of a folder of Flame's trainers.

    Args:
        path: of the file.
        form: one of `FORMS`.
        rule: for "flash" alone; None: `rules.DEFAULT_RULE`.

    Raises:
        DataError: too large, or not of this form.
        ConfigError: not a rule, or a rule for another form.
    """
    if rule is not None and form != "flash":
        raise ConfigError(
            f"a rule applies to the form flash alone, whose files hold states of phones, got a "
            f"rule for {form}"
        )
    if form == "flame":
        return _flame(path)
    content = _content([path], form)[0]
    if form == "flash":
        return read_flash(content, DEFAULT_RULE if rule is None else rule)
    return {"csv": read_csv, "fedscale": read_fedscale}[form](content)


def _flame(path: Path) -> Collected:
    if path.suffix.lower() in (".yaml", ".yml"):
        return read_yaml(_content([path], "flame")[0])
    files = _trainers(path) if path.is_dir() else [path]
    numbers = [_TRAINER.fullmatch(file.name) for file in files]
    names = [
        file.stem if number is None else str(int(number[1]))
        for file, number in zip(files, numbers, strict=True)
    ]
    return read_trainers(zip(names, _content(files, "flame"), strict=True))


def _trainers(folder: Path) -> list[Path]:
    """The files trainer_N.json of a folder, in the order of N."""
    numbered: dict[int, Path] = {}
    for file in sorted(folder.iterdir()):
        name = _TRAINER.fullmatch(file.name)
        if name is not None and int(name[1]) in numbered:
            other = numbered[int(name[1])].name
            raise DataError(
                f"the folder must hold each trainer once, got {other!r} and {file.name!r}"
            )
        if name is not None:
            numbered[int(name[1])] = file
    if not numbered:
        raise DataError("the folder must hold files trainer_N.json, got none")
    return [numbered[number] for number in sorted(numbered)]


def _content(files: list[Path], form: str) -> list[bytes]:
    """The bytes of all files, which together must not be too many."""
    size, most = sum(file.stat().st_size for file in files), _MOST_BYTES[form]
    if size > most:
        raise DataError(
            f"it must have at most {most >> 20} MB as {form}, got {size / 2**20:.1f} MB"
        )
    content = []
    for path in files:
        with path.open("rb") as file:
            content.append(file.read(most + 1))
        if sum(map(len, content)) > most:  # it grows, or is no regular file
            raise DataError(f"it must have at most {most >> 20} MB as {form}")
    return content
