"""Switching gradients on and off, under PyTorch's address."""

from adjoint.engine.autodiff.tape.modes import enable_grad as enable_grad
from adjoint.engine.autodiff.tape.modes import inference_mode as inference_mode
from adjoint.engine.autodiff.tape.modes import no_grad as no_grad
from adjoint.engine.autodiff.tape.modes import set_grad_enabled as set_grad_enabled
from adjoint.engine.autodiff.tape.modes import (
    set_multithreading_enabled as set_multithreading_enabled,
)
