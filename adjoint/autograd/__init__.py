"""Reverse-mode differentiation: backward, grad, and what surrounds them."""

from adjoint.autodiff.anomaly import detect_anomaly as detect_anomaly
from adjoint.autodiff.anomaly import set_detect_anomaly as set_detect_anomaly
from adjoint.autodiff.function import Function as Function
from adjoint.autodiff.modes import enable_grad as enable_grad
from adjoint.autodiff.modes import inference_mode as inference_mode
from adjoint.autodiff.modes import no_grad as no_grad
from adjoint.autodiff.modes import set_grad_enabled as set_grad_enabled
from adjoint.autodiff.modes import set_multithreading_enabled as set_multithreading_enabled
from adjoint.autodiff.reverse import backward as backward
from adjoint.autodiff.reverse import grad as grad
from adjoint.autograd import forward_ad as forward_ad
from adjoint.autograd import function as function
from adjoint.autograd import graph as graph
