"""`SummaryWriter`, where PyTorch has it."""

from adjoint.training.writer import SummaryWriter as SummaryWriter
