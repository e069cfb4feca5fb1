"""Paired differences of every method to uniform selection, one line a condition.

python summary.py FOLDER
"""

import sys
from pathlib import Path

from fedgs.report import read_runs
from fedgs.report.tables import comparison


def lines(folder: Path) -> list[str]:
    """Condition, method, lowest test loss, and its difference to uniform with the 95 % interval."""
    runs, problems = read_runs(folder)
    table = comparison(runs, against="uniform")
    titles = [column.title for column in table.columns]
    loss, gap = titles.index("lowest test loss"), titles.index("vs uniform [95 %]")
    rows = [
        f"{block.title}; {row[0].text}; {row[loss].text}; {row[gap].text}"
        for block in table.blocks
        for row in block.rows
    ]
    return [*rows, *problems]


if __name__ == "__main__":
    print("\n".join(lines(Path(sys.argv[1]))))
