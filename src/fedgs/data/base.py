"""The interface of data sets: a frozen variant with `load`, and what the paper trains on it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from fedgs.data.federation import Federation
from fedgs.registry import Variant

__all__ = ["Data", "Defaults"]


@dataclass(frozen=True)
class Defaults:
    """What SPEC's table gives for a data set: the model's name and the training settings not given by the user."""

    model: str | None
    training: Mapping[str, Any]


SYNTHETIC_TRAINING: Mapping[str, Any] = {
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
        """The model and training settings that stand where the user gives none, now that the federation is known."""
        return self.defaults

    def load(self, data_dir: Path | None = None) -> Federation:
        """The federation; files are searched in `data_dir` first.

        Raises:
            DataError: files that are missing, truncated or not what they should be; a partition
                that is not possible.
        """
        raise TypeError(f"{type(self).__name__} must define load(data_dir)")
