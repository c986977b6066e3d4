"""Putting the layers together: which modules load at import, which on first use.

Importing an operation module fills the public table; importing its array kernels fills the eager
table. The families below load at once; the lazy ones when a name is asked for that is not there.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from adjoint.engine.core import dtype as dt
from adjoint.engine.core import layout
from adjoint.engine.core.availability import absent
from adjoint.engine.core.operations.public import PUBLIC
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state import stand_ins
from adjoint.engine.core.state.loading import bring, brought, lacking
from adjoint.engine.older_names import INPLACE_FUNCTIONS, OLDER
from adjoint.engine.tensor.install import install
from adjoint.engine.tensor.methods import TensorMethods
from adjoint.engine.tensor.tensor import AwaitedMethod, Tensor

EAGER = (
    "adjoint.engine.ops.elementwise.records",
    "adjoint.engine.ops.shape.convert",
    "adjoint.engine.ops.shape.views",
    "adjoint.engine.ops.shape.dims",
    "adjoint.engine.ops.shape.select",
    "adjoint.engine.ops.shape.frames",
    "adjoint.engine.ops.shape.strided",
    "adjoint.engine.ops.shape.reinterpret",
    "adjoint.engine.ops.shape.split",
    "adjoint.engine.ops.shape.join",
    "adjoint.engine.ops.shape.rearrange",
    "adjoint.engine.ops.shape.triangular",
    "adjoint.engine.ops.shape.pad",
    "adjoint.engine.ops.shape.metadata",
    "adjoint.engine.ops.reduce.reduction",
    "adjoint.engine.ops.reduce.scan",
    "adjoint.engine.ops.reduce.product",
    "adjoint.engine.ops.reduce.extremes",
    "adjoint.engine.ops.reduce.statistics",
    "adjoint.engine.ops.reduce.norms",
    "adjoint.engine.ops.order.sort",
    "adjoint.engine.ops.products.matmul",
    "adjoint.engine.ops.products.derived_products",
    "adjoint.engine.ops.products.linear",
    "adjoint.engine.ops.products.einsum",
    "adjoint.engine.ops.index.index",
    "adjoint.engine.ops.index.gather",
    "adjoint.engine.ops.index.scatter",
    "adjoint.engine.ops.index.whole_slices",
    "adjoint.engine.ops.index.nonzero",
    "adjoint.engine.ops.create.creation",
    "adjoint.engine.ops.create.ranges",
    "adjoint.engine.ops.reduce.softmax",
    "adjoint.engine.ops.random.random",
    "adjoint.engine.ops.random.samplers",
    "adjoint.engine.ops.random.tensor_parameters",
    "adjoint.engine.core.state.placement",
    "adjoint.engine.tensor.reading.info",
    "adjoint.engine.tensor.typing_rules",
    "adjoint.engine.tensor.memory",
    "adjoint.engine.tensor.identity",
    "adjoint.engine.tensor.writing.out",
    "adjoint.engine.tensor.overriding",
    "adjoint.engine.autodiff.tape.flags",
    "adjoint.engine.tensor.reading.item",
    "adjoint.engine.tensor.writing.filling",
    "adjoint.engine.autodiff.tape.hooks",
    "adjoint.engine.autodiff.tape.reverse",
    "adjoint.engine.backends.array.memory.allocator",
    "adjoint.engine.backends.array.executor",
    "adjoint.engine.backends.array.beneath",
    "adjoint.engine.backends.array.in_place",
    "adjoint.engine.backends.array.libraries.steps",
    "adjoint.engine.backends.array.view_chains",
    "adjoint.engine.backends.array.buffers",
    "adjoint.engine.backends.array.interop",
    "adjoint.engine.backends.array.handing_out",
    "adjoint.engine.backends.array.tensor_types",
    "adjoint.engine.backends.array.kernels.elementwise.kernels",
    "adjoint.engine.backends.array.kernels.elementwise.error_functions",
    "adjoint.engine.backends.array.kernels.index.indexing",
    "adjoint.engine.backends.array.kernels.reduce.reduction",
    "adjoint.engine.backends.array.kernels.reduce.scan",
    "adjoint.engine.backends.array.kernels.order.sort",
    "adjoint.engine.backends.array.kernels.products.matmul",
    "adjoint.engine.backends.array.kernels.random.random",
    "adjoint.engine.backends.array.kernels.random.tensor_parameters",
    "adjoint.engine.backends.array.kernels.shape.views",
    "adjoint.engine.backends.array.kernels.shape.copies",
    "adjoint.engine.backends.array.kernels.create.creation",
)
# What networks need: loaded by the first name asked for in nn.functional.
NETWORKS: tuple[str, ...] = (
    "adjoint.engine.ops.nn.attention",
    "adjoint.engine.ops.nn.multi_head",
    "adjoint.engine.ops.nn.recurrent",
    "adjoint.engine.ops.nn.recurrent_networks",
    "adjoint.engine.ops.image.biased_convolution",
    "adjoint.engine.ops.image.convolution_functions",
    "adjoint.engine.ops.image.grid",
    "adjoint.engine.ops.image.pooling",
    "adjoint.engine.ops.image.adaptive_pooling",
    "adjoint.engine.ops.image.unpooling",
    "adjoint.engine.ops.image.fold",
    "adjoint.engine.ops.image.pad_modes",
    "adjoint.engine.ops.image.interpolate",
    "adjoint.engine.ops.image.pixels",
    "adjoint.engine.ops.nn.activations",
    "adjoint.engine.ops.nn.channel_norm",
    "adjoint.engine.ops.nn.losses.binary_cross_entropy",
    "adjoint.engine.ops.nn.losses.classification",
    "adjoint.engine.ops.nn.losses.ctc",
    "adjoint.engine.ops.nn.distances",
    "adjoint.engine.ops.nn.dropout",
    "adjoint.engine.ops.nn.embedding",
    "adjoint.engine.ops.nn.grouped",
    "adjoint.engine.ops.nn.losses.margins",
    "adjoint.engine.ops.nn.normalization",
    "adjoint.engine.ops.nn.piecewise",
    "adjoint.engine.ops.nn.losses.regression",
    "adjoint.engine.ops.nn.softmax_functions",
    "adjoint.engine.backends.array.kernels.checks",
    "adjoint.engine.backends.array.kernels.image.convolution",
    "adjoint.engine.backends.array.kernels.image.resample",
    "adjoint.engine.backends.array.kernels.image.pooling",
    "adjoint.engine.backends.array.kernels.image.fold",
    "adjoint.engine.backends.array.kernels.image.grid",
    "adjoint.engine.backends.array.kernels.nn.bags",
    "adjoint.engine.backends.array.kernels.nn.gates",
    "adjoint.engine.backends.array.kernels.nn.ctc",
    "adjoint.engine.backends.array.kernels.nn.recurrent",
)
LAZY: tuple[str, ...] = (
    *NETWORKS,
    "adjoint.engine.ops.special.gamma_family",
    "adjoint.engine.ops.random.gamma_samples",
    "adjoint.engine.backends.array.kernels.special.gamma",
    "adjoint.engine.backends.array.kernels.random.gamma_samples",
    "adjoint.engine.ops.reduce.calculus",
    "adjoint.engine.ops.reduce.covariance",
    "adjoint.engine.ops.reduce.quantile",
    "adjoint.engine.ops.order.search",
    "adjoint.engine.ops.order.unique",
    "adjoint.engine.ops.order.histogram",
    "adjoint.engine.ops.order.hashing",
    "adjoint.engine.ops.reduce.masked",
    "adjoint.engine.ops.reduce.segments",
    "adjoint.engine.ops.shape.view_copies",
    "adjoint.engine.backends.array.kernels.order.search",
    "adjoint.engine.backends.array.kernels.order.histogram",
    "adjoint.engine.ops.linalg.cholesky",
    "adjoint.engine.ops.linalg.det",
    "adjoint.engine.ops.linalg.eigen",
    "adjoint.engine.ops.linalg.ldl",
    "adjoint.engine.ops.linalg.lowrank",
    "adjoint.engine.ops.linalg.lstsq",
    "adjoint.engine.ops.linalg.lu",
    "adjoint.engine.ops.linalg.norms",
    "adjoint.engine.ops.linalg.powers",
    "adjoint.engine.ops.linalg.qr",
    "adjoint.engine.ops.linalg.solve",
    "adjoint.engine.ops.linalg.svd",
    "adjoint.engine.ops.linalg.systems",
    "adjoint.engine.ops.signal.fft",
    "adjoint.engine.ops.signal.frequencies",
    "adjoint.engine.ops.signal.spectral",
    "adjoint.engine.ops.signal.signal_windows",
    "adjoint.engine.ops.signal.windows",
    "adjoint.engine.ops.special.aliases",
    "adjoint.engine.ops.special.bessel",
    "adjoint.engine.ops.special.zeta",
    "adjoint.engine.ops.special.normal",
    "adjoint.engine.ops.special.polynomials",
    "adjoint.engine.backends.array.kernels.signal.fft",
    "adjoint.engine.backends.array.kernels.linalg.lapack",
    "adjoint.engine.backends.array.kernels.linalg.linalg",
    "adjoint.engine.backends.array.kernels.linalg.pairs",
    "adjoint.engine.backends.array.kernels.special.polynomials",
    "adjoint.engine.backends.array.kernels.special.special",
    "adjoint.engine.backends.array.memory.sharing",
    "adjoint.engine.sparse.creation",
    "adjoint.engine.sparse.compressed_creation",
    "adjoint.engine.backends.array.kernels.sparse",
    "adjoint.engine.ops.quantized.affine",
    "adjoint.engine.ops.quantized.convolution",
    "adjoint.engine.ops.quantized.products",
    "adjoint.engine.ops.quantized.scaled",
    "adjoint.engine.backends.array.kernels.quantized.products",
)
WAITING = frozenset(LAZY) - {*NETWORKS}
# Methods that those bring: a tensor asked for another name that it has not loads nothing.
LATE_METHODS = frozenset(
    """
    bincount ccol_indices cholesky cholesky_inverse cholesky_solve coalesce col_indices corrcoef
    cov crow_indices dense_dim det diff digamma digamma_ geqrf hash_tensor histc histogram i0 i0_
    igamma igamma_ igammac igammac_ indices inverse is_coalesced is_shared istft lgamma lgamma_
    logdet lu lu_solve matrix_exp matrix_power mvlgamma mvlgamma_ nanquantile orgqr ormqr
    pinverse polygamma polygamma_ qr quantile row_indices share_memory_ slogdet sparse_dim
    sparse_mask stft svd to_sparse to_sparse_bsc to_sparse_bsr to_sparse_coo to_sparse_csc
    to_sparse_csr triangular_solve unique unique_consecutive values
    """.split()
)
# Public submodules, imported by attribute: adjoint.linalg, adjoint.func, ...
SUBMODULES = (
    "_C",
    "_dynamo",
    "_functorch",
    "_subclasses",
    "_utils",
    "_higher_order_ops",
    "__config__",
    "__future__",
    "accelerator",
    "amp",
    "ao",
    "autograd",
    "backends",
    "compiler",
    "cpu",
    "cuda",
    "data",
    "datasets",
    "distributed",
    "distributions",
    "debug",
    "errors",
    "export",
    "fft",
    "func",
    "futures",
    "functional",
    "fx",
    "graph",
    "hub",
    "io",
    "jit",
    "library",
    "linalg",
    "masked",
    "models",
    "metrics",
    "multiprocessing",
    "nested",
    "nn",
    "onnx",
    "ops",
    "optim",
    "overrides",
    "profiler",
    "quantization",
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
)

# Top-level names that are no operations, with the module that has them.
ELSEWHERE = {
    "_assert": "adjoint.checks",
    "_assert_async": "adjoint.checks",
    "_check": "adjoint.checks",
    "_check_index": "adjoint.checks",
    "_check_is_size": "adjoint.checks",
    "_check_not_implemented": "adjoint.checks",
    "_check_tensor_all": "adjoint.checks",
    "_check_type": "adjoint.checks",
    "_check_tensor_all_with": "adjoint.checks",
    "_check_value": "adjoint.checks",
    "_check_with": "adjoint.checks",
    "_convert_indices_from_coo_to_csr": "adjoint.engine.sparse.compressed",
    "_convert_indices_from_csr_to_coo": "adjoint.engine.sparse.compressed",
    "_disable_dynamo": "adjoint.compiler",
    "_has_compatible_shallow_copy_type": "adjoint.checks",
    "Future": "adjoint.futures",
    "Tag": "adjoint.library.tags",
    "OutOfMemoryError": "adjoint.checks",
    "AcceleratorError": "adjoint.checks",
    "SymBool": "adjoint.checks",
    "SymFloat": "adjoint.checks",
    "SymInt": "adjoint.checks",
    "sym_float": "adjoint.checks",
    "sym_int": "adjoint.checks",
    "sym_ite": "adjoint.checks",
    "sym_max": "adjoint.checks",
    "sym_min": "adjoint.checks",
    "sym_not": "adjoint.checks",
    "sym_sum": "adjoint.checks",
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
    "get_float32_matmul_precision": "adjoint.engine.core.state.precision",
    "set_float32_matmul_precision": "adjoint.engine.core.state.precision",
    "are_deterministic_algorithms_enabled": "adjoint.engine.core.state.determinism",
    "get_deterministic_debug_mode": "adjoint.engine.core.state.determinism",
    "get_num_interop_threads": "adjoint.engine.backends.threads",
    "get_num_threads": "adjoint.engine.backends.threads",
    "is_deterministic_algorithms_warn_only_enabled": "adjoint.engine.core.state.determinism",
    "set_deterministic_debug_mode": "adjoint.engine.core.state.determinism",
    "set_num_interop_threads": "adjoint.engine.backends.threads",
    "set_num_threads": "adjoint.engine.backends.threads",
    "use_deterministic_algorithms": "adjoint.engine.core.state.determinism",
    "compile": "adjoint.engine.compiler.api",
    "lobpcg": "adjoint._lobpcg",
    "mark_dynamic": "adjoint.engine.capture.dynamic.marks",
    "GradScaler": "adjoint.amp.grad_scaler",
    "GradientTape": "adjoint.engine.autodiff.tape.gradient_tape",
    "Graph": "adjoint.engine.graph.session.graph",
    "Session": "adjoint.engine.graph.session.session",
    "placeholder": "adjoint.engine.graph.session.graph",
    "associative_scan": "adjoint.engine.graph.flow.associative",
    "cond": "adjoint.engine.graph.flow.cond",
    "scan": "adjoint.engine.graph.flow.scan",
    "while_loop": "adjoint.engine.graph.flow.while_loop",
    "TypedStorage": "adjoint.engine.tensor.memory",
    "UntypedStorage": "adjoint.engine.tensor.memory",
    "is_storage": "adjoint.engine.tensor.memory",
    "is_warn_always_enabled": "adjoint.engine.core.state.switches",
    "set_warn_always": "adjoint.engine.core.state.switches",
    "set_default_tensor_type": "adjoint.engine.backends.array.tensor_types",
    "set_flush_denormal": "adjoint.engine.backends.threads",
    "PyTorchFileReader": "adjoint._C",
    "ScriptModule": "adjoint.jit.modules",
    "StorageBase": "adjoint.engine.tensor.memory",
    "get_device_module": "adjoint.accelerator",
    "set_vital": "adjoint._utils",
    "Event": "adjoint.cuda",
    "Stream": "adjoint.cuda",
    "TensorType": "adjoint.engine.tensor.tensor",
    "DeviceObjType": "adjoint.types",
    "typename": "adjoint.engine.tensor.typing_rules",
    "dequantize": "adjoint.quantization.tensor",
    "quantized_batch_norm": "adjoint.quantization.pooling",
    "quantized_max_pool1d": "adjoint.quantization.pooling",
    "quantized_max_pool2d": "adjoint.quantization.pooling",
    "quantize_per_channel": "adjoint.quantization.tensor",
    "quantize_per_tensor": "adjoint.quantization.tensor",
    "quantize_per_tensor_dynamic": "adjoint.quantization.tensor",
    "per_channel_affine": "adjoint.quantization.schemes",
    "per_channel_affine_float_qparams": "adjoint.quantization.schemes",
    "per_channel_symmetric": "adjoint.quantization.schemes",
    "per_tensor_affine": "adjoint.quantization.schemes",
    "per_tensor_symmetric": "adjoint.quantization.schemes",
    "qscheme": "adjoint.quantization.schemes",
    "load": "adjoint.io.files",
    "save": "adjoint.io.files",
    "is_anomaly_check_nan_enabled": "adjoint.engine.autodiff.tape.anomaly",
    "is_anomaly_enabled": "adjoint.engine.autodiff.tape.anomaly",
    "vmap": "adjoint.engine.autodiff.transforms.batching",
    **dict.fromkeys(
        "_softmax _log_softmax _softmax_backward_data _log_softmax_backward_data native_dropout "
        "native_batch_norm native_group_norm native_layer_norm".split(),
        "adjoint.library.aten_names",
    ),
    **OLDER,
}

# Entered among the modules at once, so that `import adjoint.mps` finds them.
FACADES = {path: absent.facade(path) for path in absent.ABSENT if "." not in path}

bring(EAGER)
install(Tensor)


class _Done:
    """Which families have been loaded to the end; see Note [loading in threads].

    Only then is a name looked for: in the tables there may be names of modules that another thread
    is executing. No family may ask, while it is imported, for a name that loads later.
    """

    networks = False
    all = False


def top_level() -> dict[str, Any]:
    """The names of the top namespace that are there at once."""
    names: dict[str, Any] = {**dt.NAMED_ONLY}
    names |= {d.name: d for d in (*dt.DTYPES, *dt.STORAGE_DTYPES, *dt.QUANTIZED_DTYPES)}
    names |= dt.ALIASES | layout.CONSTANTS
    names |= {"layout": layout.Layout, "memory_format": layout.MemoryFormat}
    names |= {name: p.fn for (space, name), p in PUBLIC.items() if space == ""}
    return names


def load_lazy() -> None:
    """Import the families that wait for first use."""
    if not _Done.all:
        bring(LAZY)
        install(Tensor)
        _Done.networks = _Done.all = True


HOOKS.load_rest = load_lazy


def load_sparse() -> Any:
    """Sparse tensors, which few programs have."""
    bring(["adjoint.engine.backends.array.kernels.sparse"])
    return HOOKS.sparse


HOOKS.load_sparse = load_sparse


def load_wrappers() -> Any:
    """Tensors of classes with `__torch_dispatch__`, which few programs have."""
    importlib.import_module("adjoint._subclasses.wrappers")
    return HOOKS.wrappers


HOOKS.load_wrappers = load_wrappers


def call_at_levels(*args: Any) -> Any:
    """A custom function called inside a transform."""
    levels = importlib.import_module("adjoint.engine.autodiff.levels.function_levels")
    return levels.call(*args)


HOOKS.call_at_levels = call_at_levels


def load_networks() -> None:
    """Import the families behind nn.functional, without the rest of those that wait."""
    if not _Done.networks:
        bring(NETWORKS)
        # Another thread may be inside any of the other modules.
        install(Tensor, {*EAGER, *NETWORKS})
        _Done.networks = True


def find_method(cls: type[Tensor], name: str) -> Any:
    """A method or property that was not on the class when it was looked for, but may have come.

    Another thread may have put it there.
    """
    if not name.startswith("_"):
        for base in cls.__mro__:
            if name in base.__dict__ and base.__dict__[name].__class__ is not AwaitedMethod:
                return base.__dict__[name]
    raise AttributeError(
        f"{cls.__name__!r} object has no attribute {name!r}. If PyTorch has it, Adjoint does not "
        "yet",
        name=name,
        obj=cls,
    )


HOOKS.find_method = find_method
for _name in LATE_METHODS:  # below the class, so that what comes is found first
    setattr(TensorMethods, _name, AwaitedMethod(_name))


HOOKS.backends["native"] = HOOKS.devices["cpu"] = "adjoint.engine.backends.llvm.program.native"
HOOKS.backends["triton"] = HOOKS.devices["cuda"] = "adjoint.engine.backends.triton.program.compile"


def executor_named(name: str) -> Any:
    """The factory of executables that `compile(backend=name)` would use."""
    executors = brought("adjoint.engine.compiler.executors")
    return executors.factory_for(name, "default", {})


HOOKS.executor = executor_named
HOOKS.fragments = stand_ins.FragmentsLater()
HOOKS.straight = stand_ins.StraightLater()


def small_rows(*args: Any) -> Any:
    """A small graph as rows of words; loads what writes them."""
    brought("adjoint.engine.backends.llvm.small.order.rows")
    brought("adjoint.engine.backends.llvm.small.matrices")
    return brought("adjoint.engine.backends.llvm.small.images").written(*args)


HOOKS.small_rows = small_rows


def later(module: str, function: str) -> Callable[..., Any]:
    """A function of a module that is loaded when it is first called."""
    return lambda *args, **how: getattr(brought(module), function)(*args, **how)


HOOKS.note_call = stand_ins.SmallCallsLater().note
HOOKS.note_taped = stand_ins.TapedCallsLater().note
HOOKS.straighten = later("adjoint.engine.backends.array.straight", "straighten")
HOOKS.same_arrays = later("adjoint.engine.backends.array.straight", "same_arrays")
HOOKS.taped_entry = later("adjoint.engine.backends.llvm.small.rows", "taped_entry")
HOOKS.vjp = later("adjoint.engine.autodiff.transforms.gradient", "vjp")
HOOKS.pull_on_tape = later("adjoint.engine.graph.higher.rules", "pull_on_tape")
HOOKS.compile_step = later("adjoint.engine.graph.higher.compiled_steps", "compiled_step")
HOOKS.pull_at_level = later("adjoint.engine.graph.higher.at_levels", "pull_at_level")
HOOKS.compile_operation = later("adjoint.engine.backends.llvm.program.native", "compile_operation")
HOOKS.find_operation = later("adjoint.engine.backends.llvm.program.kept", "find")
HOOKS.keep_operation = later("adjoint.engine.backends.llvm.program.kept", "keep")
HOOKS.find_family = later("adjoint.engine.backends.llvm.program.kept_families", "find")
HOOKS.keep_family = later("adjoint.engine.backends.llvm.program.kept_families", "keep")
HOOKS.keep_together = later("adjoint.engine.backends.disk.store", "together")
HOOKS.small_entry = later("adjoint.engine.backends.llvm.small.rows", "entry_of")
HOOKS.small_views = later("adjoint.engine.backends.llvm.small.viewing", "shower")
HOOKS.small_launches = later("adjoint.engine.backends.llvm.small.launches", "launched")
HOOKS.small_update = later("adjoint.engine.backends.llvm.small.launches", "updated")
HOOKS.small_draw = later("adjoint.engine.backends.llvm.small.launches", "drawn")
HOOKS.meeting_on = later("adjoint.engine.backends.llvm.small.device", "meeting_on")
HOOKS.native_pieces = later("adjoint.engine.backends.llvm.device.arrays", "native_pieces")
HOOKS.add_rows = later("adjoint.engine.backends.llvm.templates.rows.added", "add_rows")
HOOKS.native_entry = later("adjoint.engine.backends.llvm.runtime.fastcall", "entry")
HOOKS.note_on_device = later("adjoint.engine.graph.eager.device_calls", "note")
HOOKS.note_straight = later("adjoint.engine.graph.eager.device_straight", "note")
HOOKS.note_making = later("adjoint.engine.graph.eager.device_made", "note")


def entry_on_a_gpu(function: str) -> Callable[..., Any]:
    """What native code finds a fragment or a call on a GPU by; loads what writes it."""

    def entry(*args: Any) -> Any:
        ready = brought("adjoint.engine.backends.triton.runtime.meeting").ready()
        module = "adjoint.engine.backends.llvm.small.device"
        return getattr(brought(module), function)(*args) if ready else None

    return entry


HOOKS.device_entry, HOOKS.straight_entry = map(entry_on_a_gpu, ("entry_of", "straight_entry"))
HOOKS.updates = stand_ins.UpdatesLater()
HOOKS.shortened = later("adjoint.engine.tensor.chains", "shortened")
HOOKS.place_of = later("adjoint.engine.tensor.chains", "place_of")
for moves in ("fill_memory", "fill_rows", "copy_memory", "join_memory"):
    setattr(HOOKS, moves, later("adjoint.engine.backends.llvm.program.moves", moves))
HOOKS.put_workers_first = later("adjoint.engine.backends.threads", "put_workers_first")


def find(name: str) -> Any:
    """A top-level name that was not there at import."""
    if name in SUBMODULES:
        return brought(f"adjoint.{name}")
    if name in FACADES:
        return FACADES[name]
    if name in ELSEWHERE:
        return getattr(brought(ELSEWHERE[name]), name)
    if name.startswith("_foreach_"):
        function = brought("adjoint.engine.backends.array.lists.foreach").find(name)
        if function is not None:
            return function
    if not name.startswith("__"):
        load_lazy()
        if ("", name) in PUBLIC:
            return PUBLIC["", name].fn
        if name in INPLACE_FUNCTIONS:
            return getattr(Tensor, name)
    raise lacking("adjoint", name)


def all_names() -> set[str]:
    """Every public name, lazy ones included."""
    load_lazy()
    return {name for space, name in list(PUBLIC) if space == ""} | {
        *SUBMODULES,
        *FACADES,
        *ELSEWHERE,
    }


def find_in(space: str, name: str) -> Any:
    """A function of a namespace such as "nn.functional", loading lazy families if need be."""
    load_networks()
    if (space, name) not in PUBLIC or PUBLIC[space, name].fn.__module__ in WAITING:
        load_lazy()
    if (space, name) in PUBLIC:
        return PUBLIC[space, name].fn
    raise lacking(f"adjoint.{space}", name)


def namespace(space: str) -> dict[str, Any]:
    """The functions of a namespace such as "linalg"."""
    load_lazy()
    return {name: p.fn for (s, name), p in list(PUBLIC.items()) if s == space}
