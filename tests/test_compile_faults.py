"""What goes wrong inside kernels is told as eager execution tells it, and changes nothing."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
from adjoint import nn
from adjoint.nn import functional as F

CLASSES = 4


def _put(x: Any, at: Any, accumulate: bool) -> Any:
    return x.T.clone().index_put((at,), ad.tensor(1.0), accumulate=accumulate)


# name -> f(x, at): x is (3, 4), at are three indices below 4.
INDEXED: dict[str, Callable[[Any, Any], Any]] = {
    "cross_entropy": F.cross_entropy,
    "cross_entropy weighted": lambda x, at: F.cross_entropy(x, at, weight=ad.ones(CLASSES)),
    "cross_entropy smoothed": lambda x, at: F.cross_entropy(x, at, label_smoothing=0.1),
    "cross_entropy gradient": lambda x, at: ad.func.grad(F.cross_entropy)(x, at),
    "nll_loss": lambda x, at: F.nll_loss(x.log_softmax(-1), at),
    "multi_margin_loss": F.multi_margin_loss,
    "one_hot": lambda x, at: F.one_hot(at, CLASSES),
    "embedding": lambda x, at: F.embedding(at, x.T),
    "embedding_bag": lambda x, at: F.embedding_bag(at[None], x.T),
    "index": lambda x, at: x.T[at],
    "index middle": lambda x, at: x[None, :, :].permute(1, 2, 0)[:, at],
    "index apart": lambda x, at: x[:, None, :].expand(3, 2, 4)[ad.tensor([0, 1, 2]), :, at],
    "gather": lambda x, at: x.gather(1, at[:, None]),
    "gather many": lambda x, at: x.gather(1, at[:, None].expand(3, 9)),
    "scatter": lambda x, at: x.scatter(1, at[:, None], 1.0),
    "scatter many": lambda x, at: x.scatter(1, at[:, None].expand(3, 2), x),
    "scatter_add": lambda x, at: x.scatter_add(1, at[:, None], x),
    "scatter_reduce": lambda x, at: x.scatter_reduce(1, at[:, None], x, "amax"),
    "index_select": lambda x, at: x.index_select(1, at),
    "index_add": lambda x, at: x.index_add(1, at, x[:, :3]),
    "index_copy": lambda x, at: x.index_copy(1, at, x[:, :3]),
    "index_put": lambda x, at: _put(x, at, accumulate=False),
    "index_put accumulate": lambda x, at: _put(x, at, accumulate=True),
    "take": lambda x, at: ad.take(x, at * 3),
    "take_along_dim": lambda x, at: ad.take_along_dim(x, at[:, None], 1),
}


@pytest.mark.parametrize("name", INDEXED)
@pytest.mark.parametrize("wrong", [4, -5, 1 << 20, 1 << 45])
def test_an_index_out_of_bounds_is_told_as_eager_execution_tells_it(name: str, wrong: int) -> None:
    fn, x = INDEXED[name], ad.randn(3, CLASSES)
    compiled = ad.compile(fn)
    good, bad = ad.tensor([0, 3, 1]), ad.tensor([0, wrong, 1])
    ad.testing.assert_close(compiled(x, good), fn(x, good))
    with pytest.raises((IndexError, RuntimeError)) as eager:
        fn(x, bad)
    with pytest.raises((IndexError, RuntimeError)) as native:
        compiled(x, bad)
    assert native.type is eager.type
    told = str(eager.value)
    if wrong == 1 << 45:  # more than the status has room for
        told = " ".join(word for word in told.split(" ") if not word.isdecimal() or len(word) < 9)
    assert str(native.value) == told


@pytest.mark.parametrize("catches", [False, True])
def test_python_state_where_a_kernel_finds_an_index_out_of_bounds(catches: bool) -> None:
    """As before the call; as Python leaves it where the function could catch the error."""
    state: dict[str, Any] = {"calls": 0, "log": []}
    dice = random.Random(3)

    def step(x: Any, at: Any) -> Any:
        state["calls"] += 1
        state["log"].append(state["calls"])
        scaled = x * dice.random()
        try:
            return scaled.gather(0, at)
        except RuntimeError:
            if not catches:
                raise
            state["log"].append("caught")
            return scaled

    def whole(x: Any, at: Any) -> Any:
        state["calls"] += 1
        state["log"].append(state["calls"])
        return (x * dice.random()).gather(0, at)

    compiled = ad.compile(step if catches else whole)
    x, good, bad = ad.ones(3), ad.tensor([0, 1]), ad.tensor([0, 7])
    first = compiled(x, good)[0].item()
    if catches:
        compiled(x, bad)
        assert state == {"calls": 2, "log": [1, 2, "caught"]}
    else:
        with pytest.raises(RuntimeError, match="out of bounds"):
            compiled(x, bad)
        assert state == {"calls": 1, "log": [1]}
    drawn = random.Random(3)
    assert first == pytest.approx(drawn.random())
    if catches:
        drawn.random()
    assert compiled(x, good)[1].item() == pytest.approx(drawn.random())


def test_the_first_check_of_a_kernel_is_the_one_that_is_told() -> None:
    compiled = ad.compile(lambda x, at: x.gather(0, at).gather(0, at + 10))
    with pytest.raises(RuntimeError, match="index 7 is out of bounds"):
        compiled(ad.ones(4), ad.tensor([1, 7]))


def test_every_lane_is_looked_at() -> None:
    compiled = ad.compile(lambda x, at: x.gather(0, at))
    x = ad.arange(5.0)
    for place in range(13):
        at = ad.zeros(13, dtype=ad.int64)
        at[place] = 100 + place
        with pytest.raises(RuntimeError, match=f"index {100 + place} is out of bounds"):
            compiled(x, at)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_step_that_fails_leaves_everything_as_it_was(threads: int) -> None:
    ad.manual_seed(0)
    net = nn.Sequential(
        nn.Embedding(10, 8), nn.Flatten(), nn.Linear(24, 6), nn.BatchNorm1d(6), nn.Dropout(0.5)
    )
    optimizer = ad.optim.AdamW(net.parameters(), lr=0.1)

    def plain(words: Any, classes: Any) -> Any:
        loss = F.cross_entropy(net(words), classes)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        return loss

    step = ad.compile(plain)
    words, classes = ad.randint(0, 10, (5, 3)), ad.randint(0, 6, (5,))

    def seen() -> Any:
        state = [t.clone() for t in net.state_dict().values()]
        state += [t.clone() for s in optimizer.state.values() for t in s.values()]
        state += [p.grad.clone() for p in net.parameters() if p.grad is not None]
        return [*state, ad.get_rng_state()]

    before = ad.get_num_threads()
    ad.set_num_threads(threads)
    try:
        step(words, classes)
        held = seen()
        for bad in ((words + 8, classes), (words, classes - 4)):
            with pytest.raises(IndexError):
                step(*bad)
            assert all(ad.equal(a, b) for a, b in zip(seen(), held, strict=True))
        step(words, classes)
        assert not ad.equal(seen()[0], held[0])
    finally:
        ad.set_num_threads(before)
