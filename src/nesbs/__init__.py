"""Neural ensemble search via Bayesian sampling: ensembles of different architectures, found, trained, measured.

>>> import nesbs
>>> len(nesbs.nasbench201())
15625
"""

import os
import signal
import sys
from typing import TYPE_CHECKING

# As the command: until its `main` runs, Ctrl-C ends it at once. Modules that are half imported would go on to be used.
_COMMAND = sys.argv and (sys.argv[0] == "-m" or os.path.basename(sys.argv[0]) == "nesbs")
if _COMMAND and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

# OpenMP's threads wait by spinning: beside a busy program they keep each other from the cores, and everything takes
# several times as long. It is read when torch is loaded; what the user has set stays.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from nesbs.attacks import AutoAttack, CarliniWagner, Defence, Fgsm, Pgd, attack_then_defend
from nesbs.data import Dataset, Split, from_arrays, load_dataset
from nesbs.deploy import Classifier, Explanation, distil, load
from nesbs.ensemble import Ensemble, Selection, search, train_ensemble
from nesbs.errors import NesbsError
from nesbs.evaluation import Scores, evaluate
from nesbs.posterior import Posterior, fit_posterior
from nesbs.samplers import MonteCarlo, SvgdRd, Uniform, sample_svgd_rd
from nesbs.spaces import Architecture, Space, darts, nasbench201, zoo
from nesbs.supernet import Estimator, Supernet, train_supernet
from nesbs.version import __version__

if TYPE_CHECKING:
    from nesbs.deploy.scikit_learn import NesbsClassifier

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
    "distil",
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


def __getattr__(name: str) -> type["NesbsClassifier"]:
    """Import what needs scikit-learn, an extra, when it is asked for (so it is not in `__all__`)."""
    if name != "NesbsClassifier":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from nesbs.deploy.scikit_learn import NesbsClassifier

    return NesbsClassifier
