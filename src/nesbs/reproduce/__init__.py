"""The paper's tables and figures by name (`nesbs reproduce`).

`experiments/NAME.yaml` says what is run at each scale, `paper/NAME.yaml` has the paper's own figures. Running
(`running.py`) writes a record; drawing (`drawing.py`) makes tables and figures of a record alone.
"""

from nesbs.reproduce.drawing import picture_of, tables_of, write
from nesbs.reproduce.running import run
from nesbs.reproduce.spec import NAMES, SCALES, Experiment, experiment, paper_figures
from nesbs.reproduce.work import Work
