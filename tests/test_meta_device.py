"""The meta device: shapes, dtypes and strides without elements, as on the CPU."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
from adjoint import nn
from adjoint.nn import functional as F
from adjoint.utils.data import DataLoader


def seen(x: Any) -> Any:
    """What is known of a result without its elements."""
    if isinstance(x, (tuple, list)):
        return [seen(v) for v in x]
    return (tuple(x.shape), x.dtype, x.stride(), x.requires_grad)


Program = Callable[[Any], Any]  # of a (4, 6) floating tensor that requires grad
PROGRAMS: dict[str, Program] = {
    "arithmetic": lambda x: x * 2 + x.half() / 3,
    "product": lambda x: x @ x.t(),
    "reductions": lambda x: (x.sum(1), x.argmax(0), x.std(), x.amax((0, 1), keepdim=True)),
    "views": lambda x: (x.t(), x[:, 1], x.view(3, 8)[1:], x.expand(2, 4, 6), x.unfold(1, 2, 2)),
    "layouts": lambda x: (x.t() + 1, x.t().contiguous(), x.t().exp()),
    "indexing": lambda x: (x[[0, 2]], x[..., ::2], x[x.argmax(1) * 0]),
    "joins": lambda x: (ad.cat([x, x]), ad.stack([x, x], 1), x.split(4, 1)),
    "sorting": lambda x: tuple(x.sort(1)) + tuple(t.contiguous() for t in x.topk(2)),
    "softmax": lambda x: (x.softmax(-1), F.layer_norm(x, (6,)), F.gelu(x)),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]),
    "convolution": lambda x: F.conv1d(x, x[:, :, None].transpose(0, 1)[:5, :4], padding=1),
    "pooling": lambda x: (F.max_pool1d(x, 2), F.adaptive_avg_pool1d(x, 4), F.pad(x, (1, 2))),
    "comparison": lambda x: (x > 0, x.isnan(), ad.where(x > 0, x, 0.0)),
    "linalg": lambda x: (ad.linalg.svd(x), ad.linalg.inv(x[:, :4])),
    "likes": lambda x: (ad.zeros_like(x), x.new_ones(3), ad.rand_like(x), x.clone()),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_look_like_those_on_the_cpu(name: str) -> None:
    here = ad.rand(4, 6, requires_grad=True)
    there = ad.rand(4, 6, requires_grad=True, device="meta")
    got = PROGRAMS[name](there)
    assert seen(got) == seen(PROGRAMS[name](here))
    for each in got if isinstance(got, tuple) else (got,):
        for t in each if isinstance(each, tuple) else (each,):
            assert t.is_meta
            assert t.device == ad.device("meta")


def test_writes_reach_no_elements() -> None:
    x = ad.empty(2, 3, device="meta")
    view = x[:, 1]
    version = view._version
    x.add_(1)
    x[0] = 3
    x.uniform_()
    x.copy_(ad.ones(2, 3))
    assert view._version > version
    with pytest.raises(NotImplementedError, match="no data"):
        ad.ones(2, 3).copy_(x)


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(8 * 6 * 6, 10),
    )


def test_a_model_for_its_shapes() -> None:
    with ad.device("meta"):
        model = network()
        x = ad.randn(4, 3, 6, 6)
        classes = ad.zeros(4, dtype=ad.int64)
    assert {p.device.type for p in model.parameters()} == {"meta"}
    assert sum(p.numel() for p in model.parameters()) == sum(
        p.numel() for p in network().parameters()
    )
    optimizer = ad.optim.AdamW(model.parameters())
    loss = F.cross_entropy(model(x), classes)
    loss.backward()
    optimizer.step()
    assert loss.shape == ()
    assert all(p.grad.is_meta and p.grad.shape == p.shape for p in model.parameters())


def test_from_meta_to_elements() -> None:
    with ad.device("meta"):
        model = network()
    twin = copy.deepcopy(model)
    with pytest.raises(NotImplementedError, match="to_empty"):
        model.to("cpu")
    source = network()
    model.to_empty(device="cpu")
    model.load_state_dict(source.state_dict())
    twin.load_state_dict(source.state_dict(), assign=True)
    x = ad.randn(2, 3, 6, 6)
    want = source.eval()(x)
    assert ad.equal(model.eval()(x), want)
    assert ad.equal(twin.eval()(x), want)


def test_other_draws_are_as_if_nothing_was_drawn() -> None:
    ad.manual_seed(0)
    want = ad.rand(3)
    ad.manual_seed(0)
    with ad.device("meta"):
        network()
    assert ad.equal(ad.rand(3), want)


def test_what_needs_elements_says_so() -> None:
    x = ad.empty((), device="meta")
    for needs in (x.item, x.__bool__, x.__float__):
        with pytest.raises(RuntimeError, match="meta tensors"):
            needs()
    with pytest.raises(TypeError, match="meta"):
        x.numpy()
    with pytest.raises(NotImplementedError, match="no data"):
        x.cpu()
    with pytest.raises(RuntimeError, match="same device"):
        ad.ones(2) + ad.ones(2, device="meta")
    assert repr(ad.zeros(2, 3, device="meta")) == "tensor(..., device='meta', size=(2, 3))"
    assert x.data_ptr() == 0
    assert ad.ones(2).to("meta").shape == (2,)


class Marked(ad.Tensor):
    pass


def test_pickles_and_copies_keep_shape_strides_class_and_attributes() -> None:
    x: Any = ad.empty(2, 3, device="meta").t().as_subclass(Marked)
    x.note = "kept"
    linear = nn.Linear(3, 2, device="meta", dtype=ad.float16)
    for twin in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert (type(twin), twin.device.type, twin.note) == (Marked, "meta", "kept")
        assert (twin.shape, twin.stride()) == ((3, 2), (1, 3))
    for again in (pickle.loads(pickle.dumps(linear)), copy.deepcopy(linear)):
        assert seen(again.weight) == seen(linear.weight)
        assert type(again.weight) is nn.Parameter
    assert next(iter(DataLoader([x.as_subclass(ad.Tensor)], num_workers=1))).shape == (1, 3, 2)
