"""One table in four formats: the same cells in each."""

import csv
import io

from nesbs.report.table import Quantity, Table, shown

TABLE = Table(
    ["method", "error %\nours", "NLL | nats"],
    [["a_b", shown(Quantity(5.834, spread=0.3), 2), shown(None, 4)], ["c", "6.00 ± 0.10", "−0.5"]],
    title="Two methods",
    notes=["Mean ± standard error."],
)


def test_markdown_has_title_cells_and_notes_and_escapes_bars():
    assert TABLE.as_markdown().splitlines() == [
        "## Two methods",
        "",
        "| method | error %: ours | NLL \\| nats |",
        "| ------ | ------------- | ----------- |",
        "| a_b    | 5.83 ± 0.30   | –           |",
        "| c      | 6.00 ± 0.10   | −0.5        |",
        "",
        "Mean ± standard error.",
    ]


def test_latex_stacks_headings_of_two_lines_and_escapes_signs():
    lines = TABLE.as_latex().splitlines()
    assert lines[:2] == ["% Two methods", "% Mean ± standard error."]
    assert "\\begin{tabular}{lcc}" in lines
    assert "method & \\shortstack{error \\%\\\\ours} & NLL | nats \\\\" in lines
    assert "a\\_b & 5.83 $\\pm$ 0.30 & -- \\\\" in lines
    assert "c & 6.00 $\\pm$ 0.10 & $-$0.5 \\\\" in lines


def test_csv_can_be_read_back():
    headings, *rows = csv.reader(io.StringIO(TABLE.as_csv()))
    assert headings == ["method", "error %: ours", "NLL | nats"]
    assert rows == [list(row) for row in TABLE.rows]


def test_a_quantity_keeps_what_a_source_prints():
    assert Quantity(-0.12, written="-0.12").text(5) == "−0.12"
    assert Quantity(-1.104, low=-1.351, high=0.2).text(2, signed=True) == "−1.10 [−1.35, +0.20]"
    assert Quantity(1.0, low=0.5, high=2.0).reach == (0.5, 1.0)
    assert Quantity(1.0, spread=0.25).reach == (0.25, 0.25)
