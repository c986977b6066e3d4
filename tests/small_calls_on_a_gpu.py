"""Small calls on a GPU that native code finds, against the CPU: on a GPU, or on a stand-in.

TRITON_INTERPRET=1 python -m tests.small_calls_on_a_gpu
"""

from __future__ import annotations

import ctypes
import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.graph.eager.device_calls import MOST
from adjoint.engine.ops.nn.channel_norm import blend_both

OFTEN = 8  # calls of a kind, of which the later ones are found
RNG = np.random.default_rng(11)


def numbers(*shape: int) -> Any:
    return ad.from_numpy(np.asarray(RNG.standard_normal(shape) + 3, np.float32))


def classes(x: Any) -> Any:
    """A class for each row, where it is."""
    return (ad.arange(x.shape[0]) * 3 % x.shape[1]).to(x.device)


# How a tensor lies, and whether what is put into its memory is found by native code.
LAYOUTS: dict[str, tuple[Callable[[], Any], bool]] = {
    "rows": (lambda: numbers(8, 16).to("cuda"), True),
    "no dimension": (lambda: numbers().to("cuda"), True),
    "channels last": (
        lambda: numbers(4, 2, 3, 3).to("cuda").to(memory_format=ad.channels_last),
        True,
    ),
    "a view at an odd place": (lambda: numbers(130).to("cuda")[1:129], False),
    "with gaps": (lambda: numbers(6, 9).to("cuda")[:, ::2], False),
}
WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "add_": lambda x, y: x.add_(y),
    "add_ of a number": lambda x, y: x.add_(1.25),
    "mul_": lambda x, y: x.mul_(y),
    "div_ by a number": lambda x, y: x.div_(1.7),
    "sub_ with alpha": lambda x, y: x.sub_(y, alpha=2),
    "itself": lambda x, y: x.mul_(x),
    "a part of itself": lambda x, y: x.add_(x[..., -1:]) if x.ndim else x.add_(x),
    "operators": lambda x, y: x.__iadd__(y).__imul__(0.5),
    "zero_": lambda x, y: x.zero_(),
    "fill_ with a negative zero": lambda x, y: x.fill_(-0.0),
    "fill_": lambda x, y: x.fill_(0.3),
    "add_ with alpha": lambda x, y: x.add_(y, alpha=-0.7),
}
NOT_FOUND = ("itself", "a part of itself", "zero_", "fill_ with a negative zero", "fill_")
DRAWS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "normal_": ("normal_", ()),
    "normal_ of a mean": ("normal_", (1.0, 2.0)),
    "normal_ of whole numbers": ("normal_", (1, 2)),
    "uniform_": ("uniform_", (-1.0, 3.0)),
    "bernoulli_": ("bernoulli_", (0.3,)),
    "exponential_": ("exponential_", ()),
    "cauchy_": ("cauchy_", ()),
    "log_normal_": ("log_normal_", ()),
    "geometric_": ("geometric_", (0.4,)),
    "random_": ("random_", (3, 90)),
}
MAKES: dict[str, Callable[[Any], Any]] = {
    "zeros": lambda to: ad.zeros(3, 5, device=to),
    "ones": lambda to: ad.ones((3, 5), dtype=ad.float64, device=to),
    "full": lambda to: ad.full((7,), 0.3, device=to),
    "full of a whole number": lambda to: ad.full((7,), 3, device=to),
    "arange": lambda to: ad.arange(64, device=to),
    "arange of fractions": lambda to: ad.arange(-1.0, 2.0, 0.3, device=to),
    "linspace": lambda to: ad.linspace(-1, 1, 13, device=to),
    "linspace of halves": lambda to: ad.linspace(3, -7.5, 40, dtype=ad.float16, device=to),
    "linspace of doubles": lambda to: ad.linspace(0, 1, 7, dtype=ad.float64, device=to),
    "tril_indices": lambda to: ad.tril_indices(5, 7, 1, device=to),
    "triu_indices": lambda to: ad.triu_indices(6, 4, -2, dtype=ad.int32, device=to),
    "eye": lambda to: ad.eye(5, device=to),
    "rand": lambda to: ad.rand(4, 6, device=to),
    "randn": lambda to: ad.randn(4, 6, dtype=ad.bfloat16, device=to),
    "randint": lambda to: ad.randint(0, 9, (33,), device=to),
    "normal": lambda to: ad.normal(1.0, 2.0, (5,), device=to),
    "with a gradient": lambda to: ad.zeros(3, requires_grad=True, device=to),
}
# By no program; products and sums of doubles are rounded, which kernels might do once.
NOT_MADE = ("with a gradient", "linspace of doubles")


