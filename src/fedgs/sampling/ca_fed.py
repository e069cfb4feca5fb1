"""CA-Fed: all available clients train, except those that its weighting drops."""

from typing import Literal

import numpy as np

from fedgs.arrays import IntArray
from fedgs.clients import Selection, View
from fedgs.errors import ConfigError, SelectionError
from fedgs.registry import register
from fedgs.sampling.base import Sampler
from fedgs.weighting import CAFedWeighting, WeightingSetting, as_weighting

__all__ = ["CAFed"]


@register("method", "ca_fed")
class CAFed(Sampler):
    """The available clients with a weight q_k > 0 in CA-Fed; weights q_k.

    Estimates, settings and the decision whom to drop are those of the weighting `ca_fed`, whose
    memory changes in every round, also in one without a cohort. The sampler asks for the losses of
    the current model at all available clients, and selects those that the weighting keeps; none, if
    all of them are dropped. Where they are more than the cohort limit, it draws among them, each
    with equal probability; the publication has no limit.

    Attributes:
        weighting: "ca_fed", or a table of its settings.
        loss_on: the part that the losses are computed on.

    References:
        A. Rodio, F. Faticanti, O. Marfoq, G. Neglia, E. Leonardi (2023): Federated Learning under
        Heterogeneous and Correlated Client Availability. INFOCOM.

    >>> from fedgs import Clients
    >>> clients = Clients(("a", "b", "c"), np.array([1, 5, 4]))
    >>> view = View(0, clients, np.arange(3), np.zeros(3, dtype=np.int64), cohort_limit=3,
    ...             losses=np.array([4.0, 1.0, 1.0]),
    ...             weighting_memory=CAFedWeighting().start(clients, 3))
    >>> CAFed().select(view, np.random.default_rng(0)).clients
    array([1, 2])
    """

    weighting: WeightingSetting = "ca_fed"
    loss_on: Literal["train", "validation"] = "train"

    def model_post_init(self, context: object) -> None:
        """Refuse another weighting.

        Raises:
            ConfigError: it drops no clients.
        """
        weighting = as_weighting(self.weighting)
        if not isinstance(weighting, CAFedWeighting):
            raise ConfigError(
                "method.weighting must be 'ca_fed' for method 'ca_fed', got "
                f"{weighting.name or type(weighting).__name__!r}, which works with 'uniform'"
            )

    def loss_candidates(self, view: View, rng: np.random.Generator) -> IntArray:
        """All available clients."""
        return view.available

    def select(self, view: View, rng: np.random.Generator) -> Selection:
        """The available clients that are kept, at most M of them.

        Raises:
            SelectionError: the view has no losses, or not the memory of the weighting.
        """
        if view.losses is None or not view.weighting_memory:
            raise SelectionError(
                f"{self.name!r} needs the local losses of the available clients in view.losses and "
                "the memory of its weighting in view.weighting_memory, got none"
            )
        weighting = as_weighting(self.weighting)
        assert isinstance(weighting, CAFedWeighting)
        allocation = weighting.allocation(view, view.weighting_memory)
        kept = view.available[allocation[view.available] > 0]
        if len(kept) > view.cohort_limit:
            kept = np.sort(rng.choice(kept, size=view.cohort_limit, replace=False))
        return Selection(kept)
