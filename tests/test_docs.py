"""The reference names what the code has."""

from pathlib import Path

from fedgs.config import Config, Evaluation, Execution, Training
from fedgs.records import Record

DOCS = Path(__file__).parents[1] / "docs"


def test_the_configuration_page_names_every_setting() -> None:
    page = (DOCS / "reference" / "configuration.md").read_text(encoding="utf-8")
    for prefix, settings in (("", Config), ("training.", Training), ("evaluation.", Evaluation), ("execution.", Execution)):
        for name in settings.model_fields:
            assert f"`{prefix}{name}" in page, f"{prefix}{name}"


def test_the_records_page_names_every_key() -> None:
    page = (DOCS / "reference" / "records.md").read_text(encoding="utf-8")
    for name in Record.__dataclass_fields__:
        assert f"`{name}`" in page, name
