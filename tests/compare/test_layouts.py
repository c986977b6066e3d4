"""How results lie in memory: PyTorch's strides, of operands that lie in different ways."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
from adjoint.graph import capture

torch: Any = pytest.importorskip("torch")

pytestmark = [pytest.mark.compare, pytest.mark.filterwarnings("ignore")]

Fn = Callable[..., Any]
TWO: dict[str, Fn] = {
    "add": lambda lib, x, y: x + y,
    "compare": lambda lib, x, y: x < y,
    "where": lambda lib, x, y: lib.where(x > y, x, y),
    "lerp": lambda lib, x, y: lib.lerp(x, y, 0.3),
    "clamp": lambda lib, x, y: lib.clamp(x, y, y + 1),
    "addcmul": lambda lib, x, y: lib.addcmul(x, y, y),
    "maximum": lambda lib, x, y: lib.maximum(x, y),
    "atan2": lambda lib, x, y: lib.atan2(x, y),
}
ONE: dict[str, Fn] = {
    "layer_norm": lambda lib, x: lib.nn.functional.layer_norm(x, x.shape[-1:]),
    "rms_norm": lambda lib, x: lib.nn.functional.rms_norm(x, x.shape[-1:]),
    "group_norm": lambda lib, x: lib.nn.functional.group_norm(x, 1),
    "instance_norm": lambda lib, x: lib.nn.functional.instance_norm(x),
    "batch_norm": lambda lib, x: lib.nn.functional.batch_norm(x, None, None, training=True),
    "centred": lambda lib, x: (x - x.mean(0, keepdim=True)) / x.std(-1, keepdim=True),
    "normalize": lambda lib, x: lib.nn.functional.normalize(x, dim=1),
    "dropout": lambda lib, x: lib.nn.functional.dropout(x, 0.5),
    "elu": lambda lib, x: lib.nn.functional.elu(x),
    "sort": lambda lib, x: lib.sort(x, 0)[0],
    "argsort": lambda lib, x: lib.argsort(x, -1),
    "masked_fill": lambda lib, x: x.masked_fill(x > 0, 1.0),
    "masked_scatter": lambda lib, x: x.masked_scatter(x > 0, lib.ones_like(x)),
}


def _operand(chance: random.Random, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """The same memory in both libraries: dimensions in any order, some repeated, some cut."""
    order = chance.sample(range(len(shape)), len(shape))
    steps = [chance.choice([1, 1, 2]) for _ in shape]
    once = [chance.random() < 0.2 for _ in shape]
    made = []
    for lib in (ad, torch):
        sizes = [1 if once[d] else shape[d] * steps[d] for d in order]
        x = lib.arange(float(_product(sizes))).reshape(sizes)
        x = x.permute([order.index(d) for d in range(len(shape))])
        cut = tuple(slice(None, None, 1 if once[d] else steps[d]) for d in range(len(shape)))
        made.append(x[cut])
    return made[0], made[1]


def _product(sizes: list[int]) -> int:
    total = 1
    for n in sizes:
        total *= n
    return total


# Of these, dimensions of one element may lie otherwise, of tensors that are row-major whatever
# their strides: PyTorch takes numbers for parameters there, or has kernels for rows.
LOOSE = frozenset(
    "lerp addcmul layer_norm instance_norm batch_norm group_norm sort argsort masked_fill "
    "masked_scatter circular stack".split()
) | {"cat with nothing", "stack in front"}  # fmt: skip


def _steps(x: Any, name: str = "") -> list[int]:
    """The strides, those of dimensions of one element included: they tell formats apart."""
    every = zip(x.shape, x.stride(), strict=True)
    return [step for size, step in every if size > 1 or name not in LOOSE]


@pytest.mark.parametrize("name", TWO)
def test_two_operands(name: str) -> None:
    """The first decides where they differ, whatever is repeated along a dimension."""
    chance, fn = random.Random(name), TWO[name]
    for _ in range(60):
        shape = tuple(chance.choice([1, 2, 3, 4]) for _ in range(chance.choice([2, 3, 4])))
        (x, tx), (y, ty) = _operand(chance, shape), _operand(chance, shape)
        want, out = fn(torch, tx, ty), fn(ad, x, y)
        assert _steps(out, name) == _steps(want, name), (x.shape, x.stride(), y.shape, y.stride())


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "round", "sign", "abs", "square"])
@pytest.mark.parametrize("dtype", ["int64", "uint8", "bool", "float32"])
def test_whole_numbers(name: str, dtype: str) -> None:
    """What there is nothing to do for is copied as it lies."""
    for order in ((1, 0, 2), (2, 1, 0), (0, 2, 1)):
        x, tx = (lib.ones(2, 3, 4, dtype=getattr(lib, dtype)).permute(order) for lib in (ad, torch))
        try:
            want = getattr(torch, name)(tx)
        except RuntimeError:
            continue
        assert _steps(getattr(ad, name)(x)) == _steps(want)


@pytest.mark.parametrize("name", ONE)
def test_one_operand(name: str) -> None:
    """Kept where PyTorch keeps it, row by row where it does not."""
    chance, fn = random.Random(name), ONE[name]
    for _ in range(20):
        sizes = [2, 3, 4] if name == "instance_norm" else [1, 2, 3, 4]
        shape = tuple(chance.choice(sizes) for _ in range(chance.choice([3, 4])))
        order = chance.sample(range(len(shape)), len(shape))
        turned = [order.index(d) for d in range(len(shape))]
        x, tx = (lib.randn([shape[d] for d in order]).permute(turned) for lib in (ad, torch))
        assert _steps(fn(ad, x), name) == _steps(fn(torch, tx), name), (x.shape, x.stride())


def _key(chance: random.Random, shape: tuple[int, ...], places: list[int]) -> Fn:
    """What makes the same key in each library: tensors, lists or a mask, and slices beside them."""
    own = chance.choice([[1], [2], [5], [2, 3]])
    kind = chance.choice(["tensor", "tensor", "turned", "list", "mask"])
    numbers = {
        d: [chance.randrange(-shape[d], shape[d]) for _ in range(_product(own))] for d in places
    }
    truths = [chance.random() < 0.7 for _ in range(shape[places[0]])]
    beside = [chance.choice([slice(None), slice(None), slice(0, 2)]) for _ in shape]

    def index(lib: Any, d: int) -> Any:
        if kind == "mask":
            return lib.tensor(truths)
        if kind == "list":
            return numbers[d]
        at = lib.tensor(numbers[d])
        return at.reshape(own[::-1]).t() if kind == "turned" and len(own) > 1 else at.reshape(own)

    def key(lib: Any) -> Any:
        parts: list[Any] = [*beside]
        for d in places[:1] if kind == "mask" else places:
            parts[d] = index(lib, d)
        return tuple(parts)

    return key


@pytest.mark.parametrize("places", [[0], [1], [-1], [0, 1], [1, 2], [0, 2], [0, 1, 2]])
def test_what_indices_pick(places: list[int]) -> None:
    """It lies as the tensor it is picked of, eagerly, in a recording and on the tape."""
    chance = random.Random(str(places))
    for turn in range(50):
        shape = tuple(chance.choice([1, 2, 3, 4]) for _ in range(chance.choice([3, 4])))
        x, tx = _operand(chance, shape)
        key = _key(chance, tuple(x.shape), places)
        want = tx[key(torch)]
        followed = x.detach().requires_grad_()
        outs = [x[key(ad)], followed[key(ad)].detach()]
        if turn < 3:
            outs.append(capture(lambda x: x[key(ad)])(x))  # noqa: B023
        for out in outs:
            assert out.tolist() == want.tolist()
            if out.numel():  # else no stride means anything
                assert _steps(out) == _steps(want), (x.shape, x.stride(), key(ad))


def test_batches_of_images_that_are_shuffled_keep_their_channels_innermost() -> None:
    images = ad.rand(6, 3, 8, 8).contiguous(memory_format=ad.channels_last)
    for key in (ad.randperm(6), [1, 0], ad.arange(6) % 2 == 0, ad.tensor([[0, 1], [2, 3]])):
        out = images[key]
        assert out.flatten(0, -4).is_contiguous(memory_format=ad.channels_last)


# Of one operand, in which some dimensions are repeated.
REPEATED: dict[str, Fn] = {
    "exp": lambda lib, x: lib.exp(x),
    "sigmoid": lambda lib, x: lib.sigmoid(x),
    "neg": lambda lib, x: -x,
    "add": lambda lib, x: x + x,
    "mul": lambda lib, x: x * 2,
    "compare": lambda lib, x: x < x,
    "clone": lambda lib, x: x.clone(),
    "to doubles": lambda lib, x: x.to(lib.float64),
    "to bytes": lambda lib, x: x.to(lib.uint8),
    "to halves": lambda lib, x: x.half(),
}


@pytest.mark.parametrize("name", REPEATED)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int32"])
def test_repeated_dimensions(name: str, dtype: str) -> None:
    """What is repeated keeps its place, also where operands are converted to be computed with."""
    chance, fn = random.Random(name + dtype), REPEATED[name]
    for _ in range(20):
        rank = chance.choice([2, 3])
        sizes = [chance.choice([2, 3]) for _ in range(rank)]
        at, order = chance.randrange(rank + 1), chance.sample(range(rank + 1), rank + 1)
        made = []
        for lib in (ad, torch):
            x = lib.arange(float(_product(sizes))).reshape(sizes).to(getattr(lib, dtype))
            shape = [*sizes[:at], 2, *sizes[at:]]
            made.append(x.unsqueeze(at).expand(shape).permute(order))
        x, tx = made
        if fn(torch, tx).stride() == tx.stride():  # what is converted to its own dtype
            continue
        assert _steps(fn(ad, x)) == _steps(fn(torch, tx)), (x.shape, x.stride())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_what_is_repeated_leaves_the_layout_to_others(dtype: str) -> None:
    for steps in ((0, 0, 1), (0, 1, 0), (1, 0, 0)):
        found = []
        for lib in (ad, torch):
            x = lib.ones(9, dtype=getattr(lib, dtype)).as_strided((2, 3, 4), steps)
            y = lib.ones(2, 4, 3, dtype=x.dtype).mT
            found.append([_steps(out) for out in (x * y, lib.maximum(x, y), x < y, y - x)])
        assert found[0] == found[1], steps


def _images(lib: Any, *shape: int) -> Any:
    return ((lib.arange(float(_product([*shape]))) * 7) % 11 - 5).reshape(shape)


def _filters(lib: Any, *shape: int, last: bool = False) -> Any:
    weights = _images(lib, *shape) / 7
    return weights.contiguous(memory_format=lib.channels_last) if last else weights


# Of images (N, C, H, W).
IMAGES: dict[str, Fn] = {
    "conv2d": lambda lib, x: lib.conv2d(x, _filters(lib, 4, x.shape[1], 2, 2), padding=1),
    "conv2d by filters with channels last": lambda lib, x: lib.conv2d(
        x, _filters(lib, 4, x.shape[1], 2, 2, last=True)
    ),
    "conv2d with a bias": lambda lib, x: lib.conv2d(
        x, _filters(lib, 4, x.shape[1], 1, 1), _images(lib, 4)
    ),
    "conv_transpose2d": lambda lib, x: lib.conv_transpose2d(x, _filters(lib, x.shape[1], 4, 2, 2)),
    "max_pool2d": lambda lib, x: lib.nn.functional.max_pool2d(x, 2, 1, 1, return_indices=True),
    "max_unpool2d": lambda lib, x: lib.nn.functional.max_unpool2d(
        *lib.nn.functional.max_pool2d(x, 2, 1, return_indices=True), 2, 1
    ),
    "avg_pool2d": lambda lib, x: lib.nn.functional.avg_pool2d(x, 2, 1),
    "adaptive_avg_pool2d": lambda lib, x: lib.nn.functional.adaptive_avg_pool2d(x, 2),
    "adaptive_max_pool2d": lambda lib, x: lib.nn.functional.adaptive_max_pool2d(x, 2),
    "lp_pool2d": lambda lib, x: lib.nn.functional.lp_pool2d(x, 2, 2, 1),
    "pad": lambda lib, x: lib.nn.functional.pad(x, (1, 1, 2, -1)),
    "reflected": lambda lib, x: lib.nn.functional.pad(x, (1, 1, 1, 1), mode="reflect"),
    "replicated": lambda lib, x: lib.nn.functional.pad(x, (1, 1, 1, 1), mode="replicate"),
    "circular": lambda lib, x: lib.nn.functional.pad(x, (1, 1, 1, 1), mode="circular"),
    "cat": lambda lib, x: lib.cat([x, x], 1),
    "cat of others": lambda lib, x: lib.cat([x, x.contiguous()], 2),
    "cat with nothing": lambda lib, x: lib.cat([lib.zeros(0), x], 1),
    "stack": lambda lib, x: lib.stack([x, x], 1),
    "stack in front": lambda lib, x: lib.stack([x, x]),
    "roll": lambda lib, x: lib.roll(x, (1, 2), (2, 3)),
    "nearest": lambda lib, x: lib.nn.functional.interpolate(x, scale_factor=2),
    "bilinear": lambda lib, x: lib.nn.functional.interpolate(x, size=(3, 7), mode="bilinear"),
    "bicubic": lambda lib, x: lib.nn.functional.interpolate(x, size=(7, 3), mode="bicubic"),
    "area": lambda lib, x: lib.nn.functional.interpolate(x, size=(2, 2), mode="area"),
    "pixel_shuffle": lambda lib, x: lib.pixel_shuffle(lib.cat([x] * 4, 1), 2),
    "pixel_unshuffle": lambda lib, x: lib.pixel_unshuffle(x[:, :, :4, :4], 2),
    "channel_shuffle": lambda lib, x: lib.nn.functional.channel_shuffle(lib.cat([x] * 2, 1), 2),
    "grid_sample": lambda lib, x: lib.nn.functional.grid_sample(
        x, _images(lib, x.shape[0], 2, 3, 2), align_corners=False
    ),
    "batch_norm": lambda lib, x: lib.nn.functional.batch_norm(x, None, None, training=True),
    "group_norm": lambda lib, x: lib.nn.functional.group_norm(x, 1),
    "dropout2d": lambda lib, x: lib.nn.functional.dropout2d(x, 0.5),
    "scaled": lambda lib, x: x * x.mean((2, 3), keepdim=True),
}
LYING: dict[str, Fn] = {
    "row by row": lambda lib: _images(lib, 2, 3, 4, 5),
    "channels last": lambda lib: _images(lib, 2, 4, 5, 3).permute(0, 3, 1, 2),
    "one channel last": lambda lib: _images(lib, 2, 4, 5, 1).permute(0, 3, 1, 2),
    "one channel": lambda lib: _images(lib, 2, 1, 4, 5),
    "with gaps": lambda lib: _images(lib, 2, 4, 10, 3).permute(0, 3, 1, 2)[..., ::2],
    "some channels": lambda lib: _images(lib, 2, 4, 5, 6).permute(0, 3, 1, 2)[:, :3],
    "one image": lambda lib: _images(lib, 1, 4, 5, 3).permute(0, 3, 1, 2),
    "turned": lambda lib: _images(lib, 2, 3, 5, 4).transpose(2, 3),
    "reversed": lambda lib: _images(lib, 5, 4, 3, 2).permute(3, 2, 1, 0),
    "repeated": lambda lib: _images(lib, 1, 4, 5, 3).permute(0, 3, 1, 2).expand(2, 3, 4, 5),
    "repeated channels": lambda lib: _images(lib, 2, 1, 4, 5).expand(2, 3, 4, 5),
}


@pytest.mark.parametrize("name", IMAGES)
def test_images(name: str) -> None:
    """Channels lie innermost where PyTorch has them so, eagerly and compiled."""
    fn = IMAGES[name]
    for lying, make in LYING.items():
        wanted, found = fn(torch, make(torch)), fn(ad, make(ad))
        compiled = capture(lambda x, fn=fn: fn(ad, x))(make(ad))
        listed = [r if isinstance(r, tuple) else (r,) for r in (wanted, found, compiled)]
        want, got, captured = ([_steps(t, name) for t in each] for each in listed)
        assert got == want, lying
        assert captured == want, lying


# Of images some of whose dimensions have one element.
SINGLE: dict[str, Fn] = {
    "negated": lambda lib, x: -x,
    "doubled": lambda lib, x: x * 2,
    "halves": lambda lib, x: x.half(),
    "truths": lambda lib, x: x > 0,
    "clone": lambda lib, x: x.clone(),
    "zeros_like": lambda lib, x: lib.zeros_like(x),
    "relu": lambda lib, x: lib.relu(x),
    "scaled": lambda lib, x: x * lib.sigmoid(x.mean((2, 3), keepdim=True)),
    "with another": lambda lib, x: x + x.contiguous(memory_format=lib.channels_last),
    "sum": lambda lib, x: x.sum(1, keepdim=True),
    "argmax": lambda lib, x: x.argmax(1, keepdim=True),
    "cat": lambda lib, x: lib.cat([x, x], 1),
    "max_pool2d": lambda lib, x: lib.nn.functional.max_pool2d(x, 1),
    "adaptive_avg_pool2d": lambda lib, x: lib.nn.functional.adaptive_avg_pool2d(x, 1),
    "conv2d": lambda lib, x: lib.conv2d(x, _filters(lib, 4, x.shape[1], 1, 1).to(x.dtype)),
    "one filter": lambda lib, x: lib.conv2d(x, _filters(lib, 1, x.shape[1], 1, 1).to(x.dtype)),
    "nearest": lambda lib, x: lib.nn.functional.interpolate(x, scale_factor=2),
    "to channels last": lambda lib, x: x.to(memory_format=lib.channels_last),
    "to rows": lambda lib, x: x.to(memory_format=lib.contiguous_format),
    "expanded": lambda lib, x: x.expand(2, *x.shape),
}
FORMATS = ("contiguous_format", "channels_last")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", SINGLE)
def test_dimensions_of_one_element(name: str, dtype: str) -> None:
    """Strides and formats are PyTorch's, eagerly and compiled."""
    chance, fn = random.Random(name), SINGLE[name]
    for _ in range(12):
        shape = tuple(chance.choice([1, 1, 2, 3]) for _ in range(4))
        cut = chance.choice([slice(None), slice(0, 1)])

        def make(lib: Any, shape: Any = shape, cut: slice = cut) -> Any:
            images = _images(lib, *shape).to(getattr(lib, dtype))
            return images.contiguous(memory_format=lib.channels_last)[:, cut]

        want, x = fn(torch, make(torch)), make(ad)
        for out in (fn(ad, x), capture(lambda x: fn(ad, x))(x)):
            assert _steps(out) == _steps(want), (x.shape, x.stride())
            for kind in FORMATS if out.ndim == 4 else ():
                found, told = (
                    t.is_contiguous(memory_format=getattr(lib, kind))
                    for t, lib in ((out, ad), (want, torch))
                )
                assert found == told
