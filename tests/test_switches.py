"""Every switch that a program can set works, or says once that it has no effect."""

from __future__ import annotations

import importlib
import threading
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine import assembly
from adjoint.engine.backends.array import devices
from adjoint.engine.backends.array.kernels.index import indexing
from adjoint.engine.backends.array.kernels.order import histogram
from adjoint.engine.core.availability import absent
from adjoint.engine.core.state import switches
from adjoint.nn.attention import SDPBackend, sdpa_kernel

SETTERS = ("set_", "enable_", "use_", "allow_")
MATMUL = "backends.cuda.matmul"


@pytest.fixture(autouse=True)
def _untouched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switches, "_VALUES", {})
    monkeypatch.setattr(switches, "_TOLD", set())


def find(path: str) -> Any:
    value: Any = ad
    for name in path.split("."):
        value = getattr(value, name)
    return value


# What PyTorch's way of setting each is, and of reading it back.
READERS: dict[str, Callable[[], Any]] = {
    "set_float32_matmul_precision": ad.get_float32_matmul_precision,
    "set_num_interop_threads": ad.get_num_interop_threads,
    "set_warn_always": ad.is_warn_always_enabled,
    "use_deterministic_algorithms": ad.get_deterministic_debug_mode,
    "multiprocessing.set_sharing_strategy": lambda: ad.multiprocessing.get_sharing_strategy(),
    "serialization.set_crc32_options": lambda: ad.serialization.get_crc32_options(),
    "jit.enable_onednn_fusion": lambda: ad.jit.onednn_fusion_enabled(),
    "jit.set_fusion_strategy": lambda: switches.get("jit.set_fusion_strategy"),
    "vision.set_image_backend": lambda: ad.vision.get_image_backend(),
    "vision.set_video_backend": lambda: ad.vision.get_video_backend(),
    "backends.cuda.enable_flash_sdp": lambda: ad.backends.cuda.flash_sdp_enabled(),
    "backends.cuda.enable_mem_efficient_sdp": lambda: ad.backends.cuda.mem_efficient_sdp_enabled(),
    "backends.cuda.enable_cudnn_sdp": lambda: ad.backends.cuda.cudnn_sdp_enabled(),
    "backends.mha.set_fastpath_enabled": lambda: ad.backends.mha.get_fastpath_enabled(),
    "backends.cuda.enable_math_sdp": lambda: ad.backends.cuda.math_sdp_enabled(),
    "backends.cuda.allow_fp16_bf16_reduction_math_sdp": (
        lambda: ad.backends.cuda.fp16_bf16_reduction_math_sdp_allowed()
    ),
}
OTHER = {
    "backends.opt_einsum.strategy": "greedy",
    "set_float32_matmul_precision": "high",
    "multiprocessing.set_sharing_strategy": "file_system",
    "set_num_interop_threads": 12345,
    "jit.set_fusion_strategy": (("STATIC", 2),),
    "_dynamo.config.log_file_name": "log.txt",
    "_dynamo.config.numpy_default_float": "float32",
    "_dynamo.config.repro_after": "aot",
    "vision.set_image_backend": "accimage",
    "vision.set_video_backend": "video_reader",
    "backends.cudnn.fp32_precision": "tf32",
}
OF_A_GPU = {f"backends.cudnn.{name}" for name in ("benchmark", "fp32_precision")}
CALLED = {  # take a module or a policy, not a value
    "_logging.set_logs",
    "jit.freeze",
    "jit.optimize_for_inference",
    "utils.checkpoint.create_selective_checkpoint_contexts",
    "utils.checkpoint.set_checkpoint_early_stop",
}
WITHOUT_A_GPU = pytest.mark.skipif(ad.cuda.is_available(), reason="there they have an effect")
WITHOUT_EFFECT = [
    n for n, s in switches.SWITCHES.items() if s.no_effect and n not in CALLED | OF_A_GPU
]


