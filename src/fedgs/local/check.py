"""Whether a model can be trained on the batches that will occur, checked before round 0."""

import itertools
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from fedgs.arrays import IntArray
from fedgs.data.federation import Federation
from fedgs.data.on_demand import holding
from fedgs.errors import ConfigError
from fedgs.local.batches import batch_extremes, steps_of
from fedgs.local.evaluation import measure
from fedgs.local.memory import filled_batch_size
from fedgs.local.threads import one_thread_if
from fedgs.local.workbench import Workbench
from fedgs.losses import Loss, loss_of, named_loss
from fedgs.metrics import FunctionMetric, Metric, metric_key
from fedgs.models.check import model_title, output_shape
from fedgs.requests import Evaluate, Metrics, Split, Work
from fedgs.rng import kept_generators, seed_generators

__all__ = ["check_metrics", "check_training"]

_SECONDS = 2.0  # for sizes between the smallest and the largest
_FEW = 100  # clients whose validation examples are made for a metric where they are made on demand


def check_training(work: Work) -> None:
    """Try a training step on a batch of each size that local training will meet, on the CPU.

    The smallest and the largest size are always tried, the others for two seconds at most. The
    module is the check's own, so running statistics stay as they are, and so do the global
    generators.

    Args:
        work: the model, the federation, E and B.

    Raises:
        ConfigError: the model cannot be trained at all, or not on batches of some size; the message
            names the clients that would meet it. Its output for one batch differs when it is
            computed again from the same state. The loss of a user is no scalar, or not the mean
            over the examples of a batch.

    >>> from fedgs.data import Synthetic
    >>> from fedgs.models import LogisticRegression
    >>> federation = Synthetic(clients=2).load()
    >>> check_training(Work(federation, LogisticRegression(), 0.0, local_steps=5, batch_size=10))
    """
    data_sizes = work.federation.clients.data_sizes
    extremes = batch_extremes(
        data_sizes,
        local_steps=steps_of(work, data_sizes),
        batch_size=filled_batch_size(work),
        drop_last=work.drop_last,
    )
    sizes = np.unique(extremes).tolist()
    federation = holding(work.federation, _tried(work))
    work = replace(work, federation=federation, precision="float32")
    workbench = Workbench(work, torch.device("cpu"))
    with kept_generators(), one_thread_if(not workbench.convolutional):
        trial = _Trial(workbench)
        for size in _in_order(sizes):
            if size in (sizes[0], sizes[-1]) or trial.seconds < _SECONDS:
                trial.fault(size)
        bad = [size for size in sizes if trial.faults.get(size) is not None]
        if not bad:
            return
        title, worst = model_title(work.model), bad[-1] if bad[-1] == sizes[-1] else bad[0]
        failure = f"model {title} cannot be trained on a batch of {_examples(worst)}"
        if worst == sizes[-1] and worst > 1:
            raise ConfigError(f"{failure}: {trial.faults[worst]}")
        owners = _named(work.federation, np.flatnonzero(np.isin(extremes, bad).any(axis=1)))
        raise ConfigError(
            f"{failure}, which {owners} would have with training.batch_size = {work.batch_size}: "
            f"{trial.faults[worst]}; {_advice(trial, work)}"
        )


def check_metrics(work: Work, metrics: Sequence[Metric]) -> None:
    """Compute a user's metrics once, of the initial model on the test set and validation parts.

    Raises:
        ConfigError: a metric raises, returns no number or a number that is not finite.
    """
    own = tuple(one for one in metrics if not type(one).__module__.startswith("fedgs.metrics."))
    own += tuple(one for one in metrics if isinstance(one, FunctionMetric) and one not in own)
    if not own:
        return
    few = np.arange(min(len(work.federation), _FEW))
    work = replace(work, federation=holding(work.federation, few, "validation"))
    workbench = Workbench(replace(work, precision="float32"), torch.device("cpu"))
    start = workbench.flat.vector.clone()
    name = work.federation.name
    parts: dict[Split, str] = {"test": "test set"}
    if work.federation.validation is not None:
        parts["validation"] = "validation parts"
    with kept_generators():
        for one, split in itertools.product(own, parts):
            title, part = f"evaluation.metrics {metric_key(one)!r}", parts[split]
            try:
                reply = measure(workbench, Evaluate(work, start, split, metrics=(one,)))
            except Exception as error:
                message = str(error).strip().splitlines() or ["no message"]
                raise ConfigError(
                    f"{title} cannot be computed on the {part} of {name!r}: "
                    f"{type(error).__name__}: {message[0]}"
                ) from error
            value = (
                (reply.others or {}).get(metric_key(one)) if isinstance(reply, Metrics) else None
            )
            if value is None or not math.isfinite(value):
                raise ConfigError(
                    f"{title} must be a finite number on the {part} of {name!r}, got {value}"
                )


