"""`SummaryWriter` at the path of PyTorch's file."""

from adjoint.training.writer import SummaryWriter as SummaryWriter
