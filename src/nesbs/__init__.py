"""Neural ensemble search via Bayesian sampling: ensembles of different architectures, found, trained, measured.

>>> import nesbs
>>> len(nesbs.nasbench201())
15625
"""

import os

# OpenMP's threads wait by spinning: beside a busy program they keep each other from the cores, and everything takes
# several times as long. It is read when torch is loaded; what the user has set stays.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from nesbs.attacks import AutoAttack, CarliniWagner, Defence, Fgsm, Pgd, attack_then_defend
from nesbs.data import Dataset, Split, from_arrays, load_dataset
from nesbs.deploy import Classifier, Explanation, load
from nesbs.ensemble import Ensemble, Selection, search, train_ensemble
from nesbs.errors import NesbsError
from nesbs.evaluation import Scores, evaluate
from nesbs.posterior import Posterior, fit_posterior
from nesbs.samplers import MonteCarlo, SvgdRd, Uniform, sample_svgd_rd
from nesbs.spaces import Architecture, Space, darts, nasbench201, zoo
from nesbs.supernet import Estimator, Supernet, train_supernet
from nesbs.version import __version__

__all__ = [
    "Architecture",
    "AutoAttack",
    "CarliniWagner",
    "Classifier",
    "Dataset",
    "Defence",
    "Ensemble",
    "Estimator",
    "Explanation",
    "Fgsm",
    "MonteCarlo",
    "NesbsError",
    "Pgd",
    "Posterior",
    "Scores",
    "Selection",
    "Space",
    "Split",
    "Supernet",
    "SvgdRd",
    "Uniform",
    "__version__",
    "attack_then_defend",
    "darts",
    "evaluate",
    "fit_posterior",
    "from_arrays",
    "load",
    "load_dataset",
    "nasbench201",
    "sample_svgd_rd",
    "search",
    "train_ensemble",
    "train_supernet",
    "zoo",
]