def assign(path: str, value: Any) -> None:
    owner, _, name = path.rpartition(".")
    holder = find(owner) if owner else ad
    if name.startswith(SETTERS) and callable(getattr(holder, name)):
        getattr(holder, name)(value)
    else:
        setattr(holder, name, value)


def twice(action: Callable[[], None]) -> None:
    action()
    action()


def read(path: str) -> Any:
    return READERS[path]() if path in READERS else find(path)


def other(path: str) -> Any:
    """A value that is neither the default nor one that holds anyway."""
    if path in OTHER:
        return OTHER[path]
    default = switches.SWITCHES[path].default
    return not default if isinstance(default, bool) else default + 1


@WITHOUT_A_GPU
@pytest.mark.parametrize("path", WITHOUT_EFFECT)
def test_without_effect_says_so_once(path: str) -> None:
    switch = switches.SWITCHES[path]
    default = read(path) if path != "set_flush_denormal" else False
    if switch.default is not None:
        assert default == switch.default
    for value in (default, *switch.honoured):
        assign(path, value)  # warnings are errors here
        if path != "set_flush_denormal":
            assert read(path) == value
    value = other(path)
    if value in switch.honoured:  # either value of a switch with two holds
        return
    with pytest.warns(UserWarning, match=rf"\b{path}\b.*has no effect in Adjoint: \w+") as seen:
        twice(lambda: assign(path, value))
    assert len(seen) == 1
    assert seen[0].filename == __file__
    if path != "set_flush_denormal":
        assert read(path) == value
    assign(path, default)


@WITHOUT_A_GPU
@pytest.mark.parametrize("path", sorted(OF_A_GPU))
def test_settings_of_a_gpu_that_is_not_there_are_kept_without_a_word(path: str) -> None:
    before = read(path)
    assign(path, other(path))  # warnings are errors here
    assert read(path) == other(path)
    assign(path, before)


def test_cudnn_that_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from adjoint.engine.backends.array.libraries import cudnn

    monkeypatch.setattr(cudnn, "has_gpu", lambda: True)
    monkeypatch.setattr(cudnn, "version", lambda: None)
    with pytest.warns(UserWarning, match="cudnn.benchmark = True has no effect in Adjoint: cuDNN"):
        ad.backends.cudnn.benchmark = True
    ad.backends.cudnn.benchmark = False


def test_said_each_time_when_asked() -> None:
    ad.set_warn_always(True)
    with pytest.warns(UserWarning, match="opt_einsum") as seen:
        twice(lambda: setattr(ad.backends.opt_einsum, "enabled", True))
    assert len(seen) == 2


@pytest.mark.parametrize("name", ["freeze", "optimize_for_inference"])
def test_scripts_that_freeze(name: str) -> None:
    module = ad.jit.script(ad.nn.Linear(2, 2).eval())
    with pytest.warns(UserWarning, match=rf"jit.{name}\(\) has no effect"):
        assert getattr(ad.jit, name)(module) is module
    getattr(ad.jit, name)(module)


def test_programs_are_kept_by_what_decides_their_results() -> None:
    f = ad.compile(lambda x: x @ x)
    x = ad.ones(2, 2)
    for asked, recorded in ((False, 1), (True, 2), (False, 2), (True, 2)):
        ad.use_deterministic_algorithms(asked)
        assert f(x).tolist() == [[2, 2], [2, 2]]
        assert f.traces == recorded
    ad.use_deterministic_algorithms(False)


# -- completeness -----------------------------------------------------------------------------


