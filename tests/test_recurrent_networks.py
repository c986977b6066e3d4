"""Whole recurrent networks as one operation: what it composes, its derivatives, and cuDNN's."""

from __future__ import annotations

import dataclasses
import gc
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import adjoint as ad
from adjoint.engine.backends.array import executor
from adjoint.engine.backends.array.kernels.nn import recurrent as kernels
from adjoint.engine.backends.array.libraries import recurrent as library
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.stream_capture import STREAM_CAPTURE
from adjoint.engine.ops.nn import recurrent_networks as networks
from adjoint.engine.ops.nn.recurrent_networks import GATES, RECURRENT_NETWORK, RecurrentNetwork
from adjoint.engine.tensor.tensor import wrap
from adjoint.nn.utils.rnn import PackedSequence, pack_padded_sequence
from tests.cudnn_stand_in import WRONG, FakeCudnn, HostArray, host_cupy

OPTIONS: dict[str, dict[str, Any]] = {
    "one layer": {},
    "both ways": {"bidirectional": True},
    "two layers": {"num_layers": 2},
    "deep both ways, no biases": {"num_layers": 3, "bidirectional": True, "bias": False},
    "batch first": {"batch_first": True, "num_layers": 2},
}
KINDS: dict[str, dict[str, Any]] = {
    "LSTM": {},
    "GRU": {},
    "RNN_TANH": {},
    "RNN_RELU": {"nonlinearity": "relu"},
}


def network_of(
    kind: str, options: dict[str, Any], sizes: tuple[int, int, int, int]
) -> RecurrentNetwork:
    length, batch, inputs, hidden = sizes
    return RecurrentNetwork(
        kind, "float64", length, batch, inputs, hidden, options.get("num_layers", 1),
        1 + options.get("bidirectional", False), options.get("bias", True),
    )  # fmt: skip


def layer_of(kind: str, options: dict[str, Any], inputs: int, hidden: int) -> Any:
    name = kind.partition("_")[0]
    return getattr(ad.nn, name)(inputs, hidden, **KINDS[kind], **options)


def states_of(network: RecurrentNetwork, **how: Any) -> list[ad.Tensor]:
    shape = network.state_shape
    return [ad.randn(*shape, **how).requires_grad_() for _ in range(network.states)]


@pytest.mark.parametrize("given", [False, True], ids=["zeros", "states"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["one layer", "deep both ways, no biases"])
def test_one_operation_is_the_layers(name: str, kind: str, given: bool) -> None:
    """Forward, gradients of some results by some operands, and their gradients."""
    ad.manual_seed(3)
    options = OPTIONS[name]
    network = network_of(kind, options, (4, 2, 3, 2))
    layer = layer_of(kind, options, 3, 2).double()
    x = ad.randn(4, 2, 3, dtype=ad.float64, requires_grad=True)
    states = states_of(network, dtype=ad.float64) if given else []
    weights = list(layer.parameters())

    def by_layer() -> list[Any]:
        out, last = layer(x, tuple(states) if len(states) > 1 else states[0] if given else None)
        return [out, *(last if isinstance(last, tuple) else [last])]

    def whole() -> list[Any]:
        out, kept, *last = RECURRENT_NETWORK(
            x, *states, *weights, network=network, given=len(states), training=True
        )
        assert kept.dtype is ad.uint8
        assert not kept.requires_grad
        return [out, *last]

    for used in ([0], [1], [0, -1]):  # cotangents of the others are none
        found = []
        for run in (by_layer, whole):
            outs = run()
            loss = sum((outs[i].sin().sum() for i in used), ad.zeros((), dtype=ad.float64))
            wanted = [x, *states, weights[0], weights[-1]]
            firsts = ad.autograd.grad(loss, wanted, create_graph=True, allow_unused=True)
            total = sum((g.square().sum() for g in firsts if g is not None), loss * 0)
            seconds = ad.autograd.grad(total, wanted, allow_unused=True)
            zero = [
                ad.zeros_like(w) if g is None else g for g, w in zip(seconds, wanted, strict=True)
            ]
            found.append([*outs, *(g for g in firsts if g is not None), *zero])
        for mine, theirs in zip(*found, strict=True):
            ad.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-12)


