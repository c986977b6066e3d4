"""Switches that programs set under PyTorch's names: one table, which says what each of them does.

A switch is read somewhere in Adjoint, or its entry says why it changes nothing; then a value that
asks for something else is kept, and the program is told once that it has no effect. A value that is
PyTorch's default, or that describes what happens here anyway, never warns.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

from adjoint.engine.core.errors import warn_user
from adjoint.engine.core.state import config
from adjoint.engine.core.state.settings import SETTINGS, AmbientSetting, consult


@dataclass(frozen=True, slots=True)
class Switch:
    """One switch: PyTorch's default, and why other values change nothing ("" where one is read)."""

    default: Any
    no_effect: str = ""
    honoured: tuple[Any, ...] = ()  # values that hold here anyway, beside the default
    computes: bool = False  # what programs compute depends on it: part of their keys


CUDNN = "cuDNN is not installed; convolutions are Adjoint's own"
LIMIT = "the first few plans that cuDNN proposes are timed"
ATTENTION = "attention has one implementation here, which computes the weights step by step"
HALVES = "products of halves are summed in float32"
EINSUM = "einsum chooses the order of its products itself"
COMPILER = "see help(adjoint.compile) for what compile does instead"

SWITCHES: dict[str, Switch] = {
    "set_float32_matmul_precision": Switch("highest", computes=True),
    "set_flush_denormal": Switch(
        False, "numbers below the smallest normal one are kept, so that results repeat everywhere"
    ),
    "set_num_interop_threads": Switch(
        None, "operations run in the caller's thread; set_num_threads says how many share one"
    ),
    "use_deterministic_algorithms": Switch(0, computes=True),
    "set_warn_always": Switch(False),
    "multiprocessing.set_sharing_strategy": Switch(
        "file_descriptor",
        "memory is handed over as file descriptors; raise `ulimit -n` if those run out",
    ),
    "serialization.set_crc32_options": Switch(True, "checksums are always written"),
    "jit.freeze": Switch(None, "the module stays as it is; adjoint.compile makes it faster"),
    "utils.deterministic.fill_uninitialized_memory": Switch(True, computes=True),
    "utils.checkpoint.set_checkpoint_early_stop": Switch(
        True, "what is computed again is computed whole, with the same results"
    ),
    "utils.checkpoint.create_selective_checkpoint_contexts": Switch(
        None, "all inside a checkpoint is computed again, whatever the policy would keep"
    ),
    "jit.optimize_for_inference": Switch(
        None, "the module stays as it is; adjoint.compile makes it faster"
    ),
    "_logging.set_logs": Switch(
        None, "compile warns of what it leaves to Python, and its explain() tells the rest"
    ),
    "jit.set_fusion_strategy": Switch((), "TorchScript's fuser has no part here"),
    "jit.enable_onednn_fusion": Switch(False, "TorchScript's fuser has no part here"),
    "vision.set_image_backend": Switch("PIL", "Pillow reads images wherever it is installed"),
    "vision.set_video_backend": Switch("pyav", "Adjoint reads no video"),
    "backends.cudnn.enabled": Switch(True, CUDNN, (False,), computes=True),
    "backends.cudnn.benchmark": Switch(False, CUDNN),
    "backends.cudnn.benchmark_limit": Switch(10, LIMIT),
    "backends.cudnn.deterministic": Switch(False, CUDNN, (True,), computes=True),
    "backends.cudnn.allow_tf32": Switch(True, CUDNN, (False,), computes=True),
    "backends.cudnn.fp32_precision": Switch("none", CUDNN, ("ieee",), computes=True),
    "backends.opt_einsum.enabled": Switch(False, EINSUM),
    "backends.opt_einsum.strategy": Switch("auto", EINSUM),
    "backends.mkldnn.enabled": Switch(True, "oneDNN is not used", (False,)),
    "backends.mkldnn.deterministic": Switch(False, "oneDNN is not used", (True,)),
    "backends.mkldnn.allow_tf32": Switch(True, "oneDNN is not used", (False,)),
    "backends.cuda.matmul.allow_fp16_reduced_precision_reduction": Switch(True, HALVES, (False,)),
    "backends.cuda.matmul.allow_bf16_reduced_precision_reduction": Switch(True, HALVES, (False,)),
    "backends.cuda.allow_fp16_bf16_reduction_math_sdp": Switch(False, HALVES),
    "backends.cuda.matmul.allow_fp16_accumulation": Switch(False, HALVES),
    "backends.cuda.enable_flash_sdp": Switch(True, ATTENTION, (False,)),
    "backends.cuda.enable_mem_efficient_sdp": Switch(True, ATTENTION, (False,)),
    "backends.cuda.enable_cudnn_sdp": Switch(True, ATTENTION, (False,)),
    "backends.cuda.enable_math_sdp": Switch(True, ATTENTION),
    "backends.mha.set_fastpath_enabled": Switch(True, ATTENTION, (False,)),
    "_dynamo.config.accumulated_cache_size_limit": Switch(256, COMPILER),
    "_dynamo.config.accumulated_recompile_limit": Switch(256, COMPILER),
    "_dynamo.config.allow_rnn": Switch(False, COMPILER),
    "_dynamo.config.allow_unspec_int_on_nn_module": Switch(False, COMPILER),
    "_dynamo.config.assume_static_by_default": Switch(True, COMPILER),
    "_dynamo.config.automatic_dynamic_shapes": Switch(True, COMPILER),
    "_dynamo.config.caching_precompile": Switch(False, COMPILER),
    "_dynamo.config.capture_autograd_function": Switch(True, COMPILER),
    "_dynamo.config.capture_dynamic_output_shape_ops": Switch(False, COMPILER),
    "_dynamo.config.capture_func_transforms": Switch(True, COMPILER),
    "_dynamo.config.capture_scalar_outputs": Switch(False, COMPILER),
    "_dynamo.config.capture_sparse_compute": Switch(True, COMPILER),
    "_dynamo.config.compiled_autograd": Switch(False, COMPILER),
    "_dynamo.config.disable": Switch(False, COMPILER),
    "_dynamo.config.do_not_emit_runtime_asserts": Switch(False, COMPILER),
    "_dynamo.config.dynamic_shapes": Switch(True, COMPILER),
    "_dynamo.config.dynamo_profiler": Switch(False, COMPILER),
    "_dynamo.config.enable_compiler_collectives": Switch(False, COMPILER),
    "_dynamo.config.enable_cpp_symbolic_shape_guards": Switch(False, COMPILER),
    "_dynamo.config.error_on_recompile": Switch(False, COMPILER),
    "_dynamo.config.fail_on_recompile_limit_hit": Switch(False, COMPILER),
    "_dynamo.config.force_parameter_static_shapes": Switch(True, COMPILER),
    "_dynamo.config.guard_nn_modules": Switch(True, COMPILER),
    "_dynamo.config.guard_nn_modules_using_dict_tags": Switch(True, COMPILER),
    "_dynamo.config.inline_inbuilt_nn_modules": Switch(True, COMPILER),
    "_dynamo.config.log_file_name": Switch(None, COMPILER),
    "_dynamo.config.log_level": Switch(30, COMPILER),
    "_dynamo.config.minimum_call_count": Switch(1, COMPILER),
    "_dynamo.config.nested_graph_breaks": Switch(False, COMPILER),
    "_dynamo.config.numpy_default_float": Switch("float64", COMPILER),
    "_dynamo.config.optimize_ddp": Switch(True, COMPILER),
    "_dynamo.config.prefer_deferred_runtime_asserts_over_guards": Switch(False, COMPILER),
    "_dynamo.config.prepare_freezing": Switch(False, COMPILER),
    "_dynamo.config.replay_record_enabled": Switch(False, COMPILER),
    "_dynamo.config.report_guard_failures": Switch(True, COMPILER),
    "_dynamo.config.repro_after": Switch(None, COMPILER),
    "_dynamo.config.repro_level": Switch(2, COMPILER),
    "_dynamo.config.rewrite_assert_with_torch_assert": Switch(True, COMPILER),
    "_dynamo.config.run_gc_after_compile": Switch(True, COMPILER),
    "_dynamo.config.skip_fsdp_guards": Switch(True, COMPILER),
    "_dynamo.config.skip_nnmodule_hook_guards": Switch(True, COMPILER),
    "_dynamo.config.specialize_float": Switch(False, COMPILER),
    "_dynamo.config.specialize_int": Switch(False, COMPILER),
    "_dynamo.config.suppress_errors": Switch(False, COMPILER),
    "_dynamo.config.trace_autograd_ops": Switch(False, COMPILER),
    "_dynamo.config.trace_numpy": Switch(True, COMPILER),
    "_dynamo.config.use_graph_deduplication": Switch(False, COMPILER),
    "_dynamo.config.use_numpy_random_stream": Switch(False, COMPILER),
    "_dynamo.config.verbose": Switch(False, COMPILER),
    "_dynamo.config.verify_correctness": Switch(False, COMPILER),
    "_dynamo.config.wrap_top_frame": Switch(False, COMPILER),
}

