"""The description that a client gives of itself."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp

from fedgs.errors import ConfigError
from fedgs.flower import describe


@pytest.fixture(autouse=True)
def _identity(world: Any) -> None:
    """Give the process an identity, without which newer Flower makes no messages."""


def told(node_config: Any, **options: Any) -> dict[str, Any]:
    app = ClientApp()
    describe(app, **options)
    reply = app(
        Message(RecordDict(), 7, "query.fedgs"), Context(1, 7, node_config, RecordDict(), {})
    )
    return dict(reply.content["fedgs"])


def test_the_client_id_comes_before_the_partition_id() -> None:
    assert told({"client-id": "north", "partition-id": 3}) == {"client-key": "north"}
    assert told({"partition-id": 3}) == {"client-key": 3}
    assert told({}) == {}


def test_only_proportions_of_labels_leave_the_client() -> None:
    answer = told({"client-id": "a"}, label_counts=lambda context: np.array([30, 10, 0]))
    assert answer == {"client-key": "a", "feature": [0.75, 0.25, 0.0]}


def test_a_feature_and_a_data_size_are_told_as_they_are() -> None:
    answer = told(
        {"client-id": "a"}, feature=lambda context: [1.0, -2.0], data_size=lambda context: 12
    )
    assert answer == {"client-key": "a", "data-size": 12, "feature": [1.0, -2.0]}


def test_label_counts_and_feature_exclude_each_other() -> None:
    with pytest.raises(ConfigError, match="describe takes label_counts or feature, not both"):
        describe(ClientApp(), label_counts=lambda context: [1], feature=lambda context: [1.0])


def failing(context: Any) -> Any:
    raise OSError("no disk")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (
            {"label_counts": lambda context: [0, 0]},
            "label_counts must be counts >= 0 with a positive sum, got a sum of 0",
        ),
        (
            {"label_counts": lambda context: []},
            "label_counts must be counts >= 0 with a positive sum, got a sum of 0",
        ),
        (
            {"label_counts": lambda context: [-1, 2]},
            "label_counts must be counts >= 0 with a positive sum, got -1.0",
        ),
        (
            {"label_counts": lambda context: [float("nan"), 1.0]},
            "label_counts must be counts >= 0 with a positive sum, got nan",
        ),
        ({"label_counts": lambda context: ["many"]}, "label_counts failed: ValueError"),
        ({"label_counts": failing}, "label_counts failed: OSError: no disk"),
        (
            {"feature": lambda context: [1.0, float("inf")]},
            "feature must be at least one finite number",
        ),
        ({"feature": lambda context: []}, "feature must be at least one finite number"),
        ({"feature": lambda context: None}, "feature must be at least one finite number"),
        ({"feature": failing}, "feature failed: OSError: no disk"),
    ],
)
def test_a_failing_function_costs_its_own_part_only(options: dict[str, Any], error: str) -> None:
    answer = told({"client-id": "a"}, data_size=lambda context: 12, **options)
    (told_error,) = answer.pop("errors")
    assert error in told_error
    assert answer == {"client-key": "a", "data-size": 12}


@pytest.mark.parametrize(
    ("size", "error"),
    [(-1, "data_size must be >= 0, got -1"), (None, "TypeError"), (float("nan"), "NaN")],
)
def test_an_impossible_data_size_costs_the_size_only(size: Any, error: str) -> None:
    answer = told(
        {"client-id": "a"}, label_counts=lambda context: [1, 3], data_size=lambda context: size
    )
    (told_error,) = answer.pop("errors")
    assert told_error.startswith("data_size failed: ")
    assert error in told_error
    assert answer == {"client-key": "a", "feature": [0.25, 0.75]}