STRAIGHT: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "conv2d": (lambda x, w, b: F.conv2d(x, w, b, padding=1), ((2, 3, 5, 5), (4, 3, 3, 3), (4,))),
    "conv2d of a stride": (lambda x, w: F.conv2d(x, w, None, 2, 1), ((2, 3, 5, 5), (4, 3, 3, 3))),
    "conv1d, padded unevenly": (
        lambda x, w, b: F.conv1d(x, w, b, padding="same"),
        ((2, 3, 8), (4, 3, 4), (4,)),
    ),
    "one image": (lambda x, w: F.conv2d(x, w), ((3, 5, 5), (4, 3, 2, 2))),
    "conv_transpose2d": (
        lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2),
        ((2, 3, 4, 4), (3, 4, 3, 3), (4,)),
    ),
    "grid_sample": (
        lambda x, g: F.grid_sample(x, g, align_corners=False),
        ((2, 3, 5, 5), (2, 4, 4, 2)),
    ),
    "linear": (lambda x, w, b: F.linear(x, w, b), ((2, 3), (4, 3), (4,))),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (5,), w, b), ((3, 5), (5,), (5,))),
    "cross_entropy": (lambda x: F.cross_entropy(x, classes(x)), ((4, 5),)),
    "multi_margin_loss": (lambda x: F.multi_margin_loss(x, classes(x)), ((4, 5),)),
    "mse_loss of itself": (lambda x: F.mse_loss(x, x.detach() * 1, reduction="none"), ((4, 5),)),
    "layer_norm by one vector": (lambda x, w: F.layer_norm(x, (5,), w, w), ((3, 5), (5,))),
    "mse_loss": (lambda x, y: F.mse_loss(x, y, reduction="sum"), ((4, 5), (4, 5))),
    "t": (lambda x: x.t(), ((3, 5),)),
    "reshape": (lambda x: x.reshape(5, 3), ((3, 5),)),
    "transpose": (lambda x: x.transpose(0, 2), ((3, 5, 2),)),
    "unsqueeze": (lambda x: x.unsqueeze(1), ((3, 5),)),
    "chunk": (lambda x: x.chunk(2)[1], ((4, 5),)),
    "tensor_split": (lambda x: ad.cat(x.tensor_split(3, 1)[::2]), ((4, 6),)),
    "meshgrid": (
        lambda x, y: ad.stack([x * y for x, y in [ad.meshgrid(x, y, indexing="xy")]]),
        ((4,), (3,)),
    ),
}


@contextmanager
def counted(hook: str) -> Iterator[list[int]]:
    """How often native code found what it was asked for."""
    assert importlib.import_module("adjoint.engine.backends.triton.runtime.meeting").ready()
    before, found = getattr(HOOKS, hook), [0]

    def noted(*given: Any) -> Any:
        out = before(*given)
        found[0] += out is not None
        return out

    setattr(HOOKS, hook, noted)
    try:
        yield found
    finally:
        setattr(HOOKS, hook, before)