# The values of switches that decide what is computed, which every compiled call compares.
computed_with = tuple(switch.default for switch in SWITCHES.values() if switch.computes)
_VALUES: dict[str, Any] = {}  # what was set; the rest have their defaults
_TOLD: set[str] = set()  # switches that have said that they have no effect
# Filled by layers above: what a value changes there; False where it could change nothing.
APPLY: dict[str, Callable[[Any], bool]] = {}


def get(name: str) -> Any:
    """What a switch was set to, or its default.

    >>> get("backends.cudnn.benchmark")
    False
    """
    if not SWITCHES[name].computes:
        consult(name)
    return _value(name)


def _value(name: str) -> Any:
    return _VALUES.get(name, SWITCHES[name].default)


def is_set(name: str) -> bool:
    """Whether a switch that is off by default is on, without anybody being told that it counts.

    >>> is_set("backends.cudnn.benchmark")
    False
    """
    return bool(_VALUES.get(name))


def put(name: str, value: Any) -> None:
    """Set a switch; a value without effect is kept, and said once to have none."""
    switch = SWITCHES[name]
    _store(name, value)
    applied = name in APPLY and APPLY[name](value)
    if switch.no_effect and not applied and value not in (switch.default, *switch.honoured):
        tell(name, value)


def _store(name: str, value: Any) -> None:
    global computed_with
    _VALUES[name] = value
    if not SWITCHES[name].computes:
        consult(name)
    else:
        computed_with = tuple(_value(name) for name, switch in SWITCHES.items() if switch.computes)


