"""Logistic regression on the CPU, many clients of many runs in one compiled call."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from fedgs.arrays import AnyArray, FloatArray, IntArray
from fedgs.data.federation import Federation
from fedgs.errors import DataError, require_extra
from fedgs.local.batches import compiled_kernels
from fedgs.local.bounds import as_indices, check_shape, checked_ranges
from fedgs.local.descent import sgd_of
from fedgs.local.examples import tensor_of
from fedgs.local.terms import PLAIN, Terms, Trained
from fedgs.local.threads import in_threads
from fedgs.local.workbench import part_of
from fedgs.losses import CrossEntropy, loss_of
from fedgs.requests import Split, Work

__all__ = ["NUMERICS", "LinearProgram", "is_linear", "suits_kernels", "takes_kernels"]

NUMERICS = 1
"""Version of the numbers that the program for linear models computes, part of a run's identity.

Raise it in every change that gives a trained model, a loss or an accuracy other bits.
"""


def is_linear(module: nn.Module) -> bool:
    """Whether the module is one linear layer with a bias, after flattening or not.

    This is the function that the compiled kernels train.

    >>> is_linear(nn.Linear(3, 2)), is_linear(nn.Sequential(nn.Linear(3, 2), nn.ReLU()))
    (True, False)
    """
    layers = list(module) if type(module) is nn.Sequential else [module]
    if (
        len(layers) == 2
        and type(layers[0]) is nn.Flatten
        and (layers[0].start_dim, layers[0].end_dim) == (1, -1)
    ):
        layers = layers[1:]
    if len(layers) != 1 or type(layers[0]) is not nn.Linear or layers[0].bias is None:
        return False
    return all(p.requires_grad for p in module.parameters()) and not any(
        True for _ in module.buffers()
    )


def suits_kernels(work: Work, module: nn.Module) -> bool:
    """Whether the compiled kernels can do this work.

    They train logistic regression in float32 on float32 examples that are not normalised, with
    cross-entropy that weighs all classes alike.
    """
    return takes_kernels(work) and is_linear(module)


def takes_kernels(work: Work) -> bool:
    """Whether the compiled kernels take these examples, loss, steps and precision.

    That is for a linear model.
    """
    federation = work.federation
    plain = federation.normalization is None and federation.train.x.dtype == np.float32
    return (
        plain
        and work.precision == "float32"
        and federation.task == "classes"
        and loss_of(work) == CrossEntropy()
        and sgd_of(work) is not None
    )


class LinearProgram:
    """Trains and evaluates stacks of logistic regressions; one thread computes each client.

    A result has the same bits alone, in any stack and with any number of threads.

    Args:
        work: see `suits_kernels`.

    Raises:
        MissingExtraError: numba is not installed.
    """

    def __init__(self, work: Work) -> None:
        kernels = compiled_kernels("linear")
        if kernels is None:
            raise require_extra("numba", "sim")
        self._kernels = kernels
        self.work = work
        self._parts: dict[Split, _Part] = {}

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
        """Local models of r clients.

        Args:
            starts: (R, P) theta^t of each run, or what `terms.start` refers to.
            run: (r,) whose clients they are.
            rates: (r,) learning rates.
            rows: (r, E, B) rows of the training part.
            sizes: (r, E) how many of the B are used; 0 after a client's last step.
            terms: own starts, offsets, and whether losses are wanted.

        Raises:
            DataError: arrays that do not fit each other, rows, runs or starts that are out of
                bounds, parameters or offsets of another model.
        """
        part, kernel = self._part("train"), self._kernels.train_linear
        vectors = part.vectors("starts", starts)
        run = run if terms.start is None else terms.start
        run = as_indices("run", run, np.shape(run)[:1], (0, len(vectors)))
        rows = np.asarray(rows)
        if rows.ndim != 3 or len(rows) != len(run):
            raise DataError(f"rows must have shape ({len(run)}, E, B), got {rows.shape}")
        rows = as_indices("rows", rows, rows.shape, (0, len(part.x)))
        sizes = as_indices("sizes", sizes, rows.shape[:2], (0, rows.shape[2] + 1))
        check_shape("rates", rates, run.shape)
        offsets = vectors[:0]
        if terms.offsets is not None:
            offsets = part.vectors("offsets", terms.offsets)
            check_shape("offsets", offsets, (len(run), vectors.shape[1]))
        models = np.empty((len(run), vectors.shape[1]), dtype=np.float32)
        losses = np.zeros(((len(run) if terms.losses else 0), *rows.shape[1:]), dtype=np.float32)
        slow, mu = np.ascontiguousarray(rates, dtype=np.float32), np.float32(self.work.mu)
        sgd = sgd_of(self.work)
        assert sgd is not None  # see `takes_kernels`
        steps = (mu, np.float32(sgd.weight_decay), np.float32(sgd.momentum), sgd.nesterov)
        # The same client's examples one run after another.
        order = np.argsort(rows[:, 0, 0]) if rows.size else np.arange(len(run))

        def chunk(thread: int, a: int, b: int) -> None:
            chosen = order[a:b]
            kernel(
                *(part.x, part.y, chosen, rows, sizes, vectors, run, slow),
                *(*steps, offsets, models, losses),
            )

        in_threads(chunk, len(run), 2 * vectors.shape[1] * rows.shape[1] * rows.shape[2])
        return Trained(torch.from_numpy(models), losses if terms.losses else None)

    def sums(
        self,
        vectors: torch.Tensor,
        run: IntArray,
        *,
        split: Split,
        begin: IntArray,
        end: IntArray,
        rows: IntArray | None = None,
    ) -> tuple[FloatArray, FloatArray]:
        """Sums of losses and right answers over r ranges of rows: (r,) float64 each.

        Args:
            vectors: (R, P) parameters of each run.
            run: (r,) the row of `vectors` for each range.
            split: the part that the ranges are rows of.
            begin: (r,) first row of each range.
            end: (r,) row after the last of each range, >= begin.
            rows: (n,) rows of the part that the ranges refer to; None: all rows.

        Raises:
            DataError: arrays that do not fit each other, ranges, rows or runs that are out of
                bounds, parameters of another model.
        """
        part, kernel = self._part(split), self._kernels.linear_losses
        stack = part.vectors("vectors", vectors)
        run = as_indices("run", run, np.shape(run)[:1], (0, len(stack)))
        x, y = part.x, part.y
        if rows is not None:
            rows = as_indices("rows", rows, np.shape(rows)[:1], (0, len(x)))
            x, y = x[rows], y[rows]
        begin, end = checked_ranges(begin, end, run.shape, len(x))
        losses, correct = np.empty(len(run)), np.empty(len(run))

        def chunk(thread: int, a: int, b: int) -> None:
            kernel(x, y, stack, run[a:b], begin[a:b], end[a:b], losses[a:b], correct[a:b])

        in_threads(chunk, len(run), vectors.shape[1] * int((end - begin).sum()) // max(1, len(run)))
        return losses, correct

    def _part(self, split: Split) -> "_Part":
        if split not in self._parts:
            self._parts[split] = _Part.of(self.work.federation, split)
        return self._parts[split]


@dataclass(frozen=True, eq=False)
class _Part:
    """What kernels read of a part.

    Attributes:
        x: (n, d) float32 examples, without a copy. The flag of a read-only array is not passed on,
            so that numba compiles one version of a kernel.
        y: (n,) labels 0..C-1.
        classes: the least number C of classes that has these labels.
    """

    x: AnyArray
    y: AnyArray
    classes: int

    @staticmethod
    def of(federation: Federation, split: Split) -> "_Part":
        part = part_of(federation, split)
        y = as_indices(
            "labels", tensor_of(part.y).numpy(), (len(part),), (0, federation.num_labels)
        )
        return _Part(tensor_of(part.x).view(len(part), -1).numpy(), y, int(y.max(initial=-1)) + 1)

    def vectors(self, name: str, vectors: torch.Tensor) -> AnyArray:
        """(R, P) parameters of models for these examples and labels, as the kernels read them."""
        d = self.x.shape[1]
        if vectors.dtype != torch.float32 or vectors.ndim != 2:
            raise DataError(
                f"{name} must be a float32 matrix, "
                f"got {vectors.dtype} of shape {tuple(vectors.shape)}"
            )
        if vectors.shape[1] % (d + 1) or vectors.shape[1] // (d + 1) < max(1, self.classes):
            raise DataError(
                f"{name} must have C·{d + 1} columns, the parameters of C >= {self.classes} "
                f"classes on {d} inputs, got {vectors.shape[1]}"
            )
        return vectors.contiguous().numpy()
