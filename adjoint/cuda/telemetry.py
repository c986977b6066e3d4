"""What the driver measures of a GPU: load, heat, power, who uses it (NVML)."""

from __future__ import annotations

import importlib
from typing import Any

from adjoint.engine.backends.array.gpu.cuda import get_device_properties, index_of


def _handle(device: Any) -> tuple[Any, Any]:
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        raise ModuleNotFoundError(
            "nvidia-ml-py does not seem to be installed or it can't be imported: "
            "pip install nvidia-ml-py"
        ) from None
    identity = get_device_properties(index_of(device)).uuid
    nvml.nvmlInit()
    return nvml, nvml.nvmlDeviceGetHandleByUUID(f"GPU-{identity}".encode())


def utilization(device: Any = None) -> int:
    """Percent of the last moments in which the GPU had work."""
    nvml, handle = _handle(device)
    return int(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)


def memory_usage(device: Any = None) -> int:
    """Percent of the last moments in which its memory was read or written."""
    nvml, handle = _handle(device)
    return int(nvml.nvmlDeviceGetUtilizationRates(handle).memory)


def device_memory_used(device: Any = None) -> int:
    """Bytes that all processes together hold on it."""
    nvml, handle = _handle(device)
    return int(nvml.nvmlDeviceGetMemoryInfo(handle).used)


def temperature(device: Any = None) -> int:
    """Degrees Celsius."""
    nvml, handle = _handle(device)
    return int(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))


def power_draw(device: Any = None) -> int:
    """Milliwatts."""
    nvml, handle = _handle(device)
    return int(nvml.nvmlDeviceGetPowerUsage(handle))


def clock_rate(device: Any = None) -> int:
    """Megahertz of its processors."""
    nvml, handle = _handle(device)
    return int(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM))


def list_gpu_processes(device: Any = None) -> str:
    """The processes that use a GPU, and how much of its memory each has."""
    nvml, handle = _handle(device)
    running = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
    lines = [f"GPU:{index_of(device)}"]
    for process in running:
        used = (process.usedGpuMemory or 0) / (1 << 20)
        lines.append(f"process {process.pid:>10d} uses {used:>12.3f} MB GPU memory")
    return "\n".join(lines if running else [*lines, "no processes are running"])
