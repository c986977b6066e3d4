"""What libraries reach for inside PyTorch: loaders' parts, pipes, modes, caches, transforms."""

from __future__ import annotations

import copy
import functools
import gc
import logging
import pickle
from collections import OrderedDict, defaultdict, deque, namedtuple
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import _prims_common as prims
from adjoint._C import _functorch as wrapped
from adjoint._C import parse_schema
from adjoint._functorch import package as functorch
from adjoint._functorch import vmap as steps
from adjoint._higher_order_ops.out_dtype import out_dtype
from adjoint._utils import ExceptionWrapper
from adjoint.engine.autodiff.transforms.batching import STEP_NAMES
from adjoint.nn.utils._named_member_accessor import NamedMemberAccessor, swap_tensor
from adjoint.utils import _pytree as pytree
from adjoint.utils._ordered_set import OrderedSet
from adjoint.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode
from adjoint.utils.data import DataLoader, TensorDataset
from adjoint.utils.data import _utils as data_utils
from adjoint.utils.data.dataloader import (
    _BaseDataLoaderIter,
    _DatasetKind,
    _SingleProcessDataLoaderIter,
)
from adjoint.utils.data.datapipes.iter import IterableWrapper
from adjoint.utils.data.datapipes.iter.combinatorics import ShufflerIterDataPipe
from adjoint.utils.data.datapipes.map import SequenceWrapper
from adjoint.utils.data.graph_settings import apply_sharding, apply_shuffle_settings
from adjoint.utils.flop_counter import FlopCounterMode, register_flop_formula
from adjoint.utils.weak import WeakIdKeyDictionary


def test_own_iterators_are_instances_of_the_base() -> None:
    steps = iter(DataLoader(TensorDataset(ad.arange(4)), batch_size=2))
    assert isinstance(steps, _BaseDataLoaderIter)
    assert isinstance(steps, _SingleProcessDataLoaderIter)


def test_an_iterator_of_ones_own() -> None:
    class Loader(DataLoader[Any]):
        _dataset_kind, _IterableDataset_len_called = _DatasetKind.Map, None

    class Steps(_BaseDataLoaderIter):
        def _next_data(self) -> Any:
            fetcher = _DatasetKind.create_fetcher(
                self._dataset_kind, self._dataset, self._auto_collation, self._collate_fn,
                self._drop_last,
            )  # fmt: skip
            return fetcher.fetch(self._next_index())

    loader = Loader(TensorDataset(ad.arange(5)), batch_size=2)
    assert [batch[0].tolist() for batch in Steps(loader)] == [[0, 1], [2, 3], [4]]


def test_a_workers_word_of_itself_is_heard() -> None:
    info = data_utils.worker.WorkerInfo(1, 2, 3, None)
    data_utils.worker._worker_info = info
    try:
        assert ad.utils.data.get_worker_info() is info
    finally:
        data_utils.worker._worker_info = None
    assert ad.utils.data.get_worker_info() is None


def test_exceptions_travel() -> None:
    try:
        {}["missing"]  # type: ignore[index]
    except KeyError:
        held = pickle.loads(pickle.dumps(ExceptionWrapper(where="in a worker")))
    with pytest.raises(KeyError, match="Caught KeyError in a worker"):
        held.reraise()


PIPES: list[tuple[Any, list[Any]]] = [
    (lambda p: p.map(lambda x: x + 1).filter(lambda x: x % 2), [1, 3, 5]),
    (lambda p: p.batch(4).unbatch(), [0, 1, 2, 3, 4, 5]),
    (lambda p: p.batch(4, drop_last=True), [[0, 1, 2, 3]]),
    (lambda p: p.concat(IterableWrapper([9])), [0, 1, 2, 3, 4, 5, 9]),
    (lambda p: p.zip(IterableWrapper("ab")), [(0, "a"), (1, "b")]),
    (lambda p: p.mux(IterableWrapper("ab")), [0, "a", 1, "b"]),
    (lambda p: p.groupby(lambda x: x % 2, group_size=2), [[0, 2], [1, 3], [4], [5]]),
    (lambda p: apply_sharding(p.sharding_filter().map(str), 2, 1), ["1", "3", "5"]),
    (lambda p: apply_shuffle_settings(p.shuffle(), False), [0, 1, 2, 3, 4, 5]),
]


