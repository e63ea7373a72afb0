"""How far apart likely members should be: what the most probable ensemble of those drawn is worth, by the truth.

    python -m benchmarks.apart --table tests/nasbench201_sample.csv --json FILE results/judges/*/posterior.json

Ensembles are drawn from posteriors that searches left, as a search draws them; the judge `posterior` without gain then
chooses under several values of `search.apart`. That needs no supernet. Members' accuracy is looked up
(`benchmarks.truth`).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from benchmarks.judges import described, what_is_drawn
from benchmarks.timing import machine
from benchmarks.truth import COLUMN, Truth
from nesbs import files, rng
from nesbs.ensemble import decide
from nesbs.ensemble.judges import RankJudge, by_posterior
from nesbs.posterior import Posterior
from nesbs.records.provenance import provenance
from nesbs.samplers import SvgdRd

SIZE = 3
DELTAS = (-0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75, 1.0)
ROUNDS = (5, 10)
APARTS = (0.0, 0.2, 0.35, 0.5)
DRAWS = 3  # times that ensembles are drawn from a posterior; the first is the search's own


def _no_loss(ensembles: object, weights: object = None, /) -> Tensor:
    raise AssertionError("without gain no loss is asked for")


def measure(posterior: Posterior, truth: Truth, seed: int, draw: int, rounds: int) -> list[dict[str, Any]]:
    """What is drawn, of that the draws at δ = 0, and what is chosen of it under every `apart`."""
    random = rng.generator(seed, "search", SvgdRd.name, *([draw] if draw else []))
    sampler = SvgdRd(delta=DELTAS)
    drawn = sampler.propose(posterior, size=SIZE, rounds=rounds, duplicates="redraw", generator=random)
    about = {"seed": seed, "draw": draw, "rounds": rounds}
    rows = [{**about, **row} for row in what_is_drawn(drawn, posterior, truth)]
    judge = RankJudge(_no_loss, by_posterior(posterior, seed=seed), (), gain=0.0)
    for apart in APARTS:
        members = decide(drawn, judge, "rounds", apart=apart)[0]
        rows.append({**about, "chosen": "posterior", "apart": apart, **described(members, posterior, truth)})
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.apart", description=__doc__)
    parser.add_argument("posteriors", type=Path, nargs="+", help="posterior.json of searches, in folders named by seed")
    parser.add_argument("--table", type=Path, required=True, help="rows of NAS-Bench-201 as a CSV file")
    parser.add_argument("--column", default=COLUMN, help="of accuracies in per cent")
    parser.add_argument("--draws", type=int, default=DRAWS, help="times that ensembles are drawn from a posterior")
    parser.add_argument("--json", type=Path, help="the record")
    asked = parser.parse_args(arguments)
    truth, rows = Truth(asked.table, asked.column), []
    for path in asked.posteriors:
        posterior = Posterior.from_json(json.loads(path.read_text()))
        for draw in range(asked.draws):
            for rounds in ROUNDS:
                rows += measure(posterior, truth, int(path.parent.name), draw, rounds)
        print(path, len(rows), "rows", flush=True)
    if asked.json:
        about = {**provenance(), "machine": machine(), "column": asked.column}
        files.write_json(asked.json, {**about, "regression": truth.cross_validated(), "rows": rows})


if __name__ == "__main__":
    main()
