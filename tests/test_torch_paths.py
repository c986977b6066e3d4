"""Names at PyTorch's paths that libraries import: what they answer, do or refuse."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import _C, _VF, _decomp, _inductor, _tensor_str, compiler, monitor, nn, unavailable
from adjoint import export as ex
from adjoint._functorch.aot_autograd import make_boxed_func
from adjoint._jit_internal import boolean_dispatch, boolean_dispatched
from adjoint._prims_common import is_contiguous_or_false
from adjoint.backends import cuda
from adjoint.cli import addresses
from adjoint.cuda.amp.common import amp_definitely_not_available
from adjoint.distributed import checkpoint as files
from adjoint.distributed.fsdp import api as options
from adjoint.engine.compiler.executors import MODES
from adjoint.fx import _pytree as fx_pytree
from adjoint.fx.experimental import symbolic_shapes
from adjoint.nn.parallel import comm, replicate
from adjoint.torch_version import TorchVersion
from adjoint.utils import _pytree, dlpack, hooks
from adjoint.utils._python_dispatch import transform_subclass
from adjoint.utils.module_tracker import ModuleTracker


def test_one_function_of_two() -> None:
    pool = boolean_dispatch(
        "return_indices",
        2,
        False,
        lambda x, k, return_indices=False: ("both", x, k),
        lambda x, k, return_indices=False: ("one", x, k),
        "here",
        "pool",
    )
    assert pool(1, 2) == ("one", 1, 2)
    assert pool(1, 2, True) == pool(1, 2, return_indices=True) == ("both", 1, 2)
    assert (pool.__name__, pool.__module__) == ("pool", "here")
    assert boolean_dispatched[pool]["arg_name"] == "return_indices"
    assert boolean_dispatched[pool]["if_true"](1, 2) == ("both", 1, 2)
    assert nn.functional.boolean_dispatch is boolean_dispatch
    assert not nn.functional.has_torch_function_variadic(ad.ones(1), 2)
    assert nn.functional.GRID_SAMPLE_PADDING_MODES["border"] == 1


def test_attention_is_asked_what_could_take_it() -> None:
    q = ad.ones(1, 1, 2, 4)
    params = cuda.SDPAParams(q, q, q, None, 0.0, False, False)
    assert not cuda.can_use_flash_attention(params)
    with pytest.warns(UserWarning, match="one implementation"):
        assert not cuda.can_use_efficient_attention(params, debug=True)
    assert nn.attention.list_flash_attention_impls() == []
    assert nn.attention.current_flash_attention_impl() is None


def test_libraries_of_a_gpu() -> None:
    assert cuda.preferred_linalg_library().name == "Default"
    assert cuda.preferred_linalg_library("cusolver").name == "Default"
    assert cuda.preferred_blas_library(cuda.BlasBackend.Cublas).name == "Default"
    with pytest.raises(RuntimeError, match="not there"):
        cuda.preferred_linalg_library("magma")
    with pytest.raises(RuntimeError, match="unknown"):
        cuda.preferred_blas_library("atlas")


def test_versions_compare_by_number() -> None:
    version = TorchVersion("2.13.0")
    assert version >= (2, 9)
    assert version > "2.9.1"
    assert not version < "2.13"


@pytest.mark.parametrize("name", ["nn.quantized", "nn.qat", "nn.intrinsic"])
def test_paths_of_old_lead_to_the_new_ones(name: str) -> None:
    module = addresses.module(f"adjoint.{name}")
    assert module is not None
    assert module.Linear if name != "nn.intrinsic" else module.ConvReLU2d
    assert module.__path__ == []  # `import torch.nn.quantized.dynamic` looks below it


def test_tensors_of_several_devices() -> None:
    x = ad.arange(10.0).reshape(5, 2)
    first, second = comm.broadcast(x, ["cpu", "cpu"])
    assert first is x
    assert ad.equal(second, x)
    assert second.data_ptr() != x.data_ptr()
    assert len(comm.broadcast_coalesced([x, x + 1], ["cpu", "cpu", "cpu"])) == 3
    assert ad.equal(comm.reduce_add([x, x, x]), 3 * x)
    assert ad.equal(comm.reduce_add_coalesced([[x, x], [x, -x]])[1], 0 * x)
    parts = comm.scatter(x, ["cpu", "cpu"], [1, 4])
    assert [len(part) for part in parts] == [1, 4]
    assert ad.equal(comm.gather(parts), x)
    assert ad.equal(comm.gather(parts, destination=-1), x)
    written = [ad.zeros(2, 2), ad.zeros(3, 2)]
    comm.scatter(x, out=written)
    np.testing.assert_array_equal(written[1].numpy(), x.numpy()[2:])
    with pytest.raises(RuntimeError, match="exactly one"):
        comm.scatter(x)
    with pytest.raises(ValueError, match="one shape"):
        comm.reduce_add([x, x[:1]])


@pytest.mark.parametrize("detach", [False, True])
def test_replicas_pass_gradients_on(detach: bool) -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    net.append(net[0].__class__(1, 1))
    copies = replicate(net, ["cpu", "cpu"], detach)
    x = ad.arange(8.0).reshape(4, 2).sin()
    assert not list(copies[0].parameters())
    total = copies[0](x).sum() + copies[1](2 * x).sum()
    if detach:
        assert not total.requires_grad
        return
    total.backward()
    got = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    (net(x).sum() + net(2 * x).sum()).backward()
    for mine, want in zip(got, net.parameters(), strict=True):
        ad.testing.assert_close(mine, want.grad)


class Remembering(nn.Module):
    """A module that keeps what it computed, and says what its replicas keep."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[str, Any] = {}
        self.layer = nn.Linear(2, 2)
        self.register_buffer("steps", ad.zeros(1))

    def _replicate_for_data_parallel(self) -> Any:
        replica = super()._replicate_for_data_parallel()
        replica.told = "made here"
        return replica


