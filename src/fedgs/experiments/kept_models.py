"""The models of a run that were kept, in memory or in its folder, as modules and files."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

import fedgs
from fedgs.errors import ConfigError, OutputError
from fedgs.experiments.snapshots import Snapshot, stored_snapshot
from fedgs.local.parameters import build_module, layout_of
from fedgs.models.weights import write_weights
from fedgs.records import RunFolder
from fedgs.requests import Work

__all__ = ["KeptModels", "metadata_of"]


@dataclass(frozen=True, eq=False)
class KeptModels:
    """The best and the last model of a run.

    Attributes:
        work: has the model and the federation.
        folder: of the run; None: the models are in `snapshots`.
        rounds: of the run, where the folder may hold one with more.
        snapshots: "best" and "last", as far as there are any.
    """

    work: Work
    folder: RunFolder | None = None
    rounds: int | None = None
    snapshots: Mapping[str, Snapshot] | None = None

    def snapshot(self, which: str) -> Snapshot:
        """The "best" or the "last" model as a vector.

        Raises:
            ConfigError: another word.
            OutputError: it was not kept.
        """
        if which not in ("best", "last"):
            raise ConfigError(f"which must be 'best' or 'last', got {which!r}")
        if self.folder is not None:
            return stored_snapshot(self.folder, which, self.rounds)
        if which not in (self.snapshots or {}):
            raise OutputError(f"the run has no {which} model: no model was evaluated")
        return (self.snapshots or {})[which]

    def module(self, which: str) -> nn.Module:
        """The "best" or the "last" model as a module of its own, in evaluation mode."""
        snapshot = self.snapshot(which)
        module = build_module(self.work.model, self.work.federation)
        layout = layout_of(module)
        own: dict[str, torch.Tensor] = dict(module.named_parameters())
        own |= dict(module.named_buffers())
        vector = torch.from_numpy(snapshot.parameters.copy())
        with torch.no_grad():
            for name, view in layout.views(vector, layout.parameters + layout.buffers).items():
                own[name].copy_(view)
        return module.eval()

    def save(self, which: str, path: Path) -> None:
        """Write the "best" or the "last" model as a safetensors file."""
        snapshot = self.snapshot(which)
        write_weights(path, snapshot.by_name(), metadata_of(snapshot, which))


def metadata_of(snapshot: Snapshot, which: str) -> dict[str, str]:
    """What a file says about its model."""
    return {"fedgs": fedgs.__version__, "model": which, "round": str(snapshot.round)}
