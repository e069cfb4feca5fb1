"""The examples of the pages about availability and samplers run as they are printed."""

import doctest
from pathlib import Path

import pytest

from fedgs import registry

DOCS = Path(__file__).parents[2] / "docs"
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL


@pytest.mark.parametrize("page", ["reference/availability.md", "reference/samplers.md", "how-to/write-a-sampler.md"])
def test_the_examples_of_a_page_run(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # What a page registers ends with it, so that other tests may use the same names.
    known = {family: dict(variants) for family, variants in registry._variants.items()}
    monkeypatch.setattr(registry, "_variants", known)
    outcome = doctest.testfile(str(DOCS / page), module_relative=False, optionflags=FLAGS)
    assert outcome.attempted > 5
    assert outcome.failed == 0