def same(got: Any, want: Any, told: str) -> None:
    """The same in every byte, and of a kind."""
    assert got.dtype is want.dtype, told
    assert tuple(got.shape) == tuple(want.shape), told
    assert got.requires_grad == want.requires_grad, told
    one, other = (x.detach().cpu().clone().reshape(-1).view(ad.uint8) for x in (got, want))
    assert one.numpy().tobytes() == other.numpy().tobytes(), told


def check_write(write: str, layout: str) -> None:
    """What a write leaves, and that it was counted once; memory stays where it is."""
    make, fits = LAYOUTS[layout]
    with counted("meet_into") as found:
        for k in range(OFTEN):
            x, y = make(), make()
            want, other = x.cpu().clone(), y.cpu().clone()
            WRITES[write](want, other)
            before, place = x._version, x.data_ptr()
            assert WRITES[write](x, y) is x
            same(x, want, f"{write} {layout} {k}")
            assert x.data_ptr() == place
            assert x._version == before + want._version, (write, layout)
    assert bool(found[0]) == (fits and write not in NOT_FOUND), (write, layout, found)


def check_fill(dtype: Any) -> None:
    """Elements of every size, filled with numbers that one word fills and others; neighbours stay.

    The driver fills what is in one piece, wherever it begins.
    """
    for value in (0.3, -0.0, 2, -7.25, float("inf"), float("nan"), 65504, 1e30):
        whole = numbers(37).to(dtype)
        part = whole.to("cuda")
        if value == 1e30 and dtype is ad.float16:
            continue
        for begin in (0, 1, 5):
            want, got = whole.clone(), part.clone()
            want[begin : begin + 30].fill_(value)
            assert got[begin : begin + 30].fill_(value)._version == got._version
            same(got, want, f"{dtype} {value} {begin}")


def check_multiples() -> None:
    """Multiples that differ at each call, of rows, of halves, of itself, and on the tape."""
    host = numbers(5, 7)
    for k in range(30):
        other, alpha = numbers(5, 7), 0.37 * k - 3
        x, want = host.to("cuda"), host.clone()
        there = other.to("cuda")
        same(x.add_(there, alpha=alpha), want.add_(other, alpha=alpha), f"{alpha}")
        same(x.sub_(there, alpha=k), want.sub_(other, alpha=k), f"less {k}")
        same(x.add_(there[0], alpha=k), want.add_(other[0], alpha=k), f"of a row {k}")
        same(x.add_(x.t().t(), alpha=2), want.add_(want * 1, alpha=2), f"of itself {k}")
        half = host.half().to("cuda").add_(there.half(), alpha=alpha)
        same(half, host.half().add_(other.half(), alpha=alpha), f"of halves {alpha}")
        leaf = there.requires_grad_()
        (x * 1).add_(leaf, alpha=alpha).sum().backward()
        assert leaf.grad is not None
        np.testing.assert_array_equal(leaf.grad.cpu().numpy(), np.full((5, 7), alpha, np.float32))


def check_statistics(dtype: Any = ad.float32) -> None:
    """Running statistics as the CPU moves them, of a batch each, of weights that differ, in place;
    what is not written at once by native code is written all the same."""
    with counted("meet_into") as found:
        for k in range(OFTEN):
            momentum, few = 1 / (k + 2), k % 3 + 5
            host = [numbers(6).to(dtype), numbers(6).to(dtype), numbers(1, 6, 1), numbers(1, 6, 1)]
            there = [x.to("cuda") for x in host]
            there[2].requires_grad_()
            places = [x.data_ptr() for x in there]
            for x in (host, there):
                blend_both((x[0], x[1]), (x[2], x[3]), momentum, few)
            for x, want in zip(there, host, strict=True):
                same(x.detach(), want, f"statistics {dtype} {k}")
            assert [x.data_ptr() for x in there] == places
            assert [x._version for x in there] == [x._version for x in host] == [1, 1, 0, 0]
            assert not there[0].requires_grad
    assert found[0], dtype
    whole = numbers(12).to("cuda")
    want = whole.cpu()
    for x in (want, whole):  # one that begins at an odd place, and one that is a view
        new = [y.to(x.device) for y in (ad.full((6,), 2.0), ad.full((6,), 3.0))]
        blend_both((x[1:7], x[6:]), (new[0], new[1]), 0.25, 4)
    same(whole, want, "views")


