"""A part of a federation as tensors; batches are gathered from one array and then normalised."""

import warnings
from dataclasses import dataclass

import numpy as np
import torch

from fedgs.arrays import AnyArray
from fedgs.data.federation import Normalization, Part

__all__ = ["Examples", "tensor_of"]


def tensor_of(array: AnyArray) -> torch.Tensor:
    """A tensor that shares the array's memory, which may be read-only (memory-mapped).

    Nothing may write to the tensor.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(np.asarray(array))


@dataclass(frozen=True, eq=False)
class Examples:
    """The examples of a `Part`, resident on a device.

    Attributes:
        x: (n, ...) as stored.
        y: (n,) int64.
        scale, mean, sd: how stored examples become inputs: (x / scale - mean) / sd; mean is None
            where x is used as it is.
        channels_last: whether images are handed out in channels-last memory order.
    """

    x: torch.Tensor
    y: torch.Tensor
    scale: float
    mean: torch.Tensor | None
    sd: torch.Tensor | None
    channels_last: bool

    @staticmethod
    def of(
        part: Part,
        normalization: Normalization | None,
        device: torch.device,
        *,
        channels_last: bool = False,
    ) -> "Examples":
        """The part's examples on `device` (on the CPU they are not copied)."""
        x, y = tensor_of(part.x).to(device), tensor_of(part.y).to(device)
        last = channels_last and x.ndim == 4
        if normalization is None:
            return Examples(x, y, 1.0, None, None, last)
        shape = (1, len(normalization.mean)) + (1,) * (x.ndim - 2)
        mean = torch.tensor(normalization.mean, dtype=torch.float32, device=device).view(shape)
        sd = torch.tensor(normalization.sd, dtype=torch.float32, device=device).view(shape)
        return Examples(x, y, normalization.scale, mean, sd, last)

    def gather(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(b,) rows -> (b, ...) float32 inputs and (b,) labels, both copies."""
        return self._inputs(self.x[rows]), self.y[rows]

    def _inputs(self, x: torch.Tensor) -> torch.Tensor:
        x = x.float()
        if self.mean is not None and self.sd is not None:
            x = (x / self.scale).sub_(self.mean).div_(self.sd)
        return x.contiguous(memory_format=torch.channels_last) if self.channels_last else x
