"""Measuring: the full set of measures of an ensemble and of each of its members."""

from nesbs.evaluation.scores import EvaluationSettings, MemberScores, Scores, evaluate, score_logits

__all__ = ["EvaluationSettings", "MemberScores", "Scores", "evaluate", "score_logits"]
