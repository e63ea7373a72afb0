"""What is left behind, as frozen typed values; the only place that reads and writes these files.

    file                                   class               module
    recipe.yaml                            Recipe              recipe.py
    record.json                            RunRecord           run.py
    posterior.json, selection.json         PosteriorRecord, SelectionRecord   search.py (for showing them)
    members/classifier.json                ClassifierRecord    classifier.py
    members/held_out_answers.json          HeldOutAnswers      held_out_answers.py
    metrics.json                           MetricsRecord       metrics.py
    predictions.json                       PredictionsRecord   predictions.py
    quality.json                           QualityRecord       quality.py
    attacks.json                           AttacksRecord       attacks.py
    latency.json                           LatencyRecord       latency.py
    distilled.json                         DistilledRecord     distilled.py
    comparison.json                        ComparisonRecord    comparison.py
    curves.json                            CurvesRecord        curves.py
    sklearn.json                           SklearnRecord       sklearn_parameters.py
    .lock.json                             LockRecord          lock.py
    SCALE/NAME/record.json (reproduce)     ExperimentRecord    experiment.py

`X.read(path)`, `X.find(folder)` (None where the file is missing) and `X.from_json(value)` read leniently: a field that
is missing or of another kind is None; in lists and tables an entry of another kind is an empty record. `x.write(path)`
adds which code wrote it (`nesbs`, `commit`, `clean`), `x.to_json()` does not. `x.replace(field=…)` makes another; built
in Python, a wrong type is an error. `RunRecords.read(folder)` and `ComparisonRecords.read(folder)` read a whole folder.
"""

from nesbs.records.attacks import AttacksRecord
from nesbs.records.base import Record
from nesbs.records.classifier import ClassifierRecord
from nesbs.records.comparison import ComparisonRecord
from nesbs.records.curves import CurvesRecord
from nesbs.records.distilled import DistilledRecord
from nesbs.records.experiment import ExperimentRecord
from nesbs.records.held_out_answers import HeldOutAnswers
from nesbs.records.latency import LatencyRecord
from nesbs.records.lock import LockRecord
from nesbs.records.metrics import MetricsRecord
from nesbs.records.predictions import PredictionsRecord
from nesbs.records.quality import QualityRecord
from nesbs.records.recipe import Recipe
from nesbs.records.run import RunRecord
from nesbs.records.search import PosteriorRecord, SelectionRecord
from nesbs.records.sklearn_parameters import SklearnRecord
from nesbs.records.whole_folder import ComparisonRecords, RunRecords, is_comparison