def public_setters() -> dict[int, tuple[str, Any]]:
    """Functions of the public namespaces that set something, each once."""
    found: dict[int, tuple[str, Any]] = {}
    spaces: list[tuple[str, Any]] = [("", ad)]
    for name in assembly.SUBMODULES:
        if name == "distributed":
            continue
        module = importlib.import_module(f"adjoint.{name}")
        spaces.append((f"{name}.", module))
        if name in ("backends", "_dynamo", "nn", "utils"):
            children = [getattr(module, child) for child in dir(module) if child[0] != "_"]
            spaces += [
                (f"{child.__name__.removeprefix('adjoint.')}.", child)
                for child in children
                if isinstance(child, types.ModuleType) and child.__name__.startswith("adjoint.")
            ]
    for prefix, module in spaces:
        for name in dir(module):
            value = getattr(module, name, None) if name.startswith(SETTERS) else None
            if callable(value) and "adjoint" in getattr(value, "__module__", ""):
                found.setdefault(id(value), (f"{prefix}{name}", value))
    return found


def test_every_setter_is_declared_or_shown_to_work() -> None:
    names = [path for path, _ in public_setters().values()]
    assert len(names) > 30
    last = {path.rsplit(".", 1)[-1] for path in switches.SWITCHES}
    unknown = {n for n in names if n.rsplit(".", 1)[-1] not in {*last, *EFFECTS}}
    unknown -= {"set_vital"}  # notes facts for PyTorch's owner, which has no effect there either
    assert not unknown, f"neither in core.switches nor with an effect shown here: {unknown}"


def test_no_switch_lies_outside_the_table() -> None:
    """A plain value in a module of settings would be stored and read by nobody."""
    modules = [ad.backends, *(getattr(ad.backends, n) for n in ad.backends.SETTINGS)]
    modules += [*ad.backends.FACADES.values(), *assembly.FACADES.values()]
    modules += [ad.cuda, ad.jit, ad.cpu, ad.accelerator, ad._dynamo.config, ad.backends.cuda.matmul]
    for module in modules:
        plain = {
            name
            for name, value in vars(module).items()
            if not name.startswith("_") and isinstance(value, bool | int | float | str)
        }
        assert not plain, f"{module.__name__}: {plain}"


def test_unknown_settings_are_refused() -> None:
    settings: list[Any] = [ad.backends.cudnn, ad.backends.mkldnn, ad.backends.cuda.matmul, ad.mps]
    for module in settings:
        with pytest.raises(AttributeError, match="knows no such setting"):
            module.benchmrk = True
        with pytest.raises(AttributeError, match="knows no such setting"):
            _ = module.benchmrk


def test_absent_devices_and_libraries() -> None:
    for path in absent.ABSENT:
        module = importlib.import_module(f"adjoint.{path}")
        assert module is find(path)
        assert importlib.util.find_spec(f"adjoint.{path}") is not None
        assert module.is_available() is False
        assert (module.is_built() is False) if "." in path else (module.device_count() == 0)


# -- effects ----------------------------------------------------------------------------------


def _threads() -> None:
    before = ad.get_num_threads()
    ad.set_num_threads(before + 1)
    assert ad.get_num_threads() == before + 1
    ad.set_num_threads(before)


def _grad_mode() -> None:
    with ad.set_grad_enabled(False), ad.enable_grad():
        assert (ad.ones(1, requires_grad=True) * 2).requires_grad
    with ad.set_grad_enabled(False):
        assert not (ad.ones(1, requires_grad=True) * 2).requires_grad


def _dtype() -> None:
    ad.set_default_dtype(ad.float64)
    assert ad.ones(1).dtype is ad.float64
    ad.set_default_tensor_type(ad.FloatTensor)
    assert ad.ones(1).dtype is ad.float32


def _device() -> None:
    ad.set_default_device("meta")
    assert ad.ones(1).device.type == "meta"
    ad.set_default_device("cpu")


def _printing() -> None:
    ad.set_printoptions(precision=2)
    assert str(ad.tensor([1 / 3])) == "tensor([0.33])"
    ad.set_printoptions(profile="default")


def _random() -> None:
    state = ad.get_rng_state()
    first = ad.rand(3)
    ad.set_rng_state(state)
    assert ad.equal(ad.rand(3), first)


