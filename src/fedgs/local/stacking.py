"""Any module that torch.func accepts, many clients of many runs in one tensor program."""

import copy
from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, vmap

from fedgs.arrays import FloatArray, IntArray
from fedgs.local.allocation import keep_freed_memory
from fedgs.local.descent import Descent, is_plain, sums
from fedgs.local.evaluation import block_rows, shape_of_block
from fedgs.local.objective import example_figures, proximal_step
from fedgs.local.parameters import layout_of, pack
from fedgs.local.terms import PLAIN, Terms, Trained
from fedgs.local.threads import in_threads, one_thread_if
from fedgs.local.workbench import Workbench
from fedgs.losses import loss_of
from fedgs.requests import Split, Work
from fedgs.rng import generator_states, seeded

__all__ = ["StackedProgram", "why_not_stackable"]

_EVALUATED_RUNS = 16  # models in one stacked evaluation
_ALIGNED = 16  # floats in a cache line
# Floats in a vector register, see `StackedProgram`.
PERIOD = 16 if "512" in torch.backends.cpu.get_cpu_capability() else 8


class StackedProgram:
    """One forward and one backward pass for a whole stack of clients.

    The loss of a stack is the sum of its clients' losses, so one backward pass gives every client
    its own gradient. Batches are padded to B with weight 0.

    On the CPU a client's result has the same bits wherever it lies in whatever stack. A sum's order
    of additions and a function's last bit depend on how the numbers are aligned to vector
    registers, and on whether they fall into the remainder of a loop. So each request's clients are
    padded to a multiple of the numbers in a register (8 or 16), batches to an even size, and a
    client's parameters begin at a cache line: then all stacks repeat one pattern and leave no
    remainder. Each thread computes other clients.

    Args:
        workbench: the module and the data.
        work: what is trained.
    """

    def __init__(self, workbench: Workbench, work: Work) -> None:
        self.workbench = workbench
        self.work = work
        self.loss = loss_of(work)
        self.layout = workbench.flat.layout
        if workbench.device.type == "cpu":
            keep_freed_memory()  # each step frees tensors of the whole stack
        self._trained = {
            name for name, p in workbench.flat.module.named_parameters() if p.requires_grad
        }
        # One for each thread, since torch.func sets a module's tensors while it runs.
        self._modules = [workbench.flat.module]
        self._spare: list[dict[str, list[torch.Tensor]]] = [{}]  # likewise, for their optimisers

    def train(
        self,
        starts: torch.Tensor,
        run: IntArray,
        *,
        rates: FloatArray,
        rows: IntArray,
        sizes: IntArray,
        terms: Terms = PLAIN,
    ) -> Trained:
        """Local models of r clients: see `LinearProgram.train`."""
        start = run if terms.start is None else terms.start
        stack = _Stack(starts, start, rates, rows, sizes, terms)
        if self.workbench.device.type != "cpu":
            models, losses = self._train(0, stack)
            return Trained(models, None if losses is None else losses.cpu().numpy())
        places, padding = _padded(run)
        batch_size = rows.shape[2]
        rows = np.concatenate([rows, rows[:, :, : batch_size % 2]], axis=2)  # an even B
        stack = stack._replace(rows=rows).part(padding)
        models = torch.empty(len(padding), starts.shape[1])
        losses = torch.empty(len(padding), *rows.shape[1:]) if terms.losses else None
        for _ in range(torch.get_num_threads() - len(self._modules)):
            self._modules.append(copy.deepcopy(self._modules[0]))
            self._spare.append({})

        def chunk(thread: int, a: int, b: int) -> None:
            clients = slice(a * PERIOD, b * PERIOD)
            trained, of_examples = self._train(thread, stack.part(clients))
            models[clients] = trained
            if losses is not None and of_examples is not None:
                losses[clients] = of_examples

        cost = 3 * self.layout.size * rows.shape[1] * rows.shape[2]
        in_threads(chunk, len(padding) // PERIOD, PERIOD * cost)
        of_clients = None if losses is None else losses.numpy()[places, :, :batch_size]
        return Trained(models[torch.from_numpy(places)], of_clients)

    def _train(self, thread: int, stack: "_Stack") -> tuple[torch.Tensor, torch.Tensor | None]:
        """E steps of a stack: (r, P) models, and (r, E, B) losses of examples if wanted."""
        module = self._modules[thread]
        device, (starts, origin, rates, rows, sizes, terms) = self.workbench.device, stack
        theta = torch.zeros(len(origin), -(-starts.shape[1] // _ALIGNED) * _ALIGNED, device=device)
        theta[:, : starts.shape[1]] = starts.to(device)[torch.from_numpy(origin).to(device)]
        first = theta.clone() if self.work.mu else None
        views = self.layout.views(theta, self.layout.parameters + self.layout.buffers)
        views = {
            name: view.detach().requires_grad_(name in self._trained)
            for name, view in views.items()
        }
        trained = [view for name, view in views.items() if name in self._trained]
        eta = torch.from_numpy(rates.astype(np.float32)).to(device)
        rate = eta
        scaled = [eta.view(-1, *[1] * (tensor.ndim - 1)) for tensor in trained]
        used = np.arange(rows.shape[2]) < sizes[:, :, None]  # (r, E, B)
        counts = np.maximum(sizes, 1)[:, :, None]
        weights = torch.from_numpy((used / counts).astype(np.float32)).to(device)
        steps, shortest = _steps_of(sizes)
        where = torch.from_numpy(rows).to(device)
        shift = offsets = None
        if terms.offsets is not None:
            offsets = self.workbench.flat.trained_part(terms.offsets.to(device))
            shift = offsets * eta[:, None] if is_plain(self.work) else offsets
        losses = torch.zeros(rows.shape, device=device) if terms.losses else None
        descent = None
        if not is_plain(self.work):
            descent = Descent(self.work, trained, stacked=True, spare=self._spare[thread])
        module.train()
        for step in range(steps):
            weight = weights[:, step]
            if step >= shortest:  # some clients have made all their steps, and stay where they are
                active = torch.from_numpy(sizes[:, step] > 0).to(device)
                rate = torch.where(active, eta, 0.0)
                scaled = [rate.view(-1, *[1] * (tensor.ndim - 1)) for tensor in trained]
            loss, of_examples = self._loss(module, views, rows=where[:, step], weights=weight)
            if losses is not None:
                losses[:, step] = torch.where(weight > 0, of_examples.detach(), 0.0)
            gradients = torch.autograd.grad(
                loss, trained, allow_unused=True, materialize_grads=True
            )
            with torch.no_grad():
                parameters, pull = theta[:, : self.layout.num_parameters], None
                if first is not None:
                    start = first[:, : parameters.shape[1]]
                    pull = proximal_step(parameters, start, self.work.mu)
                if descent is not None:
                    for term in (pull, shift):
                        if term is not None:
                            gradients = sums(gradients, self._trained_views(term))
                    directions = descent.directions(gradients)
                    for tensor, direction, eta_of in zip(trained, directions, scaled, strict=True):
                        tensor.addcmul_(direction, eta_of, value=-1.0)
                    continue
                if pull is not None:
                    pull *= rate[:, None]
                for tensor, gradient, eta_of in zip(trained, gradients, scaled, strict=True):
                    tensor.sub_(gradient * eta_of)
                if pull is not None:
                    parameters.sub_(pull)
                if shift is not None and offsets is not None:
                    parameters.sub_(shift if step < shortest else offsets * rate[:, None])
        return theta[:, : starts.shape[1]], losses

    def _trained_views(self, vectors: torch.Tensor) -> list[torch.Tensor]:
        """The views of (r, p) vectors without buffers, of the tensors that are trained."""
        views = self.layout.views(vectors, self.layout.parameters)
        return [view for name, view in views.items() if name in self._trained]

    def _loss(
        self,
        module: nn.Module,
        views: dict[str, torch.Tensor],
        *,
        rows: torch.Tensor,
        weights: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The sum of the clients' weighted losses on their (r, B) rows, and (r, B) the losses."""
        x, y = self.workbench.examples("train").gather(rows.reshape(-1))
        # (r·B, ...) -> (r, B, ...)
        x, y = x.view(*rows.shape, *x.shape[1:]), y.view(*rows.shape, *y.shape[1:])

        def loss(
            tensors: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor, w: torch.Tensor
        ) -> tuple[torch.Tensor, torch.Tensor]:
            outputs = functional_call(module, tensors, (x,))
            sums, counts = self.loss.terms(outputs.float(), y)
            if counts is not None:  # so that the mean over the batch is the batch's loss
                total = (counts * w).sum()
                sums = sums / total.where(total > 0, 1.0)
            return (sums * w).sum(), sums

        with torch.autocast(
            self.workbench.device.type, dtype=torch.bfloat16, enabled=self.work.precision == "bf16"
        ):
            totals, of_examples = vmap(loss)(views, x, y, weights)
            return totals.sum(), of_examples

    def example_figures(
        self, vectors: torch.Tensor, split: Split, rows: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        """What is recorded of n examples under R models, see `fedgs.local.objective`.

        Args:
            vectors: (R, P) the models.
            split: the part of the examples.
            rows: (n,) the examples.

        Returns:
            (R, n) each, on the device.
        """
        module, examples = self.workbench.flat.module, self.workbench.examples(split)
        module.eval()
        step = block_rows(shape_of_block(self.work.federation))
        pieces: list[dict[str, torch.Tensor]] = []
        with torch.no_grad():
            for models in torch.split(vectors.to(self.workbench.device), _EVALUATED_RUNS):
                views = self.layout.views(models, self.layout.parameters + self.layout.buffers)
                blocks = []
                for block in torch.split(rows, step):
                    x, y = examples.gather(block)
                    blocks.append(vmap(self._example_figures, in_dims=(0, None, None))(views, x, y))
                pieces.append(_joined(blocks, dim=1))
        return _joined(pieces, dim=0)

    def _example_figures(
        self, tensors: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        with torch.autocast(
            self.workbench.device.type, dtype=torch.bfloat16, enabled=self.work.precision == "bf16"
        ):
            outputs = functional_call(self.workbench.flat.module, tensors, (x,))
        return example_figures(self.loss, self.work.federation.task, outputs, y)


def _joined(pieces: list[dict[str, torch.Tensor]], dim: int) -> dict[str, torch.Tensor]:
    return {name: torch.cat([piece[name] for piece in pieces], dim=dim) for name in pieces[0]}


def _steps_of(sizes: IntArray) -> tuple[int, int]:
    """The most and the fewest steps of a client, from (r, E) sizes of batches.

    >>> _steps_of(np.array([[4, 4, 2], [4, 0, 0]]))
    (3, 1)
    """
    steps = np.count_nonzero(sizes, axis=1)
    return int(steps.max(initial=0)), int(steps.min(initial=sizes.shape[1]))


class _Stack(NamedTuple):
    """The clients of some runs that are trained together.

    Attributes:
        starts: (R, P) where clients start.
        origin: (r,) the row of `starts` for each client.
        rates: (r,) learning rates.
        rows: (r, E, B) rows of the training part.
        sizes: (r, E) how many of the B are used; 0 after a client's last step.
        terms: offsets, and whether losses are wanted.
    """

    starts: torch.Tensor
    origin: IntArray
    rates: FloatArray
    rows: IntArray
    sizes: IntArray
    terms: Terms

    def part(self, clients: IntArray | slice) -> "_Stack":
        """Some of the clients."""
        return self._replace(
            origin=self.origin[clients],
            rates=self.rates[clients],
            rows=self.rows[clients],
            sizes=self.sizes[clients],
            terms=self.terms.part(clients),
        )


def _padded(run: IntArray) -> tuple[IntArray, IntArray]:
    """Pad every run's clients to a multiple of `PERIOD` with copies of its last client.

    Args:
        run: (r,) the run of each client; clients of one run are next to each other.

    Returns:
        (r,) the place of each client among the padded ones, and (r',) the client at each padded
        place.
    """
    starts = np.flatnonzero(np.r_[True, run[1:] != run[:-1]])
    lengths = np.diff(np.r_[starts, len(run)])
    places = [
        np.minimum(np.arange(-(-n // PERIOD) * PERIOD), n - 1) + first
        for first, n in zip(starts, lengths, strict=True)
    ]
    begins = np.cumsum([0, *map(len, places)])[:-1]
    unpadded = [np.arange(n) + begin for begin, n in zip(begins, lengths, strict=True)]
    return np.concatenate(unpadded), np.concatenate(places)


_DRAWS = "it draws random numbers, such as dropout"


def why_not_stackable(
    module: nn.Module, example_shape: tuple[int, ...], *, tokens: int | None = None
) -> str | None:
    """Why a model cannot be trained in a stack with padded batches, or None if it can.

    The module is tried on a few examples. torch.func must accept it. It must draw no random numbers
    from PyTorch, NumPy or `random`, in training or evaluation. One example must not change
    another's output (batch norm), and a forward pass must leave the buffers as they are.

    Args:
        module: the model.
        example_shape: of one example.
        tokens: how many tokens there are, where examples are sequences of tokens; None: examples
            are numbers.

    >>> why_not_stackable(nn.Sequential(nn.Linear(3, 2), nn.Dropout()), (3,))
    'it draws random numbers, such as dropout'
    """
    draws = torch.Generator().manual_seed(0)
    if tokens is None:
        x = torch.randn(4, *example_shape, generator=draws)
    else:
        x = torch.randint(tokens, (4, *example_shape), generator=draws).float()
    with seeded(0, "check"), torch.no_grad(), one_thread_if(True):
        try:
            before = generator_states()
            obstacle = _why_not_stackable(module.train(), x, tokens)
            if obstacle is None:
                module.eval()(x.clone())
            return obstacle if generator_states() == before else _DRAWS
        except RuntimeError as error:
            message = str(error).strip().splitlines() or [type(error).__name__]
            drawn = "random" in message[0]
            return _DRAWS if drawn else f"torch.func does not accept it ({message[0]})"
        except Exception as error:
            return f"its forward pass raised {type(error).__name__}: {error}"


def _why_not_stackable(module: nn.Module, x: torch.Tensor, tokens: int | None) -> str | None:
    layout, vector = layout_of(module), pack(module)
    entries = layout.parameters + layout.buffers
    stack = torch.stack([vector, vector])  # (2, P)
    before = stack.clone()
    vmap(lambda tensors: functional_call(module, tensors, (x.clone(),)))(
        layout.views(stack, entries)
    )
    if not torch.equal(stack, before):
        return "it changes its buffers while training, such as batch norm"
    tensors = layout.views(vector.clone(), entries)
    changed = x.clone()
    changed[-1] += 1.0
    if tokens is not None:
        changed %= tokens
    first, second = (functional_call(module, tensors, (inputs.clone(),)) for inputs in (x, changed))
    if not torch.allclose(first[:-1], second[:-1], rtol=1e-4, atol=1e-5):
        return "one example changes the output of another, such as batch norm"
    return None
