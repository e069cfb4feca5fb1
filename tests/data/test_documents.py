"""What the page on data shows runs."""

import re
from pathlib import Path

import pytest

from fedgs.registry import build

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "data.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_python_blocks_run_and_print_what_they_say(
    number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    exec(compile(BLOCKS[number], f"block {number}", "exec"), {})
    printed = capsys.readouterr().out
    for said in re.findall(r"^print\(.*\)  # (.*)$", BLOCKS[number], re.MULTILINE):
        assert printed.strip() == said


def test_the_table_of_a_file_is_a_setting() -> None:
    import tomllib

    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    data = build("data", tomllib.loads(text)["data"])
    assert data.classes == 10  # type: ignore[attr-defined]
    assert data.normalization.sd == (0.2023, 0.1994, 0.2010)  # type: ignore[attr-defined]
