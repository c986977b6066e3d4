"""Training for the common case: Trainer, curves, TensorBoard files, model summary."""

from adjoint.training.curves import save_plot as save_plot
from adjoint.training.nan import NonFiniteLoss as NonFiniteLoss
from adjoint.training.stopping import EarlyStopping as EarlyStopping
from adjoint.training.summary import Summary as Summary
from adjoint.training.summary import summary as summary
from adjoint.training.trainer import Trainer as Trainer
from adjoint.training.writer import SummaryWriter as SummaryWriter
