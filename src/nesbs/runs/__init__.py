"""A run: its recipe, its folder and how it is resumed, a stage at work, and the stages wired together."""

from nesbs.runs.recipe import load_recipe
from nesbs.runs.resumable_run import Run
from nesbs.runs.stage_progress import Progress