def check_draw(draw: str, layout: str, dtype: Any = ad.float32) -> None:
    """The same bytes as the CPU draws, of as many blocks."""
    name, args = DRAWS[draw]
    make, fits = LAYOUTS[layout]
    with counted("meet_into") as found:
        for k in range(OFTEN):
            x = make().to(dtype) if dtype is not ad.float32 else make()
            rows = ad.zeros(tuple(x.shape), dtype=dtype)
            gpu, cpu = ad.Generator("cuda").manual_seed(k), ad.Generator().manual_seed(k)
            given: list[dict[str, Any]] = [{"generator": gpu}, {"generator": cpu}]
            if k % 2:  # by what was noted of fills from default generators
                there = ad.cuda.default_generators[0]
                gpu, cpu = there.manual_seed(k), ad.default_generator.manual_seed(k)
                given = [{}, {}]
            version = x._version
            assert getattr(x, name)(*args, **given[0]) is x
            getattr(rows, name)(*args, **given[1])
            assert gpu.get_offset() == cpu.get_offset()
            assert x._version == version + 1
            same(x, rows, f"{draw} {layout} {dtype} {k}")
    if fits and layout != "channels last":  # whose elements lie in another order
        assert found[0], draw


def check_making(name: str) -> None:
    """What a function makes on a GPU, with the default generators at the same place."""
    make = MAKES[name]
    device = str(make("cuda").device)
    wanted = []
    for k in range(30 + OFTEN):
        ad.manual_seed(k)
        wanted.append(make("cpu"))
    for told in ("cuda", device, ad.device("cuda")):
        for k, want in enumerate(wanted):
            ad.manual_seed(k)
            got = make(told)
            assert str(got.device) == device
            same(got, want, f"{name} {told} {k}")
            assert got.stride() == want.stride()
    with counted("meet_on_device") as launched:
        make("cuda")
    assert bool(launched[0]) == (name not in NOT_MADE), name
    with ad.device("cuda"):
        for k, want in enumerate(wanted):
            ad.manual_seed(k)
            same(make(None), want, f"{name} by default {k}")


def check_picking() -> None:
    """Rows of a table that has more elements than what programs are for otherwise."""
    rows = MOST // 16 + 5
    table = numbers(rows, 16)
    there = table.to("cuda")
    calls: dict[str, Callable[[Any, Any], Any]] = {
        "embedding": lambda t, i: F.embedding(i, t),
        "embedding_bag": lambda t, i: F.embedding_bag(i, t, mode="max"),
        "index_select": lambda t, i: t.index_select(0, i[0]),
    }
    for name, call in calls.items():
        for k in range(30):
            picks = (ad.arange(12) * 1009 * (k + 1) % rows).reshape(3, 4)
            with counted("meet_on_device") as found:
                got = call(there, picks.to("cuda"))
            same(got, call(table, picks), f"{name} {k}")
        assert found[0], name


