import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs" / "explanation" / "privacy.md"


def test_examples_of_the_privacy_page_run() -> None:
    blocks = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) == 3
    exec("\n".join(blocks), {})


def test_collusion_table_of_the_privacy_page_follows_its_formula() -> None:
    text = DOCS.read_text(encoding="utf-8")
    rows = [
        re.findall(r"\| ([\d.]+)(?= )", line)
        for line in text.splitlines()
        if line.startswith(("| colluding", "| probability"))
    ]
    colluding, odds = rows
    assert [f"{1 - (1 - (int(c) - 1) / 98) ** int(c):.2f}".lstrip("0") for c in colluding] == odds
    assert len(odds) == 5
