import pytest

from fedgs.errors import ConfigError
from fedgs.local import checked_device


def test_devices_that_do_not_exist_are_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"execution.device must be 'cpu', 'cuda' or 'cuda:<number>', got 'gpu'"
    ):
        checked_device("gpu")
    with pytest.raises(
        ConfigError, match=r"execution.device is 'cuda:99', but PyTorch finds \d+ CUDA devices here"
    ):
        checked_device("cuda:99")
    with pytest.raises(ConfigError, match=r"execution.device must be .*, got 'meta'"):
        checked_device("meta")
