import pytest
from tests.report.material import cell, twin

from fedgs.report.tables import comparison


@pytest.mark.parametrize("turned", [False, True])
def test_of_runs_with_one_label_and_seed_the_latest_is_shown_and_the_others_are_named(
    turned: bool,
) -> None:
    runs = [
        twin("old", "2024-05-01T10:00:00+00:00", 0.3),
        twin("new", "2024-05-02T10:00:00+00:00", 0.4),
    ]
    table = comparison(reversed(runs) if turned else runs)
    assert cell(table, "md", "lowest test loss").values == (0.4, None, 1)
    said = (
        "md: 1 run is left out, since a run that was started later has the same label and seed: "
        "old (shown: new)."
    )
    assert said in table.blocks[0].notes


def test_a_failed_run_does_not_replace_one_that_did_not_fail() -> None:
    failure = {"round": 3, "client": None, "error": "broken"}
    runs = [
        twin("old", "2024-05-01", 0.3),
        twin("new", "2024-05-02", failure=failure),
        twin("newer", "2024-05-03", failure=failure),
    ]
    table = comparison(runs)
    assert cell(table, "md", "lowest test loss").values == (0.3, None, 1)
    said = (
        "md: 2 runs are left out, since another run has the same label and seed: "
        "new, failed (shown: old), newer, failed (shown: old)."
    )
    assert said in table.blocks[0].notes
