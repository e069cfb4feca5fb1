"""The interface of data sets: a frozen variant with `load`, and what the paper trains on it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from fedgs.data.federation import Federation
from fedgs.registry import Variant

__all__ = ["Data", "Defaults"]


@dataclass(frozen=True)
class Defaults:
    """The paper's settings for a data set, used where the user gives none.

    Attributes:
        model: the model's name; None: the user must name one.
        training: training settings by key.
    """

    model: str | None
    training: Mapping[str, int | float | str]


SYNTHETIC_TRAINING: Mapping[str, int | float | str] = {
    "rounds": 1000,
    "proportion": 0.2,
    "batch_size": 10,
    "local_steps": 10,
    "learning_rate": 0.1,
}


class Data(Variant):
    """Base of all data sets.

    Attributes:
        seed: of the federation: partition, split and generated examples, >= 0.

    >>> import numpy as np
    >>> class Squares(Data):
    ...     def load(self, data_dir: Path | None = None) -> Federation:
    ...         x, y = np.eye(4, dtype=np.float32), np.arange(4) % 2
    ...         return Federation.from_arrays(x, y, client=np.array([0, 0, 1, 1]), test=(x, y))
    >>> len(Squares().load())
    2
    """

    family: ClassVar[str] = "data"
    defaults: ClassVar[Defaults] = Defaults(model=None, training=SYNTHETIC_TRAINING)
    seed: int = Field(default=0, ge=0)

    @property
    def title(self) -> str:
        """What headings and tables call this data set."""
        return self.name

    def defaults_for(self, federation: Federation) -> Defaults:
        """The class's defaults, with logistic regression where they name no model for vectors."""
        if self.defaults.model is None and len(federation.example_shape) == 1:
            return Defaults("logistic", self.defaults.training)
        return self.defaults

    def load(self, data_dir: Path | None = None) -> Federation:
        """The federation; files are searched in `data_dir` first.

        Raises:
            DataError: files that are missing, truncated or not what they should be; a partition
                that is not possible.
        """
        raise TypeError(f"{type(self).__name__} must define load(data_dir)")