def test_last_states_may_be_written_over() -> None:
    """The tape keeps the outputs and what a library kept, not the last states."""
    ad.manual_seed(4)
    network = network_of("LSTM", {}, (3, 2, 2, 2))
    weights = list(layer_of("LSTM", {}, 2, 2).double().parameters())
    x = ad.randn(3, 2, 2, dtype=ad.float64)
    out, _, h, c = RECURRENT_NETWORK(x, *weights, network=network, given=0, training=True)
    with ad.no_grad():
        h.zero_()
        c.zero_()
    out.sum().backward()
    assert weights[0].grad.abs().sum() > 0
    out = RECURRENT_NETWORK(x, *weights, network=network, given=0, training=True)[0]
    with ad.no_grad():
        out.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


@pytest.mark.parametrize("both", [False, True], ids=["one way", "both ways"])
@pytest.mark.parametrize("kind", ["LSTM", "RNN_TANH"])
def test_packed_sequences(kind: str, both: bool) -> None:
    """Gradients of the one operation are those of the layer."""
    ad.manual_seed(6)
    network = dataclasses.replace(
        network_of(kind, {"bidirectional": both, "num_layers": 2}, (4, 3, 3, 2)), sizes=(3, 2, 2, 1)
    )
    assert network.lengths == [4, 3, 1]
    layer = layer_of(kind, {"bidirectional": both, "num_layers": 2}, 3, 2).double()
    packed = PackedSequence(ad.randn(8, 3, dtype=ad.float64), ad.tensor([3, 2, 2, 1]))
    out, last = layer(packed)
    outs = [out.data, *(last if isinstance(last, tuple) else [last])]
    weights = list(layer.parameters())
    whole = RECURRENT_NETWORK(packed.data, *weights, network=network, given=0, training=True)
    found = []
    for results in (outs, [whole[0], *whole[2:]]):
        loss = sum((o.sin().sum() for o in results), ad.zeros((), dtype=ad.float64))
        found.append([*results, *ad.autograd.grad(loss, weights)])
    for mine, theirs in zip(*found, strict=True):
        ad.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("sizes", "rows", "is_one"),
    [
        ([3, 2], 5, True), ([3, 3], 6, True), ([1], 1, True), ([2, 3], 5, False),
        ([3, 0], 3, False), ([3, 2], 6, False), ([], 0, False),
    ],
)  # fmt: skip
def test_what_is_a_packed_batch(sizes: list[int], rows: int, is_one: bool) -> None:
    want = (len(sizes), sizes[0]) if is_one else None
    assert networks._packed(tuple(sizes), rows) == want


@pytest.mark.parametrize("kind", KINDS)
def test_shapes_of_parameters(kind: str) -> None:
    for options in OPTIONS.values():
        layer = layer_of(kind, options, 5, 3)
        shapes = network_of(kind, options, (2, 2, 5, 3)).weight_shapes()
        assert shapes == [tuple(p.shape) for p in layer.parameters()]
    assert set(GATES) == set(KINDS)


