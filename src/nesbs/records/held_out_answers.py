"""Answers to held-out images (`members/held_out_answers.json`), to which thresholds and sets are fitted."""

from nesbs.records.base import FileRecord
from nesbs.records.kinds import Numbers


class HeldOutAnswers(FileRecord):
    """A row for each held-out image. Probabilities are those before the temperature, which may be fitted to them."""

    FILE = "held_out_answers.json"

    images: str | None = None  # which: `calibration`, `search_valid`, or `half of the test images`
    confidence: Numbers | None = None  # the highest probability
    right: Numbers | None = None  # 1 where it is that of the label, else 0
    score: Numbers | None = None  # of adaptive sets: evaluation/conformal.py

    def whole(self) -> bool:
        """Whether every column is there, of numbers alone and as long as the others."""
        columns = [self.confidence or (), self.right or (), self.score or ()]
        lengths = {len(column) for column in columns}
        return len(lengths) == 1 and lengths != {0} and not any(None in column for column in columns)
