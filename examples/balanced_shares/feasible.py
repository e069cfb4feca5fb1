"""The smallest bias that normalised weights can have on a federation, by availability mode.

Usage: python feasible.py FEDERATION [MODE ...]

A federation is a `data.seed`, or the path of a stored one. Each round's weight goes to the
available client with the largest d_k / p_k, which leads to the feasible shares nearest to p.
"""

import sys
from collections.abc import Sequence

import numpy as np
from study import ROUNDS

import fedgs

MODES = {
    "IDL": fedgs.Ideal(),
    "LN": fedgs.LogNormal(),
    "SLN": fedgs.SineLogNormal(),
    "LDF": fedgs.LessDataFirst(),
    "MDF": fedgs.MoreDataFirst(),
    "YMF": fedgs.LargeLabelsFirst(),
    "YC": fedgs.LabelCycle(),
}


def least_bias(
    clients: fedgs.Clients, mode: str, rounds: int = ROUNDS
) -> tuple[float, float, float]:
    """Half of sum |W_k / R - p_k| over rounds of a mode; share and rate of the largest client."""
    p, rng = clients.shares("data_size"), np.random.default_rng(0)
    deficit, done, seen = np.zeros(len(p)), 0, np.zeros(len(p))
    for t in range(rounds):
        rates = MODES[mode].rates(t, clients)
        seen += rates
        available = np.flatnonzero(rng.random(len(p)) < rates)
        if len(available):
            deficit += p
            deficit[available[np.argmax((deficit / p)[available])]] -= 1.0
            done += 1
    largest = int(np.argmax(p))
    bias = 0.5 * float(np.abs(deficit).sum()) / done
    return bias, float(p[largest]), float(seen[largest]) / rounds


def main(federation: str, modes: Sequence[str]) -> None:
    """Print a line for each mode."""
    is_seed = federation.isdigit()
    data = fedgs.Synthetic(seed=int(federation)) if is_seed else fedgs.File(path=federation)
    print("mode  least bias  largest client: share  rate")
    for mode in modes or MODES:
        bias, share, rate = least_bias(data.load().clients, mode)
        print(f"{mode:4}  {bias:10.3f}  {share:21.3f}  {rate:.3f}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
