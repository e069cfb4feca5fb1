"""The share of the model that clients have received, in selections."""

from fedgs.arrays import FloatArray
from fedgs.clients import View

__all__ = ["turns_ahead"]


def turns_ahead(view: View) -> FloatArray:
    """(N,) how many selections each client is ahead of the share of the model that is due to it.

    With W_k the sum of the weights of client k in the R rounds with an average so far,

        t_k = (W_k - R p_k) / (p_k N/M).

    p_k N/M is the weight of one selection if counts are balanced, so t_k replaces v_k - mean(v) in
    the penalty: with p_k = 1/N and weights of 1/M, both are the same number.

    Counts of a balanced rotation are equal for many clients, and diversity decides between them,
    with every alpha below `balance_bound`. Numbers t_k are hardly ever equal. Therefore alpha is
    taken in units of that bound: with alpha = 1 diversity decides between cohorts whose sums of t_k
    differ by less than one turn, if distances are at most 1.

    Args:
        view: with the memory of the weighting "deficit".

    >>> import numpy as np
    >>> from fedgs.clients import Clients
    >>> clients, counts = Clients(("a", "b"), np.array([1, 1])), np.array([1, 0])
    >>> memory = {"deficit": np.array([-0.5, 0.5])}   # "a" was selected once, with weight 1
    >>> turns_ahead(View(1, clients, np.arange(2), counts, 1, weighting_memory=memory)).tolist()
    [0.5, -0.5]
    """
    part: float = view.cohort_limit / len(view.clients)
    turns: FloatArray = -view.weighting_memory["deficit"] * part / view.shares
    return turns
