"""Checking derivatives against finite differences."""

from adjoint.autodiff.gradcheck import GradcheckError as GradcheckError
from adjoint.autodiff.gradcheck import gradcheck as gradcheck
from adjoint.autodiff.gradcheck import gradgradcheck as gradgradcheck
