"""Any module that torch.func accepts, many clients of many runs in one tensor program."""

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, vmap
from torch.nn import functional

from fedgs.arrays import FloatArray, IntArray
from fedgs.local.bench import SMALL_STEP, Bench, one_thread_if
from fedgs.local.evaluation import block_rows
from fedgs.local.objective import example_losses, proximal_step
from fedgs.local.parameters import build_module, layout_of, pack
from fedgs.requests import Split, Work

__all__ = ["StackedProgram", "why_not_stackable"]

_EVALUATED_RUNS = 16  # models in one stacked evaluation


class StackedProgram:
    """One forward and one backward pass for a whole stack of clients.

    The loss of a stack is the sum of its clients' losses, so one backward pass gives every client its own gradient. Batches are
    padded to B (at least 2) with weight 0, and a stack has at least two clients: then every product is a true matrix product,
    whose bits do not depend on how many others are computed with it.
    """

    def __init__(self, bench: Bench, work: Work) -> None:
        self.bench = bench
        self.work = work
        self.layout = bench.flat.layout
        self._trained = {name for name, p in bench.flat.module.named_parameters() if p.requires_grad}

    def train(self, starts: torch.Tensor, run: IntArray, rates: FloatArray, rows: IntArray, sizes: IntArray) -> torch.Tensor:
        """Local models of r clients: see `LinearProgram.train`."""
        with one_thread_if(len(run) * self.layout.size * self.work.batch_size < SMALL_STEP):
            return self._train(starts, run, rates, rows, sizes)

    def _train(self, starts: torch.Tensor, run: IntArray, rates: FloatArray, rows: IntArray, sizes: IntArray) -> torch.Tensor:
        count, device = len(run), self.bench.device
        run, rates, rows, sizes = _at_least_two(run, rates, rows, sizes)
        theta = starts.to(device)[torch.from_numpy(run).to(device)]  # (r, P)
        first = theta[:, : self.layout.num_parameters].clone() if self.work.mu else None
        views = self.layout.views(theta, self.layout.parameters + self.layout.buffers)
        views = {name: view.detach().requires_grad_(name in self._trained) for name, view in views.items()}
        trained = [view for name, view in views.items() if name in self._trained]
        eta = torch.from_numpy(rates.astype(np.float32)).to(device)
        scaled = [eta.view(-1, *[1] * (tensor.ndim - 1)) for tensor in trained]
        where, weights = self._batches(rows, sizes)
        self.bench.flat.module.train()
        for step in range(rows.shape[1]):
            gradients = self._gradients(views, trained, where[:, step], weights[:, step])
            with torch.no_grad():
                own = theta[:, : self.layout.num_parameters]
                pull = proximal_step(own, first, self.work.mu) * eta[:, None] if first is not None else None
                torch._foreach_sub_(trained, torch._foreach_mul(gradients, scaled))
                if pull is not None:
                    own.sub_(pull)
        return theta[:count]

    def _batches(self, rows: IntArray, sizes: IntArray) -> tuple[torch.Tensor, torch.Tensor]:
        """(r, E, B) rows and the examples' weights 1/size, 0 for padding, on the device."""
        if rows.shape[2] == 1:
            rows = np.repeat(rows, 2, axis=2)
        weights = (np.arange(rows.shape[2]) < sizes[:, :, None]) / sizes[:, :, None].astype(np.float32)
        device = self.bench.device
        return torch.from_numpy(rows).to(device), torch.from_numpy(weights.astype(np.float32)).to(device)

    def _gradients(
        self, views: dict[str, torch.Tensor], trained: list[torch.Tensor], rows: torch.Tensor, weights: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """The gradient of every client's own loss on its (B,) rows."""
        x, y = self.bench.examples("train").gather(rows.reshape(-1))
        x, y = x.view(*rows.shape, *x.shape[1:]), y.view(rows.shape)  # (r·B, ...) -> (r, B, ...)

        def loss(tensors: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            logits = functional_call(self.bench.flat.module, tensors, (x,))
            return (functional.cross_entropy(logits.float(), y, reduction="none") * w).sum()

        with torch.autocast(self.bench.device.type, dtype=torch.bfloat16, enabled=self.work.precision == "bf16"):
            total = vmap(loss)(views, x, y, weights).sum()
        return torch.autograd.grad(total, trained, allow_unused=True, materialize_grads=True)

    def example_losses(self, vectors: torch.Tensor, split: Split, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Losses and rightness of n examples under R models: (R, n) float64 and bool, on the device."""
        module, examples = self.bench.flat.module, self.bench.examples(split)
        module.eval()
        step = block_rows(tuple(examples.x.shape[1:]))
        pieces = []
        with torch.no_grad():
            for models in torch.split(vectors.to(self.bench.device), _EVALUATED_RUNS):
                views = self.layout.views(models, self.layout.parameters + self.layout.buffers)
                blocks = []
                for block in torch.split(rows, step):
                    x, y = examples.gather(block)
                    blocks.append(vmap(self._example_losses, in_dims=(0, None, None))(views, x, y))
                pieces.append([torch.cat(block, dim=1) for block in zip(*blocks, strict=True)])
        losses, correct = (torch.cat(piece) for piece in zip(*pieces, strict=True))
        return losses, correct

    def _example_losses(
        self, tensors: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.autocast(self.bench.device.type, dtype=torch.bfloat16, enabled=self.work.precision == "bf16"):
            logits = functional_call(self.bench.flat.module, tensors, (x,))
        return example_losses(logits, y)


def _at_least_two(*arrays: Any) -> tuple[Any, ...]:
    """The arrays, their single row doubled where there is only one."""
    return tuple(np.repeat(array, 2, axis=0) if len(array) == 1 else array for array in arrays)


def why_not_stackable(work: Work) -> str | None:
    """Why a model cannot be trained in a stack with padded batches, or None if it can.

    It is tried on a few examples: torch.func must accept it without drawing random numbers, one example must not change another's
    output (batch norm), and a forward pass must leave the buffers as they are.
    """
    module = build_module(work.model, work.federation).train()
    numbers = torch.Generator().manual_seed(0)
    x = torch.randn(4, *work.federation.example_shape, generator=numbers)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        try:
            return _why_not_stackable(module, x)
        except RuntimeError as error:
            text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            return "it draws random numbers, such as dropout" if "random" in text else f"torch.func does not accept it ({text})"
        except Exception as error:
            return f"its forward pass raised {type(error).__name__}: {error}"


def _why_not_stackable(module: nn.Module, x: torch.Tensor) -> str | None:
    layout, vector = layout_of(module), pack(module)
    entries = layout.parameters + layout.buffers
    stack = torch.stack([vector, vector])  # (2, P)
    before = stack.clone()
    vmap(lambda tensors: functional_call(module, tensors, (x,)))(layout.views(stack, entries))
    if not torch.equal(stack, before):
        return "it changes its buffers while training, such as batch norm"
    tensors = layout.views(vector.clone(), entries)
    changed = x.clone()
    changed[-1] += 1.0
    first, second = (functional_call(module, tensors, (inputs,)) for inputs in (x, changed))
    if not torch.allclose(first[:-1], second[:-1], rtol=1e-4, atol=1e-5):
        return "one example changes the output of another, such as batch norm"
    return None
