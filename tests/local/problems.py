"""Small federations of every task, with a model and losses for each, and their plain versions."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from tests.local.material import mlp, model_of
from tests.oracles.local_training import Plain, masked_cross_entropy, squared_error
from torch import nn
from torch.nn import functional

from fedgs.data.federation import Federation
from fedgs.losses import BinaryCrossEntropy, CrossEntropy, FunctionLoss, Huber, Loss, named_loss
from fedgs.models import Model
from fedgs.requests import Work

SIZES = (7, 1, 23, 12, 3, 9)
PLACES, TOKENS = 4, 5  # of a sequence


@dataclass(frozen=True)
class Problem:
    """A loss on data of its task.

    Attributes:
        task: of the federation.
        loss: of the work; None: the default of the task.
        plain: the same loss by PyTorch's own functions.
        weighs_equally: whether all examples have weight 1.
    """

    task: str
    loss: Loss | None
    plain: Plain
    weighs_equally: bool = True

    def __str__(self) -> str:
        return f"{self.task}-{'default' if self.loss is None else named_loss(self.loss)}"

    def work(self, **settings: Any) -> Work:
        """A kind of work with this loss."""
        own = {"mu": 0.0, "local_steps": 5, "batch_size": 4, **settings}
        return Work(federation(self.task), MODELS[self.task], loss=self.loss, **own)


def absolute_error(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return functional.l1_loss(outputs.reshape(targets.shape), targets)


def federation(task: str, sizes: Sequence[int] = SIZES) -> Federation:
    """Clients of these sizes with 3 classes, 2 numbers, 3 labels or sequences of 4 tokens."""
    if task in _FEDERATIONS and tuple(sizes) == SIZES:
        return _FEDERATIONS[task]
    rng = np.random.default_rng(3)
    draw = partial(_drawn, task, rng)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    made = Federation.from_arrays(
        *draw(len(owner)),
        client=owner,
        test=draw(30),
        validation=(*draw(12), np.arange(12) % 3),
        task=task,  # type: ignore[arg-type]
        **({"classes": 3} if task == "classes" else {}),
        **({"classes": TOKENS} if task == "sequence" else {}),
    )
    return _FEDERATIONS.setdefault(task, made) if tuple(sizes) == SIZES else made


_FEDERATIONS: dict[str, Federation] = {}


def _drawn(task: str, rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    x = rng.standard_normal((count, 5)).astype(np.float32)
    if task == "classes":
        return x, rng.integers(3, size=count)
    if task == "regression":
        return x, rng.standard_normal((count, 2)).astype(np.float32) * 3
    if task == "multilabel":
        return x, rng.integers(2, size=(count, 3)).astype(np.float32)
    labels = rng.integers(-1, TOKENS, size=(count, PLACES))
    labels[:, 0] = rng.integers(TOKENS, size=count)
    return rng.integers(TOKENS, size=(count, PLACES)), labels


def examples(problem: Problem, client: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The training examples of a client as a model receives them."""
    part = federation(problem.task).train
    rows = part.rows(client)
    return torch.from_numpy(part.x[rows].astype(np.float32)), torch.from_numpy(part.y[rows].copy())


class Reader(nn.Module):
    """Logits for each place of a sequence from its token and the one before."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, 4)
        self.last = nn.Linear(8, TOKENS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen = self.embedding(x.long())
        before = functional.pad(seen, (0, 0, 1, 0))[:, :-1]
        logits: torch.Tensor = self.last(torch.cat([seen, before], dim=-1))
        return logits


MODELS: dict[str, Model] = {
    "classes": mlp(5, [6], 3),
    "regression": mlp(5, [6], 2),
    "multilabel": mlp(5, [6], 3),
    "sequence": model_of(Reader),
}
WEIGHTS = (0.5, 2.0, 1.0)
_weights = torch.tensor(WEIGHTS)


def _weighted(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(outputs, labels, weight=_weights, label_smoothing=0.1)


PROBLEMS = [
    Problem("classes", None, functional.cross_entropy),
    Problem("classes", CrossEntropy(class_weights=WEIGHTS, label_smoothing=0.1), _weighted, False),
    Problem("regression", None, squared_error),
    Problem(
        "regression",
        Huber(delta=0.7),
        lambda outputs, targets: functional.huber_loss(outputs, targets, delta=0.7),
    ),
    Problem("regression", FunctionLoss(function=absolute_error), absolute_error),
    Problem(
        "multilabel",
        BinaryCrossEntropy(),
        lambda outputs, targets: functional.binary_cross_entropy_with_logits(outputs, targets),
    ),
    Problem("sequence", None, masked_cross_entropy, False),
]