def check_straight(name: str) -> None:
    """Results, how they lie, and gradients, whatever of the operands the tape follows."""
    fn, shapes = STRAIGHT[name]
    far = {"atol": 1e-5, "rtol": 1e-5}
    with counted("meet_straight") as found:
        for k in range(30 + 3 * OFTEN):
            leaves = [(numbers(*shape) - 3).to("cuda") for shape in shapes]
            for place, leaf in enumerate(leaves):
                leaf.requires_grad_(bool((k >> place) & 1))
            hosts = [x.detach().cpu().requires_grad_(x.requires_grad) for x in leaves]
            with ad.set_grad_enabled(k % 5 != 0):
                got, want = fn(*leaves), fn(*hosts)
            assert got.requires_grad == want.requires_grad, (name, k)
            assert got.stride() == want.stride(), (name, k)
            np.testing.assert_allclose(got.detach().cpu().numpy(), want.detach().numpy(), **far)
            if got.requires_grad and k > 30:
                (got * got).sum().backward()
                (want * want).sum().backward()
                for x, y in zip(leaves, hosts, strict=True):
                    assert (x.grad is None) == (y.grad is None), (name, k)
                    if y.grad is not None:
                        np.testing.assert_allclose(
                            x.grad.cpu().numpy(), y.grad.numpy(), atol=1e-3, rtol=1e-4
                        )
    assert found[0] > OFTEN // 2 or name == "conv1d, padded unevenly", (name, found)
    if name in ("t", "reshape"):  # a view: what is written to it is written to its source
        x = numbers(*shapes[0]).to("cuda")
        fn(x).zero_()
        assert not x.any().item()


# Calls of which a tensor among the arguments is a number: the functions read it.
AS_NUMBERS: dict[str, tuple[Callable[[Any, Any, Any], Any], tuple[float, float]]] = {
    "huber_loss": (lambda x, y, n: F.huber_loss(x, y, "mean", n), (1.0, 2.0)),
    "cross_entropy": (
        lambda x, y, n: F.cross_entropy(x, classes(x), None, None, -100, None, "mean", n),
        (0.1, 0.3),
    ),
    "conv1d": (lambda x, y, n: F.conv1d(x[None], y[:, :, None], None, n), (1, 2)),
}


def check_read(name: str) -> None:
    """A call is not replayed whose operations depend on elements."""
    fn, values = AS_NUMBERS[name]
    x, y = 4 * numbers(4, 4), numbers(4, 4)
    for value in values:
        number = ad.tensor(value)
        want = fn(x, y, number)
        for k in range(30 + OFTEN):
            got = fn(x.to("cuda"), y.to("cuda"), number.to("cuda"))
            assert got.shape == want.shape, (name, k)
            np.testing.assert_allclose(got.cpu().numpy(), want.numpy(), rtol=1e-5)


LIKE: dict[str, Callable[[Any], Any]] = {
    "rand_like": lambda x: ad.rand_like(x),
    "randn_like": lambda x: ad.randn_like(x, dtype=ad.float64),
    "randint_like": lambda x: ad.randint_like(x, 3, 9),
    "turned": lambda x: ad.randn_like(x.t()),
}


def check_few_read() -> None:
    """Few elements come to the host as they are, whatever their dtype and how they lie."""
    kinds = (
        ad.bool, ad.uint8, ad.int8, ad.int16, ad.int64, ad.float16, ad.bfloat16, ad.float64,
        ad.complex64, ad.complex128, ad.float8_e4m3fn,
    )  # fmt: skip
    for dtype in kinds:
        for shape in ((), (1,), (2, 2), (3, 0), (7,)):
            here = (numbers(*shape) - 3).to(dtype)
            there = here.to("cuda")
            assert there.tolist() == here.tolist(), (dtype, shape)
            assert there.cpu().dtype is dtype
    x = numbers(3, 4)
    there = x.to("cuda")
    first, second = there[0, :2].cpu(), there[1, :2].cpu()  # each in memory of its own
    assert [*first.tolist(), *second.tolist()] == [*x[0, :2].tolist(), *x[1, :2].tolist()]
    assert there.t()[1].tolist() == x.t()[1].tolist()
    assert there[1:, 2].tolist() == x[1:, 2].tolist()