@pytest.mark.parametrize("place", range(len(PIPES)))
def test_pipes(place: int) -> None:
    make, want = PIPES[place]
    assert list(make(IterableWrapper(range(6)))) == want


def test_pipes_shuffle_by_a_seed_and_lose_nothing() -> None:
    pipe = IterableWrapper(range(50)).shuffle(buffer_size=7)
    first = list(pipe.set_seed(3))
    assert sorted(first) == list(range(50)) != first
    assert list(pipe.set_seed(3)) == first


def test_pipes_to_index_and_columns() -> None:
    pipe = SequenceWrapper(range(5)).map(lambda x: x * 2).batch(2)
    assert [pipe[i] for i in range(len(pipe))] == [[0, 2], [4, 6], [8]]
    rows = IterableWrapper([(1, 2), (3, 4)])
    assert list(rows.map(lambda x: x + 10, input_col=1)) == [(1, 12), (3, 14)]
    assert list(rows.map(lambda x, y: x + y, input_col=[0, 1], output_col=-1)) == [
        (1, 2, 3),
        (3, 4, 7),
    ]
    batches: DataLoader[Any] = DataLoader(IterableWrapper(range(4)).map(float), batch_size=2)
    assert [b.tolist() for b in batches] == [[0.0, 1.0], [2.0, 3.0]]


def test_modes_take_over_operations_of_backward_too() -> None:
    seen: list[str] = []

    class Doubling(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            assert _get_current_dispatch_mode() is None
            seen.append(func.__name__)
            out = func(*args, **(kwargs or {}))
            return out * 2 if func.__name__ == "exp.default" else out

    x = ad.zeros(2, requires_grad=True)
    with Doubling() as mode:
        assert _get_current_dispatch_mode() is mode
        y = x.exp().sum()
        forward = len(seen)
        y.backward()
    assert y.item() == 4.0
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 2.0]
    assert seen[:forward] == ["exp.default", "sum.default"]
    assert len(seen) > forward


def test_weak_keys_are_told_apart_by_identity() -> None:
    first, second = ad.ones(2), ad.ones(2)
    table = WeakIdKeyDictionary({first: 1})
    table[second] = 2
    assert table[first] == 1
    assert len(table) == 2
    del second
    gc.collect()
    assert list(table.values()) == [1]
    assert "no key" not in table


def test_tensors_of_modules_are_exchanged() -> None:
    net = ad.nn.Sequential(ad.nn.Linear(2, 1))
    old = net[0].weight
    assert swap_tensor(net[0], "weight", ad.zeros(1, 2)) is old
    access = NamedMemberAccessor(net)
    access.set_tensor("0.weight", ad.ones(1, 2))
    assert access.get_tensor("0.weight").sum() == 2
    with pytest.raises(AttributeError):
        swap_tensor(net[0], "nothing", ad.zeros(1))


def test_wrapped_tensors_say_so() -> None:
    told: list[tuple[bool, bool, int]] = []

    def fn(x: Any) -> Any:
        told.append(
            (
                wrapped.is_batchedtensor(x),
                wrapped.is_gradtrackingtensor(x),
                wrapped.maybe_get_bdim(x),
            )
        )
        return x.sum()

    ad.vmap(fn)(ad.ones(2, 3))
    ad.func.grad(fn)(ad.ones(3))
    assert told == [(True, False, 0), (False, True, -1)]
    depth = wrapped._vmap_increment_nesting(2, "error")
    try:
        inner = wrapped._add_batch_dim(ad.arange(6).view(3, 2), 1, depth)
        out = wrapped._remove_batch_dim(inner * 2, depth, 2, 0)
    finally:
        wrapped._vmap_decrement_nesting()
    assert out.tolist() == [[0, 4, 8], [2, 6, 10]]
    assert ad.ones(1).exp().shape == (1,)


def test_modules_as_functions() -> None:
    nets = [ad.nn.Linear(2, 1) for _ in range(3)]
    call, params, buffers = functorch.combine_state_for_ensemble(nets)
    x = ad.randn(4, 2)
    out = functorch.vmap(call, in_dims=(0, 0, None))(params, buffers, x)
    ad.testing.assert_close(out, ad.stack([net(x) for net in nets]))


