"""Where work runs: in this process, in several processes of this machine, or on a Ray cluster."""

from nesbs.cluster.contract import Result, Task, Workers, elsewhere
from nesbs.cluster.tasks import run_tasks
