"""Which Flower strategies fit inside `SampledStrategy`."""

import pytest

pytest.importorskip("flwr")

from flwr.serverapp import strategy as strategies
from flwr.serverapp.strategy import FedAvg

from fedgs.errors import ConfigError
from fedgs.flower import SampledStrategy


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Krum", "picks updates by their distances"),
        ("MultiKrum", "picks updates by their distances"),
        ("Bulyan", "picks updates by their distances"),
        ("FedMedian", "takes medians"),
        ("FedTrimmedAvg", "takes trimmed means"),
        ("FedXgbCyclic", "visits one client after the other"),
        ("FedXgbBagging", "joins trees"),
    ],
)
def test_strategies_that_ignore_weights_are_refused(name: str, why: str) -> None:
    with pytest.raises(
        ConfigError,
        match=f"{name} does not fit in SampledStrategy: it {why} and ignores aggregation weights",
    ):
        SampledStrategy(getattr(strategies, name)(), "uniform")


def test_private_and_foreign_strategies_are_refused() -> None:
    private = strategies.DifferentialPrivacyServerSideFixedClipping(FedAvg(), 1.0, 1.0, 2)
    with pytest.raises(ConfigError, match="its noise is scaled for equal weights"):
        SampledStrategy(private, "uniform")
    with pytest.raises(
        ConfigError,
        match="QFedAvg does not fit in SampledStrategy: it weighs updates by their losses",
    ):
        SampledStrategy(strategies.QFedAvg(client_learning_rate=0.1), "uniform")
    with pytest.raises(
        ConfigError, match="the inner strategy must be FedAvg or derived from it, got str"
    ):
        SampledStrategy("FedAvg", "uniform")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"must train, got fraction_train = 0\.0"):
        SampledStrategy(FedAvg(fraction_train=0.0), "uniform")
