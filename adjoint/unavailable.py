"""Modules that libraries import and nobody can have here: they import, and refuse when used.

`TABLE` names each with what it is for and the names people import from it. A module of Adjoint's
of the same name comes first: this is asked only when there is none.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn

from adjoint.engine.core.state import config

# Path within the package: what it is for; the names it has.
TABLE: dict[str, tuple[str, str]] = {
    "_C._distributed_rpc": ("remote calls", "_is_current_rpc_agent_set"),
    "_inductor.config": ("settings of PyTorch's own compiler", ""),
    "ao.quantization.quantize_fx": (
        "quantization of traced graphs; prepare and convert take modules",
        "prepare_fx prepare_qat_fx convert_fx fuse_fx",
    ),
    "cuda": (
        "graphs of GPU kernels",
        "CUDAGraph StreamContext graph graph_pool_handle make_graphed_callables",
    ),
    "distributed._functional_collectives": (
        "such collectives",
        "wait_tensor all_to_all_single_autograd AsyncCollectiveTensor",
    ),
    "distributed.checkpoint.default_planner": ("such checkpoints", "DefaultLoadPlanner"),
    "distributed.checkpoint._consolidate_hf_safetensors": (
        "such checkpoints",
        "consolidate_safetensors_files",
    ),
    "distributed.checkpoint.hf_storage": (
        "such checkpoints",
        "HuggingFaceStorageReader HuggingFaceStorageWriter",
    ),
    "distributed.fsdp.sharded_grad_scaler": (
        "parameters spread over processes",
        "ShardedGradScaler",
    ),
    "distributed.algorithms._checkpoint.checkpoint_wrapper": (
        "wrappers that recompute",
        "CheckpointImpl CheckpointWrapper apply_activation_checkpointing checkpoint_wrapper",
    ),
    "distributed.rpc": ("remote calls", ""),
    "distributed.rpc.api": ("remote calls", ""),
    "fx.experimental.proxy_tensor": (
        "tracing below functions",
        "make_fx ProxyTorchDispatchMode get_proxy_mode",
    ),
    "onnx": ("export to ONNX", "export is_in_onnx_export()"),
    "onnx.symbolic_helper": ("export to ONNX", "parse_args"),
    "utils.cpp_extension": (
        "C++ extensions of PyTorch's",
        "load CppExtension CUDAExtension BuildExtension",
    ),
    "vision.datasets": (
        "reader of that dataset",
        (
            "CelebA Cityscapes CocoCaptions CocoDetection Flowers102 Food101 GTSRB INaturalist "
            "ImageNet LSUN OxfordIIITPet Places365 QMNIST SBDataset STL10 StanfordCars SVHN USPS "
            "VOCDetection VOCSegmentation"
        ),
    ),
}


class _Refusing(type):
    """The class of placeholders: they may be named, tested against and inherited from."""

    def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        refuse(cls)

    def __instancecheck__(cls, instance: Any) -> bool:
        return False

    def __subclasscheck__(cls, subclass: type) -> bool:
        return cls in subclass.__mro__

    def __getattr__(cls, name: str) -> NoReturn:
        raise AttributeError(f"{_title(cls)}.{name}: Adjoint has no {_purpose(cls)}", name=name)


def refuse(cls: type) -> NoReturn:
    """Say that a placeholder was used."""
    raise NotImplementedError(f"{_title(cls)}: Adjoint has no {_purpose(cls)}")


def _path(cls: type) -> str:
    return cls.__module__.split(".", maxsplit=1)[1]


def _title(cls: type) -> str:
    return f"{config.display_name}.{_path(cls)}.{cls.__name__}"


def _purpose(cls: type) -> str:
    return TABLE[_path(cls)][0]


def never() -> bool:
    """No."""
    return False


def fill(target: ModuleType, wanted: str | None = None) -> None:
    """Give a module placeholders for the names of its entry that it does not have.

    With `wanted`, for that name alone, which is known not to be there.
    """
    name = target.__name__
    purpose, names = TABLE.get(name.removeprefix("adjoint."), ("", ""))
    for entry in names.split():
        each = entry.removesuffix("()")
        if each != wanted and (wanted is not None or hasattr(target, each)):
            continue
        if entry.endswith("()"):  # a question, whose answer is no
            target.__dict__[each] = never
        else:
            about = {"__module__": name, "__doc__": f"No {purpose}."}
            target.__dict__[each] = _Refusing(each, (), about)


def module(name: str) -> ModuleType | None:
    """The placeholder of a module, entered among the loaded ones; None if the table has none."""
    path = name.removeprefix("adjoint.")
    below = any(entry.startswith(path + ".") for entry in TABLE)
    if path not in TABLE and not below:
        return None
    purpose = TABLE.get(path, ("", ""))[0]
    made = ModuleType(name, f"{purpose}: not in Adjoint; its names refuse when used.")
    made.__spec__ = ModuleSpec(name, None, is_package=below)
    if below:
        made.__path__ = []
    fill(made)
    sys.modules[name] = made
    parent, _, last = name.rpartition(".")
    if parent in sys.modules:
        setattr(sys.modules[parent], last, made)
    return made
