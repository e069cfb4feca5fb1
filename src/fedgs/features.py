"""Client features from local models, as folds: similarity of clients without access to data."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch

from fedgs import rng
from fedgs.arrays import AnyArray, FloatArray, FloatMatrix, IntArray
from fedgs.data.federation import Federation
from fedgs.data.on_demand import Held, examples_of
from fedgs.errors import ClientError, ConfigError
from fedgs.local.parameters import FlatModule, build_module, count_parameters
from fedgs.requests import AnyFold, Train, Work
from fedgs.sampling.base import Wish
from fedgs.sketches import count_sketch

__all__ = [
    "Responses",
    "UpdateSketch",
    "check_wish",
    "feature_fold",
    "feature_request",
    "noise_batch",
]

Covariance = Literal["full", "diagonal", "scalar"]
_log = logging.getLogger("fedgs")


def feature_request(
    wishes: Sequence[Wish],
    work: Work,
    parameters: torch.Tensor,
    *,
    learning_rate: float,
    seed: int,
    data_seed: int,
) -> Train:
    """The request by which every client trains once from theta^0, for its features alone.

    The batches are not those of round 0. The reply holds (N, d) features for each wish.

    Args:
        wishes: which features.
        work: what the clients train.
        parameters: (P,) theta^0.
        learning_rate: eta of round 0.
        seed: the seed of the run.
        data_seed: the seed of the federation.
    """
    everyone = np.arange(len(work.federation))
    key = (rng.derived_seed(seed, "first features"), 0)
    folds = tuple(feature_fold(wish, work, parameters, seed=data_seed) for wish in wishes)
    return Train(work, parameters, everyone, learning_rate, key, folds)


def feature_fold(wish: Wish, work: Work, parameters: torch.Tensor, *, seed: int) -> AnyFold:
    """The fold whose result is the features a sampler wishes for: (m, d) float64, a row a client.

    Args:
        wish: which features.
        work: what the clients train.
        parameters: (P,) theta^t, from which they train, or (m, P) where each client starts.
        seed: the seed of the noise batch, which is that of the federation.
    """
    names = work.federation.clients.names
    if wish.kind == "update":
        federation = work.federation
        trained = count_parameters(work.model, federation.example_shape, federation.num_labels)
        return UpdateSketch(parameters[..., :trained], wish.sketch, names)
    noise = noise_batch(
        work.federation,
        seed=seed,
        samples=wish.noise_samples,
        examples=wish.noise_examples,
        covariance=wish.covariance,
    )
    return Responses(work, noise, wish.layer)


def check_wish(wish: Wish, work: Work) -> None:
    """Raise `ConfigError` where the model has no layer of the name in the wish."""
    if wish.kind == "functional" and wish.layer is not None:
        _layer(build_module(work.model, work.federation), wish.layer)


@dataclass(frozen=True, eq=False)
class UpdateSketch:
    """The fold of flattened updates theta_k - start, exact or as a random projection.

    Where `parameters` is shorter than the models, the rest of the models is left out. So running
    statistics (such as those of batch norm), which follow the parameters, are not part of an
    update.

    The projection is a count sketch: every entry, with a random sign, is added to a random one of
    `size` sums. It is the same for all clients and rounds. Inner products are unbiased. The
    standard error of the cosine c of two updates is about (1 - c²)/sqrt(size) or less
    (`cosine_error` is this bound at c = 0). A client whose model did not change has a feature of
    zeros.

    Attributes:
        parameters: (p,) the parameters of theta^t, p <= P, or (m, p) where each client starts.
        size: updates of more than `size` numbers are projected to `size` numbers; 0: never, and
            all updates are held at once (float32).
        names: the clients' keys, for errors.

    >>> fold = UpdateSketch(torch.tensor([1.0, 0.0]), 0)
    >>> fold.finish(fold.add(fold.start(), np.array([2]), torch.tensor([[3.0, 1.0]])))
    array([[2., 1.]])
    """

    parameters: torch.Tensor
    size: int = 4096
    names: Sequence[str | int] = ()

    @property
    def projects(self) -> bool:
        """Whether updates are projected."""
        return 0 < self.size < self.parameters.shape[-1]

    @property
    def cosine_error(self) -> float:
        """Standard error of a cosine: 0 where updates are not projected."""
        return float(self.size**-0.5) if self.projects else 0.0

    def start(self) -> list[FloatArray]:
        """The accumulator of no updates."""
        return []

    def add(
        self, accumulator: list[FloatArray], clients: IntArray, models: torch.Tensor
    ) -> list[FloatArray]:
        """Add the (b, P) models of the next b clients.

        Raises:
            ClientError: an update is not finite.
        """
        done, starts = len(accumulator), self.parameters
        if starts.ndim == 1:
            starts = starts.expand(done + len(clients), -1)
        starts = starts[done : done + len(clients)]
        return accumulator + [
            self._feature(client, model, start)
            for client, model, start in zip(clients.tolist(), models, starts, strict=True)
        ]

    def part(self, start: int, stop: int) -> "UpdateSketch":
        """The fold of the clients start..stop-1."""
        if self.parameters.ndim == 1:
            return self
        # A view would be sent with the storage of all rows.
        return replace(self, parameters=self.parameters[start:stop].clone())

    def merge(self, one: list[FloatArray], other: list[FloatArray]) -> list[FloatArray]:
        """The features of both."""
        return one + other

    def finish(self, accumulator: list[FloatArray]) -> FloatMatrix:
        """The (m, d) features, d = p or `size`."""
        return np.stack(accumulator).astype(np.float64)

    def _feature(self, client: int, model: torch.Tensor, start: torch.Tensor) -> FloatArray:
        reference = start.to(model.device)
        update = (model[: len(reference)] - reference).cpu().numpy()  # (p,)
        _refuse_not_finite(update, client, self.names, "update")
        if not self.projects:
            return np.asarray(update)
        return count_sketch(update, self.size)


@dataclass(frozen=True, eq=False)
class Responses:
    """The fold of mean responses: each local model's output on a noise batch, averaged over it.

    Models are evaluated one at a time. A response of zeros has similarity 0 to all others.

    Attributes:
        work: whose model and federation the module is built from.
        noise: (n, *example_shape) float32 inputs, see `noise_batch`.
        layer: name of the submodule whose output is taken, flattened; None: the logits.
    """

    work: Work
    noise: torch.Tensor
    layer: str | None = None

    def start(self) -> "_ProbeAndResponses":
        """The accumulator of no responses; the module is built for the first model."""
        return None, []

    def add(
        self, accumulator: "_ProbeAndResponses", clients: IntArray, models: torch.Tensor
    ) -> "_ProbeAndResponses":
        """Add the responses of the (b, P) models of the next b clients.

        Raises:
            ClientError: a response is not finite.
        """
        probe, responses = accumulator
        if probe is None:
            probe = _Probe(self, models.device)
        names = self.work.federation.clients.names
        block = []
        for client, model in zip(clients.tolist(), models, strict=True):
            response = probe.mean_response(model)
            _refuse_not_finite(response, client, names, "response to noise")
            block.append(response)
        return probe, responses + block

    def part(self, start: int, stop: int) -> "Responses":
        """The fold of the clients start..stop-1."""
        return self

    def merge(self, one: "_ProbeAndResponses", other: "_ProbeAndResponses") -> "_ProbeAndResponses":
        """The responses of both."""
        return one[0], one[1] + other[1]

    def finish(self, accumulator: "_ProbeAndResponses") -> FloatMatrix:
        """The (m, d) responses, d the size of the layer's output."""
        return np.stack(accumulator[1])


