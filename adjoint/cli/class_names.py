"""What classes are called under `adjoint run`: `<class 'torch.Tensor'>`, `torch.nn.modules.linear`.

Programs print types, libraries write classes' paths into their files and tell PyTorch's layers by
the module they are of. A class goes by the path at which a program finds it; the framework itself
asks `module_of`, which knows where it is written.
"""

from __future__ import annotations

from types import ModuleType

from adjoint.engine.core.ownership import know_as, module_of

# Classes of the engine, by the module each is written in: the module it goes by, and what is left
# after it. A name of our own has the one it goes by behind it.
ENGINE: dict[str, tuple[tuple[str, str], ...]] = {
    "autodiff.levels.function": (("torch.autograd.function", "Function FunctionCtx"),),
    "autodiff.tape.anomaly": (
        ("torch.autograd.anomaly_mode", "detect_anomaly set_detect_anomaly"),
    ),
    "autodiff.tape.checkpoint": (("torch.utils.checkpoint", "CheckpointError CheckpointFunction"),),
    "autodiff.tape.graph_tools": (("torch.autograd.graph", "save_on_cpu"),),
    "autodiff.tape.hooks": (("torch.utils.hooks", "Handle=RemovableHandle"),),
    "autodiff.tape.modes": (
        ("torch.autograd.grad_mode", "enable_grad inference_mode no_grad set_grad_enabled"),
    ),
    "autodiff.tape.saved": (("torch.autograd.graph", "saved_tensors_hooks"),),
    "backends.array.gpu.streams": (("torch.cuda.streams", "Event Stream ExternalStream"),),
    "core.device": (("torch", "Device=device"),),
    "core.dtype": (("torch", "DType=dtype"),),
    "core.layout": (("torch", "Layout=layout MemoryFormat=memory_format"),),
    "core.numeric_limits": (("torch", "finfo iinfo"),),
    "core.spec": (("torch", "Size"),),
    "core.state.rng": (("torch._C", "Generator"),),
    "tensor.memory": (("torch.storage", "TypedStorage UntypedStorage"),),
    "tensor.tensor": (("torch", "Tensor"),),
}
# Modules whose classes PyTorch has in another file.
MOVED = {
    "adjoint.data.dataset": "torch.utils.data.dataset",
    "adjoint.data.loader": "torch.utils.data.dataloader",
    "adjoint.data.sampler": "torch.utils.data.sampler",
    "adjoint.distributed.data_parallel.module": "torch.nn.parallel.distributed",
    "adjoint.distributions.transform": "torch.distributions.transforms",
    "adjoint.distributions.transforms_combined": "torch.distributions.transforms",
    "adjoint.distributions.transforms_vector": "torch.distributions.transforms",
    "adjoint.nn.modules.attention": "torch.nn.modules.activation",
    "adjoint.nn.modules.class_losses": "torch.nn.modules.loss",
    "adjoint.nn.modules.embedding": "torch.nn.modules.sparse",
    "adjoint.nn.modules.local_response": "torch.nn.modules.normalization",
    "adjoint.nn.modules.margin_losses": "torch.nn.modules.loss",
    "adjoint.nn.modules.parameter_container": "torch.nn.modules.container",
    "adjoint.nn.modules.rnn_cells": "torch.nn.modules.rnn",
    "adjoint.nn.modules.shrinkage": "torch.nn.modules.activation",
    "adjoint.nn.modules.softmax": "torch.nn.modules.activation",
    "adjoint.nn.modules.transformer_layers": "torch.nn.modules.transformer",
    "adjoint.optim.lr_scheduler.base": "torch.optim.lr_scheduler",
    "adjoint.optim.lr_scheduler.combine": "torch.optim.lr_scheduler",
    "adjoint.optim.lr_scheduler.cosine": "torch.optim.lr_scheduler",
    "adjoint.optim.lr_scheduler.cycles": "torch.optim.lr_scheduler",
    "adjoint.optim.lr_scheduler.decay": "torch.optim.lr_scheduler",
    "adjoint.optim.lr_scheduler.functions": "torch.optim.lr_scheduler",
    "adjoint.optim.lr_scheduler.plateau": "torch.optim.lr_scheduler",
}
# Classes that are alone in going elsewhere.
APART = {
    "adjoint.data.dataset.DataChunk": "torch.utils.data",
    "adjoint.data.sampler.DistributedSampler": "torch.utils.data.distributed",
    "adjoint.nn.modules.class_losses.ASMoutput": "torch.nn.modules.class_losses",
    "adjoint.nn.modules.class_losses.AdaptiveLogSoftmaxWithLoss": "torch.nn.modules.adaptive",
    "adjoint.nn.modules.class_losses.LinearCrossEntropyLoss": "torch.nn",
}
# Classes of these modules that PyTorch has not.
KEPT = frozenset({"Endless", "ReplicaJoinHook", "WithinStep"})
# Packages whose files lie as PyTorch's do.
ALIKE = tuple(
    f"adjoint.{name}."
    for name in ("amp", "distributions", "fx", "jit", "nn", "optim", "profiler", "utils", "vision")
)


def is_named(module: str) -> bool:
    """Whether classes of a module of ours go by another's name."""
    return (
        module.startswith(ALIKE)
        or module in MOVED
        or module.removeprefix("adjoint.engine.") in ENGINE
    )


def name_classes(module: ModuleType, path: str) -> None:
    """Have the classes that a module defines go by PyTorch's path for it, unless the table has one.

    Args:
        module: was just loaded.
        path: what the module itself is called.
    """
    home = module.__name__
    listed = ENGINE.get(home.removeprefix("adjoint.engine."))
    if listed is not None:
        for known_as, names in listed:
            for name, _, other in (text.partition("=") for text in names.split()):
                know_as(getattr(module, name), known_as, other or name)
        return
    if not is_named(home):
        return
    for name, value in list(vars(module).items()):
        defined = isinstance(value, type) and module_of(value) == home
        if not defined or value.__qualname__ != name or name in KEPT:
            continue
        moved = path if name.startswith("_") else MOVED.get(home, path)
        know_as(value, APART.get(f"{home}.{name}", moved))
