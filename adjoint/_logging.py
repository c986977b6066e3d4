"""`torch._logging`: levels of PyTorch's loggers; steps of its compiler there are none to write."""

from __future__ import annotations

import logging
from typing import Any

from adjoint.engine.core.state import switches

# The short names of loggers.
LOGGERS = {
    "all": "torch",
    "aot": "torch._functorch._aot_autograd",
    "autograd": "torch.autograd",
    "c10d": "torch.distributed.distributed_c10d",
    "ddp": "torch.nn.parallel.distributed",
    "distributed": "torch.distributed",
    "dtensor": "torch.distributed.tensor",
    "dynamic": "torch.fx.experimental.symbolic_shapes",
    "dynamo": "torch._dynamo",
    "export": "torch.export",
    "fsdp": "torch.distributed.fsdp",
    "inductor": "torch._inductor",
    "onnx": "torch.onnx",
}
STEPS = frozenset(
    (
        "aot_graphs aot_joint_graph autotuning benchmarking bytecode caching compiled_autograd "
        "compiled_autograd_verbose compute_dependencies cudagraph_static_inputs cudagraphs "
        "ddp_graphs fusion graph graph_breaks graph_code graph_code_verbose graph_region_expansion "
        "graph_sizes guards hierarchical_compile incremental inductor_metrics ir_post_fusion "
        "ir_pre_fusion kernel_code onnx_diagnostics output_code overlap perf_hints "
        "post_grad_graphs pre_grad_graphs recompiles recompiles_verbose schedule side_effects "
        "sym_node trace_bytecode trace_call trace_source"
    ).split()
)


def set_logs(*, modules: dict[str, int] | None = None, **wanted: Any) -> None:
    """Set levels of loggers by PyTorch's short names; says once that no steps are written.

    Args:
        modules: levels by the full names of loggers.
        wanted: a level for each short name, or whether to write a step of PyTorch's compiler.

    Example:
        >>> import logging
        >>> set_logs(dynamo=logging.ERROR)
        >>> logging.getLogger("torch._dynamo").level == logging.ERROR
        True
    """
    unknown = sorted(wanted.keys() - LOGGERS.keys() - STEPS)
    if unknown:
        raise TypeError(f"set_logs() got an unexpected keyword argument {unknown[0]!r}")
    for name, value in wanted.items():
        if name in LOGGERS and value is not None:
            logging.getLogger(LOGGERS[name]).setLevel(value)
        elif value:
            switches.tell("_logging.set_logs")
    for name, level in (modules or {}).items():
        logging.getLogger(name).setLevel(level)
