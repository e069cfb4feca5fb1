"""What the attempts share: what is refused, and numbers out of range."""

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from fedgs.errors import UserError

warnings.simplefilter("ignore")
few = settings(max_examples=60, deadline=None, derandomize=True, database=None)


def refused(call: Any, *arguments: Any, **named: Any) -> None:
    with pytest.raises(UserError) as caught:
        call(*arguments, **named)
    assert str(caught.value), arguments
    assert "\n" not in str(caught.value), caught.value


def answered_or_refused(call: Any, *arguments: Any, **named: Any) -> Any:
    try:
        return call(*arguments, **named)
    except UserError:
        return None


def outside(least: int, end: int) -> st.SearchStrategy[int]:
    return st.integers(-(2**63), least - 1) | st.integers(end, 2**63 - 1)


def put(array: Any, place: int, value: Any) -> Any:
    array = np.array(array)
    array.reshape(-1)[place % array.size] = value
    return array
