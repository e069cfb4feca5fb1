"""The page of limits shows the messages that the code raises, all of them and no others."""

import re
from pathlib import Path

import pytest
from tests.limits_cases import CASES

from fedgs.errors import UserError

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "limits.md"
ROW = re.compile(
    r"^\| `(?P<id>[a-z0-9-]+)` \| (?P<why>.+) \| (?P<fence>`+) ?(?P<message>.+?) ?(?P=fence) \|$"
)


def rows() -> dict[str, str]:
    """Id -> message of every row of the page's tables."""
    messages: dict[str, str] = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("| `"):
            row = ROW.match(line)
            assert row is not None, f"not a row `id` | reason | `message`: {line}"
            assert row["id"] not in messages, f"{row['id']} has two rows"
            messages[row["id"]] = row["message"].replace("\\|", "|")
    return messages


def test_every_case_has_a_row_and_every_row_a_case() -> None:
    assert list(rows()) == list(CASES)


@pytest.mark.parametrize("name", list(CASES))
def test_the_message_of_the_page_is_the_one_raised(name: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as refusal:
        CASES[name](tmp_path)
    message = str(refusal.value).replace(f"{tmp_path}/", "").replace(str(tmp_path), "data")
    assert "\n" not in message
    assert rows().get(name) == message
