"""What a report of an error should say of the machine: PyTorch's `torch.utils.collect_env`."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from importlib.metadata import distributions
from typing import NamedTuple

import adjoint
from adjoint.engine.core.state import config

# Packages that matter to programs like ours.
RELEVANT = ("adjoint", "cupy", "llvmlite", "ml-dtypes", "numpy", "onnx", "safetensors", "triton")
UNKNOWN = "Could not collect"


class SystemEnv(NamedTuple):
    """What is known of the machine; None where there is none of it."""

    torch_version: str
    is_debug_build: str
    cuda_compiled_version: str | None
    gcc_version: str | None
    clang_version: str | None
    cmake_version: str | None
    os: str
    libc_version: str
    python_version: str
    python_platform: str
    is_cuda_available: str
    nvidia_driver_version: str | None
    nvidia_gpu_models: str | None
    pip_packages: str
    cpu_info: str


def first_line(command: str, *args: str) -> str | None:
    """The first line that a program prints; None where it is missing or fails."""
    path = shutil.which(command)
    if path is None:
        return None
    try:
        done = subprocess.run(
            [path, *args], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = done.stdout.strip().splitlines()
    return lines[0] if done.returncode == 0 and lines else None


def get_pip_packages() -> str:
    """The installed packages that matter, one a line."""
    installed = {str(d.metadata["Name"]).lower(): d.version for d in distributions()}
    return "\n".join(f"{name}=={installed[name]}" for name in RELEVANT if name in installed)


def _version() -> str:
    version = str(adjoint.__version__)
    return f"{version} (by Adjoint)" if config.display_name == "torch" else version


def get_env_info() -> SystemEnv:
    """Look at the machine."""
    driver = first_line("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    gpu = first_line("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
    return SystemEnv(
        torch_version=_version(),
        is_debug_build="False",
        cuda_compiled_version=None,
        gcc_version=first_line("gcc", "--version"),
        clang_version=first_line("clang", "--version"),
        cmake_version=first_line("cmake", "--version"),
        os=f"{platform.system()} {platform.release()} ({platform.machine()})",
        libc_version="-".join(platform.libc_ver()) or UNKNOWN,
        python_version=sys.version.replace("\n", " "),
        python_platform=platform.platform(),
        is_cuda_available=str(adjoint.cuda.is_available()),
        nvidia_driver_version=driver,
        nvidia_gpu_models=gpu,
        pip_packages=get_pip_packages(),
        cpu_info=f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores",
    )


def pretty_str(env: SystemEnv) -> str:
    """A report as text."""
    titles = {
        "torch_version": "PyTorch version" if config.display_name == "torch" else "Version",
        "is_debug_build": "Is debug build",
        "cuda_compiled_version": "CUDA used to build",
        "os": "OS",
    }
    lines = []
    for name, value in env._asdict().items():
        title = titles.get(name, name.replace("_", " ").capitalize())
        shown = "N/A" if value is None else value
        lines.append(f"{title}:\n{shown}" if "\n" in shown else f"{title}: {shown}")
    return "\n".join(lines)


def get_pretty_env_info() -> str:
    """The report of this machine.

    >>> "Python version: " in get_pretty_env_info()
    True
    """
    return pretty_str(get_env_info())


def main() -> None:
    """Print the report of this machine: `python -m adjoint.utils.collect_env`."""
    print(f"Collecting environment information...\n{get_pretty_env_info()}")


if __name__ == "__main__":
    main()
