"""How figures look, and how they become the same bytes every time."""

import contextlib
import io
from collections.abc import Iterator, Sequence
from typing import Any

# Okabe and Ito's colours, which can be told apart with any kind of colour vision; shapes and dashes say the same again.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9")
MARKS = "osD^vPX"
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)), (0, (7, 2)))
PAPER = "#D55E00"  # of the paper's own figures, drawn as open diamonds
STYLE: dict[str, Any] = {
    "svg.hashsalt": "nesbs",
    "svg.fonttype": "none",
    "text.parse_math": False,  # a data set may be called $x$
    "font.size": 9,
    "axes.titlesize": 9,
    "legend.fontsize": 8,
}


@contextlib.contextmanager
def styled(**changes: Any) -> Iterator[Any]:
    """Give a maker of figures of one style, whatever the user's own is; `changes` as axes_titlesize=12."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        changed = {name.replace("_", "."): value for name, value in changes.items()}
        matplotlib.rcParams.update(STYLE | changed)  # type: ignore[arg-type]
        yield lambda width, height: Figure(figsize=(width, height), layout="constrained")


def as_svg(figure: Any) -> str:
    """Write a figure as SVG, without date or version."""
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return text.getvalue()


def saved(figure: Any) -> tuple[str, bytes]:
    """Write a figure as SVG and as PNG, without date or version."""
    pixels, vector = io.BytesIO(), as_svg(figure)
    figure.savefig(pixels, format="png", dpi=150, metadata={"Software": None})
    return vector, pixels.getvalue()


def line_style(number: int) -> dict[str, Any]:
    """Return the colour, mark and dash of one of several lines."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKS[number % len(MARKS)],
        "ls": DASHES[number % len(DASHES)],
    }


def logarithmic(axis: Any) -> None:
    """Write plain numbers on a logarithmic axis."""
    axis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_minor_formatter(lambda value, _: "")


def legend_below(figure: Any, axes: Any) -> None:
    """Draw one legend for all panels, under them."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside lower center", ncols=min(3, len(labels)), frameon=False)


def padded(values: Sequence[float], share: float = 0.08) -> tuple[float, float]:
    """Return the range of values, widened a little at both ends.

    >>> padded([0.0, 1.0], 0.1)
    (-0.1, 1.1)
    """
    low, high = min(values), max(values)
    air = share * (high - low) or 0.1 * abs(high) or 1.0
    return low - air, high + air