@pytest.mark.parametrize("given", [False, True], ids=["zeros", "states"])
@pytest.mark.parametrize("name", ["deep both ways, no biases", "batch first"])
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_dropout_between_layers_is_the_same(
    kind: str, name: str, given: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Layer by layer, where a library might have them, the same numbers are drawn."""
    options = OPTIONS[name] | {"dropout": 0.5}
    layer = layer_of(kind, options, 3, 2)
    states = states_of(network_of(kind, options, (4, 4, 3, 2)))
    start = None if not given else tuple(states) if len(states) > 1 else states[0]
    x, found = ad.randn(4, 4, 3), []
    for _ in range(2):
        ad.manual_seed(9)
        out, last = layer(x, start)
        found.append([out, *(last if isinstance(last, tuple) else [last])])
        monkeypatch.setitem(networks.CHOOSE, "cpu", lambda network, index: None)
    for mine, theirs in zip(*found, strict=True):
        ad.testing.assert_close(mine, theirs, rtol=0, atol=0)


def taken(monkeypatch: pytest.MonkeyPatch) -> list[RecurrentNetwork | None]:
    """What is chosen from now on."""
    chosen: list[RecurrentNetwork | None] = []
    choose = networks._chosen

    def noted(*given: Any) -> RecurrentNetwork | None:
        chosen.append(choose(*given))
        return chosen[-1]

    monkeypatch.setattr(networks, "_chosen", noted)
    return chosen


ASKED = pytest.mark.skipif(not kernels.ASKED, reason="cuDNN's recurrence is off")
CLOSE = {
    ad.float64: {"rtol": 1e-9, "atol": 1e-9},
    ad.float32: {"rtol": 2e-4, "atol": 2e-5},  # its tanh is 8e-6 away, in each moment and layer
    ad.float16: {"rtol": 2e-2, "atol": 2e-2},
    ad.bfloat16: {"rtol": 1e-1, "atol": 1e-1},
}


@ASKED
@pytest.mark.cuda
@pytest.mark.parametrize("dtype", CLOSE, ids=lambda d: d.name)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", OPTIONS)
def test_cudnn_is_the_composition(
    name: str, kind: str, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of random sizes: results, gradients (twice along one tape), and without a gradient."""
    ad.manual_seed(len(name))
    options, chosen = OPTIONS[name], taken(monkeypatch)
    sizes = [(5, 3, 7, 6), (16, 8, 32, 64), (1, 1, 1, 1), (4, 2, 20, 256), (6, 33, 8, 320)]
    for length, batch, inputs, hidden in sizes:
        network = network_of(kind, options, (length, batch, inputs, hidden))
        layer = layer_of(kind, options, inputs, hidden).to("cuda", dtype)
        x = ad.randn(length, batch, inputs, device="cuda", dtype=dtype)
        x = (x.transpose(0, 1) if options.get("batch_first") else x).requires_grad_()
        states = states_of(network, device="cuda", dtype=dtype)
        for given in (None, tuple(states) if network.states == 2 else states[0]):
            found = []
            for reference in (False, True):
                with CONTEXT.having(reference=reference):
                    out, last = layer(x, given)
                    outs = [out, *(last if isinstance(last, tuple) else [last])]
                    loss = sum((o.float().sin().mean() for o in outs), 0.0)
                    wanted = [x, *(states if given is not None else []), *layer.parameters()]
                    firsts = ad.autograd.grad(loss, wanted, retain_graph=True)
                    again = ad.autograd.grad(loss, wanted)
                    with ad.no_grad():
                        plain = layer(x, given)[0]
                found.append([*outs, *firsts, *again, plain])
            for at, (mine, theirs) in enumerate(zip(*found, strict=True)):
                where = f"result {at} of {(length, batch, inputs, hidden)} by {chosen[-4]}"
                ad.testing.assert_close(
                    mine, theirs, **CLOSE[dtype], msg=lambda text, where=where: f"{where}: {text}"
                )
    assert sum(c is not None for c in chosen) == len(chosen) // 2


@ASKED
@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [ad.float32, ad.float16], ids=lambda d: d.name)
@pytest.mark.parametrize("kind", KINDS)
def test_packed_sequences_by_cudnn(kind: str, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ad.manual_seed(8)
    chosen = taken(monkeypatch)
    for both, hidden in ((False, 6), (True, 64), (True, 300)):
        layer = layer_of(kind, {"bidirectional": both, "num_layers": 2}, 5, hidden)
        layer = layer.to("cuda", dtype)
        lengths = ad.tensor([2, 9, 5, 5, 1])
        x = ad.randn(9, 5, 5, device="cuda", dtype=dtype, requires_grad=True)
        found = []
        for reference in (False, True):
            with CONTEXT.having(reference=reference):
                packed = pack_padded_sequence(x, lengths, enforce_sorted=False)
                out, last = layer(packed)
                outs = [out.data, *(last if isinstance(last, tuple) else [last])]
                loss = sum((o.float().sin().mean() for o in outs), 0.0)
                found.append([*outs, *ad.autograd.grad(loss, [x, *layer.parameters()])])
        for mine, theirs in zip(*found, strict=True):
            ad.testing.assert_close(mine, theirs, **CLOSE[dtype])
    assert [c is not None for c in chosen] == [True, False] * 3


@ASKED
@pytest.mark.cuda
@pytest.mark.parametrize("kind", KINDS)
def test_autocast_has_cudnn_run_in_halves(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packed or not, as in PyTorch; what is compiled gives the same, and the same dtypes."""
    chosen = taken(monkeypatch)
    ad.manual_seed(4)
    layer = layer_of(kind, {"num_layers": 2, "bidirectional": True}, 8, 16).cuda()
    x = ad.randn(7, 3, 8, device="cuda")
    packed = pack_padded_sequence(x, ad.tensor([7, 4, 2]))

    def step(x: Any) -> Any:
        with ad.autocast("cuda", ad.bfloat16):
            out, last = layer(x)
        outs = [out, *(last if isinstance(last, tuple) else [last])]
        loss = sum((o.float().square().sum() for o in outs), 0.0)
        return [*outs, *ad.autograd.grad(loss, [*layer.parameters()])]

    found, programmed = step(x), ad.compile(step)(x)
    first = chosen[0]
    assert first is not None
    assert first.dtype == "bfloat16"
    for mine, theirs in zip(found, programmed, strict=True):
        assert mine.dtype is theirs.dtype
        apart = (mine.float() - theirs.float()).norm()
        assert apart <= 0.03 * theirs.float().norm() + 1e-3
    del chosen[:]
    with ad.autocast("cuda", ad.bfloat16):
        out = layer(packed)[0].data
    assert chosen.pop() is not None
    assert out.dtype is ad.bfloat16
    ad.testing.assert_close(out.float(), layer(packed)[0].data, rtol=0.03, atol=0.03)


@ASKED
@pytest.mark.cuda
def test_training_by_cudnn() -> None:
    """Steps of an optimizer, with accumulated gradients and saved tensors kept on the CPU."""

    def losses(reference: bool) -> list[float]:
        ad.manual_seed(2)
        layer = ad.nn.LSTM(8, 16, 2, dropout=0.25).cuda()
        optimizer = ad.optim.SGD(layer.parameters(), lr=0.2, momentum=0.9)
        xs, found = ad.randn(6, 5, 4, 8).cuda(), []
        for i, x in enumerate(xs):
            with CONTEXT.having(reference=reference):
                ad.manual_seed(i)
                with ad.autograd.graph.save_on_cpu():
                    loss = layer(x)[0].square().mean()
                loss.backward()
                (layer(x)[1][0].sum() * 0.01).backward()
                optimizer.step()
                optimizer.zero_grad()
                with ad.inference_mode():
                    found.append(float(layer(x)[0].sum()))
            found.append(float(loss))
        return found

    np.testing.assert_allclose(
        losses(reference=False), losses(reference=True), rtol=1e-3, atol=1e-3
    )


@ASKED
@pytest.mark.cuda
def test_second_derivatives_on_a_gpu() -> None:
    ad.manual_seed(1)
    layer = ad.nn.GRU(3, 2).to("cuda", ad.float64)
    x = ad.randn(3, 2, 3, device="cuda", dtype=ad.float64, requires_grad=True)
    assert ad.autograd.gradgradcheck(lambda x: layer(x)[0], (x,))


@ASKED
@pytest.mark.cuda
def test_what_cudnn_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Projections, dropout, determinism, transforms, capture, and where it is off."""
    chosen = taken(monkeypatch)
    x = ad.randn(4, 2, 8, device="cuda")
    layer = ad.nn.LSTM(8, 8).cuda()
    layer(x)
    assert chosen.pop() is not None
    for other in (ad.nn.LSTM(8, 8, proj_size=4).cuda(),):
        other(x)
        assert chosen.pop() is None
    ad.use_deterministic_algorithms(True)
    try:
        layer(x)
    finally:
        ad.use_deterministic_algorithms(False)
    assert chosen.pop() is None
    with ad.backends.cudnn.flags(enabled=False):
        layer(x)
    assert chosen.pop() is None
    ad.func.jvp(lambda x: layer(x)[0], (x,), (x,))
    assert chosen.pop() is None
    layer(x)
    assert chosen.pop() is not None


# -- how cuDNN is called, on a stand-in for it --------------------------------------------------


@pytest.fixture
def cudnn(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A stand-in for the library, and for CuPy's memory."""
    fake, memory = FakeCudnn(), host_cupy()
    monkeypatch.setattr(library, "cupy", lambda: memory)
    monkeypatch.setattr(library, "library", lambda: library.CudnnCalls(fake))  # type: ignore[arg-type]
    caches = (
        library.prepared, library.is_right, library.weight_offsets, library.recurrence_of
    )  # fmt: skip
    for kept in caches:
        kept.cache_clear()
    yield fake
    for kept in caches:
        kept.cache_clear()


def memory() -> Any:
    return library.cupy()


def held(x: ad.Tensor) -> Any:
    made = HostArray(tuple(x.shape), x.detach().numpy().dtype)
    made[...] = x.detach().numpy()
    return made


@pytest.mark.parametrize("given", [False, True], ids=["zeros", "states"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["one layer", "deep both ways, no biases", "packed"])
def test_calls_of_cudnn(name: str, kind: str, given: bool, cudnn: Any) -> None:
    """Parameters and gradients go to and from cuDNN's order; a tape may be walked twice."""
    ad.manual_seed(5)
    options = OPTIONS["two layers" if name == "packed" else name]
    network = network_of(kind, options, (3, 2, 3, 2))
    network = dataclasses.replace(network, sizes=(2, 1, 1) if name == "packed" else ())
    operands = [ad.randn(*network.out_shape[:-1], 3, dtype=ad.float64)]
    operands += states_of(network, dtype=ad.float64) if given else []
    operands += [ad.randn(*s, dtype=ad.float64) for s in network.weight_shapes()]
    leaves = [x.detach().requires_grad_() for x in operands]
    count = network.states if given else 0
    want = RECURRENT_NETWORK(*leaves, network=network, given=count, training=True)
    arrays = [held(x) for x in leaves]
    out, kept, *last = kernels.recurrent_network(
        memory(), *arrays, network=network, given=count, training=True
    )
    for mine, theirs in zip((out, *last), (want[0], *want[2:]), strict=True):
        assert_allclose(mine, theirs.detach().numpy(), rtol=1e-12)
    alone = kernels.recurrent_network(
        memory(), *arrays, network=network, given=count, training=False
    )
    assert_allclose(alone[0], out)
    assert alone[1].size == 0
    gs = [ad.randn(*o.shape, dtype=ad.float64) for o in (want[0], *want[2:])]
    for got in ((True,) * len(gs), (False, *(True,) * len(last)), (True, *(False,) * len(last))):
        used = [g for g, u in zip(gs, got, strict=True) if u]
        outs = [o for o, u in zip((want[0], *want[2:]), got, strict=True) if u]
        all_of = ad.autograd.grad(outs, leaves, used, retain_graph=True)
        for wanted in ((True,) * len(leaves), (True, *(False,) * (len(leaves) - 1))):
            found = kernels.recurrent_gradient(
                memory(), *map(held, used), out, kept, *arrays, got=got, wanted=wanted,
                network=network, given=count,
            )  # fmt: skip
            some = [g for g, w in zip(all_of, wanted, strict=True) if w]
            for mine, theirs in zip(found, some, strict=True):
                assert_allclose(mine, theirs.numpy(), rtol=1e-10, atol=1e-12)
    assert cudnn.streams == [5]
    for x, array in zip(leaves, arrays, strict=True):
        assert_allclose(array, x.detach().numpy(), rtol=0)


@pytest.fixture
def on_a_gpu(cudnn: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What libraries run is run by the stand-in; the names of what goes the long way."""
    memory, general = library.cupy(), []
    memory.cuda.runtime.getDevice = lambda: 0
    monkeypatch.setattr(executor, "cupy", lambda: memory)
    monkeypatch.setitem(DEVICE_LAYOUTS, HostArray, lambda array: (0, False))
    for record, kernel in (
        (RECURRENT_NETWORK, kernels.recurrent_network),
        (networks.RECURRENT_GRADIENT, kernels.recurrent_gradient),
    ):
        monkeypatch.setitem(record.plans, executor.DEVICE_KERNEL, partial(kernel, memory))
    run_general = executor.run_general

    def noted(record: Any, operands: Any, params: Any) -> Any:
        if type(operands[0]._array) is not HostArray:  # the stand-in's own
            return run_general(record, operands, params)
        general.append(record.name)
        return None

    monkeypatch.setattr(executor, "run_general", noted)
    return general


@pytest.mark.parametrize("given", [False, True], ids=["zeros", "states"])
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_the_short_way(kind: str, given: bool, on_a_gpu: list[str]) -> None:
    """Results and gradients, along the tape; what is differentiated twice is composed."""
    ad.manual_seed(7)
    network = network_of(kind, OPTIONS["two layers"], (3, 2, 3, 2))
    shapes = [(3, 2, 3), *[network.state_shape] * (network.states * given)]
    shapes += network.weight_shapes()
    leaves = [ad.randn(*shape, dtype=ad.float64).requires_grad_() for shape in shapes]
    mine = [wrap(held(x)).requires_grad_() for x in leaves]
    how = {"network": network, "given": network.states * given, "training": True}
    outs, wanted = (RECURRENT_NETWORK(*xs, **how) for xs in (mine, leaves))
    g = ad.randn(*wanted[0].shape, dtype=ad.float64)
    pulled = [
        ad.autograd.grad([xs[0]], operands, [gs])
        for xs, operands, gs in ((outs, mine, wrap(held(g))), (wanted, leaves, g))
    ]
    assert on_a_gpu == []
    outs, wanted = ([xs[0], *xs[2:]] for xs in (outs, wanted))
    for here, there in zip((*outs, *pulled[0]), (*wanted, *pulled[1]), strict=True):
        assert type(here._array) is HostArray
        assert_allclose(here._array, there.detach().numpy(), rtol=1e-10, atol=1e-12)
    with ad.no_grad():
        assert not RECURRENT_NETWORK(*mine, **how)[0].requires_grad
    assert on_a_gpu == []
    networks.RECURRENT_GRADIENT(*mine, got=(True,), wanted=(), network=network, given=0)
    assert on_a_gpu == ["recurrent_network_gradient"]


def test_what_the_stand_in_refuses(cudnn: Any) -> None:
    """A kind that cuDNN does not take is left to the composition; what it told is forgotten."""
    network = network_of("GRU", {}, (3, 2, 3, 2))
    assert library.prepared(0, dataclasses.replace(network, dtype="float16")) is None
    assert library.prepared(0, network) is not None
    assert library.prepared(0, dataclasses.replace(network, algorithm=3)) is not None
    assert library.prepared(0, dataclasses.replace(network, algorithm=WRONG)) is None
    cudnn.unsupported = True
    other = network_of("GRU", {}, (3, 2, 3, 4))
    assert library.prepared(0, other) is None
    library.prepared.cache_clear()
    gc.collect()
    assert len(set(cudnn.gone)) == len(cudnn.gone) >= 8


def test_what_leaves_memory_unwritten_is_not_taken(
    cudnn: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the standard algorithm too, which others are compared with."""
    network = network_of("GRU", {}, (3, 2, 3, 2))
    monkeypatch.setattr(library, "STANDARD", WRONG)
    assert library.prepared(0, dataclasses.replace(network, algorithm=WRONG)) is None


def test_nothing_is_tried_while_a_stream_is_captured(
    cudnn: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = network_of("GRU", {}, (3, 2, 3, 2))
    monkeypatch.setattr(kernels, "installed", lambda: (object(), ""))
    kernels._choice.cache_clear()
    try:
        with monkeypatch.context() as captured:
            captured.setattr(STREAM_CAPTURE, "graph", object())
            assert kernels.choose(network, 0) is None
        assert kernels.choose(network, 0) is not None
    finally:
        kernels._choice.cache_clear()


@pytest.mark.parametrize("place", range(7), ids=["x", "h", "c", "ih", "hh", "bias", "other bias"])
def test_operands_changed_after_forward_are_told(place: int) -> None:
    """A library reads weights again in backward."""
    network = network_of("LSTM", {}, (3, 2, 3, 2))
    shapes = [(3, 2, 3), *[network.state_shape] * 2, *network.weight_shapes()]
    operands = [ad.randn(*shape, dtype=ad.float64, requires_grad=True) for shape in shapes]
    out = RECURRENT_NETWORK(*operands, network=network, given=2, training=True)[0]
    with ad.no_grad():
        operands[place].mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()
