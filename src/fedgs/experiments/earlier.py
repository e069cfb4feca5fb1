"""Stored runs that are no longer the same run as a requested one.

The requested run starts beside them in a folder of its own, and nothing is deleted.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedgs.errors import OutputError
from fedgs.experiments.prepared import PreparedRun
from fedgs.local.engines import numerics_of
from fedgs.records import RunFolder

__all__ = ["beside_earlier", "renewed"]

_log = logging.getLogger("fedgs")
_PARTS = {
    "data": "the content of the data",
    "settings": "what the settings stand for",
    "model.start": "the module that the model builds",
    "format": "the way in which fedgs tells runs apart",
}


def beside_earlier(prepared: Sequence[PreparedRun], out: Path) -> list[PreparedRun]:
    """The runs, each with the identity under which its folder is its own.

    A stored run whose program computes other numbers in this version is neither resumed nor reused:
    the run gets another identity and so another folder. Warnings of the logger "fedgs": one for
    each variant whose content cannot be identified, and one in all where stored runs have the same
    configuration as runs that start now; it says how many and why.

    Args:
        prepared: distinct runs.
        out: the output folder.
    """
    for sentence in dict.fromkeys(
        sentence for one in prepared for sentence in one.identity.unknown
    ):
        _log.warning("%s", sentence)
    settled = [renewed(one, out) for one in prepared]
    _tell(settled, out)
    return settled


def renewed(one: PreparedRun, out: Path) -> PreparedRun:
    """The run, under another identity where its stored run cannot be resumed.

    That is so where the stored run was begun by a program whose numerics version has changed.
    """
    while (began := _numerics(out / one.folder_name)) and any(
        numerics_of(name) != {name: v} for name, v in began.items()
    ):
        one = replace(one, identity=one.identity.beside(repr(sorted(began.items()))))
    return one


def _numerics(path: Path) -> Mapping[str, int]:
    """The numerics versions that a stored run began with; empty where none are stored."""
    found = _tables(path).get("run", {}).get("numerics", {})
    return found if isinstance(found, Mapping) else {}


def _tables(path: Path) -> Mapping[str, Any]:
    folder = RunFolder(path)
    try:
        return folder.config() if folder.exists() else {}
    except OutputError:
        return {}


def _tell(prepared: Sequence[PreparedRun], out: Path) -> None:
    """One sentence, where there is something to say."""
    new = [
        one
        for one in prepared
        if not one.identity.unknown and not RunFolder(out / one.folder_name).exists()
    ]
    own = {one.folder_name for one in prepared}
    stored: dict[str, list[Mapping[str, Any]]] = {}
    reasons: dict[str, None] = {}
    count = 0
    for one in new:
        start = one.folder_name.removesuffix(one.fingerprint)
        if start not in stored:
            paths = [
                path
                for path in sorted(out.iterdir())
                if path.name.startswith(start) and path.name not in own
            ]
            stored[start] = [_tables(path) for path in paths if path.is_dir()]
        wanted = _comparable(one.tables())
        found = [tables["run"] for tables in stored[start] if _comparable(tables) == wanted]
        if found:
            count += 1
            every: list[list[str]] = [list(_differences(one, run)) for run in found]
            reasons |= dict.fromkeys(sorted(every, key=_length)[0])
    if count:
        runs, them = (
            ("1 run starts", "an earlier one")
            if count == 1
            else (f"{count} runs start", "earlier ones")
        )
        stay = "which stays" if count == 1 else "which stay"
        _log.warning(
            "%s anew beside %s of the same configuration, %s in %s: %s",
            runs,
            them,
            stay,
            out,
            "; ".join(reasons),
        )


def _length(differences: list[str]) -> int:
    return len(differences)


def _comparable(tables: Mapping[str, Any]) -> Any:
    """A stored configuration without what does not make it another run."""
    training = {
        k: v
        for k, v in tables.get("training", {}).items()
        if k not in ("rounds", "proportion", "cohort_limit")
    }
    rest = {
        key: value
        for key, value in tables.items()
        if key not in ("run", "execution", "training", "label")
    }
    return rest, training, tables.get("run", {}).get("cohort_limit")


def _differences(one: PreparedRun, run: Mapping[str, Any]) -> Iterator[str]:
    """Why a stored run is another one."""
    parts, stored = one.identity.parts, run.get("identity")
    if not isinstance(stored, Mapping):
        yield "made by an earlier version of fedgs"
        return
    for key in sorted({*parts, *stored} - {"unique", "begun_again"}):
        if parts.get(key) != stored.get(key):
            yield _difference(one, key, parts.get(key), stored.get(key))
    if parts.get("begun_again") != stored.get("begun_again"):
        began = run.get("numerics", {})
        versions = ", ".join(f"{name} {version}" for name, version in began.items())
        yield f"its program computed other numbers then ({versions})"
    if "unique" in stored:
        yield "its content could not be identified then"


def _difference(one: PreparedRun, key: str, now: str | None, then: str | None) -> str:
    if key == "numerics":
        return f"the version of the numerics changed from {then or 'none'!r} to {now or 'none'!r}"
    if key in _PARTS:
        return f"{_PARTS[key]} changed"
    family, _, what = key.partition(".")
    name = getattr(getattr(one.config, family, None), "name", "")
    kind = {"": "the code", "files": "a file in the settings", "content": "the content_digest"}.get(
        what, what
    )
    return f"{kind} of {family} {name!r} changed"
