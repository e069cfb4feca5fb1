"""What the choice of an engine depends on, of a model and the shape of its examples."""

from functools import lru_cache
from typing import NamedTuple

from fedgs.local.linear import is_linear
from fedgs.local.parameters import forget_counts, module_for
from fedgs.local.stacking import why_not_stackable
from fedgs.local.workbench import is_convolutional
from fedgs.models import Model
from fedgs.requests import Work

__all__ = ["ModelFacts", "forget_models", "model_facts"]


class ModelFacts(NamedTuple):
    """Facts about a model.

    Attributes:
        obstacle: why it cannot be stacked; None: it can.
        convolutional: whether it has convolutions.
        linear: whether it is one linear layer.
    """

    obstacle: str | None
    convolutional: bool
    linear: bool


def model_facts(work: Work) -> ModelFacts:
    """The facts about the model of some work; each model is built and examined once."""
    federation = work.federation
    shape, labels, reads_tokens = (
        federation.example_shape,
        federation.num_labels,
        federation.task == "sequence",
    )
    try:
        return _examined(work.model, shape, labels, reads_tokens)
    except TypeError:  # a model that cannot be hashed
        return _examined.__wrapped__(work.model, shape, labels, reads_tokens)


@lru_cache(maxsize=64)
def _examined(
    model: Model, example_shape: tuple[int, ...], num_labels: int, reads_tokens: bool
) -> ModelFacts:
    module = module_for(model, example_shape, num_labels)
    obstacle = why_not_stackable(module, example_shape, tokens=num_labels if reads_tokens else None)
    return ModelFacts(obstacle, is_convolutional(module), is_linear(module))


def forget_models() -> None:
    """Examine every model again when it is next used.

    A user's function may build another module than in the last study.
    """
    _examined.cache_clear()
    forget_counts()
