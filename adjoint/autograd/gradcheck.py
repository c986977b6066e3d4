"""Checking derivatives against finite differences."""

from adjoint.engine.autodiff.transforms.gradcheck import GradcheckError as GradcheckError
from adjoint.engine.autodiff.transforms.gradcheck import gradcheck as gradcheck
from adjoint.engine.autodiff.transforms.gradcheck import gradgradcheck as gradgradcheck
