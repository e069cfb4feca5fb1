"""What the tests of this folder share."""

from collections.abc import Iterator

import pytest
import torch
from tests.local.material import make_federation

from fedgs.data.federation import Federation


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Compute in one thread: tiny products wait for a second one where the cores are busy.

    Tests of threads set their own number.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def federation() -> Federation:
    """Six clients with 1 to 40 examples of 5 numbers and 3 labels.

    Client 3 has no validation example.
    """
    return make_federation((7, 1, 40, 12, 3, 20))


@pytest.fixture(autouse=True)
def no_silent_fallback(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """No test passes because the loop engine did the stacked engine's work.

    A test that provokes this clears the log.
    """
    yield
    assert "answered by the loop engine instead" not in caplog.text