def _autocast() -> None:
    ad.set_autocast_enabled("cpu", True)
    ad.set_autocast_dtype("cpu", ad.float16)
    assert (ad.ones(2, 2) @ ad.ones(2, 2)).dtype is ad.float16
    ad.set_autocast_cpu_dtype(ad.bfloat16)
    assert (ad.ones(2, 2) @ ad.ones(2, 2)).dtype is ad.bfloat16
    ad.set_autocast_cpu_enabled(False)
    assert (ad.ones(2, 2) @ ad.ones(2, 2)).dtype is ad.float32
    ad.set_autocast_gpu_dtype(ad.bfloat16)
    assert ad.get_autocast_gpu_dtype() is ad.bfloat16
    ad.set_autocast_gpu_dtype(ad.float16)


def _autocast_cache() -> None:
    weight = ad.ones(2, 2, requires_grad=True)
    casts = []
    for enabled in (True, False):
        with ad.autocast("cpu", ad.bfloat16, cache_enabled=enabled):
            ad.set_autocast_cache_enabled(enabled)
            assert ad.is_autocast_cache_enabled() is enabled
            outs = [ad.ones(1, 2) @ weight for _ in range(2)]
        casts.append(len({id(node(out)) for out in outs}))
    assert casts == [1, 2]  # one cast, or one a use


def node(out: Any) -> Any:
    """The step of backward that the cast of the weight is."""
    return out.grad_fn.next_functions[1][0]


def _anomaly() -> None:
    x = ad.zeros(1, requires_grad=True)
    with warnings.catch_warnings(), ad.autograd.set_detect_anomaly(True):
        warnings.simplefilter("ignore")
        root = x.sqrt() * 0
        with pytest.raises(RuntimeError, match="nan"):
            root.backward()