def check_equal() -> None:
    """Whether tensors are equal, or close, is what the CPU says."""
    nan, inf = float("nan"), float("inf")
    rows = ([1.0, 2.0], [1.0, 2.00001], [1.0, nan], [inf, -inf], [inf, inf], [-0.0, 0.0])
    for dtype in (ad.float32, ad.bfloat16):
        for one in rows:
            for other in rows:
                here = [ad.tensor(x, dtype=dtype) for x in (one, other)]
                there = [x.to("cuda") for x in here]
                assert ad.equal(*there) is ad.equal(*here), (one, other)
                for how in ({}, {"equal_nan": True}, {"rtol": 0.0, "atol": 0.0}, {"rtol": 1.0}):
                    assert ad.allclose(*there, **how) is ad.allclose(*here, **how), (
                        one,
                        other,
                        how,
                    )
    x = numbers(3000).to("cuda").requires_grad_()
    y = x.detach().clone()
    assert ad.equal(x, y)
    y[2999] += 1
    assert not ad.equal(x, y)
    assert not ad.allclose(x.reshape(50, 60).t(), y.reshape(50, 60).t())
    for shapes in (((0,), (0,)), ((2, 0), (1, 0)), ((3, 1), (1, 4)), ((), (3,))):
        a, b = (ad.ones(shape, device="cuda") for shape in shapes)
        assert ad.allclose(a, b)
        assert ad.equal(a, b) is (shapes[0] == shapes[1])


def check_grids() -> None:
    """Views of several tensors at once, some of which show parts of others."""
    rows = [numbers(9).to("cuda") for _ in range(2)]
    for k in range(60):
        x, y = rows[k % 2], rows[k % 2][k % 5 : k % 5 + 4]
        for given in ((x, y), (y, x), (x, x), (y, rows[0][:4])):
            got = ad.meshgrid(*given, indexing="ij")
            want = ad.meshgrid(*(z.cpu() for z in given), indexing="ij")
            for one, other in zip(got, want, strict=True):
                same(one, other, f"grid {k}")
                assert one.stride() == other.stride()
        assert ad.meshgrid(x, y, indexing="xy")[0].data_ptr() == x.data_ptr()


def check_subscripts() -> None:
    """Parts of tensors by numbers and slices, asked for again and again, of tensors and views."""
    rng = np.random.default_rng(3)
    for _ in range(12):
        key = tuple(
            int(rng.integers(4)) if rng.random() < 0.4
            else slice(int(rng.integers(3)), None, int(rng.integers(1, 3)))
            for _ in range(int(rng.integers(1, 4)))
        )  # fmt: skip
        key = (*key[:1], None, *key[1:]) if rng.random() < 0.3 else key
        for turned in (False, True):
            for k in range(6):
                here = numbers(4, 5, 6) + k
                there = here.to("cuda")
                x, y = (z.transpose(0, 1) if turned else z for z in (there, here))
                same(x[key], y[key], f"{key} {turned} {k}")
                x[key], y[key] = 7.0 + k, 7.0 + k
                same(there, here, f"{key} {turned} {k} written")


def check_like(name: str) -> None:
    """The same bytes as on the CPU, and lying as they do."""
    host = numbers(3, 5)
    x = host.to("cuda")
    with counted("meet_straight") as found:
        for k in range(30 + OFTEN):
            ad.manual_seed(k)
            want = LIKE[name](host)
            ad.manual_seed(k)
            got = LIKE[name](x)
            same(got, want, f"{name} {k}")
            assert got.stride() == want.stride(), name
    assert found[0] or name == "turned", name


def check_empty() -> None:
    """New memory each time, filled where that was asked for."""
    like = ad.zeros(3, 5, device="cuda")
    for _ in range(40):
        x, y = ad.empty_like(like), like.new_empty(3, 5)
        assert x.data_ptr() != y.data_ptr()
        assert x.stride() == y.stride() == (5, 1)
        assert ad.empty_like(like.t()).stride() == (1, 5)
    for _ in range(40):
        x, y = ad.empty(3, 5, device="cuda"), ad.empty(3, 5, device="cuda")
        assert x.data_ptr() != y.data_ptr()
        assert (tuple(x.shape), x.stride(), x.dtype) == ((3, 5), (5, 1), ad.float32)
    ad.use_deterministic_algorithms(True)
    try:
        assert ad.empty(3, 5, device="cuda").isnan().all().item()
        assert ad.empty_like(like).isnan().all().item()
    finally:
        ad.use_deterministic_algorithms(False)
    ad.set_default_dtype(ad.float64)
    try:
        assert ad.empty(3, 5, device="cuda").dtype is ad.float64
        assert ad.zeros(3, 5, device="cuda").dtype is ad.float64
    finally:
        ad.set_default_dtype(ad.float32)


