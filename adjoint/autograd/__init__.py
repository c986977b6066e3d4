"""Reverse-mode differentiation: backward, grad, and what surrounds them."""

import importlib
import warnings
from typing import Any

from adjoint.autograd import anomaly_mode as anomaly_mode
from adjoint.autograd import forward_ad as forward_ad
from adjoint.autograd import function as function
from adjoint.autograd import functional as functional
from adjoint.autograd import grad_mode as grad_mode
from adjoint.autograd import graph as graph
from adjoint.autograd.gradcheck import gradcheck as gradcheck
from adjoint.autograd.gradcheck import gradgradcheck as gradgradcheck
from adjoint.engine.autodiff.levels.function import Function as Function
from adjoint.engine.autodiff.tape.anomaly import detect_anomaly as detect_anomaly
from adjoint.engine.autodiff.tape.anomaly import set_detect_anomaly as set_detect_anomaly
from adjoint.engine.autodiff.tape.engine import queue_callback, running_for_targets
from adjoint.engine.autodiff.tape.modes import enable_grad as enable_grad
from adjoint.engine.autodiff.tape.modes import inference_mode as inference_mode
from adjoint.engine.autodiff.tape.modes import no_grad as no_grad
from adjoint.engine.autodiff.tape.modes import set_grad_enabled as set_grad_enabled
from adjoint.engine.autodiff.tape.modes import (
    set_multithreading_enabled as set_multithreading_enabled,
)
from adjoint.engine.autodiff.tape.reverse import backward as backward
from adjoint.engine.autodiff.tape.reverse import grad as grad
from adjoint.engine.core.state.loading import lacking as _lacking
from adjoint.engine.tensor.tensor import Tensor


class _VariableType(type):
    """Makes every tensor an instance, and calls give tensors."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor)

    def __call__(cls, data: Any, requires_grad: bool = False, volatile: Any = None) -> Any:
        if volatile is not None:
            warnings.warn(
                "volatile was removed and now has no effect. Use `with torch.no_grad():` instead.",
                stacklevel=2,
            )
        return data.detach().requires_grad_(requires_grad)


def _is_checkpoint_valid() -> bool:
    """Whether the backward under way is for every leaf, as checkpoints of the older kind need."""
    return not running_for_targets()


class _ExecutionEngine:
    """What runs backward, as programs that wait for its end ask for it."""

    queue_callback = staticmethod(queue_callback)
    is_checkpoint_valid = staticmethod(_is_checkpoint_valid)


class Variable(metaclass=_VariableType):
    """The tensor itself off the tape, as PyTorch's class of old made it.

    Example:
        >>> import adjoint as ad
        >>> isinstance(Variable(ad.ones(1)), ad.Tensor), isinstance(ad.ones(1), Variable)
        (True, True)
    """

    _execution_engine = _ExecutionEngine()


OF_PROFILER = ("DeviceType", "_disable_profiler", "_profiler_enabled", "kineto_available")


def __getattr__(name: str) -> Any:
    """`autograd.profiler` and what it has of here, which load the profiler on their first use."""
    if name != "profiler" and name not in OF_PROFILER:
        raise _lacking(__name__, name)
    profiler = importlib.import_module("adjoint.autograd.profiler")
    return profiler if name == "profiler" else getattr(profiler, name)
