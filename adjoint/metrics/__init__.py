"""Metrics over streams of batches: update, compute, reset."""

from adjoint.metrics.classification import F1 as F1
from adjoint.metrics.classification import Accuracy as Accuracy
from adjoint.metrics.classification import ConfusionMatrix as ConfusionMatrix
from adjoint.metrics.classification import Precision as Precision
from adjoint.metrics.classification import Recall as Recall
from adjoint.metrics.metric import Metric as Metric
from adjoint.metrics.ranking import AUC as AUC
from adjoint.metrics.ranking import ROC as ROC
from adjoint.metrics.regression import R2 as R2
from adjoint.metrics.regression import Mean as Mean
from adjoint.metrics.regression import MeanAbsoluteError as MeanAbsoluteError
from adjoint.metrics.regression import MeanSquaredError as MeanSquaredError
from adjoint.metrics.regression import Perplexity as Perplexity
from adjoint.metrics.regression import RootMeanSquaredError as RootMeanSquaredError