def test_modules_say_what_their_replicas_are() -> None:
    net = Remembering()
    alone = net._replicate_for_data_parallel()
    assert type(alone) is Remembering
    assert alone._is_replica
    assert alone.kept is net.kept
    assert alone.layer is net.layer
    alone.steps = ad.ones(1)
    alone.layer = None
    assert net.steps.item() == 0
    assert list(dict(net.named_parameters())) == ["layer.weight", "layer.bias"]
    assert not nn.Linear(2, 2)._replicate_for_data_parallel()._parameters
    (copied,) = replicate(net, ["cpu"])
    assert copied.told == "made here"
    assert not hasattr(net, "told")


# -- exports --------------------------------------------------------------------------------------


class TwoOfThem(nn.Module):
    def forward(self, a: Any, b: Any, scale: Any) -> Any:
        return a * scale + b.sum(0)


def test_shapes_are_said_of_tensors() -> None:
    a, b, scale = ad.ones(2, 3), ad.ones(4, 3), ad.ones(3)
    shapes = ex.ShapesCollection()
    shapes[a] = {0: ex.Dim("rows", max=32)}
    shapes[b][0] = ex.Dim("others", max=32)
    args = (a, b, scale)
    said = shapes.dynamic_shapes(TwoOfThem(), args)
    assert said == {"a": shapes[a], "b": shapes[b], "scale": None}
    module = ex.export(TwoOfThem(), args, dynamic_shapes=shapes).module()
    assert module(ad.ones(7, 3), ad.ones(5, 3), scale).tolist() == [[6.0] * 3] * 7
    with pytest.raises(AssertionError, match="mismatch"):
        shapes[a] = {1: ex.Dim("columns")}
    with pytest.raises(TypeError, match="non-tensor"):
        shapes["a"] = {}
    with pytest.raises(ValueError, match="not among the arguments"):
        shapes.dynamic_shapes(nn.Identity(), (scale,))


