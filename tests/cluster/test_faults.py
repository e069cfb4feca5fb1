"""Real Ray processes with a fault put in; the other cases are in `scripts/cluster-faults` alone."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "cluster-faults"


@pytest.mark.long
@pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray")
@pytest.mark.parametrize("case", ["smoke", "cohorts-raylet-training"])
def test_two_nodes_of_which_one_is_killed_give_the_records_of_one_computer(case: str) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--cases", case], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(f"{case}: passed")