def test_elements_can_be_looked_at_where_gradients_are_off() -> None:
    x = ad.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="requires grad"):
        x.numpy()
    with ad.no_grad():
        assert x.numpy().tolist() == [1.0, 1.0]


def test_complex_halves_are_kept() -> None:
    pytest.importorskip("ml_dtypes")
    import ml_dtypes

    if not hasattr(ml_dtypes, "complex32"):
        pytest.skip("ml_dtypes has no complex32")
    x = ad.tensor([1 + 2j, 0.1 - 3j])
    half = x.to(ad.complex32)
    want = x.numpy().view(np.float32).astype(np.float16).astype(np.float32).view(np.complex64)
    assert half.dtype is ad.complex32
    assert half.to(ad.complex64).numpy().tolist() == want.tolist()
    with pytest.raises(NotImplementedError, match="complex32"):
        half + half


class Settings:
    """An object to copy."""

    def __init__(self) -> None:
        self.width, self.deep = 3.0, {"scale": [2.0]}


def test_copies_are_followed_when_compiled() -> None:
    held = Settings()

    def fn(x: Any) -> Any:
        mine = copy.deepcopy(held)
        mine.width += 1
        mine.deep["scale"].append(x)
        return x * mine.width * mine.deep["scale"][0]

    step = ad.compile(fn)
    x = ad.ones(2)
    assert step(x).tolist() == [8.0, 8.0]
    assert held.width == 3.0
    assert held.deep == {"scale": [2.0]}
    held.width = 5.0
    held.deep["scale"][0] = 1.0
    assert step(x).tolist() == [6.0, 6.0]


def test_caches_that_know_objects_by_identity_are_asked_when_compiled() -> None:
    logger, calls = logging.getLogger("of a test"), []

    @functools.lru_cache(None)
    def once(who: logging.Logger, text: str) -> int:
        calls.append(text)
        return len(calls)

    def fn(x: Any) -> Any:
        return x * once(logger, "said")

    step = ad.compile(fn)
    assert step(ad.ones(1)).tolist() == [1.0]
    assert step(ad.ones(1)).tolist() == [1.0]
    assert calls == ["said"]
    once.cache_clear()
    assert step(ad.ones(1)).tolist() == [2.0]  # as Python does: the function is asked again