def test_shapes_are_found_from_examples() -> None:
    more = ex.AdditionalInputs()
    scale = ad.ones(3)
    more.add((ad.ones(5, 3), ad.ones(4, 3), scale))
    args = (ad.ones(2, 3), ad.ones(4, 3), scale)
    said = more.dynamic_shapes(TwoOfThem(), args)
    assert said == {"a": (ex.Dim.DYNAMIC, None), "b": (None, None), "scale": (None,)}
    nested = more.dynamic_shapes(TwoOfThem(), (args[0], args[1]), {"scale": scale})
    assert nested == said
    program = ex.export(TwoOfThem(), args, dynamic_shapes=more)
    more.verify(program)
    with pytest.raises((ValueError, RuntimeError, AssertionError)):
        program.module()(ad.ones(5, 3), ad.ones(6, 3), scale)
    more.add((ad.ones(5), ad.ones(4, 3), scale))
    with pytest.raises(ValueError, match="number of dimensions"):
        more.dynamic_shapes(TwoOfThem(), args)
    with pytest.raises(TypeError, match="tuple"):
        more.add([scale])  # type: ignore[arg-type]


@dataclasses.dataclass
class Registered:
    first: Any
    second: Any


def test_dataclasses_are_taken_apart() -> None:
    ex.register_dataclass(Registered)
    assert _pytree.tree_leaves({"x": Registered(1, [2, 3])}) == [1, 2, 3]
    with pytest.raises(AssertionError, match="Only dataclasses"):
        ex.register_dataclass(int)


def test_tables_of_parts_are_what_programs_put_there() -> None:
    program = ex.export(nn.Linear(2, 2), (ad.ones(1, 2),))
    assert program.run_decompositions(ex.default_decompositions()) is program
    table: dict[Any, Any] = {}

    @_decomp.register_decomposition([ad.ops.aten.sinc], table)
    def parts(x: Any) -> Any:
        return x.sin() / x

    assert table == {ad.ops.aten.sinc: parts}
    _decomp.remove_decompositions(table, [ad.ops.aten.sinc])
    assert not table
    assert _decomp.get_decompositions([ad.ops.aten.sinc]) == {}
    with pytest.raises(AssertionError, match="type must be"):
        _decomp.get_decompositions([], "odd")


# -- compilers ------------------------------------------------------------------------------------


def test_a_default_backend() -> None:
    graphs: list[Any] = []

    def kept(graph: Any, example_inputs: Any) -> Any:
        graphs.append(graph)
        return graph

    assert compiler.get_default_backend() == "native"
    compiler.set_default_backend(kept)
    try:
        assert ad.compile(lambda x: x + 1)(ad.ones(1)).item() == 2
    finally:
        compiler.set_default_backend(None)
    assert len(graphs) == 1
    assert compiler.get_default_backend() == "native"
    with pytest.raises(RuntimeError, match="no backend"):
        compiler.set_default_backend("no such")


def test_marks_of_functions() -> None:
    @compiler.forbid_in_graph
    def outside(x: Any) -> Any:
        return x

    assert outside(2) == 2
    with pytest.raises(AssertionError, match="forbidden"):
        ad.compile(lambda x: outside(x) + 1, fullgraph=True)(ad.ones(1))
    region = compiler.nested_compile_region(lambda x: x * 3)
    assert ad.compile(lambda x: region(region(x)))(ad.ones(1)).item() == 9
    with pytest.raises(NotImplementedError, match="options"):
        compiler.nested_compile_region(region, options=object())
    cut: Any = ad._dynamo.graph_break
    whole = ad._dynamo.optimize_assert("eager")(lambda x: cut() or x)
    with pytest.raises(ad.errors.CaptureError, match="no breaks"):
        whole(ad.ones(1))
    assert make_boxed_func(lambda a, b: a - b)([5, 3]) == 2


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("package", "PackageExporter"),
        ("_functorch.aot_autograd", "aot_function"),
        ("compiler", "save_cache_artifacts"),
    ],
)
def test_what_is_not_there_says_so(path: str, name: str) -> None:
    assert name in unavailable.TABLE[path][1].split()


# -- watching -------------------------------------------------------------------------------------


def test_modules_are_tracked() -> None:
    class Inner(nn.Module):
        def forward(self, x: Any) -> Any:
            seen.append((sorted(tracker.parents), tracker.is_bw))
            return x.exp()

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()

        def forward(self, x: Any) -> Any:
            y = x * 2
            y.register_hook(lambda g: seen.append((sorted(tracker.parents), tracker.is_bw)))
            return self.inner(y.sin()) + 1

    seen: list[Any] = []
    with ModuleTracker() as tracker:
        Outer()(ad.ones(2, requires_grad=True)).sum().backward()
    assert seen == [
        (["Global", "Outer", "Outer.inner"], False),
        (["Global", "Outer"], True),
    ]
    assert tracker.parents == {"Global"}
    assert not tracker.is_bw


