"""Where PyTorch keeps the parts of its loader that programs reach for."""

from adjoint.utils.data._utils import collate as collate
