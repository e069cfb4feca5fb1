"""Tables with a vector for each client."""

from pathlib import Path

import numpy as np
import torch

from fedgs.aggregation import ClientTable

LIKE = torch.zeros(2)


def test_a_replaced_row_leaves_the_earlier_table_and_shares_the_other_rows() -> None:
    first = ClientTable.zeros(3).replaced(np.array([0, 2]), torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    second = first.replaced(np.array([2]), [torch.tensor([5.0, 6.0])])
    everyone = np.arange(3)
    assert first.stacked(everyone, like=LIKE).tolist() == [[1, 2], [0, 0], [3, 4]]
    assert second.stacked(everyone, like=LIKE).tolist() == [[1, 2], [0, 0], [5, 6]]
    assert second.row(0) is first.row(0) and second.row(1) is None


def test_rows_of_a_matrix_do_not_keep_the_matrix() -> None:
    matrix = torch.ones(2, 2)
    table = ClientTable.zeros(2).replaced(np.array([1]), matrix[1:])
    matrix[:] = 7
    row = table.row(1)
    assert row is not None and row.tolist() == [1, 1]
    assert row.untyped_storage().nbytes() == 8


def test_the_weighted_sum_is_that_of_all_rows() -> None:
    rows = torch.from_numpy(np.random.default_rng(0).normal(size=(4, 2)).astype(np.float32))
    table = ClientTable.zeros(5).replaced(np.array([0, 1, 3, 4]), rows)
    weights = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
    expected = weights[[0, 1, 3, 4]] @ rows.double().numpy()
    result = table.weighted_sum(weights, like=LIKE)
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-14)


def test_a_table_survives_a_file_and_equal_rows_are_stored_once(tmp_path: Path) -> None:
    shared = torch.tensor([1.0, 2.0])
    table = ClientTable([shared, None, shared, torch.tensor([0.0, 0.5])])
    arrays = table.arrays()
    assert arrays["values"].shape == (2, 2)
    again = ClientTable.from_arrays(arrays, tmp_path)
    assert again.row(1) is None and again.row(0) is again.row(2)
    everyone = np.arange(4)
    assert torch.equal(again.stacked(everyone, like=LIKE), table.stacked(everyone, like=LIKE))
    empty = ClientTable.from_arrays(ClientTable.zeros(3).arrays(), tmp_path)
    assert len(empty) == 3 and empty.row(0) is None
