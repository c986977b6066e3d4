"""Results and gradients of compiled functions lie in memory as eager ones do."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.engine.core.layout import last_strides
from adjoint.graph import capture
from tests.conformance.cases import make, rows
from tests.samples import S

Layout = Callable[[Any], Any]


def permuted(x: Any, order: list[int]) -> Any:
    """The same elements, in memory as if the dimensions were in this order."""
    inverse = sorted(range(x.ndim), key=order.__getitem__)
    return x.permute(*order).contiguous().permute(*inverse)


def flipped(x: Any) -> Any:
    return permuted(x, [*range(x.ndim)][::-1])


def rolled(x: Any) -> Any:
    return permuted(x, [*range(1, x.ndim), 0])


def channels_last(x: Any) -> Any:
    return permuted(x, [0, *range(2, x.ndim), 1])


def stepped(x: Any) -> Any:
    wide = ad.zeros(*x.shape[:-1], 2 * x.shape[-1], dtype=x.dtype)
    wide[..., ::2] = x
    return wide[..., ::2]


def expanded(x: Any) -> Any:
    return x[:1].expand(x.shape) if x.shape[0] else x


@pytest.mark.parametrize("shuffle", ["pixel_shuffle", "pixel_unshuffle", "channel_shuffle"])
def test_shuffled_channels_stay_innermost(shuffle: str) -> None:
    def fn(x: Any) -> Any:
        return getattr(F, shuffle)(x, 2)

    x = channels_last(ad.randn(2, 8, 4, 6))
    assert capture(lambda x: fn(x).stride())(x) == capture(fn)(x).stride() == fn(x).stride()
    assert fn(x).stride()[1] == 1


LAYOUTS: dict[str, Layout] = {
    f.__name__: f for f in (flipped, rolled, channels_last, stepped, expanded)
}
# Which operands lie so: all, the first alone, all others.
CHOICES: dict[str, Callable[[int], bool]] = {
    "all": lambda k: True,
    "first": lambda k: k == 0,
    "others": lambda k: k > 0,
}
COMPARED = frozenset(
    "addcmul addcdiv complex polar special.chebyshev_polynomial_t _standard_gamma_grad add where "
    "softmax sum amax cumsum nn.functional.gelu nn.functional.layer_norm matmul".split()
)
ROWS = [row for row in rows() if row.capture and not row.random]


def strides(out: Any) -> list[Any]:
    """The steps of results along dimensions that have any."""
    if isinstance(out, (tuple, list)):
        return [found for part in out for found in strides(part)]
    if not isinstance(out, ad.Tensor):
        return []
    steps = zip(out.shape, out.stride(), strict=True)
    return [[step for size, step in steps if size != 1] if out.numel() else []]


def check(row: S, layout: Layout, chosen: Callable[[int], bool]) -> None:
    def given() -> list[Any]:
        case = make(row, ad.float64)
        return [
            layout(x.detach()) if chosen(k) and x.ndim > 1 and x.numel() else x.detach().clone()
            for k, x in enumerate(case.tensors)
        ]

    case = make(row, ad.float64)
    try:
        want = strides(case.fn(*given()))
        got = strides(capture(case.fn)(*given()))
    except (RuntimeError, NotImplementedError, ValueError) as error:
        pytest.skip(f"not taken so: {error}")
    assert got == want


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("row", [row for row in ROWS if row.path in COMPARED], ids=repr)
def test_strides_as_without_compile(row: S, choice: str) -> None:
    check(row, flipped, CHOICES[choice])


KEEPING: dict[str, Callable[[Any], Any]] = {
    "gelu": F.gelu,
    "silu": F.silu,
    "hardtanh": F.hardtanh,
    "softmax": lambda x: x.softmax(0),
    "log_softmax": lambda x: x.log_softmax(1),
    "layer_norm": lambda x: F.layer_norm(x, (3,)),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "flip": lambda x: x.flip(0),
    "cumsum": lambda x: x.cumsum(1),
    "linear": lambda x: F.linear(x, ad.ones(3, 3)),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x),
}


@pytest.mark.parametrize("name", KEEPING)
def test_strides_as_the_function_is_told(name: str) -> None:
    """What a recording believes decides where results lie once machine code computes them."""
    fn, x = KEEPING[name], flipped(ad.randn(2, 3))
    assert capture(lambda x: fn(x).stride())(x) == fn(x).stride()


# Losses of each element, of x and y.
LOSSES: dict[str, Callable[[Any, Any], Any]] = {
    name: functools.partial(getattr(F, name), reduction="none")
    for name in (
        "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div", "poisson_nll_loss",
        "binary_cross_entropy", "binary_cross_entropy_with_logits", "soft_margin_loss",
        "hinge_embedding_loss",
    )
} | {
    "margin_ranking_loss": lambda x, y: F.margin_ranking_loss(x, y, y, reduction="none"),
    "gaussian_nll_loss": lambda x, y: F.gaussian_nll_loss(x, y, y, reduction="none"),
    "gaussian_nll_loss's variance": lambda x, y: F.gaussian_nll_loss(y, y, x, reduction="none"),
    "kl_div of logarithms": lambda x, y: F.kl_div(x, y, reduction="none", log_target=True),
}  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
def test_losses_lie_as_without_compile(name: str) -> None:
    fn, x = LOSSES[name], ad.rand(2, 3, 4)
    for given in ((flipped(x), flipped(x)), (flipped(x), x), (x, flipped(x)), (rolled(x), x)):
        want = fn(*given).stride()
        assert capture(lambda x, y: fn(x, y).stride())(*given) == want
        assert capture(fn)(*given).stride() == want


# What is put into an `out` that has to grow, of x (4, 4).
GROWN: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, out: ad.add(x, 1, out=out),
    "exp": lambda x, out: ad.exp(x, out=out),
    "where": lambda x, out: ad.where(x > 0, x, -x, out=out),
    "sort": lambda x, out: ad.sort(x, out=(out, ad.empty(0, dtype=ad.int64)))[0],
    "sum": lambda x, out: ad.sum(x, 0, keepdim=True, out=out),
    "mm": lambda x, out: ad.mm(x, x, out=out),
    "renorm": lambda x, out: ad.renorm(x, 2, 0, 1.0, out=out),
    "kron": lambda x, out: ad.kron(x, x, out=out),
    "addmm": lambda x, out: ad.addmm(x, x, x, out=out),
}
TURNED = {"add", "exp", "where", "sort"}  # those that lie as x does, as in PyTorch


@pytest.mark.parametrize("name", GROWN)
def test_results_lie_in_an_out_that_grows_as_alone(name: str) -> None:
    fn, x = GROWN[name], ad.rand(4, 4)
    for given in (x, x.t()):
        out = ad.empty(0)
        got = fn(given, out)
        assert got is out
        turned = name in TURNED and given is not x
        assert (out.t() if turned else out).is_contiguous()
        compiled = capture(lambda x: fn(x, ad.empty(0)))(given)
        assert compiled.stride() == out.stride()
        np.testing.assert_allclose(compiled.numpy(), out.numpy(), rtol=1e-6)


# What lies row by row whatever its operands do, of x (2, 3, 3).
ROW_MAJOR: dict[str, Callable[[Any], Any]] = {
    "amax": lambda x: x.amax(1),
    "amin": lambda x: x.amin((1,), keepdim=True),
    "sum": lambda x: x.sum(1),
    "prod": lambda x: x.prod(0),
    "all": lambda x: (x > 0).all(1),
    "norm": lambda x: x.norm(dim=1),
    "infinite norm": lambda x: x.norm(float("inf"), dim=1),
    "var": lambda x: x.var(0),
    "tril": lambda x: x.tril(),
    "triu": lambda x: x.triu(),
    "gather": lambda x: x.gather(1, flipped(ad.zeros(2, 3, 3, dtype=ad.int64))),
    "embedding": lambda x: F.embedding(flipped(ad.ones(2, 3).long()), x[0], padding_idx=1),
    "index_select": lambda x: x.index_select(1, ad.tensor([2, 0])),
    "inv": lambda x: ad.linalg.inv(x + 9 * ad.eye(3)),
    "cholesky": lambda x: ad.linalg.cholesky(x * 0 + ad.eye(3)),
    "qr": lambda x: ad.linalg.qr(x)[1],
    "cdist": lambda x: ad.cdist(x[0], x[1].contiguous()),
    "grid_sample": lambda x: F.grid_sample(x[None], ad.zeros(1, 2, 2, 2), align_corners=False),
}


@pytest.mark.parametrize("name", ROW_MAJOR)
def test_row_major_without_compile_and_with_it(name: str) -> None:
    fn, x = ROW_MAJOR[name], flipped(ad.randn(2, 3, 3))
    assert strides(fn(x)) == strides(fn(x).contiguous())
    assert strides(capture(fn)(x)) == strides(fn(x))
    assert capture(lambda x: fn(x).is_contiguous())(x)


# What keeps images' channels innermost, of x (N, 6, H, W).
OF_IMAGES: dict[str, Callable[[Any], Any]] = {
    "convolution": lambda x: F.conv2d(x, ad.ones(4, 6, 3, 3), padding=1),
    "by one": lambda x: F.conv2d(x, ad.ones(4, 6, 1, 1), stride=2),
    "depthwise": lambda x: F.conv2d(x, ad.ones(6, 1, 3, 3), padding=1, groups=6),
    "transposed": lambda x: F.conv_transpose2d(x, ad.ones(6, 4, 2, 2), stride=2),
    "largest": lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True),
    "largest, adaptive": lambda x: F.adaptive_max_pool2d(x, 3, return_indices=True),
    "mean": lambda x: F.avg_pool2d(x, 2),
    "mean, adaptive": lambda x: F.adaptive_avg_pool2d(x, (3, 2)),
    "nearest": lambda x: F.interpolate(x, scale_factor=2),
    "bilinear": lambda x: F.interpolate(x, size=(9, 5), mode="bilinear"),
    "padded": lambda x: F.pad(x, (1, 2, 0, -1, 1, 0), value=3.0),
    "reflected": lambda x: F.pad(x, (1, 2, 1, 0), mode="reflect"),
    "joined": lambda x: ad.cat([x, 2 * x], 1),
    "joined, each image": lambda x: ad.cat([ad.cat([x, 2 * x], 0), x.clone()], 0),
    "joined, rows": lambda x: ad.cat([x, 2 * x], 2),
    "rolled": lambda x: x.roll((1, 2), (1, 3)),
    "batch_norm": lambda x: F.batch_norm(
        x, None, None, ad.arange(6.0), ad.ones(6), training=True
    ),
    "group_norm": lambda x: F.group_norm(x, 3),
    "group_norm, weighted": lambda x: F.group_norm(x + 9, 2, ad.arange(6.0), ad.ones(6)),
}  # fmt: skip


@pytest.mark.parametrize("size", [5, 24])  # by the eager table, and as compiled fragments
@pytest.mark.parametrize("name", OF_IMAGES)
def test_images_keep_their_channels_innermost(name: str, size: int) -> None:
    """Values and gradients are those of images that lie row by row."""
    fn, x = OF_IMAGES[name], ad.randn(2, 6, size, size)
    results, gradients = [], []
    for given in (x, x.contiguous(memory_format=ad.channels_last)):
        given = given.detach().requires_grad_()
        out = fn(given)
        outs = out if isinstance(out, tuple) else (out,)
        (g,) = ad.autograd.grad((outs[0] * outs[0].detach().cos()).sum(), given)
        results.append(outs)
        gradients.append(g)
    for plain, last in zip(*results, strict=True):
        assert plain.is_contiguous()
        assert last.is_contiguous(memory_format=ad.channels_last)
        np.testing.assert_allclose(plain.detach(), last.detach(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(gradients[0], gradients[1], rtol=1e-3, atol=1e-4)
    given = x.contiguous(memory_format=ad.channels_last)
    assert strides(capture(fn)(given)) == strides(fn(given))


@pytest.mark.parametrize("shape", [(3, 10, 2, 1), (50, 24, 9, 1), (9, 70, 1, 8)])
def test_dimensions_of_one_element_lie_where_formats_say(shape: tuple[int, ...]) -> None:
    x = ad.randn(*shape).contiguous(memory_format=ad.channels_last)
    assert x.stride() == last_strides(shape)
    assert F.conv2d(x, ad.ones(5, shape[1], 1, 1)).stride()[1] == 1


def test_group_norms_of_channels_innermost() -> None:
    """Gradients of weights, of what is far from 0, of volumes and of halves: those of rows."""
    for shape, groups, dtype in (
        ((3, 10, 13, 11), 5, ad.float32),
        ((2, 6, 4, 9, 8), 1, ad.float64),
        ((2, 8, 16, 17), 8, ad.bfloat16),
    ):
        last = ad.channels_last if len(shape) == 4 else ad.channels_last_3d
        x, g = (ad.randn(*shape).to(dtype) for _ in range(2))
        found = []
        for place in (ad.contiguous_format, last):
            affine = [ad.linspace(0.5, 2.0, shape[1], dtype=dtype) for _ in range(2)]
            given = [(x * 2 + 100).contiguous(memory_format=place), *affine]
            given = [t.detach().requires_grad_() for t in given]
            out = F.group_norm(given[0], groups, *given[1:])
            assert out.is_contiguous(memory_format=place)
            found.append([out, *ad.autograd.grad(out, given, g.contiguous(memory_format=place))])
        limit = {ad.float32: 2e-4, ad.float64: 1e-10, ad.bfloat16: 0.05}[dtype]
        for a, b in zip(*found, strict=True):
            a, b = (t.detach().double().numpy() for t in (a, b))
            np.testing.assert_allclose(a, b, rtol=0, atol=limit * np.abs(a).max())


def test_one_volume_has_its_channels_first_wherever_they_lie() -> None:
    x = ad.randn(6, 12, 12, 5).permute(0, 3, 1, 2)  # as images with channels last
    for fn in (F.max_pool3d, F.avg_pool3d):
        plain, lying = x.contiguous().requires_grad_(), x.clone().requires_grad_()
        want, got = fn(plain, 2), fn(lying, 2)
        assert got.is_contiguous()
        np.testing.assert_array_equal(got.detach(), want.detach())
        g = ad.randn(6, 6, 6, 2).permute(0, 3, 1, 2)
        gradients = [ad.autograd.grad(out, z, g) for out, z in ((want, plain), (got, lying))]
        np.testing.assert_array_equal(gradients[0][0], gradients[1][0])


def test_strides_as_of_the_first_operand() -> None:
    x, row = flipped(ad.randn(3, 4)), ad.zeros(4)
    assert ad.select_scatter(x, row, 0, 1).stride() == (1, 3)
    assert capture(lambda x: ad.select_scatter(x, row, 0, 1).stride())(x) == (1, 3)


def test_strides_of_machine_code() -> None:
    x = flipped(ad.randn(2, 3))
    for fn in (F.gelu, KEEPING["flip"]):
        assert ad.compile(fn)(x).stride() == fn(x).stride()
    x = flipped(ad.randn(2, 3, 3))
    for fn in (ROW_MAJOR["amax"], ROW_MAJOR["gather"]):
        assert ad.compile(fn)(x).stride() == fn(x).stride()


# Results that the recording knows otherwise than they are: of a branch that is a choice of each
# call, and elements that a call picks.
CHOSEN = frozenset({"cond", "Tensor.__getitem__"})


@pytest.mark.slow
@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("row", [row for row in ROWS if row.path not in CHOSEN], ids=repr)
def test_recordings_know_the_strides_of_every_sample(row: S, layout: str, choice: str) -> None:
    def given() -> list[Any]:
        tensors = [x.detach() for x in make(row, ad.float64).tensors]
        chosen = [CHOICES[choice](k) and x.ndim > 1 and x.numel() for k, x in enumerate(tensors)]
        laid = LAYOUTS[layout]
        return [laid(x) if so else x for so, x in zip(chosen, tensors, strict=True)]

    fn, known = make(row, ad.float64).fn, []
    try:
        want = strides(fn(*given()))
        capture(lambda *xs: known.append(strides(fn(*xs))))(*given())
    except (RuntimeError, NotImplementedError, ValueError, TypeError, IndexError) as error:
        pytest.skip(f"not taken so: {error}")
    assert known[0] == want


def test_strides_at_every_size() -> None:
    """Which strides a result has may depend on a size that is a symbol."""
    transposed = capture(lambda x: x.t() * 2)
    transposed.dynamic = True
    transposed.reset()
    for n in (3, 4, 5):
        assert transposed(ad.ones(n, 6)).stride() == (1, 6)
    assert transposed.traces == 1


def gradient_strides(fn: Callable[..., Any], given: list[Any], order: int) -> list[list[Any]]:
    """The strides of gradients, and of theirs; cotangents lie as what they are of."""
    wanted = [x.requires_grad_() for x in given if x.is_floating_point()]
    out = fn(*given)
    parts = out if isinstance(out, tuple) else (out,)
    results = [y for y in parts if isinstance(y, ad.Tensor) and y.requires_grad]
    steps = []
    for k in range(order):
        if not results:
            break
        cotangents = [ad.randn_like(y) for y in results]
        gradients = ad.autograd.grad(
            results, wanted, cotangents, create_graph=k + 1 < order, allow_unused=True
        )
        steps.append([strides(g) for g in gradients])
        results = [g for g in gradients if g is not None and g.requires_grad]
    return steps


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("kind", [ad.nn.LSTM, ad.nn.GRU, ad.nn.RNN])
def test_gradients_of_recurrent_layers(kind: Any, order: int) -> None:
    layer = kind(3, 4, batch_first=True)
    found = [
        gradient_strides(fn, [ad.randn(2, 5, 3)], order)
        for fn in (lambda x: layer(x)[0], capture(lambda x: layer(x)[0]))
    ]
    assert found[0] == found[1]
    assert found[0][0] == [[[3, 6, 1]]]  # not row-major: it was computed time step by time step


def check_gradients(row: S, layout: Layout, order: int) -> None:
    def given() -> list[Any]:
        tensors = make(row, ad.float64).tensors
        return [layout(x.detach()) if x.ndim > 1 and x.numel() else x.detach() for x in tensors]

    try:
        want = gradient_strides(make(row, ad.float64).fn, given(), order)
        got = gradient_strides(capture(make(row, ad.float64).fn), given(), order)
    except (RuntimeError, NotImplementedError, ValueError, TypeError) as error:
        pytest.skip(f"not taken so: {error}")
    assert got == want


@pytest.mark.parametrize("layout", [flipped, ad.clone])
@pytest.mark.parametrize("row", [row for row in ROWS if row.path in COMPARED], ids=repr)
def test_gradients_lie_as_without_compile(row: S, layout: Layout) -> None:
    check_gradients(row, layout, 1)


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("row", ROWS, ids=repr)
def test_gradients_of_every_sample(row: S, layout: str) -> None:
    check_gradients(row, LAYOUTS[layout], 1)


@pytest.mark.slow
@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("row", ROWS, ids=repr)
def test_strides_of_every_sample(row: S, layout: str, choice: str) -> None:
    check(row, LAYOUTS[layout], CHOICES[choice])


def dense_in_any_order(rng: Any, shape: tuple[int, ...]) -> Any:
    return permuted(ad.from_numpy(rng.random(shape)), [int(d) for d in rng.permutation(len(shape))])


@pytest.mark.parametrize("seed", range(8))
def test_what_is_picked_lies_without_gaps_in_the_order_of_its_source(seed: int) -> None:
    """Of two dimensions that are not picked along, the outer one stays it; so in all modes."""
    rng = np.random.default_rng(seed)
    for _ in range(8):
        shape = tuple(int(n) for n in rng.integers(2, 5, 4))
        x, dim = dense_in_any_order(rng, shape), int(rng.integers(4))
        picks = ad.from_numpy(rng.integers(-shape[dim], shape[dim], 3))
        key = (*[slice(None)] * dim, picks)
        out = x[key]
        assert np.array_equal(out.numpy(), x.numpy()[(*[slice(None)] * dim, picks.numpy())])
        steps = out.stride()
        assert out.permute(*np.argsort(steps)[::-1]).is_contiguous()
        rest = [d for d in range(4) if d != dim]
        assert sorted(rest, key=steps.__getitem__) == sorted(rest, key=x.stride().__getitem__)
        others = [x.requires_grad_()[key], x.detach().to("meta")[key]]
        if seed == 0:
            others.append(capture(lambda x, at, key=key: x[(*key[:-1], at)])(x, picks))
        assert [other.stride() for other in others] == [steps] * len(others)
