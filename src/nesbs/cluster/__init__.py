"""Where work runs: in this process, or in several processes of this machine."""

from nesbs.cluster.tasks import Task, run_tasks
