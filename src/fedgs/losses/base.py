"""The interface of losses: a frozen variant, and the wrapper for a user's function."""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pydantic import Field, field_serializer

from fedgs.data.federation import Federation
from fedgs.errors import ConfigError, shown
from fedgs.registry import Variant, build, check_name, register, stand_for
from fedgs.requests import Work

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["FunctionLoss", "Loss", "default_loss", "loss", "loss_of", "named_loss"]

# (outputs, targets) -> a scalar tensor. pydantic resolves the type at run time, where torch may be
# missing.
LossFunction = Callable[[Any, Any], Any]
_DEFAULTS = {"regression": "mean_squared_error", "multilabel": "binary_cross_entropy"}


class Loss(Variant):
    """Base of all losses.

    The loss of a batch is (sum of s_i) / (sum of w_i) over its examples i, and `terms` gives s_i
    and w_i. It is the mean over the examples where all weights are 1. The loss of a client's part
    is the same quotient over all its examples.

    A plug-in defines `terms`:

    >>> class Absolute(Loss):
    ...     tasks = ("regression",)
    ...     def terms(self, outputs, targets):
    ...         return (outputs.reshape(targets.shape) - targets).abs().flatten(1).mean(1), None
    """

    family: ClassVar[str] = "loss"
    tasks: ClassVar[tuple[str, ...]] = ()
    """The tasks of `Federation.task` that the loss has a meaning for; empty: all."""

    def check(self, federation: Federation) -> None:
        """Raise `ConfigError` if the loss has no meaning for the targets of a federation."""
        task = federation.task
        if self.tasks and task not in self.tasks:
            raise ConfigError(
                f"training.loss {named_loss(self)} needs a federation of task "
                f"{' or '.join(map(repr, self.tasks))}, got {federation.name!r} of task {task!r}; "
                f"its default is {default_loss(task)!r}"
            )

    def terms(self, outputs: "Tensor", targets: "Tensor") -> "tuple[Tensor, Tensor | None]":
        """The sum s_i and the weight w_i of each example.

        Args:
            outputs: (b, ...) float32 outputs of the model.
            targets: (b, ...) targets of the same examples.

        Returns:
            (b,) sums, and (b,) weights >= 0 that do not depend on the outputs; None: 1 each.
        """
        raise TypeError(f"{type(self).__name__} must define terms(outputs, targets)")

    def mean(self, outputs: "Tensor", targets: "Tensor") -> "Tensor":
        """The loss of a batch, a scalar; 0 where all weights are 0."""
        sums, weights = self.terms(outputs, targets)
        if weights is None:
            return sums.mean()
        total = weights.sum()
        return sums.sum() / total.where(total > 0, 1.0)


class FunctionLoss(Loss):
    """A user's function (outputs, targets) -> mean loss of a batch, a scalar tensor.

    The function must be the mean over the examples of the batch: the losses of clients, of test
    sets and of stacked clients are computed from the losses of single examples, which are its
    values for batches of one. Both are compared before round 0. PyTorch's own functions and modules
    get outputs (b, 1) in the shape of targets (b,), since they would pair all outputs with all
    targets.

    >>> import torch
    >>> squared = FunctionLoss(function=torch.nn.functional.mse_loss)
    >>> squared.terms(torch.tensor([1.0, 3.0]), torch.zeros(2))[0]
    tensor([1., 9.])
    """

    name: ClassVar[str] = "function"
    function: LossFunction

    @field_serializer("function")
    def _qualified_name(self, function: LossFunction) -> str:
        name = getattr(function, "__qualname__", type(function).__qualname__)
        return f"{getattr(function, '__module__', type(function).__module__)}.{name}"

    @property
    def content_digest(self) -> str | None:
        """The function's own `content_digest` if it has one, for content that cannot be hashed."""
        return getattr(self.function, "content_digest", None)

    def terms(self, outputs: "Tensor", targets: "Tensor") -> "tuple[Tensor, Tensor | None]":
        """The function's values for batches of one example, and weights of 1."""
        from torch.func import vmap

        def single(output: "Tensor", target: "Tensor") -> Any:
            return self.function(output.unsqueeze(0), target.unsqueeze(0))

        return vmap(single)(self._fitting(outputs, targets), targets), None

    def mean(self, outputs: "Tensor", targets: "Tensor") -> "Tensor":
        """The function's value for the batch."""
        value: Tensor = self.function(self._fitting(outputs, targets), targets)
        return value

    def _fitting(self, outputs: "Tensor", targets: "Tensor") -> "Tensor":
        """The outputs as the function gets them, see the class."""
        alike = targets.is_floating_point() and outputs.numel() == targets.numel()
        if not alike or outputs.shape == targets.shape or not _of_torch(self.function):
            return outputs
        return outputs.reshape(targets.shape)


def _of_torch(function: Any) -> bool:
    """Whether a function or module is PyTorch's own, also with arguments by `functools.partial`.

    >>> from functools import partial
    >>> import torch
    >>> _of_torch(partial(torch.nn.functional.huber_loss, delta=2.0)), _of_torch(len)
    (True, False)
    """
    while isinstance(function, partial):
        function = function.func
    module = getattr(function, "__module__", None) or type(function).__module__
    return module == "torch" or module.startswith("torch.")


GivenFunction = TypeVar("GivenFunction", bound=LossFunction)


def loss(name: str) -> Callable[[GivenFunction], GivenFunction]:
    """Register a function (outputs, targets) -> scalar tensor as a loss, see `FunctionLoss`.

    Raises:
        ConfigError: the name is missing, empty or taken, or it is not a function.

    >>> @loss("absolute")
    ... def absolute(outputs, targets):
    ...     return (outputs - targets).abs().mean()
    >>> build("loss", "absolute").name
    'absolute'
    """
    check_name(name, decorator="fedgs.losses.loss")

    def add(function: GivenFunction) -> GivenFunction:
        if not callable(function) or isinstance(function, type):
            raise ConfigError(
                f"fedgs.losses.loss({name!r}) takes a function (outputs, targets) that returns a "
                f"scalar tensor, got {shown(function)}"
            )
        given = function

        class Registered(FunctionLoss):
            function: LossFunction = Field(default=given, exclude=True)  # its name stands for it

        Registered.__name__ = Registered.__qualname__ = getattr(function, "__name__", "loss")
        Registered.__module__ = function.__module__
        Registered.__doc__ = function.__doc__
        register("loss", name)(Registered)
        stand_for(function, Registered)
        return function

    return add


def default_loss(task: str) -> str:
    """The name of the loss of a task where none is given.

    >>> default_loss("classes"), default_loss("regression"), default_loss("multilabel")
    ('cross_entropy', 'mean_squared_error', 'binary_cross_entropy')
    """
    return _DEFAULTS.get(task, "cross_entropy")


def loss_of(work: Work) -> Loss:
    """The loss of some work: its own, or the default of the federation's task.

    Raises:
        ConfigError: the work names something else than a loss.
    """
    chosen = _default(work.federation.task) if work.loss is None else work.loss
    if not isinstance(chosen, Loss):
        raise ConfigError(
            f"training.loss must be a loss, a subclass of fedgs.losses.Loss; got {shown(chosen)}"
        )
    return chosen


@lru_cache(maxsize=8)
def _default(task: str) -> Variant:
    return build("loss", default_loss(task))


def named_loss(loss: Loss) -> str:
    """The name of a loss in messages, in quotes: its own, or that of the user's function."""
    function = getattr(loss, "function", None)
    if function is None or loss.name != "function":
        return repr(loss.name or type(loss).__name__)
    return repr(getattr(function, "__name__", type(function).__name__))
