"""Putting the layers together: which modules load at import, which on first use.

Importing an operation module fills the public table; importing its array kernels fills the eager
table. The families below load at once; the lazy ones when a name is asked for that is not there.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from typing import Any

from adjoint.core import config, layout
from adjoint.core import dtype as dt
from adjoint.core.public import PUBLIC
from adjoint.core.record import HOOKS
from adjoint.tensor.install import install
from adjoint.tensor.tensor import Tensor

EAGER = (
    "adjoint.ops.elementwise",
    "adjoint.ops.convert",
    "adjoint.ops.views",
    "adjoint.ops.dims",
    "adjoint.ops.select",
    "adjoint.ops.strided",
    "adjoint.ops.reinterpret",
    "adjoint.ops.split",
    "adjoint.ops.join",
    "adjoint.ops.rearrange",
    "adjoint.ops.triangular",
    "adjoint.ops.pad",
    "adjoint.ops.metadata",
    "adjoint.ops.reduction",
    "adjoint.ops.scan",
    "adjoint.ops.product",
    "adjoint.ops.extremes",
    "adjoint.ops.statistics",
    "adjoint.ops.norms",
    "adjoint.ops.sort",
    "adjoint.ops.matmul",
    "adjoint.ops.products",
    "adjoint.ops.linear",
    "adjoint.ops.einsum",
    "adjoint.ops.index",
    "adjoint.ops.gather",
    "adjoint.ops.scatter",
    "adjoint.ops.selection",
    "adjoint.ops.nonzero",
    "adjoint.ops.creation",
    "adjoint.ops.ranges",
    "adjoint.ops.softmax",
    "adjoint.ops.random",
    "adjoint.ops.samplers",
    "adjoint.ops.counts",
    "adjoint.core.placement",
    "adjoint.tensor.info",
    "adjoint.tensor.typing_rules",
    "adjoint.tensor.memory",
    "adjoint.tensor.out",
    "adjoint.autodiff.flags",
    "adjoint.tensor.item",
    "adjoint.tensor.filling",
    "adjoint.autodiff.hooks",
    "adjoint.autodiff.reverse",
    "adjoint.backends.array.allocator",
    "adjoint.backends.array.executor",
    "adjoint.backends.array.buffers",
    "adjoint.backends.array.interop",
    "adjoint.backends.array.tensor_types",
    "adjoint.backends.array.elementwise",
    "adjoint.backends.array.error_functions",
    "adjoint.backends.array.indexing",
    "adjoint.backends.array.reduction",
    "adjoint.backends.array.scan",
    "adjoint.backends.array.sort",
    "adjoint.backends.array.matmul",
    "adjoint.backends.array.random",
    "adjoint.backends.array.counts",
    "adjoint.backends.array.views",
    "adjoint.backends.array.copies",
    "adjoint.backends.array.creation",
)
# What networks need: loaded by the first name asked for in nn.functional.
NETWORKS: tuple[str, ...] = (
    "adjoint.ops.nn.attention",
    "adjoint.ops.nn.multi_head",
    "adjoint.ops.nn.recurrent",
    "adjoint.ops.conv",
    "adjoint.ops.grid",
    "adjoint.ops.pooling",
    "adjoint.ops.adaptive_pooling",
    "adjoint.ops.unpooling",
    "adjoint.ops.fold",
    "adjoint.ops.padding",
    "adjoint.ops.interpolate",
    "adjoint.ops.pixels",
    "adjoint.ops.nn.activations",
    "adjoint.ops.nn.channel_norm",
    "adjoint.ops.nn.classification",
    "adjoint.ops.nn.ctc",
    "adjoint.ops.nn.distances",
    "adjoint.ops.nn.dropout",
    "adjoint.ops.nn.embedding",
    "adjoint.ops.nn.grouped",
    "adjoint.ops.nn.margins",
    "adjoint.ops.nn.normalization",
    "adjoint.ops.nn.piecewise",
    "adjoint.ops.nn.regression",
    "adjoint.ops.nn.softmax",
    "adjoint.backends.array.checks",
    "adjoint.backends.array.convolution",
    "adjoint.backends.array.resample",
    "adjoint.backends.array.pooling",
    "adjoint.backends.array.fold",
    "adjoint.backends.array.gates",
)
LAZY: tuple[str, ...] = (
    *NETWORKS,
    "adjoint.ops.gamma",
    "adjoint.ops.gamma_samples",
    "adjoint.backends.array.gamma",
    "adjoint.backends.array.gamma_samples",
    "adjoint.ops.calculus",
    "adjoint.ops.covariance",
    "adjoint.ops.quantile",
    "adjoint.ops.search",
    "adjoint.ops.unique",
    "adjoint.ops.histogram",
    "adjoint.ops.hashing",
    "adjoint.ops.masked",
    "adjoint.backends.array.search",
    "adjoint.backends.array.histogram",
    "adjoint.ops.linalg.cholesky",
    "adjoint.ops.linalg.det",
    "adjoint.ops.linalg.eigen",
    "adjoint.ops.linalg.ldl",
    "adjoint.ops.linalg.lowrank",
    "adjoint.ops.linalg.lstsq",
    "adjoint.ops.linalg.lu",
    "adjoint.ops.linalg.norms",
    "adjoint.ops.linalg.powers",
    "adjoint.ops.linalg.qr",
    "adjoint.ops.linalg.solve",
    "adjoint.ops.linalg.svd",
    "adjoint.ops.fft",
    "adjoint.ops.frequencies",
    "adjoint.ops.spectral",
    "adjoint.ops.signal_windows",
    "adjoint.ops.windows",
    "adjoint.ops.special.aliases",
    "adjoint.ops.special.bessel",
    "adjoint.ops.special.gamma",
    "adjoint.ops.special.normal",
    "adjoint.ops.special.polynomials",
    "adjoint.backends.array.fft",
    "adjoint.backends.array.lapack",
    "adjoint.backends.array.linalg",
    "adjoint.backends.array.polynomials",
    "adjoint.backends.array.special",
    "adjoint.backends.array.sharing",
    "adjoint.sparse.creation",
    "adjoint.backends.array.sparse",
)
# Public submodules, imported by attribute: adjoint.linalg, adjoint.func, ...
SUBMODULES = (
    "_C",
    "_dynamo",
    "_higher_order_ops",
    "__config__",
    "accelerator",
    "amp",
    "autograd",
    "backends",
    "compiler",
    "cpu",
    "cuda",
    "data",
    "datasets",
    "distributed",
    "distributions",
    "fft",
    "func",
    "functional",
    "graph",
    "hub",
    "io",
    "jit",
    "linalg",
    "masked",
    "models",
    "metrics",
    "mps",
    "multiprocessing",
    "nn",
    "optim",
    "quasirandom",
    "random",
    "return_types",
    "serialization",
    "signal",
    "sparse",
    "special",
    "storage",
    "testing",
    "training",
    "types",
    "utils",
    "version",
    "vision",
    "xpu",
)

# Top-level names that are no operations, with the module that has them.
ELSEWHERE = {
    "autocast": "adjoint.amp.autocast_mode",
    "clear_autocast_cache": "adjoint.amp.autocast_mode",
    "get_autocast_cpu_dtype": "adjoint.amp.autocast_mode",
    "get_autocast_dtype": "adjoint.amp.autocast_mode",
    "get_autocast_gpu_dtype": "adjoint.amp.autocast_mode",
    "is_autocast_cache_enabled": "adjoint.amp.autocast_mode",
    "is_autocast_cpu_enabled": "adjoint.amp.autocast_mode",
    "is_autocast_enabled": "adjoint.amp.autocast_mode",
    "set_autocast_cache_enabled": "adjoint.amp.autocast_mode",
    "set_autocast_cpu_dtype": "adjoint.amp.autocast_mode",
    "set_autocast_cpu_enabled": "adjoint.amp.autocast_mode",
    "set_autocast_dtype": "adjoint.amp.autocast_mode",
    "set_autocast_enabled": "adjoint.amp.autocast_mode",
    "set_autocast_gpu_dtype": "adjoint.amp.autocast_mode",
    "get_float32_matmul_precision": "adjoint.core.precision",
    "set_float32_matmul_precision": "adjoint.core.precision",
    "are_deterministic_algorithms_enabled": "adjoint.core.determinism",
    "get_deterministic_debug_mode": "adjoint.core.determinism",
    "get_num_interop_threads": "adjoint.backends.threads",
    "get_num_threads": "adjoint.backends.threads",
    "is_deterministic_algorithms_warn_only_enabled": "adjoint.core.determinism",
    "set_deterministic_debug_mode": "adjoint.core.determinism",
    "set_num_interop_threads": "adjoint.backends.threads",
    "set_num_threads": "adjoint.backends.threads",
    "use_deterministic_algorithms": "adjoint.core.determinism",
    "compile": "adjoint.compiler.api",
    "mark_dynamic": "adjoint.graph.dynamic",
    "GradScaler": "adjoint.amp.grad_scaler",
    "GradientTape": "adjoint.autodiff.gradient_tape",
    "Graph": "adjoint.graph.graph",
    "Session": "adjoint.graph.session",
    "placeholder": "adjoint.graph.graph",
    "associative_scan": "adjoint.graph.flow.associative",
    "cond": "adjoint.graph.flow.cond",
    "scan": "adjoint.graph.flow.scan",
    "while_loop": "adjoint.graph.flow.while_loop",
    "TypedStorage": "adjoint.tensor.memory",
    "UntypedStorage": "adjoint.tensor.memory",
    "is_storage": "adjoint.tensor.memory",
    "is_warn_always_enabled": "adjoint.core.config",
    "set_warn_always": "adjoint.core.config",
    "set_default_tensor_type": "adjoint.backends.array.tensor_types",
    "set_flush_denormal": "adjoint.backends.threads",
    "typename": "adjoint.tensor.typing_rules",
    "load": "adjoint.io.files",
    "save": "adjoint.io.files",
    "is_anomaly_check_nan_enabled": "adjoint.autodiff.anomaly",
    "is_anomaly_enabled": "adjoint.autodiff.anomaly",
    "vmap": "adjoint.autodiff.batching",
}

# In-place methods that are also functions in PyTorch (`relu_(x)`).
INPLACE_FUNCTIONS = frozenset(
    """
    abs_ acos_ acosh_ addmv_ arccos_ arccosh_ arcsin_ arcsinh_ arctan_ arctanh_ as_strided_ asin_
    asinh_ atan_ atanh_ ceil_ clamp_ clamp_max_ clamp_min_ clip_ conj_physical_ cos_ cosh_ deg2rad_
    detach_ erf_ erfc_ exp2_ exp_ expm1_ fill_ fix_ floor_ frac_ gcd_ i0_ index_put_ lcm_ ldexp_
    log10_ log1p_ log2_ log_ logit_ nan_to_num_ neg_ negative_ rad2deg_ reciprocal_ relu_ resize_as_
    round_ rsqrt_ sigmoid_ sin_ sinc_ sinh_ sqrt_ square_ tan_ tanh_ trunc_ xlogy_ zero_
    """.split()
)

for _name in EAGER:
    importlib.import_module(_name)
install(Tensor)
_loaded = False


def top_level() -> dict[str, Any]:
    """The names of the top namespace that are there at once."""
    names: dict[str, Any] = {d.name: d for d in dt.DTYPES}
    names |= dt.ALIASES | layout.CONSTANTS
    names |= {"layout": layout.Layout, "memory_format": layout.MemoryFormat}
    names |= {name: p.fn for (space, name), p in PUBLIC.items() if space == ""}
    return names


def load_lazy() -> None:
    """Import the families that wait for first use."""
    global _loaded
    if not _loaded:
        _loaded = True
        for name in LAZY:
            importlib.import_module(name)
        install(Tensor)


HOOKS.load_rest = load_lazy


def load_sparse() -> Any:
    """Sparse tensors, which few programs have."""
    importlib.import_module("adjoint.backends.array.sparse")
    return HOOKS.sparse


HOOKS.load_sparse = load_sparse


def load_networks() -> None:
    """Import the families behind nn.functional, without the rest of those that wait."""
    for name in NETWORKS:
        importlib.import_module(name)
    install(Tensor)


def find_method(cls: type[Tensor], name: str) -> Any:
    """A method or property that was not on the class at import."""
    if not name.startswith("_") and not _loaded:
        load_lazy()
        found = inspect.getattr_static(cls, name, None)
        if found is not None:
            return found
    raise AttributeError(
        f"'Tensor' object has no attribute {name!r}. If PyTorch has it, Adjoint does not yet.",
        name=name,
        obj=cls,
    )


HOOKS.find_method = find_method


def executor_named(name: str) -> Any:
    """The factory of executables that `compile(backend=name)` would use."""
    executors = importlib.import_module("adjoint.compiler.executors")
    return executors.factory_for(name, "default", {})


HOOKS.executor = executor_named


def find(name: str) -> Any:
    """A top-level name that was not there at import."""
    if name in SUBMODULES:
        return importlib.import_module(f"adjoint.{name}")
    if name in ELSEWHERE:
        return getattr(importlib.import_module(ELSEWHERE[name]), name)
    if name.startswith("_foreach_"):
        found = importlib.import_module("adjoint.backends.array.foreach").find(name)
        if found is not None:
            return found
    if not name.startswith("__"):
        load_lazy()
        if ("", name) in PUBLIC:
            return PUBLIC["", name].fn
        if name in INPLACE_FUNCTIONS:
            return getattr(Tensor, name)
    raise AttributeError(
        f"module {config.display_name!r} has no attribute {name!r}. If PyTorch has it, Adjoint "
        "does not yet.",
        name=name,
        obj=sys.modules["adjoint"],
    )


def all_names() -> set[str]:
    """Every public name, lazy ones included."""
    load_lazy()
    return {name for space, name in PUBLIC if space == ""} | {*SUBMODULES, *ELSEWHERE}


def find_in(space: str, name: str) -> Any:
    """A function of a namespace such as "nn.functional", loading lazy families if need be."""
    for load in (load_networks, load_lazy):
        if (space, name) not in PUBLIC:
            load()
    if (space, name) in PUBLIC:
        return PUBLIC[space, name].fn
    raise AttributeError(
        f"module '{config.display_name}.{space}' has no attribute {name!r}. If PyTorch has it, "
        "Adjoint does not yet.",
        name=name,
        obj=sys.modules[f"adjoint.{space}"],
    )


def namespace(space: str) -> dict[str, Any]:
    """The functions of a namespace such as "linalg"."""
    load_lazy()
    return {name: p.fn for (s, name), p in PUBLIC.items() if s == space}
