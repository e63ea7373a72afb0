"""Predictions to look at (`predictions.json`): images that members disagree on, and a map of predictions."""

from nesbs.records.base import FileRecord, Record
from nesbs.records.kinds import Count, Many, Matrix, Number, Numbers


class Answer(Record):
    """A network's most probable class."""

    answer: str | None = None
    probability: Number | None = None


class DisagreedImage(Record):
    """An image that members label differently, with everybody's answer."""

    place: Count | None = None  # in the split
    label: str | None = None
    differ: Number | None = None  # share of pairs of members that differ
    ensemble: Answer | None = None
    members: Many[Answer] | None = None
    picture: str | None = None  # a PNG file in base64


class PredictionMap(Record):
    """A t-SNE map of members' predictions: points (members, images, 2); none where there would be too few."""

    places: Numbers | None = None
    perplexity: Number | None = None
    points: tuple[Matrix, ...] | None = None


class PredictionsRecord(FileRecord):
    """`predictions.json`; it holds no version, so that the same seed gives the same bytes."""

    FILE = "predictions.json"

    disagreed: Many[DisagreedImage] | None = None
    map: PredictionMap | None = None  # None where scikit-learn was missing
