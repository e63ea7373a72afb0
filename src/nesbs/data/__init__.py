"""What comes in: named data sets, image folders, `.npz` files; batches that live on the device; the 70/30 split."""

from nesbs.data.batches import augment, batches, cut_out, steps_per_epoch
from nesbs.data.conversion import AnySplit, converted
from nesbs.data.dataset import Dataset, SearchTrain, SearchValid, expect_held_out, refuse_held_out, stratified
from nesbs.data.from_arrays import from_arrays
from nesbs.data.published import download
from nesbs.data.settings import DATASETS, DataSettings
from nesbs.data.sources import describe, in_both_parts, load_dataset
from nesbs.data.split import Split, expect_split