def _same_thread() -> None:
    seen = []

    class Watch(ad.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            seen.append(threading.get_ident())
            return g

    for mode in (True, False):
        with ad.autograd.set_multithreading_enabled(mode):
            Watch.apply(ad.ones(1, requires_grad=True)).backward()
    assert set(seen) == {threading.get_ident()}


def _hub_folder() -> None:
    before = ad.hub.get_dir()
    ad.hub.set_dir("somewhere")
    assert ad.hub.get_dir() == "somewhere"
    ad.hub.set_dir(before)


def _needs_a_gpu() -> None:
    if not ad.cuda.is_available():
        calls = (
            ad.cuda.set_device, ad.accelerator.set_device_index, ad.cuda.MemPool, ad.cuda.Stream,
            ad.cuda.set_per_process_memory_fraction,
        )  # fmt: skip
        for call in calls:
            with pytest.raises(RuntimeError, match="cuda"):
                call(0) if call is not ad.cuda.MemPool else call()


def _waiting_is_told() -> None:
    assert ad.cuda.get_sync_debug_mode() == 0
    ad.cuda.set_sync_debug_mode("warn")
    assert ad.cuda.get_sync_debug_mode() == 1
    ad.cuda.set_sync_debug_mode(0)
    with pytest.raises(RuntimeError, match="debug_mode"):
        ad.cuda.set_sync_debug_mode("loud")


def _compiler_marks() -> None:
    assert ad.compiler.allow_in_graph(_needs_a_gpu) is _needs_a_gpu


def _elsewhere() -> None:
    """Tested with its subject: random states in test_random and test_checkpoint_files, byte
    order in test_serialization.
    """


class _Device:
    """NumPy in the place of CuPy: another library, whose additions at places tell of themselves."""

    def __init__(self) -> None:
        self.add = self
        self.atomics = 0

    def at(self, target: Any, places: Any, values: Any) -> None:
        self.atomics += 1
        np.add.at(target, places, values)

    name = "cupy_add"
    asnumpy = staticmethod(np.array)
    asarray = staticmethod(np.asarray)
    maximum, minimum = np.maximum, np.minimum

    def bincount(self, places: Any, weights: Any, minlength: int) -> Any:
        self.atomics += 1
        return np.bincount(places, weights, minlength)


def _deterministic() -> None:
    values, places = np.ones(3, np.float32), np.array([0, 1, 1])
    for ask in (
        lambda on: ad.use_deterministic_algorithms(on),
        lambda on: ad.set_deterministic_debug_mode("error" if on else "default"),
    ):
        for on in (False, True):
            ask(on)
            xp = _Device()
            summed = indexing.combine_at(xp, xp.add, np.zeros(2, np.float32), places, values)
            counts = histogram.counted(xp, places, values, 2)
            assert summed.tolist() == counts.tolist() == [1, 2]
            assert xp.atomics == (0 if on else 2)
            whole = np.zeros(2, np.int64)  # sums of integers repeat in any order
            indexing.combine_at(xp, xp.add, whole, places, values.astype(np.int64))
            assert xp.atomics == (1 if on else 3)
    ad.use_deterministic_algorithms(False)


def _recordings() -> None:
    before = ad.compiler.get_recording_limit()
    ad.compiler.set_recording_limit(1)
    f = ad.compile(lambda x: x + 1)
    _ = f(ad.ones(1)), f(ad.ones(2))
    assert "1 program" in f.recordings().splitlines()[0]
    ad.compiler.set_recording_limit(before)


def _reentrant() -> None:
    seen: list[str] = []

    class Loud(ad.Tensor):
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(func.__name__)
            if len(seen) == 1:
                with ad.overrides.enable_reentrant_dispatch():
                    return args[0].neg()
            return super().__torch_function__(func, types, args, kwargs or {})  # type: ignore[misc]

    ad.ones(1).as_subclass(Loud).abs()
    assert seen[:2] == ["abs", "neg"]


def _fake_quantisation() -> None:
    tools = ad.quantization
    fake = tools.FakeQuantize(quant_min=0, quant_max=3)
    x = ad.tensor([0.0, 0.4, 3.0])
    fake.apply(tools.disable_fake_quant)
    assert fake(x).tolist() == x.tolist()
    fake.apply(tools.enable_fake_quant)
    assert fake(x).tolist() == [0, 0, 3]
    fake.apply(tools.disable_observer)
    assert fake(2 * x).tolist() == [0, 1, 3]  # by the scale that was seen before
    fake.apply(tools.enable_observer)
    assert fake(200 * x).max() > 3


def _memory_limit() -> None:
    ad.cpu.set_memory_limit(1 << 20)
    try:
        with pytest.raises(ad.OutOfMemoryError):
            ad.ones(1 << 20)
    finally:
        ad.cpu.set_memory_limit(None)


def _stance() -> None:
    double = ad.compile(lambda x: x * 2)
    with ad.compiler.set_stance("force_eager"):
        double(ad.ones(2))
    assert not double.traces
    double(ad.ones(2))
    assert double.traces


def _default_backend() -> None:
    graphs: list[Any] = []

    def kept(graph: Any, example_inputs: Any) -> Any:
        graphs.append(graph)
        return graph

    ad.compiler.set_default_backend(kept)
    try:
        ad.compile(lambda x: x + 1)(ad.ones(1))
    finally:
        ad.compiler.set_default_backend(None)
    assert len(graphs) == 1


def _anomaly_by_function() -> None:
    ad.set_anomaly_enabled(True, check_nan=False)
    try:
        assert ad.is_anomaly_enabled()
        assert not ad.is_anomaly_check_nan_enabled()
    finally:
        ad.set_anomaly_enabled(False)
    assert not ad.is_anomaly_enabled()
    assert ad.is_anomaly_check_nan_enabled()


FILLED: dict[str, float] = {
    "float32": np.nan, "bfloat16": np.nan, "float64": np.nan, "complex64": np.nan,
    "int8": 127, "uint8": 255, "int64": 2**63 - 1, "bool": 1,
}  # fmt: skip


def _filled_memory() -> None:
    """What PyTorch documents: NaN, or the largest number; unless told otherwise."""
    switches.put("use_deterministic_algorithms", 2)
    for name, wanted in FILLED.items():
        _check_filled(getattr(ad, name), wanted)
    recorded = ad.compile(lambda x: x * 0 + ad.empty(2))
    for filled in (True, False, True):
        ad.utils.deterministic.fill_uninitialized_memory = filled
        assert bool(recorded(ad.ones(2)).isnan().all()) or not filled


def _check_filled(kind: ad.dtype, wanted: float) -> None:
    made = [
        ad.empty(2, dtype=kind), ad.empty_like(ad.zeros(2, dtype=kind)),
        ad.zeros(1, dtype=kind).new_empty(2), ad.empty_strided((2,), (3,), dtype=kind),
    ]  # fmt: skip
    for x in made:
        found = np.asarray(x.to(ad.complex128 if x.is_complex() else kind).tolist())
        assert (np.isnan(found) if wanted != wanted else found == wanted).all()


def _precision() -> None:
    """A precision reaches CuPy, where it is."""
    told: list[tuple[Any, int]] = []
    products = types.SimpleNamespace(
        COMPUTE_TYPE_DEFAULT=1,
        COMPUTE_TYPE_TF32=7,
        set_compute_type=lambda dtype, kind: told.append((dtype, kind)),
    )
    library = types.SimpleNamespace(_core=types.SimpleNamespace(_routines_linalg=products))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(devices, "_cupy", library)
        for level in ("high", "medium", "highest"):
            ad.set_float32_matmul_precision(level)
    assert told == [(np.float32, 7), (np.float32, 7), (np.float32, 1)]


def _converted(name: str) -> ad.Tensor | None:
    """A layer's weight before and after a conversion with a switch on: the object that it was."""
    setter = getattr(ad.__future__, f"set_{name}_module_params_on_conversion")
    layer = ad.nn.Linear(2, 2)
    before, values = layer.weight, layer.weight.detach().numpy().copy()
    setter(True)
    try:
        layer.double()
    finally:
        setter(False)
    assert layer.weight.dtype is ad.float64
    np.testing.assert_array_equal(layer.weight.detach().numpy(), values.astype(np.float64))
    return before if layer.weight is before else None


def _overwritten() -> None:
    assert _converted("overwrite") is None


def _swapped() -> None:
    assert _converted("swap") is not None


EFFECTS: dict[str, Callable[[], None]] = {
    "set_overwrite_module_params_on_conversion": _overwritten,
    "set_swap_module_params_on_conversion": _swapped,
    "set_float32_matmul_precision": _precision,
    "set_default_backend": _default_backend,
    "set_anomaly_enabled": _anomaly_by_function,
    "set_stance": _stance,
    "set_memory_limit": _memory_limit,
    "enable_fake_quant": _fake_quantisation,
    "enable_observer": _fake_quantisation,
    "set_recording_limit": _recordings,
    "enable_reentrant_dispatch": _reentrant,
    "set_num_threads": _threads,
    "set_grad_enabled": _grad_mode,
    "enable_grad": _grad_mode,
    "set_default_dtype": _dtype,
    "set_default_tensor_type": _dtype,
    "set_default_device": _device,
    "set_printoptions": _printing,
    "set_rng_state": _random,
    "set_autocast_enabled": _autocast,
    "set_autocast_dtype": _autocast,
    "set_autocast_cpu_dtype": _autocast,
    "set_autocast_cpu_enabled": _autocast,
    "set_autocast_gpu_dtype": _autocast,
    "set_autocast_cache_enabled": _autocast_cache,
    "set_detect_anomaly": _anomaly,
    "set_multithreading_enabled": _same_thread,
    "set_dir": _hub_folder,
    "set_device": _needs_a_gpu,
    "set_per_process_memory_fraction": _needs_a_gpu,
    "set_stream": _needs_a_gpu,
    "set_sync_debug_mode": _waiting_is_told,
    "use_mem_pool": _needs_a_gpu,
    "set_device_index": _needs_a_gpu,
    "set_device_idx": _needs_a_gpu,
    "set_default_load_endianness": _elsewhere,
    "set_rng_state_all": _elsewhere,
    "set_device_states": _elsewhere,
    "allow_in_graph": _compiler_marks,
    "use_deterministic_algorithms": _deterministic,
    "set_deterministic_debug_mode": _deterministic,
    "fill_uninitialized_memory": _filled_memory,
    "set_warn_always": test_said_each_time_when_asked,
}


@pytest.mark.parametrize("name", EFFECTS)
def test_effect(name: str) -> None:
    EFFECTS[name]()


def test_every_switch_without_a_reason_has_an_effect() -> None:
    read_somewhere = {n.rsplit(".", 1)[-1] for n, s in switches.SWITCHES.items() if not s.no_effect}
    assert read_somewhere <= EFFECTS.keys()


# -- precision and attention ------------------------------------------------------------------


@WITHOUT_A_GPU
def test_precision_has_one_value_under_three_names() -> None:
    matmul = ad.backends.cuda.matmul
    assert (matmul.allow_tf32, matmul.fp32_precision) == (False, "ieee")
    matmul.allow_tf32 = True
    assert (ad.get_float32_matmul_precision(), matmul.fp32_precision) == ("high", "tf32")
    matmul.fp32_precision = "ieee"
    assert (ad.get_float32_matmul_precision(), matmul.allow_tf32) == ("highest", False)
    with pytest.raises(RuntimeError, match="fp32_precision"):
        matmul.fp32_precision = "tf16"


def test_attention_kernels() -> None:
    q = ad.ones(1, 1, 2, 4)
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]):
        assert ad.backends.cuda.flash_sdp_enabled()
        assert not ad.backends.cuda.cudnn_sdp_enabled()
        ad.nn.functional.scaled_dot_product_attention(q, q, q)
    assert ad.backends.cuda.cudnn_sdp_enabled()
    with (
        pytest.warns(UserWarning, match=r"enable_math_sdp\(False\) has no effect") as seen,
        sdpa_kernel(SDPBackend.FLASH_ATTENTION),
    ):
        assert not ad.backends.cuda.math_sdp_enabled()
    assert seen[0].filename == __file__
    assert ad.backends.cuda.math_sdp_enabled()
    with ad.backends.cudnn.flags(enabled=False, deterministic=True):
        assert ad.backends.cudnn.deterministic
    assert not ad.backends.cudnn.deterministic


