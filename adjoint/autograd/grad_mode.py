"""Switching gradients on and off, under PyTorch's address."""

from adjoint.autodiff.modes import enable_grad as enable_grad
from adjoint.autodiff.modes import inference_mode as inference_mode
from adjoint.autodiff.modes import no_grad as no_grad
from adjoint.autodiff.modes import set_grad_enabled as set_grad_enabled
from adjoint.autodiff.modes import set_multithreading_enabled as set_multithreading_enabled