def test_statistics_are_told_when_a_window_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("time.time", lambda: now[0])
    told: list[monitor.Event] = []
    handle = monitor.register_event_handler(told.append)
    every = list(monitor.Aggregation)
    stat = monitor.Stat("loss", every, timedelta(seconds=10), max_samples=3)
    for value in (2.0, 4.0, 1.0, 50.0):
        stat.add(value)
    assert stat.count == 3
    assert stat.get()[monitor.Aggregation.VALUE] == 1.0
    assert told == []
    now[0] += 10
    stat.add(7.0)
    monitor.unregister_event_handler(handle)
    monitor.log_event(monitor.Event("late", datetime(2026, 1, 1)))
    (event,) = told
    assert event.name == "torch.monitor.Stat"
    assert event.data == {
        "loss.value": 1.0, "loss.mean": 7 / 3, "loss.count": 3.0, "loss.sum": 7.0,
        "loss.max": 4.0, "loss.min": 1.0,
    }  # fmt: skip
    assert stat.get()[monitor.Aggregation.SUM] == 7.0


# -- small questions ------------------------------------------------------------------------------


def test_questions_about_the_machine() -> None:
    there = ad.accelerator.is_available()
    assert _C._get_accelerator().type == ("cuda" if there else "cpu")
    assert amp_definitely_not_available() is not there
    assert not ad.backends.mps.is_macos_or_newer(14, 0)
    assert not _C._jit_can_fuse_on_cpu()
    before = _C._jit_set_profiling_mode(False)
    assert _C._jit_set_profiling_mode(before) is False
    with pytest.raises(AttributeError):
        _ = _C._jit_no_such
    assert _inductor.list_mode_options().keys() == set(MODES)
    with pytest.raises(RuntimeError, match="Unrecognized"):
        _inductor.list_mode_options("fast")


def test_questions_about_tensors() -> None:
    x = ad.arange(6.0).reshape(2, 3)
    assert ad._shape_as_tensor(x).tolist() == [2, 3]
    assert _VF.relu is ad.relu
    assert is_contiguous_or_false(x)
    assert not is_contiguous_or_false(x.t())
    with _tensor_str.printoptions(precision=2):
        assert _tensor_str._str_intern(x / 3) == repr(x / 3)
        assert "0.33" in repr(x / 3)
        assert "0.333" not in repr(x / 3)
    assert "0.3333" in repr(x / 3)


def test_trees_of_a_known_structure() -> None:
    class Bag:
        def __init__(self, *items: Any) -> None:
            self.items = items

    _pytree.register_pytree_node(Bag, lambda b: (list(b.items), None), lambda c, _: Bag(*c))
    fx_pytree.register_pytree_flatten_spec(Bag, lambda b, spec: list(b.items))
    structure = _pytree.tree_structure([Bag(0, {"a": 0}), 0])
    assert fx_pytree.tree_flatten_spec([Bag(1, {"a": 2}), 3], structure) == [1, 2, 3]
    with pytest.raises(RuntimeError, match="structure"):
        fx_pytree.tree_flatten_spec([1, 2, 3], structure)


def test_sizes_are_plain_numbers() -> None:
    size = ad.ones(3, 2).shape[0]
    assert symbolic_shapes.guard_or_false(size > 2)
    assert not symbolic_shapes.guard_or_true(size > 3)
    assert (
        symbolic_shapes.free_symbols(size) == symbolic_shapes.free_unbacked_symbols(size) == set()
    )
    assert symbolic_shapes.hint_int(size) == 3
    assert symbolic_shapes.is_concrete_int(size)


def test_checkpoints_by_their_first_names(tmp_path: Any) -> None:
    files.save_state_dict({"w": ad.ones(2)}, files.FileSystemWriter(tmp_path / "here"))
    state = {"w": ad.zeros(2)}
    files.load_state_dict(state, files.FileSystemReader(tmp_path / "here"))
    assert state["w"].tolist() == [1.0, 1.0]


