"""What a finished run is good for: a classifier that needs nothing but its folder."""

from nesbs.deploy.caution import Caution, caution_for
from nesbs.deploy.classifier import Classifier, Explanation
from nesbs.deploy.distil import distil
from nesbs.deploy.exporting import export_classifier, kept_images
from nesbs.deploy.latency import measure_latency
from nesbs.deploy.load import load
from nesbs.deploy.predict import PredictedImage, UnreadImage, csv_file, json_file, predict_files
