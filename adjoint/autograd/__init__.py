"""Reverse-mode differentiation: backward, grad, and what surrounds them."""

from adjoint.autodiff.modes import enable_grad as enable_grad
from adjoint.autodiff.modes import no_grad as no_grad
from adjoint.autodiff.modes import set_grad_enabled as set_grad_enabled
from adjoint.autodiff.reverse import backward as backward
from adjoint.autodiff.reverse import grad as grad
