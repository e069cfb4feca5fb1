"""The paper's figures.

Source: Z. Wang, X. Fan, J. Qi, H. Jin, P. Yang, S. Shen, C. Wang, "FedGS: Federated Graph-based
Sampling with Arbitrary Client Availability", AAAI 2023: Tables 2, 3 and 4, their text, and appendix
C. `synthetic` is the paper's Synthetic(0.5, 0.5) federation of 30 clients; `cifar10` and
`fashion_mnist` are its partitions over 100 clients.
"""

from collections.abc import Mapping

__all__ = [
    "MODES",
    "PAPER_BETA",
    "ROUNDS",
    "TABLE2",
    "TABLE3",
    "TABLE4",
    "TUNED",
    "TUNING_RATES",
    "TUNING_STEPS",
]

# The beta of every mode in the paper's experiments; IDL has none.
PAPER_BETA: Mapping[str, float | None] = {
    "IDL": None, "LN": 0.5, "SLN": 0.5, "LDF": 0.7, "MDF": 0.7, "YMF": 0.9, "YC": 0.9,
}  # fmt: skip

# Data set -> the modes that Table 2 and Table 4 have for it.
MODES: Mapping[str, tuple[str, ...]] = {
    "synthetic": ("IDL", "LN", "SLN", "LDF", "MDF"),
    "cifar10": ("IDL", "LN", "SLN", "LDF", "MDF"),
    "fashion_mnist": ("IDL", "YMF", "YC"),
}

# Data set -> T.
ROUNDS: Mapping[str, int] = {"synthetic": 1000, "cifar10": 1000, "fashion_mnist": 500}

_TABLE2_COLUMNS = [(data, mode) for data, modes in MODES.items() for mode in modes]
_TABLE2_ROWS = {
    "uniform": (
        0.302,
        0.320,
        0.324,
        0.330,
        0.362,
        0.975,
        1.042,
        1.038,
        1.049,
        0.999,
        0.315,
        0.331,
        0.333,
    ),
    "md": (
        0.302,
        0.322,
        0.328,
        0.328,
        0.326,
        0.971,
        1.037,
        1.048,
        1.051,
        0.991,
        0.315,
        0.333,
        0.338,
    ),
    "power_of_choice": (
        0.691,
        0.362,
        0.352,
        0.557,
        0.301,
        1.287,
        1.108,
        1.078,
        1.267,
        1.026,
        0.345,
        0.326,
        0.311,
    ),
    "fedprox": (
        0.301,
        0.346,
        0.376,
        0.319,
        0.410,
        0.972,
        1.056,
        1.162,
        1.039,
        0.995,
        0.315,
        0.331,
        0.374,
    ),
    "fedgs-0": (
        0.307,
        0.305,
        0.320,
        0.309,
        0.310,
        1.006,
        0.976,
        1.002,
        0.974,
        0.967,
        0.302,
        0.310,
        0.324,
    ),
    "fedgs-0.5": (
        0.311,
        0.306,
        0.319,
        0.308,
        0.311,
        0.977,
        0.973,
        1.000,
        0.966,
        0.974,
        0.299,
        0.312,
        0.312,
    ),
    "fedgs-1": (
        0.328,
        0.306,
        0.318,
        0.308,
        0.311,
        0.968,
        0.972,
        0.996,
        0.971,
        0.963,
        0.300,
        0.308,
        0.310,
    ),
    "fedgs-2": (
        0.306,
        0.307,
        0.320,
        0.308,
        0.311,
        0.970,
        0.975,
        1.001,
        0.973,
        0.969,
        0.310,
        0.303,
        0.312,
    ),
    "fedgs-5": (
        0.317,
        0.307,
        0.321,
        0.309,
        0.311,
        0.976,
        0.974,
        0.996,
        0.972,
        0.972,
        0.307,
        0.303,
        0.307,
    ),
}


def _blocks(rows: Mapping[str, tuple[float, ...]]) -> dict[str, dict[str, dict[str, float]]]:
    """Row -> figures in the order of the columns, as data -> mode -> row -> figure."""
    blocks: dict[str, dict[str, dict[str, float]]] = {}
    for row, figures in rows.items():
        for (data, mode), figure in zip(_TABLE2_COLUMNS, figures, strict=True):
            blocks.setdefault(data, {}).setdefault(mode, {})[row] = figure
    return blocks


# Optimal testing loss, mean of three seeds: data -> mode -> row -> loss.
TABLE2: Mapping[str, Mapping[str, Mapping[str, float]]] = _blocks(_TABLE2_ROWS)

# Data -> similarity -> (precision, recall, F1), best over epsilon in {0, .01, .05, .1, .5}.
# "update" is the paper's cosine.
TABLE3: Mapping[str, Mapping[str, tuple[float, float, float]]] = {
    "cifar10": {"functional": (0.8789, 0.8700, 0.8744), "update": (1.0000, 0.1316, 0.2327)},
    "fashion_mnist": {"functional": (0.9761, 0.7097, 0.8218), "update": (0.3765, 0.9853, 0.5448)},
}

# Optimal testing loss of FedGS at the best alpha of {0, .5, 1, 2, 5}, by the client graph:
# data -> mode -> graph -> loss.
_TABLE4_ROWS = {
    "oracle": (
        0.306,
        0.305,
        0.318,
        0.308,
        0.310,
        0.968,
        0.972,
        0.996,
        0.966,
        0.963,
        0.299,
        0.303,
        0.307,
    ),
    "functional": (
        0.304,
        0.306,
        0.319,
        0.306,
        0.310,
        0.963,
        0.972,
        0.991,
        0.975,
        0.962,
        0.305,
        0.307,
        0.314,
    ),
    "update": (
        0.304,
        0.304,
        0.318,
        0.307,
        0.309,
        0.971,
        0.973,
        0.994,
        0.967,
        0.965,
        0.304,
        0.307,
        0.313,
    ),
}
TABLE4: Mapping[str, Mapping[str, Mapping[str, float]]] = _blocks(_TABLE4_ROWS)

# Appendix C: the grid of the hyper-parameters, and the best point with FedAvg under IDL:
# data -> (local steps, learning rate).
TUNING_STEPS = (10, 50, 100)
TUNING_RATES: Mapping[str, tuple[float, ...]] = {
    "synthetic": (0.01, 0.05, 0.1, 0.3),
    "cifar10": (0.003, 0.01, 0.03, 0.1),
    "fashion_mnist": (0.003, 0.01, 0.03, 0.1),
}
TUNED: Mapping[str, tuple[int, float]] = {
    "synthetic": (10, 0.1),
    "cifar10": (10, 0.03),
    "fashion_mnist": (10, 0.1),
}
