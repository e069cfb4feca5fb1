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

# One line a row, one column for each data set and mode of MODES.
_TABLE2 = """
uniform          .302 .320 .324 .330 .362    .975 1.042 1.038 1.049  .999   .315 .331 .333
md               .302 .322 .328 .328 .326    .971 1.037 1.048 1.051  .991   .315 .333 .338
power_of_choice  .691 .362 .352 .557 .301   1.287 1.108 1.078 1.267 1.026   .345 .326 .311
fedprox          .301 .346 .376 .319 .410    .972 1.056 1.162 1.039  .995   .315 .331 .374
fedgs-0          .307 .305 .320 .309 .310   1.006  .976 1.002  .974  .967   .302 .310 .324
fedgs-0.5        .311 .306 .319 .308 .311    .977  .973 1.000  .966  .974   .299 .312 .312
fedgs-1          .328 .306 .318 .308 .311    .968  .972  .996  .971  .963   .300 .308 .310
fedgs-2          .306 .307 .320 .308 .311    .970  .975 1.001  .973  .969   .310 .303 .312
fedgs-5          .317 .307 .321 .309 .311    .976  .974  .996  .972  .972   .307 .303 .307
"""
_TABLE4 = """
oracle           .306 .305 .318 .308 .310    .968  .972  .996  .966  .963   .299 .303 .307
functional       .304 .306 .319 .306 .310    .963  .972  .991  .975  .962   .305 .307 .314
update           .304 .304 .318 .307 .309    .971  .973  .994  .967  .965   .304 .307 .313
"""


def _figures(text: str) -> dict[str, dict[str, dict[str, float]]]:
    """The figures of a table by data, mode and row.

    >>> _figures("uniform .302 .320 .324 .330 .362 .975 1.042 1.038 1.049 .999 .315 .331 .333")[
    ...     "fashion_mnist"
    ... ]
    {'IDL': {'uniform': 0.315}, 'YMF': {'uniform': 0.331}, 'YC': {'uniform': 0.333}}
    """
    columns = [(data, mode) for data, modes in MODES.items() for mode in modes]
    figures: dict[str, dict[str, dict[str, float]]] = {}
    for row, *values in map(str.split, text.strip().splitlines()):
        for (data, mode), value in zip(columns, values, strict=True):
            figures.setdefault(data, {}).setdefault(mode, {})[row] = float(value)
    return figures


# Optimal testing loss, mean of three seeds: data -> mode -> row -> loss.
TABLE2: Mapping[str, Mapping[str, Mapping[str, float]]] = _figures(_TABLE2)

# Data -> similarity -> (precision, recall, F1), best over epsilon in {0, .01, .05, .1, .5}.
# "update" is the paper's cosine.
TABLE3: Mapping[str, Mapping[str, tuple[float, float, float]]] = {
    "cifar10": {"functional": (0.8789, 0.8700, 0.8744), "update": (1.0000, 0.1316, 0.2327)},
    "fashion_mnist": {"functional": (0.9761, 0.7097, 0.8218), "update": (0.3765, 0.9853, 0.5448)},
}

# Optimal testing loss of FedGS at the best alpha of {0, .5, 1, 2, 5}, by the client graph:
# data -> mode -> graph -> loss.
TABLE4: Mapping[str, Mapping[str, Mapping[str, float]]] = _figures(_TABLE4)

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
