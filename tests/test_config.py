from typing import Any

import pytest

from fedgs.config import Config, Training, cohort_limit
from fedgs.errors import ConfigError


def config(**settings: object) -> Config:
    return Config(**{"data": "synthetic", "availability": "LDF", "method": "fedgs", **settings})


def test_values_not_given_default_to_the_data_sets_row() -> None:
    fashion = Config(
        data="fashion_mnist", availability="IDL", method="uniform", training={"local_steps": 50}
    )
    assert fashion.training == Training(
        rounds=500, proportion=0.1, batch_size=32, local_steps=50, learning_rate=0.1
    )
    assert fashion.model is not None and fashion.model.name == "fashion_cnn"


def test_availability_takes_the_runs_seed_unless_it_has_its_own() -> None:
    assert config(seed=4).availability.seed == 4
    assert config(seed=4, availability={"name": "LDF", "seed": 1}).availability.seed == 1


@pytest.mark.parametrize(
    ("proportion", "limit", "clients", "expected"),
    [
        (0.2, None, 30, 6),
        (1.0, None, 7, 7),
        (0.01, None, 30, 1),
        (None, 4, 30, 4),
        (0.1, 3, 30, 3),
        (0.29, None, 100, 29),
    ],
)
def test_cohort_limit_of(
    proportion: float | None, limit: int | None, clients: int, expected: int
) -> None:
    assert cohort_limit(Training(proportion=proportion, cohort_limit=limit), clients) == expected


def test_contradicting_proportion_and_cohort_limit_are_refused_with_both_numbers() -> None:
    with pytest.raises(
        ConfigError,
        match=r"cohort_limit = 7 and training.proportion = 0.2 contradict .* 30 clients is 6",
    ):
        cohort_limit(Training(proportion=0.2, cohort_limit=7), 30)


def test_a_cohort_limit_given_alone_replaces_the_default_proportion() -> None:
    assert cohort_limit(config(training={"cohort_limit": 7}).training, 30) == 7


def test_more_than_all_clients_is_refused() -> None:
    with pytest.raises(
        ConfigError, match="training.cohort_limit must be at most 30, the number of clients; got 31"
    ):
        cohort_limit(Training(cohort_limit=31), 30)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"training": {"proportion": 0.0}}, r"training.proportion should be greater than 0, got 0"),
        (
            {"training": {"proportion": 1.5}},
            r"training.proportion should be less than or equal to 1, got 1.5",
        ),
        (
            {"training": {"rounds": 0}},
            r"training.rounds should be greater than or equal to 1, got 0",
        ),
        (
            {"training": {"rounds": "many"}},
            r"training.rounds should be a valid integer, got 'many'",
        ),
        ({"training": {"learning_rate": float("nan")}}, r"training.learning_rate should be"),
        ({"training": {"round": 5}}, r"training.round is not a setting; .*did you mean 'rounds'\?"),
        (
            {"evaluation": {"every": 0}},
            r"evaluation.every should be greater than or equal to 1, got 0",
        ),
        (
            {"execution": {"device": "tpu"}},
            r"execution.device must be 'cpu', 'cuda' or .*, got 'tpu'",
        ),
        (
            {"execution": {"engine": "fast"}},
            r"execution.engine should be 'auto', 'loop' or 'stacked', got 'fast'",
        ),
        ({"seed": -1}, r"seed should be greater than or equal to 0, got -1"),
        ({"rounds": 5}, r"rounds is not a setting; .*did you mean 'training.rounds'\?"),
        ({"trainin": {}}, r"trainin is not a setting; .*did you mean 'training'\?"),
        ({"training": 5}, r"training must be a table of settings or a Training, got 5"),
    ],
)
def test_bad_settings_are_one_sentence(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        config(**settings)
    assert "\n" not in str(caught.value)


def test_tables_build_the_same_configuration_again() -> None:
    original = config(
        seed=2, training={"rounds": 9}, method={"name": "fedgs", "graph": {"preset": "authors"}}
    )
    assert Config(**original.tables()) == original


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"clip": 1e-60}, "clip must be within float32's range, at least 1.5e-45, got 1e-60"),
        ({"clip": 1e60}, "clip must be within float32's range, at most 3.4e38"),
        ({"learning_rate": 1e-60}, "learning_rate must be within float32's range, at least"),
        ({"mu": 1e60}, "mu must be within float32's range, at most"),
        (
            {"optimizer": {"name": "sgd", "weight_decay": 1e300}},
            "optimizer.weight_decay must be within float32's range, at most 3.4e38",
        ),
        (
            {"optimizer": {"name": "adam", "epsilon": 1e-60}},
            "optimizer.epsilon must be within float32's range, at least 1.5e-45",
        ),
    ],
)
def test_numbers_that_float32_does_not_have_are_refused(
    settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=f"training.{message}"):
        Training(**settings)
    assert Training(mu=0.0, clip=1e-40).clip == 1e-40