def _tried(work: Work) -> IntArray:
    """The clients on whose examples `_Trial` tries batches: the first with so many, of any size."""
    most = 4 * filled_batch_size(work)
    sizes = np.minimum(work.federation.clients.data_sizes, most)
    return np.flatnonzero(np.diff(np.maximum.accumulate(sizes), prepend=0))


class _Trial:
    """Training steps on batches of several sizes from one state.

    Attributes:
        faults: what is wrong with each size that was tried, None if it works.
        seconds: how long the trial has taken so far.
    """

    def __init__(self, workbench: Workbench) -> None:
        self.workbench = workbench
        self.faults: dict[int, str | None] = {}
        self._start = workbench.flat.vector.clone()
        self._begun = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Since the trial began."""
        return time.perf_counter() - self._begun

    def fault(self, size: int) -> str | None:
        """What is wrong with a batch of this size, None if it works.

        The examples are those of a client that has as many.
        """
        if size not in self.faults:
            federation = self.workbench.work.federation
            client = int(np.flatnonzero(federation.clients.data_sizes >= size)[0])
            rows = federation.train.offsets[client] + np.arange(size)
            self.faults[size] = _fault(self.workbench, self._start, rows)
        return self.faults[size]


def _in_order(sizes: list[int]) -> Iterator[int]:
    """The smallest, the largest, and then the others."""
    yield sizes[0]
    if len(sizes) > 1:
        yield sizes[-1]
        yield from sizes[1:-1]


def _fault(workbench: Workbench, start: torch.Tensor, rows: IntArray) -> str | None:
    """What is wrong with a training step on these rows of the training part; None: it works."""
    try:
        logits = _logits(workbench, start, rows)
        expected = output_shape(workbench.work.federation, len(rows))
        if not isinstance(logits, torch.Tensor) or tuple(logits.shape) != expected:
            is_tensor = isinstance(logits, torch.Tensor)
            answer = tuple(logits.shape) if is_tensor else type(logits).__name__
            return f"in training mode it must return logits of shape {expected}, got {answer}"
        loss = _checked_loss(
            loss_of(workbench.work),
            logits.float(),
            workbench.examples("train").y[torch.from_numpy(rows)],
        )
        if not loss.requires_grad:
            return "its loss does not depend on any parameter that is trained"
        gradients = torch.autograd.grad(loss, workbench.flat.trained, allow_unused=True)
        known = [gradient for gradient in gradients if gradient is not None]
        if not known:
            return "its loss does not depend on any parameter that is trained"
        if not all(bool(torch.isfinite(value).all()) for value in (loss, *known)):
            return "the loss or its gradient is not finite (NaN or inf)"
        again = _logits(workbench, start, rows)
    except ConfigError:  # of the loss, whatever the model
        raise
    except Exception as error:
        message = str(error).strip().splitlines() or ["no message"]
        return f"{type(error).__name__}: {message[0]}"
    if not torch.allclose(again, logits, rtol=1e-3, atol=1e-4, equal_nan=True):
        return (
            "its output for the same parameters, examples and seeds differs when it is computed "
            "again, so a run could not be resumed; draw random numbers from the global generators "
            "of PyTorch, NumPy or `random`, which are seeded, and keep what changes in buffers"
        )
    return None


def _checked_loss(loss: Loss, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The loss of a batch.

    Raises:
        ConfigError: a user's loss is no scalar, does not give a number for each example, or is not
            the mean over the examples.
    """
    title = f"training.loss {named_loss(loss)}"
    try:
        value: object = loss.mean(outputs, targets)
        if not isinstance(value, torch.Tensor) or value.ndim != 0:
            shape = tuple(value.shape) if isinstance(value, torch.Tensor) else None
            got = type(value).__name__ if shape is None else f"shape {shape}"
            raise ConfigError(
                f"{title} must return a scalar tensor, the mean over the batch, got {got}"
            )
        sums, weights = loss.terms(outputs, targets)
    except ConfigError:
        raise
    except Exception as error:
        message = str(error).strip().splitlines() or ["no message"]
        raise ConfigError(
            f"{title} cannot be computed from outputs of shape {tuple(outputs.shape)} and targets "
            f"of shape {tuple(targets.shape)}: {type(error).__name__}: {message[0]}"
        ) from error
    for name, entries in (("sums", sums), ("weights", weights)):
        if entries is not None and tuple(entries.shape) != (len(outputs),):
            raise ConfigError(
                f"{title} must give a number for each of {len(outputs)} examples, "
                f"got {name} of shape {tuple(entries.shape)}"
            )
    total = sums.mean() if weights is None else sums.sum() / weights.sum()
    if not torch.allclose(value, total, rtol=1e-3, atol=1e-5, equal_nan=True):
        hint = ""
        if outputs.shape != targets.shape and outputs.numel() == targets.numel():
            shapes = f"shape {tuple(outputs.shape)} and targets {tuple(targets.shape)}"
            hint = f"; outputs have {shapes}, outputs.reshape(targets.shape) pairs them"
        raise ConfigError(
            f"{title} must be the mean over the examples of a batch: for {len(outputs)} examples "
            f"it is {value.item():.6g}, the mean of its values for single examples "
            f"{total.item():.6g}{hint}"
        )
    return value


