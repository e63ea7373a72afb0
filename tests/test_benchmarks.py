"""The benchmarks run, at toy size."""

import sys
from pathlib import Path

from nesbs import files

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.__main__ import main


def test_benchmarks_run_and_write_ratios(tmp_path, capsys):
    main(["--toy", "--json", str(tmp_path / "bench.json")])
    assert "ratio" in capsys.readouterr().out
    written = files.read_json(tmp_path / "bench.json")
    assert written["machine"]["threads"] >= 1
    names = [row["name"] for row in written["results"]]
    assert [name.split(",")[0] for name in names] == [
        *("member", "supernet", "estimate", "SVGD-RD", "SVGD-RD"),
        "score 50 ensembles of 5 (5 candidates",
    ]
    assert all(row["ratio"] > 0 and row["repeats"] >= 1 for row in written["results"])
