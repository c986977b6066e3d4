"""Schedulers: how the learning rate (and momentum) changes over a training run."""

from adjoint.optim.lr_scheduler.base import LRScheduler as LRScheduler
from adjoint.optim.lr_scheduler.base import _LRScheduler as _LRScheduler
from adjoint.optim.lr_scheduler.combine import ChainedScheduler as ChainedScheduler
from adjoint.optim.lr_scheduler.combine import SequentialLR as SequentialLR
from adjoint.optim.lr_scheduler.cosine import CosineAnnealingLR as CosineAnnealingLR
from adjoint.optim.lr_scheduler.cosine import (
    CosineAnnealingWarmRestarts as CosineAnnealingWarmRestarts,
)
from adjoint.optim.lr_scheduler.cycles import CyclicLR as CyclicLR
from adjoint.optim.lr_scheduler.cycles import OneCycleLR as OneCycleLR
from adjoint.optim.lr_scheduler.decay import ConstantLR as ConstantLR
from adjoint.optim.lr_scheduler.decay import ExponentialLR as ExponentialLR
from adjoint.optim.lr_scheduler.decay import LinearLR as LinearLR
from adjoint.optim.lr_scheduler.decay import MultiStepLR as MultiStepLR
from adjoint.optim.lr_scheduler.decay import PolynomialLR as PolynomialLR
from adjoint.optim.lr_scheduler.decay import StepLR as StepLR
from adjoint.optim.lr_scheduler.functions import LambdaLR as LambdaLR
from adjoint.optim.lr_scheduler.functions import MultiplicativeLR as MultiplicativeLR
from adjoint.optim.lr_scheduler.plateau import ReduceLROnPlateau as ReduceLROnPlateau
