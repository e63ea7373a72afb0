"""How accurate an architecture of NAS-Bench-201 truly is: a table's own figure, else a regression fitted to its rows.

    python -m benchmarks.truth --table tests/nasbench201_sample.csv

prints how far the regression can be trusted: ten-fold cross-validation over the rows, and over their best tenth.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from itertools import combinations_with_replacement
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from nesbs.spaces import Architecture, nasbench201

COLUMN = "valid_acc_cifar10"
EDGES = ((0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3))
PATHS = ((3,), (0, 4), (1, 5), (0, 2, 5))  # edges from the cell's input to its output
# A path is of a kind by its operations in any order, those that change nothing left out.
KINDS = [
    kind
    for n in range(4)
    for kind in combinations_with_replacement(("avg_pool_3x3", "nor_conv_1x1", "nor_conv_3x3"), n)
]
CEILING = 1.0  # points above the best row: the regression is of the logarithm of what is missing to it
DIFFERENT, WIDTH, NOISE = 0.7, 5.0, 0.02  # an edge that differs; squared distance of paths; of a row, in logarithms
Floats = NDArray[np.float64]


class Truth:
    """Accuracies in per cent. A Gaussian process on what is live of a cell: its edges, and its paths by operations."""

    def __init__(self, table: Path, column: str = COLUMN) -> None:
        self._space = nasbench201()
        with table.open() as opened:
            rows = list(csv.DictReader(opened))
        self.architectures = [self._space.parse(row["architecture"]) for row in rows]
        self.accuracies = np.array([float(row[column]) for row in rows])
        self._known = dict(zip(self.architectures, self.accuracies.tolist(), strict=True))
        self._top = self.accuracies.max() + CEILING
        self._features = self._describe(self.architectures)
        self._kernel = self._similar(self._features, self._features)
        self._weights, self._mean = self._fit(np.arange(len(rows)))

    def holds(self, architecture: Architecture) -> bool:
        """Whether the table has it."""
        return architecture in self._known

    def of(self, architectures: Sequence[Architecture]) -> Floats:
        """Return the accuracy of each, (architectures,)."""
        similar = self._similar(self._describe(architectures), self._features)
        guessed = self._accuracy(similar @ self._weights + self._mean)
        return np.array([self._known.get(one, guess) for one, guess in zip(architectures, guessed, strict=True)])

    def cross_validated(self, folds: int = 10, seed: int = 0) -> dict[str, float]:
        """Errors (root mean square, in points) and rank correlations of rows that were left out of the fit."""
        order, guessed = np.random.default_rng(seed).permutation(len(self.accuracies)), np.empty(len(self.accuracies))
        for fold in range(folds):
            out = order[fold::folds]
            rows = np.setdiff1d(order, out)
            weights, mean = self._fit(rows)
            guessed[out] = self._accuracy(self._kernel[np.ix_(out, rows)] @ weights + mean)
        best = self.accuracies >= np.quantile(self.accuracies, 0.9)
        wrong = guessed - self.accuracies
        return {
            "rows": len(self.accuracies),
            "error": float(np.sqrt(np.mean(wrong**2))),
            "spearman": float(spearmanr(guessed, self.accuracies)[0]),
            "error_best_tenth": float(np.sqrt(np.mean(wrong[best] ** 2))),
            "spearman_best_tenth": float(spearmanr(guessed[best], self.accuracies[best])[0]),
        }

    def _fit(self, rows: NDArray[np.int64]) -> tuple[Floats, float]:
        missing = np.log(self._top - self.accuracies[rows])
        kernel = self._kernel[np.ix_(rows, rows)] + NOISE * np.eye(len(rows))
        return np.linalg.solve(kernel, missing - missing.mean()), float(missing.mean())

    def _accuracy(self, missing: Floats) -> Floats:
        return np.asarray(self._top - np.exp(missing))

    def _describe(self, architectures: Sequence[Architecture]) -> tuple[NDArray[np.int64], Floats]:
        """The operation of every edge, `none` where nothing passes, (…, edges); paths of each kind, (…, kinds)."""
        rows = np.full((len(architectures), len(EDGES)), "none", dtype=object)
        paths = np.zeros((len(architectures), len(KINDS)))
        for row, ways, architecture in zip(rows, paths, architectures, strict=True):
            [cell] = self._space.live(architecture)
            for target, node in enumerate(cell, start=1):
                for operation, source in node:
                    row[EDGES.index((source, target))] = operation
            for path in PATHS:
                along = sorted(operation for operation in row[list(path)] if operation != "skip_connect")
                if "none" not in along:
                    ways[KINDS.index(tuple(along))] += 1
        return np.vectorize(self._space.operations.index)(rows), paths

    def _similar(self, some: tuple[NDArray[np.int64], Floats], others: tuple[NDArray[np.int64], Floats]) -> Floats:
        """The kernel between two lists of architectures, (some, others)."""
        differing = (some[0][:, None] != others[0][None]).sum(-1)
        apart = (some[1] ** 2).sum(1)[:, None] + (others[1] ** 2).sum(1) - 2 * some[1] @ others[1].T
        return np.asarray(DIFFERENT**differing + np.exp(-apart / WIDTH))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.truth", description=__doc__)
    parser.add_argument("--table", type=Path, required=True, help="rows of NAS-Bench-201 as a CSV file")
    parser.add_argument("--column", default=COLUMN, help="of accuracies in per cent")
    chosen = parser.parse_args(arguments)
    for name, value in Truth(chosen.table, chosen.column).cross_validated().items():
        print(f"{name} {value:.3f}")


if __name__ == "__main__":
    main()
