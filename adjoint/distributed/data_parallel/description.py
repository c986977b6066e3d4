"""What `DistributedDataParallel` says of itself, under the names PyTorch's logging data has."""

from __future__ import annotations

import os
from typing import Any

from adjoint.nn.modules.batchnorm import SyncBatchNorm

NOT_KNOWN = "N/A"


def described(replica: Any) -> dict[str, str | int]:
    """Options, sizes and buckets of a wrapped module.

    Everything in it is as it is at the moment of asking; what is not known is left out, times
    among it.
    """
    reducer, module, group = replica.reducer, replica.module, replica.process_group
    parameters = [p for bucket in reducer.buckets for p in bucket.parameters]
    places = {id(p): at for at, p in enumerate(reversed(parameters))}
    devices = {str(p.device) for p in parameters}
    hook = getattr(reducer.hook, "func", None)
    return {
        "world_size": group.size(),
        "rank": group.rank(),
        "backend_name": group.name(),
        "module_name": type(module).__name__,
        "num_parameter_tensors": len(parameters),
        "total_parameter_size_bytes": sum(size_of(p) for p in parameters),
        "unused_parameter_size": sum(size_of(p) for p in parameters if id(p) in reducer.absent),
        "dtypes": ", ".join(sorted({p.dtype.name for p in parameters})),
        "is_multi_device_module": int(len(devices) > 1),
        "device_ids": ", ".join(str(d) for d in replica.device_ids or ()),
        "output_device": -1 if replica.output_device is None else str(replica.output_device),
        "broadcast_buffers": int(replica.broadcast_buffers),
        "find_unused_parameters": int(replica.find_unused_parameters),
        "gradient_as_bucket_view": int(replica.gradient_as_bucket_view),
        "static_graph": int(replica.static_graph),
        "has_sync_bn": int(any(isinstance(m, SyncBatchNorm) for m in module.modules())),
        "comm_hook": "" if hook is None else getattr(hook, "__qualname__", repr(hook)),
        "bucket_cap_bytes": replica.bucket_bytes_cap,
        "bucket_sizes": ", ".join(
            str(sum(size_of(p) for p in bucket.parameters)) for bucket in reducer.buckets
        ),
        "per_bucket_param_indices": ", ".join(
            " ".join(str(places[id(p)]) for p in bucket.parameters) for bucket in reducer.buckets
        ),
        "num_buckets_reduced": reducer.sent,
        "iteration": reducer.iterations,
        "master_addr": os.environ.get("MASTER_ADDR", NOT_KNOWN),
        "master_port": os.environ.get("MASTER_PORT", NOT_KNOWN),
        "cuda_visible_devices": os.environ.get("CUDA_VISIBLE_DEVICES", NOT_KNOWN),
        "torch_distributed_debug": os.environ.get("TORCH_DISTRIBUTED_DEBUG", NOT_KNOWN),
    }


def size_of(parameter: Any) -> int:
    """Bytes of a parameter."""
    return int(parameter.numel() * parameter.dtype.itemsize)
