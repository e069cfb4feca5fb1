"""Read-only arrays."""

import numpy as np
import pytest

from fedgs.arrays import frozen, is_frozen, kernel_alias, private, read_only


def test_a_view_of_a_writeable_array_is_copied() -> None:
    base = np.arange(4)
    view = base[:2]
    view.flags.writeable = False
    assert not is_frozen(view)
    copy = private(view)
    base[:] = 9
    assert copy.tolist() == [0, 1] and is_frozen(copy)


def test_freezing_reaches_every_array_below_a_view() -> None:
    base = np.arange(6)
    result = frozen(base.reshape(2, 3)[1])
    assert is_frozen(result)
    with pytest.raises(ValueError, match="read-only"):
        base[0] = 1


def test_an_array_that_owns_its_numbers_is_not_frozen() -> None:
    array = np.arange(3)
    array.flags.writeable = False
    assert not is_frozen(array)
    assert read_only(array) is array


def test_an_alias_for_kernels_shares_the_numbers_and_keeps_them_alive() -> None:
    # NumPy keeps the object behind `__array_interface__` alive as the base of the new array.
    alias = kernel_alias(frozen(np.arange(1000.0)))
    assert alias.flags.writeable and alias.sum() == 499500
    assert kernel_alias(alias) is alias
