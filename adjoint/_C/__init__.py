"""The few names of PyTorch's compiled module that Python programs reach for."""

from __future__ import annotations

import importlib
from typing import Any

from adjoint.engine.autodiff.tape.modes import set_grad_enabled
from adjoint.engine.core.device import Device
from adjoint.engine.core.dtype import DType
from adjoint.engine.core.operations.overrides import THREAD, having
from adjoint.engine.core.operations.overrides import (
    disabled_torch_function as _disabled_torch_function_impl,  # noqa: F401
)
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.loading import lacking as _lacking
from adjoint.engine.core.state.placement import get_default_device
from adjoint.engine.core.state.rng import Generator as Generator
from adjoint.engine.tensor.tensor import Tensor
from adjoint.engine.tensor.tensor import TensorType as _TensorMeta  # noqa: F401
from adjoint.library.schemas import FunctionSchema as FunctionSchema
from adjoint.library.schemas import ParsedArgument as Argument  # noqa: F401
from adjoint.library.schemas import parse_schema as parse_schema
from adjoint.library.tags import Tag as Tag


class _InnerNames(type):
    """A table of compiled functions by their inner names: ours, as `ops.aten` finds them."""

    def __getattr__(cls, name: str) -> Any:
        found = importlib.import_module("adjoint.ops").built_in(name)
        if found is None or name.startswith("__"):
            raise _lacking(f"{__name__}.{cls.__name__}", name)
        return found


class _VariableFunctions(metaclass=_InnerNames):
    """Functions of tensors."""


class _linalg(metaclass=_InnerNames):
    """Linear algebra: `linalg_inv`."""


class _fft(metaclass=_InnerNames):
    """Fourier transforms: `fft_fft`."""


class _special(metaclass=_InnerNames):
    """Special functions: `special_expit`."""


class _nn(metaclass=_InnerNames):
    """Functions of layers, and helpers of theirs."""

    @staticmethod
    def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
        """Device, dtype, whether to wait, and memory format of a call of `to`."""
        device, dtype = kwargs.get("device"), kwargs.get("dtype")
        flags = []
        for value in args:
            if isinstance(value, Tensor):
                device, dtype = value.device, value.dtype
            elif isinstance(value, DType):
                dtype = value
            elif isinstance(value, bool):
                flags.append(value)
            elif value is not None:
                device = value
        where = device if device is None or isinstance(device, Device) else Device(device)
        wait = bool(kwargs.get("non_blocking", flags[0] if flags else False))
        return where, dtype, wait, kwargs.get("memory_format")


class _cpu:
    """What PyTorch's own kernels find in the processor: they are not here."""

    @staticmethod
    def _is_vnni_supported() -> bool:
        """No."""
        return False

    _is_amx_tile_supported = _is_avx512_vnni_supported = _is_vnni_supported


_TensorBase = TensorBase = Tensor  # what PyTorch's class inherits from: here it is the class


class PyTorchFileReader:
    """Refused: files are read by `load`."""

    def __init__(self, *_: Any) -> None:
        raise NotImplementedError("PyTorchFileReader: read files with load")


def _log_api_usage_once(event: str) -> None:
    """Nothing: PyTorch counts uses of its API here where its owner asked for that."""


def DisableTorchFunctionSubclass() -> Any:
    """A `with` block in which values take nothing over; modes still do."""
    return having(subclasses=False)


def DisableTorchFunction() -> Any:
    """A `with` block in which nothing is taken over."""
    return having(functions=False)


def _AutoDispatchBelowAutograd() -> Any:
    """A `with` block in which nothing is taped, and custom operations are their kernels.

    What was registered for an operation with a key of autograd calls the operation itself so.
    """
    return CONTEXT.having(grad_enabled=False, below_tape=True, uncompiled=True)


def _is_torch_function_enabled() -> bool:
    """Whether values and modes may take functions over."""
    return THREAD.functions


def _is_torch_function_mode_enabled() -> bool:
    """Whether a mode takes functions over."""
    return bool(THREAD.modes)


def _are_functorch_transforms_active() -> bool:
    """Whether a transform is under way."""
    return bool(CONTEXT.levels)


def _is_alias_of(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors lie in the same memory."""
    storage = input.untyped_storage()
    return storage.nbytes() > 0 and storage.data_ptr() == other.untyped_storage().data_ptr()


def _get_default_device() -> str:
    """The kind of device that new tensors are on."""
    return get_default_device().type


class Graph:
    """A graph of TorchScript's, for annotations: there is none here."""


class ScriptMethod:
    """TorchScript's form of a method; nothing is one: scripted modules run as Python."""


class Value:
    """A value in a graph of TorchScript's, for annotations: there is none here."""


def _get_accelerator(check: bool | None = None) -> Device:
    """The kind of accelerator there is; the CPU where there is none."""
    return importlib.import_module("adjoint.accelerator").current_accelerator() or Device("cpu")


def _cuda_clearCublasWorkspaces() -> None:
    """Nothing: no memory is kept for products."""


# Switches of TorchScript's executor, as they were last set: there is none that reads them.
_JIT_SWITCHES: dict[str, Any] = {
    "_jit_set_profiling_executor": True,
    "_jit_set_profiling_mode": True,
    "_jit_set_texpr_fuser_enabled": True,
    "_jit_override_can_fuse_on_cpu": False,
    "_jit_override_can_fuse_on_gpu": False,
    "_jit_set_nvfuser_enabled": False,
}


def _jit_switch(name: str) -> Any:
    """The function that sets a switch and gives what it was."""

    def put(value: bool) -> Any:
        before, _JIT_SWITCHES[name] = _JIT_SWITCHES[name], bool(value)
        return before

    put.__name__, put.__doc__ = name, "Set a switch of TorchScript's, which has no effect."
    return put


def _jit_can_fuse_on_cpu() -> bool:
    """Whether TorchScript joins operations on the CPU: there is none."""
    return False


_jit_can_fuse_on_gpu = _jit_can_fuse_on_cpu


# What PyTorch was built with, beside CUDA, which torch.cuda tells.
_has_xpu = _has_mps = _has_mkldnn = False


def _set_grad_enabled(mode: bool) -> None:
    """Set whether operations are recorded, in this thread, until it is set again."""
    set_grad_enabled(mode)


def _get_tracing_state() -> None:
    """The TorchScript trace under way: none ever is."""


def _is_tracing() -> bool:
    """Whether a TorchScript trace is under way: never."""
    return False


def _get_privateuse1_backend_name() -> str:
    """What a backend of one's own would be called."""
    return "privateuseone"


def __getattr__(name: str) -> Any:
    """The parts that are loaded when first asked for, and TorchScript's switches."""
    if name in _JIT_SWITCHES:
        return _jit_switch(name)
    if name != "_profiler":
        raise _lacking(__name__, name)
    return importlib.import_module("adjoint._C._profiler")
