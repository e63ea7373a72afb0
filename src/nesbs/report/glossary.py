"""The words of the page that need explaining: shown where they stand, and listed at its end."""

from __future__ import annotations

import re
from collections.abc import Collection

from nesbs.metrics import BINS


def glossary(bins: object = BINS, only: Collection[str] | None = None) -> dict[str, str]:
    """What each word means, of all of them or `only` of some; `bins` are those of the ECE.

    >>> glossary(11)["ECE"]
    'Expected calibration error: the gap between confidence and accuracy, over 11 bins of equal width.'
    """
    meanings = {
        "ATE": "Averaged test error: the mean test error of the members on their own.",
        "PPD": "Pairwise predictive disagreement: the share of images on which two members' labels differ, mean over "
        "pairs. Higher is more diverse.",
        "NLL": "Negative log-likelihood: minus the mean log-probability, in nats, given to the right class.",
        "Brier": "Brier score: the squared distance between the predicted probabilities and the right answer, summed "
        "over classes, mean over images.",
        "ECE": f"Expected calibration error: the gap between confidence and accuracy, over {bins} bins of equal width.",
        "Top-5 error": "The share of images whose right class is not among the five most probable.",
        "Mutual information": "How much the members' predictions for an image differ: the entropy of their mean less "
        "the mean of their entropies, in nats.",
        "Entropy": "How broad a distribution is, in nats: 0 where one choice is certain, the logarithm of the number "
        "of choices where all are alike.",
        "95 % interval": "A range that would hold the true value in 95 of 100 repetitions. Over test images it is a "
        "bootstrap: it says how much the choice of these images matters, and nothing about other seeds.",
        "t-SNE": "A map that puts things that are alike close together. Its axes have no unit, and distances between "
        "far groups mean little.",
        "Supernet": "One network that holds every operation of the search space; its weights are shared by all "
        "architectures, which it judges without training them.",
        "Posterior": "How probable each architecture is after looking at held-out images: the distribution that "
        "ensembles are drawn from.",
        "δ": "The weight of SVGD-RD's added diversity: its repulsion is that of SVGD times 1 + δ. Larger means members "
        "that differ more.",
        "τ": "The posterior's temperature when sampling: it divides the fitted logits. Above 1 is broader, below 1 is "
        "sharper.",
    }
    return {word: meaning for word, meaning in meanings.items() if only is None or word in only}


def anchor(word: str) -> str:
    """Where in the page a word is explained.

    >>> anchor("Top-5 error"), anchor("δ")
    ('term-top-5-error', 'term-delta')
    """
    plain = {"δ": "delta", "τ": "tau"}.get(word, word.lower())
    return "term-" + re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