FOLLOWING: dict[str, Callable[[Any], Any]] = {
    "relu": lambda x: x.relu(),
    "t": lambda x: x.t(),
    "mse_loss": lambda x: F.mse_loss(x, x),
    "randn": lambda x: ad.randn(3, 9, device="cuda"),
}


def check_late_fault(name: str) -> None:
    """What an index out of bounds reported is told, though other calls are tried meanwhile."""
    table, wrong = numbers(4, 3).to("cuda"), ad.tensor([1, 9]).to("cuda")
    x = numbers(3, 7 + len(name)).to("cuda")
    told = False
    try:
        lost = table[wrong]
        for _ in range(40):
            FOLLOWING[name](x)
        lost.cpu()
    except IndexError:
        told = True
    assert told, name


FILLED = (ad.float32, ad.float64, ad.float16, ad.bfloat16)


@contextmanager
def filled_by_words() -> Iterator[list[tuple[int, int]]]:
    """The stand-in's memory is filled as a driver would fill it."""
    buffers = importlib.import_module("adjoint.engine.backends.array.buffers")
    before = buffers.filling
    fills: list[tuple[int, int]] = []

    def filling(width: int) -> Any:
        def fill(at: int, word: int, count: int, stream: int) -> int:
            fills.append((width, count))
            ctypes.memmove(at, word.to_bytes(width, "little") * count, width * count)
            return 0

        return fill

    buffers.filling = filling
    try:
        yield fills
    finally:
        buffers.filling = before


