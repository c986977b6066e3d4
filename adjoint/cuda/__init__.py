"""NVIDIA GPUs. The module can be imported, and asked what there is, on machines without one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from adjoint.cuda.memory import CUDAPluggableAllocator as CUDAPluggableAllocator
from adjoint.cuda.memory import MemPool as MemPool
from adjoint.cuda.memory import caching_allocator_alloc as caching_allocator_alloc
from adjoint.cuda.memory import caching_allocator_delete as caching_allocator_delete
from adjoint.cuda.memory import caching_allocator_disabled as caching_allocator_disabled
from adjoint.cuda.memory import caching_allocator_enable as caching_allocator_enable
from adjoint.cuda.memory import change_current_allocator as change_current_allocator
from adjoint.cuda.memory import empty_cache as empty_cache
from adjoint.cuda.memory import get_allocator_backend as get_allocator_backend
from adjoint.cuda.memory import get_per_process_memory_fraction as get_per_process_memory_fraction
from adjoint.cuda.memory import host_memory_stats as host_memory_stats
from adjoint.cuda.memory import host_memory_stats_as_nested_dict as host_memory_stats_as_nested_dict
from adjoint.cuda.memory import max_memory_allocated as max_memory_allocated
from adjoint.cuda.memory import max_memory_cached as max_memory_cached
from adjoint.cuda.memory import max_memory_reserved as max_memory_reserved
from adjoint.cuda.memory import memory_allocated as memory_allocated
from adjoint.cuda.memory import memory_cached as memory_cached
from adjoint.cuda.memory import memory_reserved as memory_reserved
from adjoint.cuda.memory import memory_snapshot as memory_snapshot
from adjoint.cuda.memory import memory_stats as memory_stats
from adjoint.cuda.memory import memory_stats_as_nested_dict as memory_stats_as_nested_dict
from adjoint.cuda.memory import memory_summary as memory_summary
from adjoint.cuda.memory import (
    reset_accumulated_host_memory_stats as reset_accumulated_host_memory_stats,
)
from adjoint.cuda.memory import reset_accumulated_memory_stats as reset_accumulated_memory_stats
from adjoint.cuda.memory import reset_max_memory_allocated as reset_max_memory_allocated
from adjoint.cuda.memory import reset_max_memory_cached as reset_max_memory_cached
from adjoint.cuda.memory import reset_peak_host_memory_stats as reset_peak_host_memory_stats
from adjoint.cuda.memory import reset_peak_memory_stats as reset_peak_memory_stats
from adjoint.cuda.memory import set_per_process_memory_fraction as set_per_process_memory_fraction
from adjoint.cuda.memory import use_mem_pool as use_mem_pool
from adjoint.cuda.random import get_rng_state as get_rng_state
from adjoint.cuda.random import get_rng_state_all as get_rng_state_all
from adjoint.cuda.random import initial_seed as initial_seed
from adjoint.cuda.random import manual_seed as manual_seed
from adjoint.cuda.random import manual_seed_all as manual_seed_all
from adjoint.cuda.random import seed as seed
from adjoint.cuda.random import seed_all as seed_all
from adjoint.cuda.random import set_rng_state as set_rng_state
from adjoint.cuda.random import set_rng_state_all as set_rng_state_all
from adjoint.cuda.state import CudaError as CudaError
from adjoint.cuda.state import DeferredCudaCallError as DeferredCudaCallError
from adjoint.cuda.state import _get_device_index as _get_device_index
from adjoint.cuda.state import _lazy_call as _lazy_call
from adjoint.cuda.state import _lazy_init as _lazy_init
from adjoint.cuda.state import _sleep as _sleep
from adjoint.cuda.state import check_error as check_error
from adjoint.cuda.state import cudart as cudart
from adjoint.cuda.state import cudaStatus as cudaStatus
from adjoint.cuda.state import current_blas_handle as current_blas_handle
from adjoint.cuda.state import current_solver_handle as current_solver_handle
from adjoint.cuda.state import get_arch_list as get_arch_list
from adjoint.cuda.state import get_gencode_flags as get_gencode_flags
from adjoint.cuda.state import get_sync_debug_mode as get_sync_debug_mode
from adjoint.cuda.state import init as init
from adjoint.cuda.state import ipc_collect as ipc_collect
from adjoint.cuda.state import is_bf16_supported as is_bf16_supported
from adjoint.cuda.state import is_initialized as is_initialized
from adjoint.cuda.state import is_tf32_supported as is_tf32_supported
from adjoint.cuda.state import set_sync_debug_mode as set_sync_debug_mode
from adjoint.cuda.telemetry import clock_rate as clock_rate
from adjoint.cuda.telemetry import device_memory_used as device_memory_used
from adjoint.cuda.telemetry import list_gpu_processes as list_gpu_processes
from adjoint.cuda.telemetry import memory_usage as memory_usage
from adjoint.cuda.telemetry import power_draw as power_draw
from adjoint.cuda.telemetry import temperature as temperature
from adjoint.cuda.telemetry import utilization as utilization
from adjoint.engine.backends.array.gpu.cuda import can_device_access_peer as can_device_access_peer
from adjoint.engine.backends.array.gpu.cuda import current_device as current_device
from adjoint.engine.backends.array.gpu.cuda import device as device
from adjoint.engine.backends.array.gpu.cuda import device_count as device_count
from adjoint.engine.backends.array.gpu.cuda import device_of as device_of
from adjoint.engine.backends.array.gpu.cuda import get_device_capability as get_device_capability
from adjoint.engine.backends.array.gpu.cuda import get_device_name as get_device_name
from adjoint.engine.backends.array.gpu.cuda import get_device_properties as get_device_properties
from adjoint.engine.backends.array.gpu.cuda import is_available as is_available
from adjoint.engine.backends.array.gpu.cuda import mem_get_info as mem_get_info
from adjoint.engine.backends.array.gpu.cuda import set_device as set_device
from adjoint.engine.backends.array.gpu.cuda import synchronize as synchronize
from adjoint.engine.backends.array.gpu.streams import Event as Event
from adjoint.engine.backends.array.gpu.streams import ExternalStream as ExternalStream
from adjoint.engine.backends.array.gpu.streams import Stream as Stream
from adjoint.engine.backends.array.gpu.streams import StreamContext as StreamContext
from adjoint.engine.backends.array.gpu.streams import current_stream as current_stream
from adjoint.engine.backends.array.gpu.streams import default_stream as default_stream
from adjoint.engine.backends.array.gpu.streams import (
    get_stream_from_external as get_stream_from_external,
)
from adjoint.engine.backends.array.gpu.streams import (
    is_current_stream_capturing as is_current_stream_capturing,
)
from adjoint.engine.backends.array.gpu.streams import set_stream as set_stream
from adjoint.engine.backends.array.gpu.streams import stream as stream
from adjoint.engine.backends.array.tensor_types import tensor_kinds
from adjoint.engine.core.device import Device
from adjoint.engine.core.errors import OutOfMemoryError as OutOfMemoryError
from adjoint.engine.core.state.loading import brought as _brought
from adjoint.engine.core.state.loading import lacking as _lacking
from adjoint.engine.core.state.rng import default_generator_of
from adjoint.engine.tensor.memory import TypedStorage as _TypedStorage
from adjoint.unavailable import fill as _fill
from adjoint.unavailable import module as _placeholder

# Loaded when first asked for.
MODULES = ("amp", "comm", "graphs", "nccl", "nvtx", "profiler")
GRAPHS = ("CUDAGraph", "graph", "graph_pool_handle", "make_graphed_callables")
STORAGES = (
    "BFloat16", "Bool", "Byte", "Char", "ComplexDouble", "ComplexFloat", "Double", "Float", "Half",
    "Int", "Long", "Short",
)  # fmt: skip

# Values that programs read.
ANSWERS: dict[str, Callable[[], Any]] = {
    "_initialized": is_initialized,
    "has_half": lambda: True,
    "has_magma": lambda: False,  # linear algebra is cuSOLVER's
    "default_generators": lambda: tuple(
        default_generator_of(Device("cuda", i)) for i in range(device_count())
    ),
}


def __getattr__(name: str) -> Any:
    if name in MODULES:
        return _brought(f"adjoint.cuda.{name}")
    if name in GRAPHS:
        return getattr(_brought("adjoint.cuda.graphs"), name)
    if name in ANSWERS:
        return ANSWERS[name]()
    if name == "streams":
        return _brought("adjoint.engine.backends.array.gpu.streams")
    if name.removesuffix("Storage") in STORAGES and name.endswith("Storage"):
        return _TypedStorage
    kinds = tensor_kinds("cuda")
    if name in kinds:  # cuda.FloatTensor
        globals().update(kinds)
        return kinds[name]
    absent = _placeholder(f"adjoint.cuda.{name}")
    if absent is not None:
        return absent
    _fill(sys.modules[__name__], name)
    if name in globals():
        return globals()[name]
    raise _lacking(__name__, name)
