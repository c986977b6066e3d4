"""Whole recurrent networks as one operation: what it composes, its derivatives, and cuDNN's."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint as ad
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.nn import recurrent_networks as networks
from adjoint.engine.ops.nn.recurrent_networks import GATES, RECURRENT_NETWORK, Network

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


def network_of(kind: str, options: dict[str, Any], sizes: tuple[int, int, int, int]) -> Network:
    length, batch, inputs, hidden = sizes
    return Network(
        kind, "float64", length, batch, inputs, hidden, options.get("num_layers", 1),
        1 + options.get("bidirectional", False), options.get("bias", True),
    )  # fmt: skip


def layer_of(kind: str, options: dict[str, Any], inputs: int, hidden: int) -> Any:
    name = kind.partition("_")[0]
    return getattr(ad.nn, name)(inputs, hidden, **KINDS[kind], **options)


def states_of(network: Network, **how: Any) -> list[ad.Tensor]:
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
            zero = [ad.zeros_like(w) if g is None else g for g, w in zip(seconds, wanted)]  # noqa: B905
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


@pytest.mark.parametrize("kind", KINDS)
def test_shapes_of_parameters(kind: str) -> None:
    for options in OPTIONS.values():
        layer = layer_of(kind, options, 5, 3)
        shapes = network_of(kind, options, (2, 2, 5, 3)).weight_shapes()
        assert shapes == [tuple(p.shape) for p in layer.parameters()]
    assert set(GATES) == set(KINDS)


def taken(monkeypatch: pytest.MonkeyPatch) -> list[Network | None]:
    """What is chosen from now on."""
    chosen: list[Network | None] = []
    choose = networks._chosen

    def noted(*given: Any) -> Network | None:
        chosen.append(choose(*given))
        return chosen[-1]

    monkeypatch.setattr(networks, "_chosen", noted)
    return chosen


CLOSE = {
    ad.float64: {"rtol": 1e-9, "atol": 1e-9},
    ad.float32: {"rtol": 2e-4, "atol": 2e-5},
    ad.float16: {"rtol": 2e-2, "atol": 2e-2},
    ad.bfloat16: {"rtol": 1e-1, "atol": 1e-1},
}


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
    for length, batch, inputs, hidden in ((5, 3, 7, 6), (16, 8, 32, 64), (1, 1, 1, 1)):
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
            for mine, theirs in zip(*found, strict=True):
                ad.testing.assert_close(mine, theirs, **CLOSE[dtype])
    assert sum(c is not None for c in chosen) == len(chosen) // 2


@pytest.mark.cuda
def test_second_derivatives_on_a_gpu() -> None:
    ad.manual_seed(1)
    layer = ad.nn.GRU(3, 2).to("cuda", ad.float64)
    x = ad.randn(3, 2, 3, device="cuda", dtype=ad.float64, requires_grad=True)
    assert ad.autograd.gradgradcheck(lambda x: layer(x)[0], (x,))


@pytest.mark.cuda
def test_what_cudnn_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Projections, dropout, autocast, determinism, transforms, capture, and where it is off."""
    chosen = taken(monkeypatch)
    x = ad.randn(4, 2, 8, device="cuda")
    layer = ad.nn.LSTM(8, 8).cuda()
    layer(x)
    assert chosen.pop() is not None
    for other in (ad.nn.LSTM(8, 8, proj_size=4).cuda(),):
        other(x)
        assert chosen.pop() is None
    with ad.autocast("cuda", ad.bfloat16):
        layer(x)
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
