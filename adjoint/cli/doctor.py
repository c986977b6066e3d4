"""`adjoint doctor`: whether everything works here, and what to do where it does not."""

from __future__ import annotations

import sys
from collections.abc import Callable

import adjoint as ad
from adjoint.cli.info import versions_of
from adjoint.distributed.engines import nccl
from adjoint.engine.backends.array.gpu import cuda
from adjoint.engine.backends.disk import store
from adjoint.engine.backends.threads import get_num_threads

OPTIONAL = {
    "tqdm": "progress bars",
    "matplotlib": "pictures of training: pip install adjoint[plot]",
    "PIL": "images other than PNG and netpbm: pip install pillow",
    "onnx": "ONNX both ways: pip install adjoint[onnx]",
    "mpi4py": "many processes: pip install adjoint[mpi]",
}


class Absent(Exception):
    """Something that is not there and need not be."""


def python() -> str:
    """Which Python this is."""
    return sys.version.split()[0]


def eager() -> str:
    """Whether an operation and its gradient come out right."""
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    (x * x).sum().backward()
    if x.grad.tolist() != [2.0, 4.0]:
        raise RuntimeError(f"the gradient of x*x at [1, 2] came out as {x.grad.tolist()}")
    return "operations and gradients"


def compiled() -> str:
    """Whether programs are compiled, and give what eager execution gives."""
    x = ad.linspace(-1, 1, 1000)
    program = ad.compile(lambda x: (x.exp() * 2).tanh().sum())
    if abs(float(program(x) - (x.exp() * 2).tanh().sum())) > 1e-2:
        raise RuntimeError("a compiled program gives another result than eager execution")
    return f"native code, {get_num_threads()} threads"


def cache() -> str:
    """Whether compiled code can be kept."""
    usage = store.default().usage()
    if usage.folder is None:
        raise RuntimeError(
            "no folder to keep compiled code in: each start compiles anew. Set ADJOINT_CACHE_DIR "
            "to a folder of yours that others cannot write to"
        )
    return f"{usage.folder}, {usage.entries} entries"


def gpu() -> str:
    """Whether there is a GPU, and NCCL for several; none is no fault."""
    try:
        cuda.index_of(None)
    except RuntimeError as error:
        reason = str(error).removeprefix("cuda: a CUDA device was asked for, but ")
        raise Absent(f"none can be used, the CPU works instead: {reason}") from error
    names = ", ".join(cuda.get_device_name(k) for k in range(cuda.device_count()))
    lacking = nccl.missing()
    return f"{names}; {'NCCL is there' if lacking is None else lacking}"


CHECKS: dict[str, Callable[[], str]] = {
    "python": python, "eager": eager, "compile": compiled, "cache": cache, "gpu": gpu,
}  # fmt: skip


def examine() -> int:
    """Look at everything; status 1 where something that is needed does not work."""
    faults = 0
    for name, check in CHECKS.items():
        try:
            print(f"ok       {name:<12}{check()}")
        except Absent as lack:
            print(f"absent   {name:<12}{' '.join(str(lack).split())}")
        except Exception as error:
            faults += 1
            print(f"PROBLEM  {name:<12}{' '.join(str(error).split())}")
    for library, version in versions_of(OPTIONAL).items():
        if version is None:
            print(f"absent   {library:<12}{OPTIONAL[library]}")
    print("all is well" if not faults else f"{faults} problems")
    return 1 if faults else 0