def check_bags() -> None:
    """Bags that offsets divide are one call of the eager table, unless somebody must know of it."""
    executor = importlib.import_module("adjoint.engine.backends.array.executor")
    record = importlib.import_module("adjoint.engine.ops.nn.bags").EMBEDDING_BAG_WHOLE
    calls: list[str] = []

    def kernel(x: Any, index: Any, begins: Any, mode: str) -> Any:
        calls.append(mode)
        ends = [*np.asarray(begins)[1:], index.size]
        out = type(x)((begins.size, x.shape[1]), x.dtype)
        for k, (begin, end) in enumerate(zip(np.asarray(begins), ends, strict=True)):
            rows = [x[i] for i in np.asarray(index)[begin:end]]
            pool = {"sum": np.sum, "mean": np.mean, "max": np.max}[mode]
            out[k] = pool(np.asarray(rows), 0) if rows else 0
        return out

    def spread(g: Any, begins: Any, length: int, mode: str) -> Any:
        calls.append("back")
        out = type(g)((length, g.shape[1]), g.dtype)
        ends = [*np.asarray(begins)[1:], length]
        for k, (begin, end) in enumerate(zip(np.asarray(begins), ends, strict=True)):
            out[begin:end] = g[k] / (max(end - begin, 1) if mode == "mean" else 1)
        return out

    back = importlib.import_module("adjoint.engine.ops.nn.bags").EMBEDDING_BAG_SPREAD
    record.plans[executor.DEVICE_KERNEL] = kernel
    back.plans[executor.DEVICE_KERNEL] = spread
    table, begins = numbers(6, 3).to("cuda"), ad.tensor([0, 2, 2, 5]).to("cuda")
    index, many = ad.tensor([1, 5, 0, 3, 5, 2]).to("cuda"), ad.ones(5000, dtype=ad.int64)
    leaf = table.detach().requires_grad_()
    cases: dict[str, tuple[int, tuple[Any, ...], dict[str, Any]]] = {
        "sum": (1, (index, table, begins), {"mode": "sum"}),
        "mean": (1, (index, table, begins), {}),
        "max": (1, (index, table, begins), {"mode": "max"}),
        "padded": (0, (index, table, begins), {"padding_idx": 5}),
        "short numbers": (1, (index.int(), table, begins.int()), {}),
        "with its end": (
            1, (index, table, ad.tensor([0, 4, 6]).to("cuda")), {"include_last_offset": True}
        ),
        "weighed": (
            0, (index, table, begins), {"mode": "sum", "per_sample_weights": table.reshape(-1)[:6]}
        ),
        "of one length": (0, (index.reshape(2, 3), table), {}),
        "on the tape": (1, (index, leaf, begins), {}),
        "its maximum": (0, (index, leaf, begins), {"mode": "max"}),
        "long bags": (0, (many.to("cuda"), table, begins), {"mode": "max"}),
        "double": (1, (index, table.double(), begins), {}),
        "half": (0, (index, table.half(), begins), {}),
        "nothing": (0, (index[:0], table, begins * 0), {}),
    }  # fmt: skip
    for name, (count, given, options) in cases.items():
        hosts = [x.detach().cpu() for x in given]
        own = {k: x.cpu() if isinstance(x, ad.Tensor) else x for k, x in options.items()}
        want = F.embedding_bag(*hosts, **own)
        for _ in range(30 if name == "mean" else 1):
            calls.clear()
            got = F.embedding_bag(*given, **options)
            assert bool(calls) == count, name
            assert got.dtype is want.dtype, name
            far = 2e-3 if name == "half" else 1e-6
            np.testing.assert_allclose(got.detach().cpu().numpy(), want.numpy(), far, far)
        assert len(calls) == count, name  # where it is not tried any more
    for mode in ("sum", "mean"):
        calls.clear()
        (got,) = ad.autograd.grad(F.embedding_bag(index, leaf, begins, mode=mode).sum(), leaf)
        host = leaf.detach().cpu().requires_grad_()
        out = F.embedding_bag(index.cpu(), host, begins.cpu(), mode=mode)
        (want,) = ad.autograd.grad(out.sum(), host)
        assert calls == [mode, "back"]
        np.testing.assert_allclose(got.cpu().numpy(), want.numpy(), 1e-6)
    del record.plans[executor.DEVICE_KERNEL], back.plans[executor.DEVICE_KERNEL]


def check_first_write() -> None:
    """A write before any other operation on a GPU."""
    x, y = numbers(3, 4).to("cuda"), numbers(3, 4).to("cuda")
    want = x.cpu() + y.cpu()
    same(x.add_(y), want, "the first of all")


def main() -> None:
    """All of it on the stand-in."""
    importlib.import_module("tests.cupy_stand_in").connect()
    check_first_write()
    with filled_by_words() as fills:
        for layout in LAYOUTS:
            check_write("fill_", layout)
        for dtype in FILLED:
            check_fill(dtype)
    assert {width for width, _ in fills} == {2, 4}
    for layout in LAYOUTS:
        for write in WRITES:
            check_write(write, layout)
        for draw in DRAWS:
            check_draw(draw, layout)
    check_draw("normal_", "rows", ad.bfloat16)
    check_draw("uniform_", "rows", ad.float64)
    for name in MAKES:
        check_making(name)
    for name in STRAIGHT:
        check_straight(name)
    for name in AS_NUMBERS:
        check_read(name)
    for name in LIKE:
        check_like(name)
    for name in FOLLOWING:
        check_late_fault(name)
    check_empty()
    check_multiples()
    check_picking()
    check_few_read()
    check_equal()
    check_grids()
    check_subscripts()
    check_statistics()
    check_statistics(ad.bfloat16)
    check_bags()
    print("all cases hold")


if __name__ == "__main__":
    main()
    sys.exit(0)
