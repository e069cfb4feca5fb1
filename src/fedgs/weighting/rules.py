"""Rules that need no memory: data sizes, draws, equal shares, inverse participation."""

import numpy as np
from pydantic import Field

from fedgs.arrays import FloatArray
from fedgs.clients import Counted, Memory, Selection, View
from fedgs.errors import ConfigError
from fedgs.registry import register
from fedgs.weighting.base import Weighting

__all__ = ["AllClients", "DataSize", "Draws", "Equal", "InverseParticipation"]


@register("weighting", "data_size")
class DataSize(Weighting):
    """w_k = n_k / sum of n_i over the cohort (McMahan et al., 2017, AISTATS).

    >>> DataSize().is_normalised
    True
    """

    def weights(self, view: View, selection: Selection, memory: Memory) -> FloatArray:
        """(m,) n_k."""
        return view.data_sizes[selection.clients].astype(np.float64)


@register("weighting", "draws")
class Draws(Weighting):
    """w_k = draws of client k / all draws, for samplers that draw with replacement.

    >>> Draws().is_normalised
    True
    """

    def weights(self, view: View, selection: Selection, memory: Memory) -> FloatArray:
        """(m,) how often each client was drawn; 1 where the sampler does not say."""
        if selection.draws is None:
            return np.ones(len(selection.clients))
        return np.asarray(selection.draws, dtype=np.float64)


@register("weighting", "equal")
class Equal(Weighting):
    """w_k = 1/m.

    >>> Equal().is_normalised
    True
    """

    def weights(self, view: View, selection: Selection, memory: Memory) -> FloatArray:
        """(m,) ones."""
        return np.ones(len(selection.clients))


@register("weighting", "inverse_participation")
class InverseParticipation(Weighting):
    """Weights that fall with the number v_k of earlier participations.

    Normalised, the default: w_k is proportional to n_k / (v_k + 1). Not normalised:
    w_k = p_k (t + 1) / (v_k + 1). For clients that participate independently with a rate pi_k, the
    expectation of the latter is p_k (1 - (1 - pi_k)^(t+1)) / pi_k, so a client's expected share
    tends to p_k without knowledge of its rate.

    Attributes:
        normalise: whether the weights are divided by their sum.
        cutoff: w_k is at most `cutoff` p_k; None: no limit. Without normalisation only.
        counts: what v_k counts. "selected": the rounds before t that selected client k. "answered":
            its updates that entered the model. Both are equal where every selected client answers.

    References:
        D. G. Horvitz, D. J. Thompson (1952): A Generalization of Sampling Without Replacement from
        a Finite Universe. Journal of the American Statistical Association 47.

    >>> InverseParticipation(normalise=False, cutoff=50).is_normalised
    False
    """

    normalise: bool = True
    cutoff: int | None = Field(default=None, ge=1)
    counts: Counted = "selected"
    later_settings = (("counts",),)

    def model_post_init(self, context: object) -> None:
        """Refuse a cutoff beside normalised weights."""
        if self.normalise and self.cutoff is not None:
            raise ConfigError("weighting.cutoff has no effect with normalise = true; leave it out")

    @property
    def is_normalised(self) -> bool:
        """The setting `normalise`."""
        return self.normalise

    def weights(self, view: View, selection: Selection, memory: Memory) -> FloatArray:
        """(m,) weights."""
        cohort = selection.clients
        counts = view.counts if self.counts == "selected" else view.answers
        taken = counts[cohort].astype(np.float64) + 1.0
        if self.normalise:
            return view.data_sizes[cohort].astype(np.float64) / taken
        limit = np.inf if self.cutoff is None else float(self.cutoff)
        return view.shares[cohort] * np.minimum((view.round + 1) / taken, limit)


@register("weighting", "all")
class AllClients(Weighting):
    """w_k = p_k: clients that are not in the cohort count as an update of zero.

    The server moves by a small step where few clients participate; its rate has to grow in return.

    >>> AllClients().is_normalised
    False
    """

    @property
    def is_normalised(self) -> bool:
        """False."""
        return False

    def weights(self, view: View, selection: Selection, memory: Memory) -> FloatArray:
        """(m,) p_k."""
        return view.shares[selection.clients]