def test_products_are_counted() -> None:
    x, image = ad.ones(4, 5, requires_grad=True), ad.ones(2, 3, 8, 8, requires_grad=True)
    linear, conv = ad.nn.Linear(5, 7), ad.nn.Conv2d(3, 6, 3, padding=1, stride=2)
    q = ad.ones(2, 4, 6, 8, requires_grad=True)

    def counted(fn: Any) -> int:
        with FlopCounterMode(display=False) as counter:
            fn()
        return counter.get_total_flops()

    forward = 2 * 4 * 5 * 7
    assert counted(lambda: linear(x)) == forward
    assert counted(lambda: linear(x).sum().backward()) == 3 * forward
    places = 2 * 2 * 6 * 4 * 4 * 3 * 9
    assert counted(lambda: conv(image)) == places
    assert counted(lambda: conv(image).sum().backward()) == 3 * places
    for groups in (3, 6):  # PyTorch counts the filters' gradient without regard to groups
        grouped = ad.nn.Conv2d(6, 6, 3, padding=1, stride=2, groups=groups)
        wide = ad.ones(2, 6, 8, 8, requires_grad=True)
        once = 2 * 2 * 6 * 4 * 4 * (6 // groups) * 9
        assert counted(lambda: grouped(wide)) == once  # noqa: B023
        assert counted(lambda: grouped(wide).sum().backward()) == (2 + groups) * once  # noqa: B023
    attended = 2 * 2 * 4 * 6 * 6 * 16
    assert counted(lambda: ad.nn.functional.scaled_dot_product_attention(q, q, q)) == attended
    with FlopCounterMode(display=False) as counter:
        ad.nn.Sequential(linear, ad.nn.ReLU())(x)
    assert counter.get_flop_counts() == {
        place: {"linear": forward} for place in ("Global", "Sequential", "Sequential.Linear")
    }
    assert "100.00%" in counter.get_table()
    ad.ones(2, 2) @ ad.ones(2, 2)  # after its block nothing is counted
    assert counter.get_total_flops() == forward


@ad.library.custom_op("counted_flops::product", mutates_args=())
def product(x: ad.Tensor, y: ad.Tensor, scale: int = 1) -> ad.Tensor:
    return x @ y * scale


@ad.library.custom_op("counted_flops::write", mutates_args={"out"})
def write(x: ad.Tensor, out: ad.Tensor) -> None:
    out.copy_(x @ x)


@register_flop_formula(ad.ops.counted_flops.product)
def _flops_of_product(x: Any, y: Any, *rest: Any, out_shape: Any = None) -> int:
    assert (*out_shape, *rest) == (x[0], y[1], 3)
    return 1000


def _flops_of_writing(x: Any, out: Any, out_val: Any = None) -> int:
    assert out_val is None
    return 100 * int(x.shape[0])


_flops_of_writing._get_raw = True  # type: ignore[attr-defined]


def test_operations_of_ones_own_are_counted_by_formulas() -> None:
    x = ad.ones(2, 2)
    with FlopCounterMode(display=False) as counter:
        product(x, x, 3)
        write(x, ad.empty(2, 2))  # no formula: what it calls is counted
    assert counter.get_total_flops() == 1016
    mapping = {ad.ops.counted_flops.write: _flops_of_writing}
    with FlopCounterMode(display=False, custom_mapping=mapping) as counter:
        write(x, ad.empty(2, 2))
    assert counter.get_flop_counts() == {"Global": {"counted_flops::write": 200}}
    with pytest.raises(RuntimeError, match="duplicate"):
        register_flop_formula(ad.ops.counted_flops.product)(_flops_of_product)
    with pytest.raises(NotImplementedError, match=r"aten::mm is counted"):
        register_flop_formula(ad.ops.aten.mm)
    with pytest.raises(ValueError, match="OpOverloadPacket"):
        FlopCounterMode(custom_mapping={len: len})


class Pair:
    """Two tensors that add and remove a mapped dimension themselves, as tensordicts do."""

    def __init__(self, left: Any, right: Any) -> None:
        self.left, self.right = left, right


def test_vmap_goes_through_steps_that_a_library_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    def process(in_dims: Any, args: Any, func: Any) -> Any:
        return 3, [in_dims] * len(args), list(args), None

    def create(dims: Any, leaves: Any, level: int, structure: Any) -> Any:
        return [
            Pair(*(steps._add_batch_dim(x, dim, level) for x in (leaf.left, leaf.right)))
            for dim, leaf in zip(dims, leaves, strict=True)
        ]

    def unwrap(outputs: Any, out_dims: Any, level: int, size: int, func: Any) -> Any:
        return steps._maybe_remove_batch_dim("f", outputs, level, size, out_dims)

    for name, step in zip(STEP_NAMES, (process, create, unwrap), strict=True):
        monkeypatch.setattr(steps, name, step, raising=False)
    x = ad.arange(6.0).reshape(3, 2).requires_grad_()
    out = ad.func.vmap(lambda pair: pair.left @ pair.right)(Pair(x, x.detach()))
    assert out.tolist() == [1.0, 13.0, 41.0]
    out.sum().backward()
    assert ad.equal(x.grad, x)
    with pytest.raises(NotImplementedError, match="chunk_size is for tensors"):
        ad.func.vmap(lambda pair: pair.left, chunk_size=1)(Pair(x, x))
    monkeypatch.undo()
    assert ad.func.vmap(ad.sum)(ad.ones(3, 2)).tolist() == [2.0] * 3


Point = namedtuple("Point", "x y")


@pytest.mark.parametrize(
    ("tree", "context"),
    [
        ([1, 2], None),
        ((1, 2), None),
        ({"b": 1, "a": 2}, ["b", "a"]),
        (OrderedDict(b=1), ["b"]),
        (defaultdict(int, {1: 2}), [int, [1]]),
        (deque([1, 2], 3), 3),
        (Point(1, 2), Point),
    ],
)
def test_containers_are_taken_apart_by_hand_with_pytorchs_contexts(tree: Any, context: Any) -> None:
    kind = pytree._get_node_type(tree)
    node = pytree.SUPPORTED_NODES[kind]
    children, rest = node.flatten_fn(tree)
    assert rest == context
    assert node.unflatten_fn(children, rest) == tree
    spec = pytree.TreeSpec(kind, rest, [pytree.LeafSpec() for _ in children])
    again = pytree.tree_unflatten(children, spec)
    assert again == tree
    assert type(again) is type(tree)
    assert isinstance(spec, pytree.TreeSpec)
    assert spec == pytree.tree_structure(tree)


def test_pipes_are_found_where_pytorch_keeps_them() -> None:
    pipe = IterableWrapper(range(6)).shuffle()
    assert isinstance(pipe, ShufflerIterDataPipe)
    assert sorted(pipe) == list(range(6))
    assert list(pipe.set_shuffle(False)) == list(range(6))


def test_tables_of_modules_are_dicts_to_trees() -> None:
    layer = ad.nn.Linear(2, 3)
    shapes = pytree.tree_map(lambda value: tuple(value.shape), layer._parameters)
    assert shapes == {"weight": (3, 2), "bias": (3,)}
    assert type(shapes) is dict
    x = ad.ones(1, 2)
    apply = ad.compile(lambda table, x: x @ table["weight"].T + table["bias"])
    assert ad.allclose(apply(layer._parameters, x), layer(x))


def test_old_constructors_without_arguments_can_be_joined_to() -> None:
    for empty in (ad.Tensor(), ad.FloatTensor(), ad.LongTensor(), ad.ones(2).new()):
        assert empty.shape == (0,)
        assert ad.cat([empty, ad.ones(2, 3)], 1).shape == (2, 3)
    assert ad.Tensor(ad.Size([])).shape == ()


def test_events_of_a_profile_tell_of_themselves(tmp_path: Any) -> None:
    assert not ad.autograd._profiler_enabled()
    with ad.profiler.profile() as profile:
        assert ad.autograd._profiler_enabled()
        with pytest.raises(RuntimeError, match="being recorded"):
            ad.autograd._disable_profiler()
        ad.ones(3) + 1
    events = profile.events()
    assert events.key_averages(group_by_input_shapes=True).table() == events.table()
    events.export_chrome_trace(str(tmp_path / "trace.json"))
    assert "traceEvents" in (tmp_path / "trace.json").read_text()


def test_dicts_of_parameters_are_in_the_order_of_names() -> None:
    one, two = ad.nn.Parameter(ad.ones(1)), ad.nn.Parameter(ad.ones(2))
    table = ad.nn.ParameterDict({"b": one, "a": two})
    assert list(table) == [name for name, _ in table.named_parameters()] == ["a", "b"]
    assert list(ad.nn.ParameterDict(OrderedDict(b=one, a=two))) == ["b", "a"]
    given = ad.nn.ParameterDict([("b", one), ("a", two)])
    assert list(given) == list(given.copy()) == ["b", "a"]


def test_settings_of_pytorchs_compiler_are_kept_and_said_to_have_no_effect() -> None:
    from adjoint._inductor import config

    with pytest.warns(UserWarning, match="_inductor.config.tests_own = 3 has no effect"):
        config.tests_own = 3
    with pytest.warns(UserWarning, match="config.triton.tests_own"):
        config.triton.tests_own = True
    assert (config.tests_own, config.triton.tests_own) == (3, True)
    with config.patch({"tests_own": 4, "triton.tests_own": False}):
        assert (config.tests_own, config.triton.tests_own) == (4, False)
    assert (config.tests_own, config.triton.tests_own) == (3, True)
    with pytest.raises(AttributeError, match="no such setting, and none was given"):
        _ = config.max_autotune


def test_sets_in_order() -> None:
    kept: OrderedSet[int] = OrderedSet([3, 1, 3, 2])
    kept.add(0)
    kept.discard(1)
    kept.update([5, 3])
    assert list(kept) == [3, 2, 0, 5]
    assert list(reversed(kept)) == [5, 0, 2, 3]
    assert list(kept.union([9]).difference([2, 5])) == [3, 0, 9]
    assert list(kept.intersection([5, 3, 8])) == [3, 5]
    assert kept.issuperset([0])
    assert OrderedSet([0]).issubset(kept)
    assert set(kept) == {0, 2, 3, 5}


def test_questions_about_memory() -> None:
    pictures = ad.ones(2, 3, 4, 5)
    assert prims.suggest_memory_format(pictures) is ad.contiguous_format
    last = pictures.to(memory_format=ad.channels_last)
    assert prims.suggest_memory_format(last) is ad.channels_last
    assert prims.make_contiguous_strides_for((2, 3, 4)) == (12, 4, 1)
    assert prims.make_contiguous_strides_for((2, 3, 4), row_major=False) == (12, 1, 3)
    assert prims.canonicalize_dims(3, (-1, 0)) == (2, 0)
    assert prims.get_computation_dtype(ad.bfloat16) is ad.float32


def test_a_wider_result() -> None:
    x = ad.full((2, 2), 100, dtype=ad.int8)
    out = out_dtype(ad.ops.aten.mm.default, ad.int32, x, x)
    assert (out.dtype, out.tolist()) == (ad.int32, [[20000] * 2] * 2)


def test_no_sparsity_of_two_in_four() -> None:
    with pytest.raises(NotImplementedError, match="no sparsity of two in four"):
        ad.sparse.to_sparse_semi_structured(ad.ones(4, 4))
    assert not isinstance(ad.ones(2), ad.sparse.SparseSemiStructuredTensor)


def test_settings_of_recordings_inside_a_block() -> None:
    from adjoint._dynamo import config

    before = config.recompile_limit
    with config.patch(recompile_limit=before + 3, verbose=False):
        assert config.recompile_limit == before + 3
    assert config.recompile_limit == before
    with pytest.raises(AttributeError, match="knows no such setting"), config.patch("nobodys", 1):
        pass


# A notation; of each argument: its name, type, count, default, whether by name, whether written.
PARSED: list[tuple[str, str, list[tuple[Any, ...]]]] = [
    (
        "m::f.two(Tensor(a!) x, int[2] y=3, *, float? z=None, str s='a') -> (Tensor(a!), int n)",
        'm::f.two(Tensor(a!) x, int[2] y=3, *, float? z=None, str s="a") -> (Tensor(a!), int n)',
        [
            ("x", "Tensor", None, None, False, True),
            ("y", "List[int]", 2, [3, 3], False, False),
            ("z", "Optional[float]", None, None, True, False),
            ("s", "str", None, "a", True, False),
        ],
    ),
    (
        "f(Tensor?[] xs, Scalar a=1, float b=2, SymInt[] n=[]) -> Tensor",
        "f(Tensor?[] xs, Scalar a=1, float b=2., SymInt[] n=[]) -> Tensor",
        [
            ("xs", "List[Optional[Tensor]]", None, None, False, False),
            ("a", "number", None, 1, False, False),
            ("b", "float", None, 2.0, False, False),
            ("n", "List[int]", None, [], False, False),
        ],
    ),
    ("f() -> ()", "f() -> ()", []),
]


@pytest.mark.parametrize(("text", "shown", "arguments"), PARSED)
def test_parse_schema(text: str, shown: str, arguments: list[tuple[Any, ...]]) -> None:
    schema = parse_schema(text)
    assert str(schema) == shown
    assert str(parse_schema(str(schema))) == shown
    found = [
        (a.name, str(a.type), a.N, a.default_value, a.kwarg_only, a.is_write)
        for a in schema.arguments
    ]
    assert found == arguments
    assert schema.is_mutable == any(a[-1] for a in arguments)


NO_SCHEMAS = [
    "f(Tensor x",
    "f(Foo x) -> Tensor",
    "f(Tensor x)",
    "f(x) -> int",
    "f(Tensor x) -> ",
    "f(int x=1, Tensor? y) -> int",
]


@pytest.mark.parametrize("text", NO_SCHEMAS)
def test_no_schemas_are_refused(text: str) -> None:
    with pytest.raises(RuntimeError):
        parse_schema(text)


def test_definitions_that_are_refused() -> None:
    with pytest.raises(RuntimeError, match="Only a single library"):
        ad.library.Library("aten", "DEF")
    with pytest.raises(TypeError, match=r"tags must be of torch\.Tag"):
        ad.library.define("refusedtags::f", "(Tensor x) -> Tensor", tags=("pointwise",))