def tell(name: str, *values: Any) -> None:
    """Warn, once a process, that something has no effect here and why."""
    if name in _TOLD and not get("set_warn_always"):
        return
    _TOLD.add(name)
    called = name.rsplit(".", 1)[-1].startswith(("set_", "enable_", "use_")) or not values
    given = ", ".join(map(repr, values))
    use = f"{name}({given})" if called else f"{name} = {given}"
    warn_user(f"{config.display_name}.{use} has no effect in Adjoint: {SWITCHES[name].no_effect}.")


class SwitchOverride:
    """A `with` block in which switches are set otherwise."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)
        self._before: dict[str, Any] = {}

    def __enter__(self) -> None:
        self._before = {name: get(name) for name in self._values}
        for name, value in self._values.items():
            put(name, value)

    def __exit__(self, *_: object) -> None:
        for name, value in self._before.items():
            _put_back(name, value)


def _put_back(name: str, value: Any) -> None:
    """Set a switch to what it was, which nobody need be told about."""
    _store(name, value)
    if name in APPLY:
        APPLY[name](value)


SETTINGS.update(
    {name: AmbientSetting(partial(_value, name), partial(_put_back, name)) for name in SWITCHES}
)


class SwitchModule(ModuleType):
    """A module whose attributes are switches: `backends.cudnn`, `_dynamo.config`."""

    def _switch(self, name: str) -> str:
        return f"{self.__name__.removeprefix('adjoint.')}.{name}"

    def __getattr__(self, name: str) -> Any:
        if self._switch(name) in SWITCHES:
            return get(self._switch(name))
        raise AttributeError(
            f"{self._shown(name)}: Adjoint knows no such setting", name=name, obj=self
        )

    def __setattr__(self, name: str, value: Any) -> None:
        if self._switch(name) in SWITCHES:
            put(self._switch(name), value)
        elif name.startswith("_") or name in self.__dict__:
            super().__setattr__(name, value)
        else:
            raise AttributeError(
                f"{self._shown(name)} = {value!r}: Adjoint knows no such setting",
                name=name,
                obj=self,
            )

    def __dir__(self) -> list[str]:
        prefix = self._switch("")
        mine = {name.removeprefix(prefix) for name in SWITCHES if name.startswith(prefix)}
        return sorted({*super().__dir__(), *mine})

    def _shown(self, name: str) -> str:
        return f"{config.display_name}.{self._switch(name)}"


def route(module: str, kind: type[SwitchModule] = SwitchModule) -> None:
    """Have the attributes of a module, given by name, go through the table."""
    sys.modules[module].__class__ = kind


def set_warn_always(b: bool) -> None:
    """Whether what is otherwise said once is said each time."""
    put("set_warn_always", bool(b))


def is_warn_always_enabled() -> bool:
    """What `set_warn_always` was told."""
    return bool(get("set_warn_always"))