class _Probe:
    """A module that local models are loaded into, one after another."""

    def __init__(self, fold: Responses, device: torch.device) -> None:
        module = build_module(fold.work.model, fold.work.federation)
        self._flat = FlatModule(module, device)
        self._noise = fold.noise.to(device)
        self._outputs: list[object] = []  # of the layer
        if fold.layer is not None:
            _layer(module, fold.layer).register_forward_hook(
                lambda layer, inputs, output: self._outputs.append(output)
            )
        self._layer = fold.layer
        module.eval()

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()  # another process builds its own for the next model

    def mean_response(self, model: torch.Tensor) -> FloatArray:
        """The mean response of a model with these parameters, (d,) float64."""
        self._flat.load(model)
        self._outputs.clear()
        with rng.seeded(0, "responses"), torch.no_grad():
            output = self._flat.module(self._noise.clone())  # a model may write to its input
        if self._layer is not None:
            output = self._outputs[-1]
        if not isinstance(output, torch.Tensor) or output.shape[:1] != self._noise.shape[:1]:
            raise ConfigError(
                f"method.graph.layer {self._layer!r} must give one output an example, "
                f"got {type(output).__name__}"
            )
        return np.asarray(output.flatten(1).double().mean(dim=0).cpu().numpy())  # (n, d) -> (d,)


