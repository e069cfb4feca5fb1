"""The presets: published methods by name.

A preset that stands for a sampler of its own name, with that sampler's defaults, sets nothing; it
is here for what it needs and costs.
"""

from collections.abc import Mapping
from typing import Any

from fedgs.experiments.aggregation_presets import AGGREGATION_PRESETS
from fedgs.experiments.preset import Cost, Preset

__all__ = ["PRESETS", "RESERVED", "preset_of"]

_ALL_AVAILABLE = {"proportion": 1.0}  # M = N: all available clients train
_EQUAL_OBJECTIVE = (
    'The publication weights all clients equally in the objective: training.objective = "equal".'
)
_LIMITED = (
    "With a cohort limit below N, participations are counted, not availability; the publication "
    "has all available clients train."
)
_LOSSES_IN_THE_CLEAR = "yes, losses in the clear"
_ALL_CANDIDATES = "All available clients are candidates unless method.candidates is set."
# The mean loss of a client comes with its update and is kept.
_REPORTED = Cost("2P + 1", "2mP + m", "0", "2N")
_CLUSTERED_AVAILABLE = (
    "The distributions are made over the available clients, so that the average is unbiased given "
    "A_t; the publication has all clients available."
)

_TABLE = (
    Preset(
        "fedavg",
        "McMahan et al., 2017, AISTATS",
        {"name": "uniform", "weighting": "data_size"},
        differences=(
            "The cohort is drawn from the available clients; the publication has all available.",
            "Clients make a fixed number of steps, not of passes over their data.",
        ),
    ),
    Preset(
        "uniform",
        "McMahan et al., 2017, AISTATS",
        {"name": "uniform"},
        differences=("The sampler of `fedavg`; its weighting can be any.",),
    ),
    Preset(
        "md",
        "Li et al., 2020, MLSys",
        {"name": "md"},
        differences=(
            "Clients are drawn from the available ones, so the average is unbiased over A_t.",
            "A client that is drawn twice trains once and has twice the weight.",
        ),
    ),
    Preset(
        "fedprox",
        "Li et al., 2020, MLSys",
        {"name": "md"},
        {"mu": 0.01},
        differences=(
            "As for `md`.",
            "mu = 0.01 is the value of the FedGS paper; the publication tunes it over 0.001 to 1.",
            "All clients make the same number of steps; there are no stragglers.",
        ),
        labels=False,
    ),
    Preset(
        "power_of_choice",
        "Cho et al., 2022, AISTATS",
        {"name": "power_of_choice"},
        needs=("losses",),
        cost=Cost("2P + 1", "(a + m) P + a", "0", "N"),
        secure_aggregation=_LOSSES_IN_THE_CLEAR,
        differences=(_ALL_CANDIDATES,),
    ),
    Preset(
        "cpow_d",
        "Cho et al., 2022, AISTATS",
        {"name": "cpow_d"},
        needs=("losses",),
        cost=Cost("2P + 1", "(a + m) P + a", "0", "N"),
        secure_aggregation=_LOSSES_IN_THE_CLEAR,
        differences=(
            _ALL_CANDIDATES,
            "The mini-batch has method.loss_batch = 10 examples, whatever training.batch_size is.",
        ),
    ),
    Preset(
        "rpow_d",
        "Cho et al., 2022, AISTATS",
        {"name": "rpow_d"},
        needs=("losses",),
        cost=_REPORTED,
        secure_aggregation=_LOSSES_IN_THE_CLEAR,
        differences=(
            _ALL_CANDIDATES,
            "With all of them, a client whose last loss was low is rarely selected again; a "
            "smaller method.candidates draws it more often.",
        ),
    ),
    Preset(
        "active_fl",
        "Goetz et al., 2019",
        {"name": "active_fl"},
        needs=("losses",),
        cost=_REPORTED,
        secure_aggregation=_LOSSES_IN_THE_CLEAR,
        differences=(
            "The loss is the mean over the mini-batches of local training, at no extra pass; the "
            "publication takes that of the model that the client receives.",
            "The shares are those of the available clients and of min(M, |A_t|).",
            "A client that never took part has the value inf, so that it is selected first.",
        ),
    ),
    Preset(
        "oort",
        "Lai et al., 2021, OSDI",
        {"name": "oort"},
        needs=("losses",),
        cost=Cost("2P + 1", "2mP + m", "0", "4N"),
        secure_aggregation=_LOSSES_IN_THE_CLEAR,
        differences=(
            "The losses are those of the mini-batches of local training, at no extra pass, and n_k "
            "is the factor.",
            "Clients that were never selected are drawn in proportion to n_k; the publication "
            "draws them by their speed, which a server without a profile of them does not know.",
            "The preferred duration is a percentile of the known durations, as in the authors' "
            "code; the publication has seconds. It needs a table [system].",
            "The publication leaves out clients that were selected many times, and can add noise "
            "to the utilities and trade them for fairness.",
            "The authors' code has other values: method.cut_off 0.7 (0.05 in FedScale), "
            'method.clip 0.98, method.exploration_least 0.3 and method.pacer = "code". It scales '
            "the utilities to [0, 1] before the uncertainty is added.",
        ),
    ),
    Preset(
        "fedgs",
        "Wang et al., 2023, AAAI",
        {"name": "fedgs"},
        needs=("labels",),
        cost=Cost("2P, once d", "2mP, once N d", "0", "N² + N"),
        secure_aggregation='yes; labels in the clear unless method.graph.similarity = "private"',
        differences=(
            "The solver counts iterations instead of seconds unless method.solver.time_limit is "
            "set.",
            'The authors\' code has method.graph.preset = "authors" and method.scale = "cohort".',
        ),
    ),
    Preset(
        "inverse_participation",
        "fedgs, not published",
        {"name": "fedgs", "weighting": "inverse_participation"},
        needs=("labels",),
        cost=Cost("2P, once d", "2mP, once N d", "0", "N² + N"),
        secure_aggregation='yes; labels in the clear unless method.graph.similarity = "private"',
        differences=(
            "The publication of FedGS has weights n_k over the cohort's sum; here they are "
            "proportional to n_k / (v_k + 1).",
        ),
    ),
    Preset(
        "balanced_shares",
        "fedgs, not published",
        {"name": "fedgs", "weighting": "deficit", "balance": "share"},
        needs=("labels",),
        cost=Cost("2P, once d", "2mP, once N d", "0", "N² + 2N"),
        secure_aggregation='yes; labels in the clear unless method.graph.similarity = "private"',
        differences=(
            "The publication of FedGS balances sampling counts and has weights n_k over the "
            "cohort's sum; here the sums of the weights are balanced, by the selection and by the "
            "weights.",
        ),
    ),
    Preset(
        "fedavg_all",
        "Wang and Ji, 2024, ICLR (baseline)",
        {"name": "uniform", "weighting": "all"},
        _ALL_AVAILABLE,
        differences=(
            "The publication tunes a learning rate of the server, which is 1 here and has to grow: "
            "aggregation.server.",
            _EQUAL_OBJECTIVE,
        ),
    ),
    Preset(
        "fedau",
        "Wang and Ji, 2024, ICLR",
        {"name": "uniform", "weighting": "fedau"},
        _ALL_AVAILABLE,
        cost=Cost(server_memory="4N"),
        differences=(
            "The publication tunes a learning rate of the server, which is 1 here: "
            "aggregation.server.",
            _EQUAL_OBJECTIVE,
            _LIMITED,
        ),
    ),
    Preset(
        "known_rates",
        "Wang and Ji, 2024, ICLR (baseline)",
        {"name": "uniform", "weighting": "known"},
        _ALL_AVAILABLE,
        needs=("rates",),
        cost=Cost(server_memory="2N"),
        flower="no: no deployment knows the rates",
        differences=(
            "With a cohort limit below N, the weight is p_k |A_t| / (pi_k m), which the "
            "publication does not have.",
            _EQUAL_OBJECTIVE,
        ),
    ),
    Preset(
        "f3ast",
        "Ribero et al., 2022",
        {"name": "f3ast"},
        cost=Cost(server_memory="3N"),
        differences=(
            "Rates of selection begin at M/N, so that the weights sum to about 1 at the start.",
            "The rates before the update enter selection and weights, as in the publication; the "
            "published code takes those after it.",
        ),
    ),
    Preset(
        "least_recent",
        "Yan et al., 2020",
        {"name": "least_recent"},
        cost=Cost(server_memory="2N"),
        differences=("The sampler of `fedlaavg` without its aggregation.",),
    ),
    Preset(
        "rbcs_f",
        "Huang et al., 2021, IEEE TPDS",
        {"name": "rbcs_f"},
        cost=Cost(server_memory="2N"),
        differences=(
            "A client's duration is its last one; the publication estimates it by a linear bandit "
            "from reports of bandwidth and computation.",
            "The cohort has a fixed size; where fewer clients answer, the queues of the others "
            "grow.",
        ),
    ),
    Preset(
        "permutation",
        "Malinovsky et al., 2023",
        {"name": "permutation"},
        differences=(
            "A client that is not available makes up its turns when it returns; the publication "
            "has all clients available.",
            "Where M does not divide N, the cohort at the end of a pass is filled from the next.",
        ),
    ),
    Preset(
        "ca_fed",
        "Rodio et al., 2023, INFOCOM",
        {"name": "ca_fed"},
        needs=("losses",),
        cost=Cost("2P + 1", "(a + m) P + a", "0", "7N"),
        secure_aggregation=_LOSSES_IN_THE_CLEAR,
        differences=(
            "The publication has all kept clients train, training.proportion = 1; with a cohort "
            "limit, M of them are drawn with equal probability.",
            "The prior of the rates is Beta(1, 1) and all optimal losses are 0; the published code "
            "has the true rates and the losses of models that each client trains alone: "
            "method.weighting.",
            "Losses are those of the training part; the published code measures them on the test "
            "set.",
            "P(on | on) and P(off | off) are shares of the rounds in that state; the published "
            "code divides by all rounds.",
        ),
    ),
    Preset(
        "clustered_sizes",
        "Fraboni et al., 2021, ICML (Algorithm 1)",
        {"name": "clustered_sizes"},
        differences=(_CLUSTERED_AVAILABLE,),
    ),
    Preset(
        "clustered",
        "Fraboni et al., 2021, ICML (Algorithm 2)",
        {"name": "clustered"},
        needs=("updates",),
        cost=Cost(server_memory="N d + N"),
        secure_aggregation="no",
        differences=(
            _CLUSTERED_AVAILABLE,
            "Ward's method gets the pairwise distances; the published code gives it the rows of "
            "their matrix.",
        ),
    ),
    Preset(
        "divfl",
        "Balakrishnan et al., 2022, ICLR",
        {"name": "divfl"},
        needs=("updates",),
        cost=Cost(server_memory="N d + N"),
        secure_aggregation="no",
        differences=(
            "Updates are zero before a client's first one; the publication trains every client "
            'before round 0: method.first_updates = "everyone".',
        ),
    ),
    *AGGREGATION_PRESETS,
)

PRESETS: dict[str, Preset] = {preset.name: preset for preset in _TABLE}
"""Name -> preset, in the order of the table of methods."""

RESERVED: tuple[str, ...] = tuple(name for name, preset in PRESETS.items() if not preset.is_sampler)
"""The names that stand for a sampler of another name; no sampler can have them."""


def preset_of(tables: Mapping[str, Any]) -> Preset | None:
    """The preset that the method of a configuration names, if any.

    >>> preset_of({"method": {"name": "fedprox"}}).sampler
    'md'
    """
    method = tables.get("method")
    name = method.get("name") if isinstance(method, Mapping) else method
    return PRESETS.get(name) if isinstance(name, str) else None
