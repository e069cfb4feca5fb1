"""A federation in files that other processes map into memory: the data is on the machine once, whatever the number of workers."""

import pickle
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedgs.data.federation import Federation, Part

__all__ = ["SharedFederation", "share"]


@dataclass(frozen=True)
class SharedFederation:
    """Where a federation was laid out; picklable."""

    folder: Path

    def open(self) -> Federation:
        """The federation, its arrays mapped from the files and read only when touched."""
        with (self.folder / "federation.pickle").open("rb") as file:
            federation, fingerprint = pickle.load(file)
        parts: dict[str, Any] = {
            name: _mapped(self.folder, name, part)
            for name in ("train", "validation", "test")
            if (part := getattr(federation, name)) is not None
        }
        shared: Federation = replace(federation, **parts)
        shared.__dict__["fingerprint"] = fingerprint  # known; hashing would read everything again
        return shared


def share(federation: Federation, folder: Path) -> SharedFederation:
    """Lay a federation out in an empty folder of this process's own."""
    folder.mkdir(parents=True, exist_ok=True)
    parts: dict[str, Any] = {}
    for name in ("train", "validation", "test"):
        part = getattr(federation, name)
        if part is not None:
            np.save(folder / f"{name}.npy", part.x)
            parts[name] = replace(part, x=part.x[:0], y=part.y[:0], offsets=np.zeros_like(part.offsets), index=None)
            np.savez(folder / f"{name}.npz", y=part.y, offsets=part.offsets)
    # The shell passes a federation's checks only where they are not run: it is made without them.
    shell = object.__new__(Federation)
    shell.__dict__.update({**{k: v for k, v in federation.__dict__.items() if k != "fingerprint"}, **parts})
    with (folder / "federation.pickle").open("wb") as file:
        pickle.dump((shell, federation.fingerprint), file)
    return SharedFederation(folder)


def _mapped(folder: Path, name: str, part: Part) -> Part:
    with np.load(folder / f"{name}.npz") as stored:
        return replace(part, x=np.load(folder / f"{name}.npy", mmap_mode="r"), y=stored["y"], offsets=stored["offsets"])