_ProbeAndResponses = tuple[_Probe | None, list[FloatArray]]


def noise_batch(
    federation: Federation,
    *,
    seed: int = 0,
    samples: int = 256,
    examples: int = 100,
    covariance: Covariance = "full",
) -> torch.Tensor:
    """Noise drawn from N(mu, Sigma), with the moments of a few examples that the server may hold.

    The examples are picked from the union of the clients' validation parts; where there are none,
    from the training parts, which is logged. Sigma is never built: with "full", a draw is mu plus a
    random combination of the centred examples, which has exactly that covariance (divisor n - 1).

    Args:
        federation: whose examples; inputs are normalised, as models receive them.
        seed: picks the examples and draws the noise; it is the federation's seed, so that all
            methods and seeds share the batch.
        samples: n.
        examples: the number of examples that mu and Sigma are estimated from, at most all.
        covariance: "full" Sigma, its "diagonal", or "scalar": the mean of the diagonal times the
            identity.

    Returns:
        (n, *example_shape) float32.
    """
    split: Held = "validation"
    if federation.validation is None or len(federation.validation) == 0:
        split = "train"
        _log.warning(
            "%s has no validation parts: the noise batch takes %d training examples",
            federation.name,
            examples,
        )
    inputs = _picked(federation, split, rng.stream(seed, "noise examples"), examples)  # (k, D)
    mean = inputs.mean(axis=0)
    centred = (inputs - mean) / np.sqrt(max(len(inputs) - 1, 1))  # so that centred' centred = Sigma
    draws = rng.stream(seed, "noise")
    if covariance == "full":
        noise = draws.standard_normal((samples, len(inputs))) @ centred
    else:
        variances = (centred**2).sum(axis=0)
        if covariance == "scalar":
            variances = np.full_like(variances, variances.mean())
        noise = draws.standard_normal((samples, inputs.shape[1])) * np.sqrt(variances)
    return torch.from_numpy(
        (mean + noise).astype(np.float32).reshape(samples, *federation.example_shape)
    )


def _picked(
    federation: Federation, split: Held, draws: np.random.Generator, count: int
) -> FloatMatrix:
    part = federation.train if split == "train" else federation.validation
    assert part is not None
    rows = np.sort(draws.choice(len(part), size=min(count, len(part)), replace=False))
    x = examples_of(federation, rows, split)
    inputs = x if federation.normalization is None else federation.normalization.apply(x)
    return np.asarray(inputs.reshape(len(rows), -1), dtype=np.float64)


def _layer(module: torch.nn.Module, name: str) -> torch.nn.Module:
    layers: dict[str, torch.nn.Module] = dict(module.named_modules())
    if name not in layers or name == "":
        known = ", ".join(repr(layer) for layer in layers if layer)
        raise ConfigError(
            "method.graph.layer must be one of the model's layers "
            f"({known or 'it has none'}), got {name!r}"
        )
    return layers[name]


def _refuse_not_finite(
    vector: AnyArray, client: int, names: Sequence[str | int], what: str
) -> None:
    if not np.isfinite(vector).all():
        name = names[client] if names else client
        raise ClientError(client, f"the {what} of client {name!r} is not finite (NaN or inf)")
