"""Measuring: the full set of measures of an ensemble and of each of its members; how well estimates rank."""

from nesbs.evaluation.comparing import over_images, paired, summarise
from nesbs.evaluation.ranking import ensembles_of, gain_of_choice, mass, rank, spread, verdict
from nesbs.evaluation.scores import Scores, evaluate, lowest, score_logits
from nesbs.evaluation.settings import EvaluationSettings
from nesbs.evaluation.tsne import has_tsne, tsne
