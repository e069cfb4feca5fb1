"""The examples of the pages about the parts of a run run as they are printed."""

import doctest
import sys
from pathlib import Path

import pytest
from tests.commands import FLAGS, forked

DOCS = Path(__file__).parents[2] / "docs"


def examples(path: str) -> None:
    """Run the examples of a page, of which there are several."""
    outcome = doctest.testfile(path, module_relative=False, optionflags=FLAGS, encoding="utf-8")
    sys.exit(0 if outcome.failed == 0 and outcome.attempted > 5 else 1)


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
def test_the_examples_of_a_page_run(page: str, tmp_path: Path) -> None:
    # In a process of its own: what a page registers is not registered for the other tests.
    run = forked(tmp_path, examples, str(DOCS / page))
    assert run.returncode == 0, run.stdout + run.stderr
