"""Tables, figures and one page from stored runs; needs no torch and no data.

The modules in the order of the data:

1. `run_view`: `Run`, one run as everything below sees it; `reading` finds the runs of a folder.
2. `labels` names methods and groups, `doubles` leaves out runs that repeat another.
3. `summary` has the figures of merit of a run, `history` what happened over its rounds, `network`
   its client graph as a drawing, `concerns` the rules for runs whose lowest loss misleads.
4. `methods` joins the runs of a method and compares two; `notes` says what may be concluded.
5. `tables` compares methods, `table` writes a table as text, Markdown, CSV or LaTeX, and `numbers`
   writes its numbers.
6. `figures` and `drawing` draw with matplotlib: `subjects` checks what they are given, `canvas` has
   sizes, panels and legends, `style` colours and dashes.
7. `page_data` collects what the page shows, `page` makes it one HTML file, `files` writes it.
"""

from fedgs.report.reading import read_runs
from fedgs.report.run_view import Run

__all__ = ["Run", "read_runs"]
