"""The examples of the pages about the parts of a run run as they are printed."""

import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
# In a process of its own: what a page registers is not registered for the other tests.
PROGRAM = """
import doctest, sys
flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
outcome = doctest.testfile(sys.argv[1], module_relative=False, optionflags=flags, encoding="utf-8")
sys.exit(0 if outcome.failed == 0 and outcome.attempted > 5 else 1)
"""


@pytest.mark.parametrize(
    "page",
    [
        "reference/availability.md",
        "reference/samplers.md",
        "how-to/write-a-sampler.md",
        "how-to/write-a-model.md",
        "how-to/write-a-weighting.md",
        "how-to/write-an-aggregation.md",
    ],
)
def test_the_examples_of_a_page_run(page: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(DOCS / page)], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout + run.stderr
