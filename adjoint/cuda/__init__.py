"""NVIDIA GPUs: `adjoint.cuda`. Works, and says so, where there is none."""

from __future__ import annotations

import sys
from typing import Any

from adjoint.cuda.random import get_rng_state as get_rng_state
from adjoint.cuda.random import get_rng_state_all as get_rng_state_all
from adjoint.cuda.random import initial_seed as initial_seed
from adjoint.cuda.random import manual_seed as manual_seed
from adjoint.cuda.random import manual_seed_all as manual_seed_all
from adjoint.cuda.random import seed as seed
from adjoint.cuda.random import seed_all as seed_all
from adjoint.cuda.random import set_rng_state as set_rng_state
from adjoint.cuda.random import set_rng_state_all as set_rng_state_all
from adjoint.cuda.state import init as init
from adjoint.cuda.state import ipc_collect as ipc_collect
from adjoint.cuda.state import is_bf16_supported as is_bf16_supported
from adjoint.cuda.state import is_initialized as is_initialized
from adjoint.cuda.state import max_memory_allocated as max_memory_allocated
from adjoint.cuda.state import max_memory_reserved as max_memory_reserved
from adjoint.cuda.state import reset_peak_memory_stats as reset_peak_memory_stats
from adjoint.engine.backends.array.cuda import Event as Event
from adjoint.engine.backends.array.cuda import Stream as Stream
from adjoint.engine.backends.array.cuda import current_device as current_device
from adjoint.engine.backends.array.cuda import current_stream as current_stream
from adjoint.engine.backends.array.cuda import device as device
from adjoint.engine.backends.array.cuda import device_count as device_count
from adjoint.engine.backends.array.cuda import empty_cache as empty_cache
from adjoint.engine.backends.array.cuda import get_device_capability as get_device_capability
from adjoint.engine.backends.array.cuda import get_device_name as get_device_name
from adjoint.engine.backends.array.cuda import get_device_properties as get_device_properties
from adjoint.engine.backends.array.cuda import is_available as is_available
from adjoint.engine.backends.array.cuda import mem_get_info as mem_get_info
from adjoint.engine.backends.array.cuda import memory_allocated as memory_allocated
from adjoint.engine.backends.array.cuda import memory_reserved as memory_reserved
from adjoint.engine.backends.array.cuda import memory_summary as memory_summary
from adjoint.engine.backends.array.cuda import set_device as set_device
from adjoint.engine.backends.array.cuda import stream as stream
from adjoint.engine.backends.array.cuda import synchronize as synchronize
from adjoint.engine.backends.array.tensor_types import tensor_kinds
from adjoint.engine.core.state import config
from adjoint.engine.core.state.loading import brought as _brought


def __getattr__(name: str) -> Any:
    if name == "amp":
        return _brought("adjoint.cuda.amp")
    if name == "_initialized":
        return is_initialized()
    kinds = tensor_kinds("cuda")
    if name in kinds:  # cuda.FloatTensor
        globals().update(kinds)
        return kinds[name]
    raise AttributeError(
        f"module '{config.display_name}.cuda' has no attribute {name!r}. If PyTorch has it, "
        "Adjoint does not yet.",
        name=name,
        obj=sys.modules[__name__],
    )
