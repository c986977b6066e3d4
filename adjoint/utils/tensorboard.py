"""`SummaryWriter`, where PyTorch has it."""

from adjoint.training.events import SummaryWriter as SummaryWriter