def test_paths_in_trees() -> None:
    @dataclasses.dataclass
    class Point:
        x: Any

    tree = {"a": [1, (2, 3)]}
    for path, leaf in _pytree.tree_leaves_with_path(tree):
        assert _pytree.key_get(tree, path) == leaf
    assert _pytree.key_get([Point(4)], (_pytree.SequenceKey(0), _pytree.GetAttrKey("x"))) == 4
    leaf_spec = _pytree.treespec_leaf()
    pair = _pytree.treespec_tuple([leaf_spec, leaf_spec])
    made = _pytree.treespec_dict({"a": pair}, b=leaf_spec)
    assert made == _pytree.tree_structure({"a": (1, 2), "b": 3})
    assert _pytree.tree_unflatten([1, 2, 3], made) == {"a": (1, 2), "b": 3}


def test_hooks_that_are_not_saved() -> None:
    x = ad.ones(1, requires_grad=True)
    x.register_hook(hooks.unserializable_hook(lambda g: g))
    hooks.warn_if_has_hooks(x)
    x.register_hook(lambda g: g)
    with pytest.warns(UserWarning, match="will not be serialized"):
        hooks.warn_if_has_hooks(x)


def test_devices_by_dlpacks_numbers() -> None:
    assert ad.ones(1).__dlpack_device__()[0] == dlpack.DLDeviceType.kDLCPU


def test_wrappers_are_made_anew() -> None:
    class Pair:
        def __init__(self, a: Any, b: Any) -> None:
            self.a, self.b = a, b

        def size(self) -> Any:
            return self.a.size()

        def stride(self) -> Any:
            return self.a.stride()

        def __tensor_flatten__(self) -> Any:
            return ["a", "b"], "kept"

        @staticmethod
        def __tensor_unflatten__(inner: Any, context: Any, size: Any, stride: Any) -> Any:
            assert (context, tuple(size), stride) == ("kept", (2,), (1,))
            return Pair(inner["a"], inner["b"])

    made = transform_subclass(Pair(ad.ones(2), ad.zeros(2)), lambda name, x: x + len(name))
    assert (made.a.tolist(), made.b.tolist()) == ([2.0, 2.0], [1.0, 1.0])


def test_libraries_of_compiled_operations_are_not_found() -> None:
    """As an OSError, which libraries look for before they do without."""
    for kind in (OSError, NotImplementedError):
        with pytest.raises(kind, match="Could not load this library: there.so"):
            ad.ops.load_library("there.so")


def test_an_old_mixin_of_transposed_convolutions() -> None:
    mixin = nn.modules.conv._ConvTransposeMixin
    assert issubclass(mixin, nn.modules.conv._ConvTransposeNd)
    assert not isinstance(nn.ConvTranspose2d(1, 1, 2), mixin)
    with pytest.warns(FutureWarning, match="deprecated internal class"), pytest.raises(TypeError):
        mixin()


def test_gradients_by_their_old_name() -> None:
    x = ad.ones(2, requires_grad=True)
    with pytest.warns(FutureWarning, match="grad_variables"):
        ad.autograd.backward([2 * x], None, None, False, [ad.tensor([1.0, 3.0])])
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 6.0]
    with pytest.warns(FutureWarning), pytest.raises(RuntimeError, match="both passed"):
        ad.autograd.backward(2 * x, ad.ones(2), grad_variables=ad.ones(2))


def test_compile_takes_pytorchs_limits() -> None:
    doubled = ad.compile(lambda x: 2 * x, name="double", recompile_limit=3, isolate_recompiles=True)
    assert doubled(ad.ones(2)).tolist() == [2.0, 2.0]


def test_ways_of_giving_states_have_two_bases() -> None:
    for name in ("Full", "Local", "Sharded"):
        assert issubclass(getattr(options, f"{name}StateDictConfig"), options.StateDictConfig)
        kind = getattr(options, f"{name}OptimStateDictConfig")
        assert issubclass(kind, options.OptimStateDictConfig)
        assert kind().offload_to_cpu == (name != "Local")
