"""Measuring: the full set of measures of an ensemble and of each of its members."""

from nesbs.evaluation.calibration import Calibration, calibrate, cross_calibrate, fit_temperature, scale
from nesbs.evaluation.comparing import Difference, Summary, over_images, paired, summarise
from nesbs.evaluation.corruptions import CORRUPTIONS, SEVERITIES, corrupt
from nesbs.evaluation.human import agreement, load_human
from nesbs.evaluation.mass import Mass, mass
from nesbs.evaluation.ranking import Ranking, ensembles_of, pearson, rank, spearman, spread, top_agreement, verdict
from nesbs.evaluation.resampling import intervals
from nesbs.evaluation.scores import Gain, MemberScores, Scores, evaluate, lowest, score_logits
from nesbs.evaluation.settings import EvaluationSettings
from nesbs.evaluation.tsne import has_tsne, tsne
from nesbs.evaluation.unseen import brought_to, detection