def test_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    from llvmlite import binding

    rows: list[tuple[str, dict[str, bool], str]] = [
        ("x86_64", {"avx512f": True, "avx2": True}, "AVX512"),
        ("AMD64", {"avx512f": False, "avx2": True}, "AVX2"),
        ("x86_64", {"sse4.2": True}, "DEFAULT"),
        ("aarch64", {}, "NEON"),
    ]
    for machine, features, word in rows:
        monkeypatch.setattr("platform.machine", lambda machine=machine: machine)
        monkeypatch.setattr(binding, "get_host_cpu_features", lambda features=features: features)
        assert ad.backends.cpu.get_cpu_capability() == word


def test_fork_runs_at_once_and_functionalize_is_the_function() -> None:
    assert ad.jit.wait(ad.jit.fork(lambda a, b: a + b, 1, b=2)) == 3

    def double_in_place(x: Any) -> Any:
        y = x.clone()
        y.mul_(2)
        return y

    graph = ad.graph.capture(ad.func.functionalize(double_in_place))
    graph(ad.ones(2))
    names = [one.record.name for one in graph.latest.graph]
    assert not any(name.endswith("_") or "write" in name for name in names), names


@pytest.fixture(autouse=True)
def _defaults() -> Iterator[None]:
    yield
    ad.set_default_dtype(ad.float32)
    ad.set_default_device("cpu")
