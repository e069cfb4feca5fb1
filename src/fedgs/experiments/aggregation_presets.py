"""Presets of published methods with an aggregation of their own."""

from fedgs.experiments.preset import Cost, Preset

__all__ = ["AGGREGATION_PRESETS"]

_ALL_AVAILABLE = {"proportion": 1.0}  # M = N: all available clients train
_WITH_STATE = "yes, with client_state in the ClientApp"
_STORED = "no: the server stores single updates"
_TABLE_COST = Cost(server_memory="(N + 1) P + N")
_EQUAL_OBJECTIVE = (
    'The publication weights all clients equally in the objective: training.objective = "equal".'
)
_ZERO_START = (
    "Stored updates are zero until a client's first one; the publication's theory assumes that "
    "every client was seen before round 0."
)

AGGREGATION_PRESETS = (
    Preset(
        "mifa",
        "Gu et al., 2021, NeurIPS",
        {"name": "uniform", "weighting": "all"},
        _ALL_AVAILABLE,
        {"name": "stale", "unit": "gradient"},
        cost=_TABLE_COST,
        flower=_WITH_STATE,
        secure_aggregation=_STORED,
        differences=(_ZERO_START, _EQUAL_OBJECTIVE),
    ),
    Preset(
        "fedvarp",
        "Jhunjhunwala et al., 2022, UAI",
        {"name": "uniform", "weighting": "equal"},
        _ALL_AVAILABLE,
        {"name": "stale"},
        cost=_TABLE_COST,
        flower=_WITH_STATE,
        secure_aggregation=_STORED,
        differences=(
            "In a round without a cohort the server moves by the mean of the stored updates.",
            _EQUAL_OBJECTIVE,
        ),
    ),
    Preset(
        "fedstale",
        "Rodio and Neglia, 2024",
        {"name": "uniform", "weighting": "fedau"},
        _ALL_AVAILABLE,
        {"name": "stale", "beta": 0.5},
        cost=Cost(server_memory="(N + 1) P + 4N"),
        flower=_WITH_STATE,
        secure_aggregation=_STORED,
        differences=("Rates are estimated as by `fedau`; the publication also has the true ones.",),
    ),
    Preset(
        "fedlaavg",
        "Yan et al., 2020",
        {"name": "least_recent", "weighting": "all"},
        {},
        {"name": "stale", "unit": "gradient"},
        cost=Cost(server_memory="(N + 1) P + 2N"),
        flower=_WITH_STATE,
        secure_aggregation=_STORED,
        differences=(
            "p_k weights the stored gradients; the published code scales local losses instead.",
            _EQUAL_OBJECTIVE,
        ),
    ),
    Preset(
        "scaffold",
        "Karimireddy et al., 2020, ICML",
        {"name": "uniform", "weighting": "equal"},
        {},
        {"name": "scaffold"},
        cost=Cost("4P", "4mP", "P", "P + N"),
        flower=_WITH_STATE,
        differences=(
            "Clients are drawn from the available ones; the publication draws from all.",
            _EQUAL_OBJECTIVE,
        ),
    ),
    Preset(
        "fedawe",
        "Xiang et al., 2024, NeurIPS",
        {"name": "uniform", "weighting": "equal"},
        {**_ALL_AVAILABLE, "objective": "equal"},
        {"name": "gossip"},
        cost=Cost(client_memory="P", server_memory="2N"),
        flower=_WITH_STATE,
        differences=(
            "The model of the server is evaluated; the published code evaluates the mean of all "
            "clients' models.",
            "Updates are not clipped.",
        ),
    ),
    Preset(
        "feddyn",
        "Acar et al., 2021, ICLR",
        {"name": "uniform", "weighting": "equal"},
        {"mu": 0.1},
        {"name": "feddyn"},
        cost=Cost("2P", "2mP", "P", "P + N"),
        flower=_WITH_STATE,
        differences=(
            "Clients are drawn from the available ones; the publication draws from all.",
            "alpha is not divided by data sizes, gradients are not clipped, and there is no weight "
            "decay, unlike in the published code.",
            _EQUAL_OBJECTIVE,
        ),
    ),
    Preset(
        "fedpbc",
        "Xiang et al., 2023, CDC",
        {"name": "uniform", "weighting": "equal"},
        {**_ALL_AVAILABLE, "objective": "equal"},
        {"name": "postponed"},
        cost=Cost(client_memory="P"),
        flower=_WITH_STATE,
        differences=("All N clients train in every round, also in rounds without a cohort.",),
    ),
    Preset(
        "fedavgm",
        "Hsu et al., 2019",
        {"name": "uniform"},
        {},
        {"name": "mean", "server": {"name": "momentum"}},
        cost=Cost(server_memory="P + N"),
        differences=(
            "The publication tunes the learning rate of the server, which is 1 here: "
            "aggregation.server.rate.",
        ),
    ),
)
