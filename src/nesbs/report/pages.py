"""Which page a folder gets: a run's, a comparison's, and one for several runs."""

from collections.abc import Sequence
from pathlib import Path

from nesbs.errors import NesbsError
from nesbs.records import is_comparison
from nesbs.records.whole_folder import check_begun
from nesbs.report.comparison_page import write_comparison_page
from nesbs.report.run_page import write_report
from nesbs.report.side_by_side import write_side_by_side

SIDE_BY_SIDE = Path("nesbs-report.html")


def write_reports(runs: Sequence[Path], out: Path | None = None) -> list[Path]:
    """Write the page of every folder, and one with several runs side by side (`out`); return all paths, that one last.

    Everything is checked before anything is written.
    """
    for folder in runs:
        if is_comparison(folder):
            if len(runs) > 1:
                raise NesbsError(
                    f"{folder} is a comparison, which has a page of its own: `nesbs report {folder}` writes it; "
                    "side by side go runs, such as its seed-0"
                )
        else:
            check_begun(folder)
    if out is not None and len(runs) == 1:
        raise NesbsError("--out names the page of several runs side by side: one run's is report.html in its folder")
    page = out or SIDE_BY_SIDE
    places = [folder.resolve() for folder in runs]
    if len(set(places)) < len(places):
        raise NesbsError("a run is named twice: as one more seed it would make intervals too narrow")
    if len(runs) > 1 and page.resolve() in {place / "report.html" for place in places}:
        raise NesbsError(f"--out {page} is the page of one of these runs: name another file")
    if len(runs) > 1 and page.is_dir():
        raise NesbsError(f"--out {page} is a folder: name a file, such as {page / SIDE_BY_SIDE}")
    if page.suffix.lower() not in (".html", ".htm"):
        raise NesbsError(f"--out writes a page, such as {page.with_suffix('.html')}, found {page}")
    pages = [write_comparison_page(folder) if is_comparison(folder) else write_report(folder) for folder in runs]
    return [*pages, write_side_by_side(runs, page)] if len(runs) > 1 else pages
