"""Optimizers: one update rule each, for eager and captured steps alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adjoint.engine.core.state.loading import on_first_use as _on_first_use
from adjoint.optim.adadelta import Adadelta as Adadelta
from adjoint.optim.adafactor import Adafactor as Adafactor
from adjoint.optim.adagrad import Adagrad as Adagrad
from adjoint.optim.adam import Adam as Adam
from adjoint.optim.adamax import Adamax as Adamax
from adjoint.optim.adamw import AdamW as AdamW
from adjoint.optim.asgd import ASGD as ASGD
from adjoint.optim.lamb import LAMB as LAMB
from adjoint.optim.lbfgs import LBFGS as LBFGS
from adjoint.optim.lion import Lion as Lion
from adjoint.optim.muon import Muon as Muon
from adjoint.optim.nadam import NAdam as NAdam
from adjoint.optim.optimizer import Optimizer as Optimizer
from adjoint.optim.radam import RAdam as RAdam
from adjoint.optim.rmsprop import RMSprop as RMSprop
from adjoint.optim.rprop import Rprop as Rprop
from adjoint.optim.sgd import SGD as SGD
from adjoint.optim.sparse_adam import SparseAdam as SparseAdam

if TYPE_CHECKING:
    from adjoint.optim import lr_scheduler as lr_scheduler
    from adjoint.optim import swa_utils as swa_utils
else:
    __getattr__ = _on_first_use(
        __name__, ("lr_scheduler", "swa_utils", "_functional", "_multi_tensor")
    )
