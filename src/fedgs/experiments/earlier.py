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
    "model.weights": "the content of model.start",
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
        sentence for run in prepared for sentence in run.identity.unknown
    ):
        _log.warning("%s", sentence)
    renewed_runs = [renewed(run, out) for run in prepared]
    _report(renewed_runs, out)
    return renewed_runs


def renewed(run: PreparedRun, out: Path) -> PreparedRun:
    """The run, under another identity where its stored run cannot be resumed.

    That is so where the stored run was begun by a program whose numerics version has changed.
    """
    while (began_with := _numerics(out / run.folder_name)) and any(
        numerics_of(name) != {name: version} for name, version in began_with.items()
    ):
        run = replace(run, identity=run.identity.beside(repr(sorted(began_with.items()))))
    return run


def _numerics(path: Path) -> Mapping[str, int]:
    """The numerics versions that a stored run began with; empty where none are stored."""
    numerics = _tables(path).get("run", {}).get("numerics", {})
    return numerics if isinstance(numerics, Mapping) else {}


def _tables(path: Path) -> Mapping[str, Any]:
    folder = RunFolder(path)
    try:
        return folder.config() if folder.exists() else {}
    except OutputError:
        return {}


def _report(prepared: Sequence[PreparedRun], out: Path) -> None:
    """Log one sentence if runs start beside stored runs of the same configuration, with reasons."""
    requested = {run.folder_name for run in prepared}
    stored: dict[str, list[Mapping[str, Any]]] = {}
    reasons: dict[str, None] = {}
    count = 0
    for run in prepared:
        if run.identity.unknown or RunFolder(out / run.folder_name).exists():
            continue
        start = run.folder_name.removesuffix(run.fingerprint)
        if start not in stored:
            paths = [
                path
                for path in sorted(out.iterdir())
                if path.name.startswith(start) and path.name not in requested
            ]
            stored[start] = [_tables(path) for path in paths if path.is_dir()]
        wanted = _comparable(run.tables())
        same = [tables["run"] for tables in stored[start] if _comparable(tables) == wanted]
        if same:
            count += 1
            differences = [list(_differences(run, other)) for other in same]
            fewest: list[str] = min(differences, key=len)
            reasons |= dict.fromkeys(fewest)
    if count:
        _log.warning(
            "%s afresh next to %s of the same configuration, %s in %s: %s",
            "1 run starts" if count == 1 else f"{count} runs start",
            "an earlier one" if count == 1 else "earlier ones",
            "which stays" if count == 1 else "which stay",
            out,
            "; ".join(reasons),
        )


def _comparable(tables: Mapping[str, Any]) -> tuple[object, ...]:
    """A stored configuration without what does not make it another run."""
    training = {
        key: value
        for key, value in tables.get("training", {}).items()
        if key not in ("rounds", "proportion", "cohort_limit")
    }
    rest = {
        key: value
        for key, value in tables.items()
        if key not in ("run", "execution", "training", "label")
    }
    return rest, training, tables.get("run", {}).get("cohort_limit")


def _differences(run: PreparedRun, other: Mapping[str, Any]) -> Iterator[str]:
    """Why a stored run is another one.

    Args:
        run: the requested run.
        other: the table `run` of the stored run's configuration.
    """
    parts, stored = run.identity.parts, other.get("identity")
    if not isinstance(stored, Mapping):
        yield "made by an earlier version of fedgs"
        return
    for key in sorted({*parts, *stored} - {"unique", "begun_again"}):
        if parts.get(key) != stored.get(key):
            yield _difference(run, key, parts.get(key), stored.get(key))
    if parts.get("begun_again") != stored.get("begun_again"):
        began_with = other.get("numerics", {})
        versions = ", ".join(f"{name} {version}" for name, version in began_with.items())
        yield f"its program computed other numbers then ({versions})"
    if "unique" in stored:
        yield "its content could not be identified then"


def _difference(run: PreparedRun, key: str, now: str | None, then: str | None) -> str:
    if key == "numerics":
        return f"the version of the numerics changed from {then or 'none'!r} to {now or 'none'!r}"
    if key in _PARTS:
        return f"{_PARTS[key]} changed"
    family, _, what = key.partition(".")
    name = getattr(getattr(run.config, family, None), "name", "")
    kind = {"": "the code", "files": "a file in the settings", "content": "the content_digest"}.get(
        what, what
    )
    return f"{kind} of {family} {name!r} changed"
