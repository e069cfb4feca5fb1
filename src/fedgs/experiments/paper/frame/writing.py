"""Write the tables and figures of an experiment."""

from pathlib import Path

from fedgs.experiments.paper.frame.experiment import Rendering
from fedgs.report.files import write_file

__all__ = ["write_rendering"]


def write_rendering(out: Path, stem: str, rendering: Rendering) -> list[Path]:
    """Write the tables and figures.

    STEM.txt and STEM.md hold all tables and the verdict. Each table has a CSV and a LaTeX file, and
    each figure its files.
    """
    tables, verdict = rendering.tables.values(), "\n".join(rendering.verdict)
    texts = [f"{table.title}\n\n{table.text()}" for table in tables]
    files = {f"{stem}.txt": "\n\n".join([*texts, verdict]).rstrip("\n") + "\n"}
    pages = [f"### {table.title}\n\n{table.markdown()}" for table in tables]
    files[f"{stem}.md"] = "\n".join([*pages, verdict]).rstrip("\n") + "\n"
    for suffix, table in (*rendering.tables.items(), *rendering.csv_only.items()):
        files[f"{_file(stem, suffix)}.csv"] = table.csv()
        if suffix in rendering.tables:
            files[f"{_file(stem, suffix)}.tex"] = table.latex()
    written = []
    for name, text in files.items():
        write_file(out / name, text.encode())
        written.append(out / name)
    if rendering.draw is not None:
        from fedgs.report.canvas import save_figure

        for suffix, figure in rendering.draw().items():
            written += save_figure(figure, out / _file(stem, suffix))
    return written


def _file(stem: str, suffix: str) -> str:
    return f"{stem}-{suffix}" if suffix else stem