def _logits(workbench: Workbench, start: torch.Tensor, rows: IntArray) -> torch.Tensor:
    seed_generators(0, "check")
    workbench.flat.load(start)
    workbench.flat.module.train()
    x, _ = workbench.examples("train").gather(torch.from_numpy(rows))
    return workbench.forward(x)


def _examples(size: int) -> str:
    return "one example" if size == 1 else f"{size} examples"


def _named(federation: Federation, owners: IntArray) -> str:
    """The clients by name and number of examples, three at most."""
    clients = federation.clients
    parts = [
        f"{clients.names[k]!r} ({_examples(int(clients.data_sizes[k]))})"
        for k in owners[:3].tolist()
    ]
    more = len(owners) - len(parts)
    if more:
        parts.append(f"{more} more")
    listed = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    return f"{'client' if len(owners) == 1 else 'clients'} {listed}"


def _advice(trial: _Trial, work: Work) -> str:
    """What to change: the nearest batch size with which all batches work, or another layer.

    The search for a batch size ends after some seconds.
    """
    norms = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
    layer = ""
    if any(isinstance(part, norms) for part in trial.workbench.flat.module.modules()):
        layer = "GroupNorm instead of BatchNorm works on single examples"
    data_sizes = work.federation.clients.data_sizes
    limit = trial.seconds + _SECONDS
    filled = filled_batch_size(work)
    for size in sorted(range(1, 4 * filled + 1), key=lambda size: (abs(size - filled), size)):
        if trial.seconds > limit:
            return layer or "another batch size may work"
        extremes = np.unique(
            batch_extremes(
                data_sizes,
                local_steps=steps_of(work, data_sizes, batch_size=size),
                batch_size=size,
                drop_last=work.drop_last,
            )
        ).tolist()
        if all(trial.fault(met) is None for met in extremes):
            return f"training.batch_size = {size} works" + (f", and {layer}" if layer else "")
    return f"no batch size up to {4 * filled} works" + (f", but {layer}" if layer else "")
