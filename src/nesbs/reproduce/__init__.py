"""The paper's tables and figures by name (`nesbs reproduce`).

`experiments/NAME.yaml` says what is run at each scale, `paper/NAME.yaml` has the paper's own figures. Running
(`running.py`) writes a record; drawing (`drawing.py`) makes tables and figures of a record alone.
"""

from nesbs.reproduce.command import reproduce
from nesbs.reproduce.drawing import Drawn, draw
from nesbs.reproduce.running import run
from nesbs.reproduce.spec import NAMES, SCALES, Experiment, experiment, paper_figures
from nesbs.reproduce.work import Work

__all__ = ["NAMES", "SCALES", "Drawn", "Experiment", "Work", "draw", "experiment", "paper_figures", "reproduce", "run"]
