"""Measuring: the full set of measures of an ensemble and of each of its members."""

from nesbs.evaluation.calibration import Calibration, calibrate, cross_calibrate, fit_temperature, scale
from nesbs.evaluation.comparing import Difference, Summary, over_images, paired, summarise
from nesbs.evaluation.corruptions import CORRUPTIONS, SEVERITIES, corrupt
from nesbs.evaluation.human import agreement, load_human
from nesbs.evaluation.mass import Mass, mass
from nesbs.evaluation.parts import PARTS, Material, gather, measure, to_make, units
from nesbs.evaluation.ranking import Ranking, ensembles_of, pearson, rank, spearman, spread, top_agreement, verdict
from nesbs.evaluation.resampling import intervals
from nesbs.evaluation.scores import Gain, MemberScores, Scores, evaluate, lowest, score_logits
from nesbs.evaluation.settings import EvaluationSettings
from nesbs.evaluation.shown import disagreed, prediction_map, show, to_show
from nesbs.evaluation.unseen import brought_to, detection

__all__ = [
    "CORRUPTIONS",
    "PARTS",
    "SEVERITIES",
    "Calibration",
    "Difference",
    "EvaluationSettings",
    "Gain",
    "Mass",
    "Material",
    "MemberScores",
    "Ranking",
    "Scores",
    "Summary",
    "agreement",
    "brought_to",
    "calibrate",
    "corrupt",
    "cross_calibrate",
    "detection",
    "disagreed",
    "ensembles_of",
    "evaluate",
    "fit_temperature",
    "gather",
    "intervals",
    "load_human",
    "lowest",
    "mass",
    "measure",
    "over_images",
    "paired",
    "pearson",
    "prediction_map",
    "rank",
    "scale",
    "score_logits",
    "show",
    "spearman",
    "spread",
    "summarise",
    "to_make",
    "to_show",
    "top_agreement",
    "units",
    "verdict",
]
