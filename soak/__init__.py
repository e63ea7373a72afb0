"""Faults by the hundred, each a whole command: `python -m soak`.

Kills, bad inputs, a full disk, a folder that becomes read-only, two processes in one folder, a GPU without memory.

Every case is made from the seed, its kind and its number, so that one is repeated by naming the three. Hypothesis is
not used: a case is a process with files of its own, there is nothing to gain from shrinking one, and what is worth
trying is a list (every setting, every file, every option) rather than a distribution.
"""

import os
import sys

# `python -m soak`, before torch is imported: one thread a process, as there is a process for each core; and no GPU,
# whose memory all of them would share. (A test that imports a part leaves its own process as it is.)
if sys.argv[0] == "-m":
    os.environ |= {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE", "CUDA_VISIBLE_DEVICES": ""}
    os.environ |= {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)  # children work in other folders
    os.environ["PYTHONPATH"] = os.pathsep.join(os.path.abspath(path) for path in paths if path)
