"""Which operations view and which copy, strides, and writes through views with their gradients."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.autodiff.tape import flags
from adjoint.engine.backends.llvm.small import viewing  # noqa: F401  # reads `LONG`, which is replaced here
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.ops.shape import strided
from adjoint.engine.tensor import chains, tensor


def matrix() -> Any:
    return ad.arange(12.0).reshape(3, 4).clone()


def pairs() -> Any:
    return ad.view_as_complex(ad.arange(12.0).reshape(2, 3, 2).clone())


def shares(a: Any, b: Any) -> bool:
    """Whether a write through a reaches b."""
    before = b.clone()
    a.zero_()
    return not bool((b == before).all())


VIEWS: dict[str, Callable[[Any], Any]] = {
    "view": lambda x: x.view(4, 3),
    "reshape": lambda x: x.reshape(-1),
    "permute": lambda x: x.permute(1, 0),
    "transpose": lambda x: x.transpose(0, 1),
    "t": lambda x: x.t(),
    "T": lambda x: x.T,
    "mT": lambda x: x.mT,
    "movedim": lambda x: x.movedim(0, 1),
    "squeeze": lambda x: x.squeeze(),
    "unsqueeze": lambda x: x.unsqueeze(0),
    "flatten": lambda x: x.flatten(),
    "ravel": lambda x: x.ravel(),
    "unflatten": lambda x: x.unflatten(1, (2, 2)),
    "select": lambda x: x.select(0, 1),
    "narrow": lambda x: x.narrow(1, 1, 2),
    "slice": lambda x: x[1:, ::2],
    "diagonal": lambda x: x.diagonal(),
    "unfold": lambda x: x.unfold(0, 2, 2),
    "as_strided": lambda x: x.as_strided((2, 2), (1, 2), 3),
    "split": lambda x: x.split(2)[0],
    "chunk": lambda x: x.chunk(2, 1)[1],
    "tensor_split": lambda x: x.tensor_split(2)[0],
    "unbind": lambda x: x.unbind(1)[0],
    "view_dtype": lambda x: x.view(ad.int32),
    "atleast_3d": lambda x: ad.atleast_3d(x),
    "contiguous": lambda x: x.contiguous(),
    "to_same": lambda x: x.to(ad.float32),
    "real_of_real": lambda x: x.real,
    "detach": lambda x: x.detach(),
}
COPIES: dict[str, Callable[[Any], Any]] = {
    "clone": lambda x: x.clone(),
    "reshape": lambda x: x.t().reshape(-1),
    "contiguous": lambda x: x.t().contiguous(),
    "to_copy": lambda x: x.to(ad.float32, copy=True),
    "diag": lambda x: x.diag(),
    "flip": lambda x: x.flip(()),
    "roll": lambda x: x.roll(0),
    "repeat": lambda x: x.repeat(1, 1),
    "tile": lambda x: x.tile(1),
    "cat": lambda x: ad.cat([x]),
    "rot90": lambda x: x.rot90(0),
    "tril": lambda x: x.tril(3),
    "narrow_copy": lambda x: x.narrow_copy(0, 0, 3),
    "select_scatter": lambda x: x.select_scatter(ad.ones(4), 0, 0),
}


@pytest.mark.parametrize("name", VIEWS)
def test_view_shares_storage(name: str) -> None:
    x = matrix()
    assert shares(VIEWS[name](x), x)


@pytest.mark.parametrize("name", COPIES)
def test_copy_does_not(name: str) -> None:
    x = matrix()
    assert not shares(COPIES[name](x), x)


@pytest.mark.parametrize("part", ["real", "imag"])
def test_parts_of_complex_numbers_are_views(part: str) -> None:
    x = pairs()
    assert shares(getattr(x, part), x)
    setattr(x, part, ad.ones(2, 3))
    assert bool((getattr(x, part) == 1).all())


def test_clone_keeps_the_order_of_dimensions_in_memory() -> None:
    x = matrix()
    assert x.t().clone().stride() == (1, 4)
    assert x.t()[::2].clone().stride() == (1, 2)
    assert x.expand(2, 3, 4).clone().stride() == (12, 4, 1)
    assert x.t().clone(memory_format=ad.contiguous_format).stride() == (3, 1)
    assert ad.zeros_like(x.t()).stride() == (1, 4)
    assert ad.zeros(2, 3, 4, 5).to(memory_format=ad.channels_last).stride() == (60, 1, 15, 3)


WRITES: dict[str, tuple[Callable[[Any], Any], list[float]]] = {
    # what is written to of w = 2 z, and the gradient of w.sum() after `mul_(3)` there
    "diagonal": (lambda w: w.diagonal(), [6, 2, 2, 2, 6, 2]),
    "column": (lambda w: w.T[0], [6, 2, 2, 6, 2, 2]),
    "flat": (lambda w: w.view(-1)[1:3], [2, 6, 6, 2, 2, 2]),
    "as_strided": (lambda w: w.as_strided((2, 2), (3, 2)), [6, 2, 6, 6, 2, 6]),
    "unfold": (lambda w: w.unfold(1, 1, 2), [6, 2, 6, 6, 2, 6]),
    "chunk": (lambda w: w.chunk(2)[1], [2, 2, 2, 6, 6, 6]),
    "squeezed": (lambda w: w[:, 1:2].squeeze(1), [2, 6, 2, 2, 6, 2]),
}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("how", ["tape", "func", "vmap"])
def test_write_through_a_view_is_differentiable(name: str, how: str) -> None:
    look, expected = WRITES[name]

    def program(z: Any) -> Any:
        w = z * 2
        look(w).mul_(3)
        return w.sum()

    z = ad.ones(2, 3)
    if how == "tape":
        z.requires_grad_()
        program(z).backward()
        grad = z.grad
    elif how == "func":
        grad = ad.func.grad(program)(z)
    else:
        grad = ad.func.vmap(ad.func.grad(program))(ad.stack([z, z]))[1]
    np.testing.assert_array_equal(grad.numpy().ravel(), expected)  # type: ignore[union-attr]


def test_write_to_the_base_reaches_its_views_gradients() -> None:
    z = ad.ones(2, 3, requires_grad=True)
    w = z * 1
    row = w[0]
    w.t_()
    w.mul_(4)
    row.sum().backward()
    assert z.grad is not None
    assert z.grad.tolist() == [[4, 4, 4], [0, 0, 0]]


# What is done once y[1:] is v and y is off the tape, and d sum / d y of what it returns.
DETACHED: dict[str, tuple[Any, list[float]]] = {
    "a view": (lambda y, v: v, [0, 1, 1]),
    "a view of it": (lambda y, v: v[1:], [0, 0, 1]),
    "beside its base": (lambda y, v: y[1:] + v, [0, 1, 1]),
    "its base a leaf": (lambda y, v: y.requires_grad_()[1:] * v.detach() + v, [0, 1, 1]),
    "its base written": (lambda y, v: (y.mul_(3), v)[1], [0, 0, 0]),  # it follows the base again
}


@pytest.mark.parametrize("name", DETACHED)
@pytest.mark.parametrize("how", ["tape", "func", "compile"])
def test_a_base_taken_off_the_tape_leaves_its_views_there(name: str, how: str) -> None:
    use, expected = DETACHED[name]

    def program(z: Any) -> Any:
        y = z * 1
        v = y[1:]
        y.detach_()
        return use(y, v).sum() + (z * 0).sum()

    z = ad.tensor([1.0, 2, 3], requires_grad=True)
    if how == "func":
        assert ad.func.grad(program)(z.detach()).tolist() == expected
        return
    program = ad.compile(program) if how == "compile" else program
    for _ in range(2):
        z.grad = None
        program(z).backward()
        assert z.grad is not None
        assert z.grad.tolist() == expected


@pytest.mark.parametrize("change", [ad.Tensor.t_, ad.Tensor.squeeze_, lambda x: x.unsqueeze_(0)])
def test_a_shape_changed_without_gradients_stays_on_the_tape(change: Any) -> None:
    leaf = ad.arange(6.0).reshape(2, 3).requires_grad_()
    other = ad.arange(6.0).reshape(2, 3).requires_grad_()
    result = other * 2
    with ad.no_grad():
        change(leaf)
        change(result)
    assert leaf.requires_grad
    assert leaf.is_leaf
    (leaf * leaf).sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.tolist() == (2 * leaf).tolist()
    (result * result).sum().backward()
    assert other.grad is not None
    assert other.grad.tolist() == (8 * other).tolist()


def test_overlapping_views_accumulate() -> None:
    z = ad.ones(4, requires_grad=True)
    (z.unfold(0, 3, 1).sum() + z.as_strided((3, 2), (1, 1)).sum()).backward()
    assert z.grad is not None
    assert z.grad.tolist() == [2, 4, 4, 2]


def test_writing_where_elements_overlap_is_refused() -> None:
    with pytest.raises(RuntimeError, match="single memory location"):
        ad.zeros(3).expand(2, 3).mul_(2)


def test_resize_keeps_elements_and_grows() -> None:
    x = ad.arange(6.0)
    assert x.resize_(2, 2).tolist() == [[0, 1], [2, 3]]
    assert x.resize_(6).tolist() == [0, 1, 2, 3, 4, 5]
    assert x.resize_(2, 4).flatten()[:6].tolist() == [0, 1, 2, 3, 4, 5]


def test_as_strided_stays_inside_its_storage() -> None:
    with pytest.raises(RuntimeError, match="out of bounds"):
        ad.zeros(4).as_strided((3,), (2,))
    assert ad.arange(6.0)[4:].as_strided((2,), (1,), 1).tolist() == [1, 2]


STRIDED_BY = [
    ((2, 3), (1, 2), None),
    ((2, 2), (0, 3), 1),
    ([3], [2], 1),
    (ad.Size((3, 2)), (4, 1), 2),
    ((), (), 3),
    ((0, 3), (1, 1), 99),
    ((2, 0), (1, 1), 0),
    ((1,), (7,), 11),
    ((4,), (4,), 0),  # from here on refused
    ((2,), (1,), 11),
    ((2,), (1,), -1),
    ((2,), (-1,), 3),
    ((-1,), (1,), 3),
    ((2, 2), (1,), 0),
    ((2,), (1,), 1.0),
    ((2,), (1 << 62,), 0),
]


@pytest.mark.parametrize(("size", "stride", "offset"), STRIDED_BY, ids=str)
@pytest.mark.parametrize("dtype", [ad.float32, ad.bfloat16, ad.complex64], ids=str)
def test_as_strided_at_once_is_as_strided_checked_step_by_step(
    size: Any, stride: Any, offset: Any, dtype: Any
) -> None:
    def outcome(show: Callable[[ad.Tensor], Any]) -> Any:
        memory = ad.arange(12).to(dtype).requires_grad_()
        try:
            view = show(memory)
        except Exception as error:
            return type(error), str(error)
        view.abs().sum().backward()
        assert view._base is not None
        assert view._base[0] is memory
        grad = memory.grad.tolist() if memory.grad is not None else None
        place = view.storage_offset() if view.numel() else None
        return view.tolist(), tuple(view.shape), view.stride(), place, view._chain[0][1], grad

    def step_by_step(x: ad.Tensor) -> Any:
        return strided.AS_STRIDED(x, **strided._strided_params(x, size, stride, offset))

    assert outcome(lambda x: x.as_strided(size, stride, offset)) == outcome(step_by_step)


def test_as_strided_of_a_tensor_in_one_piece_asks_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(strided, "_strided_params")
    assert ad.arange(6.0).as_strided((2, 2), (1, 3), 1).tolist() == [[1, 4], [2, 5]]


def turned(seed: int, part: bool) -> tuple[Any, ...]:
    """A tensor, or a part of one, whose dimensions change in place, with writes; all one sees."""
    rng = random.Random(seed)
    whole = ad.arange(24.0).reshape(2, 1, 3, 4)
    x = whole[:, :, 1:] if part else whole
    seen: list[Any] = [x, whole]
    for step in range(40):
        name = rng.choice(
            ["t_", "transpose_", "swapaxes_", "swapdims_", "squeeze_", "unsqueeze_", "unsqueeze_"]
        )
        rank = x.ndim
        args = {"t_": 0, "squeeze_": rng.randrange(2), "unsqueeze_": 1}.get(name, 2)
        given = [rng.randrange(-rank - 1, rank + 2) for _ in range(args)]
        if name == "unsqueeze_" and rank > 5:
            name, given = "squeeze_", []
        try:
            assert getattr(x, name)(*given) is x
        except (IndexError, RuntimeError) as error:
            seen.append((type(error), str(error)))
        if step % 5 == 1:
            x.mul_(1.5)
        if step % 7 == 2:
            x[..., :1] += step
        if step % 9 == 3:
            seen.append(x.unsqueeze(0)[..., -1:])
        seen.append((tuple(x.shape), x.stride(), x.storage_offset(), x._version))
    weight = ad.ones(2, requires_grad=True)
    x.copy_(
        x.clone() * weight[0]
    )  # gradients lead through it to its base, and to views from before
    for shown in [y for y in seen if isinstance(y, ad.Tensor)]:
        (grad,) = ad.autograd.grad(shown.square().sum(), weight, retain_graph=True)
        seen.append((shown.tolist(), grad.tolist()))
    return [y for y in seen if not isinstance(y, ad.Tensor)], len(x._chain)


@pytest.mark.parametrize("part", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_what_is_turned_in_place_at_once_is_what_views_show(
    seed: int, part: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Note [turned in place]."""
    at_once, links = turned(seed, part)
    monkeypatch.setattr(HOOKS, "turn_window", lambda *_: False)
    by_views, more = turned(seed, part)
    assert at_once == by_views
    assert links <= more


def test_a_tensor_turned_in_a_loop_stays_one_link_away() -> None:
    x = ad.arange(6.0).reshape(2, 3).clone()
    x.t_().unsqueeze_(0).squeeze_(0)  # the first calls find what shows them
    before = len(x._chain)
    for _ in range(8):
        x.t_().t_().unsqueeze_(0).squeeze_(0)
    assert len(x._chain) == before


# -- long chains ----------------------------------------------------------------------------------


def some_view(rng: random.Random, shape: tuple[int, ...]) -> Callable[[Any], Any]:
    """A view that tensors and arrays of a shape have, of those that often lead back."""
    rank = len(shape)
    if rank > 4:
        return lambda x: x[(slice(None),) * (rank - 1) + (0,)]
    order, dim = rng.sample(range(rank), rank), rng.randrange(rank + 1)
    index = tuple(slice(int(n > 1 and rng.random() < 0.1), n) for n in shape)
    choices: list[Callable[[Any], Any]] = [
        lambda x: x.permute(*order) if isinstance(x, ad.Tensor) else x.transpose(order),
        lambda x: x[index],
        lambda x: x[(slice(None),) * dim + (None,)],
        lambda x: x.swapaxes(0, rank - 1),
        lambda x: x.reshape(shape[0], -1).reshape(shape) if contiguous(x) else x[:],
    ]
    ones = [d for d, n in enumerate(shape) if n == 1]
    if ones and rank > 1:
        squeezed = rng.choice(ones)
        choices += [lambda x: x.squeeze(squeezed)] * 3
    return rng.choice(choices)


def contiguous(x: Any) -> bool:
    """Whether elements lie in one piece, row by row."""
    return bool(x.is_contiguous() if isinstance(x, ad.Tensor) else x.flags.c_contiguous)


def followed(seed: int, x: Any) -> Any:
    """A random walk of views with writes here and there; `x` is a tensor or an array."""
    rng = random.Random(seed)
    seen = x
    for step in range(60):
        seen = some_view(rng, tuple(seen.shape))(seen)
        if step % 7 == 3:
            seen *= 1.5
        if step % 11 == 5:
            seen[..., :1] = seen[..., -1:] + step
        if step % 13 == 9 and isinstance(seen, ad.Tensor) and not seen.requires_grad:
            seen = seen.detach()
    return seen


@pytest.mark.parametrize("seed", range(6))
def test_chains_of_views_are_shortened_without_a_trace(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elements as NumPy has them, gradients as with all links, whatever is left out."""
    array = np.arange(24, dtype=np.float64).reshape(2, 3, 4) / 8
    lengths, gradients = [], []
    for long, many in ((1 << 30, 1 << 30), (2, 4), (2, 16)):
        for module in (tensor, flags):
            monkeypatch.setattr(module, "LONG", long)
        monkeypatch.setattr(chains, "MANY", many)
        want, x = array.copy(), ad.tensor(array)
        shown, seen = followed(seed, want), followed(seed, x)
        assert np.array_equal(x.numpy(), want)
        assert np.array_equal(seen.numpy(), shown)
        assert seen.data_ptr() - x.data_ptr() == shown.ctypes.data - want.ctypes.data
        lengths.append(len(seen._chain))
        leaf = ad.tensor(array, requires_grad=True)
        base = leaf * 2
        seen = followed(seed, base)
        (seen * seen.detach()).sum().backward(retain_graph=True)
        (base * base).sum().backward()
        gradients.append(leaf.grad.numpy())
        assert np.array_equal(seen.detach().numpy() * 0.5, followed(seed, array * 2) * 0.5)
    assert lengths[0] > lengths[1]
    for other in gradients[1:]:
        np.testing.assert_array_equal(other, gradients[0])


def test_views_in_a_loop_stay_few_links_away() -> None:
    x = ad.arange(12).reshape(3, 4)
    seen, changed, part = x, x.clone(), ad.arange(500)
    for _ in range(200):
        seen = seen.t().detach()
        changed.t_()
        part = part[1:]
    assert max(len(t._chain) for t in (seen, changed, part)) < 64
    assert seen.equal(x)
    assert changed.equal(x)
    assert part.equal(ad.arange(200, 500))
    seen.mul_(2)
    assert x.equal(ad.arange(12).reshape(3, 4) * 2)


def test_writes_to_parts_of_complex_numbers_with_gradients_in_another_layout() -> None:
    leaf = ad.zeros(2, 3, dtype=ad.complex64, requires_grad=True)
    x = leaf * 1
    ad.view_as_real(x.reshape(6))[1:4, 1].zero_()
    part = np.arange(1.0, 7).reshape(3, 2).T  # column by column: no reshape of it is a view
    given = ad.complex(*[ad.tensor(a, dtype=ad.float32) for a in (part, part * 10)])
    want = (part + 10j * part).astype(np.complex64)
    want = np.ascontiguousarray(want)
    want.reshape(6)[1:4].imag = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (got,) = ad.autograd.grad(x, [leaf], given.t().contiguous().t())
    assert np.array_equal(got.numpy(), want)


def test_views_of_nothing_know_where_they_are() -> None:
    """What is put there, or shown from there on, is where the view was."""
    b = ad.arange(12.0).view(3, 4)
    for view, place in (
        (b[2:2], 8), (b[:, 3:3], 3), (b[1:1, 2:], 6), (b[1][2:2], 6), (b.t()[2:2], 2),
        (b[1:][1:1].detach(), 8), (b.view(-1)[5:5].view(ad.int32).view(ad.float32), 5),
    ):  # fmt: skip
        assert view.as_strided((1,), (1,)).tolist() == [place]
        assert view.as_strided((1,), (1,), 1).tolist() == [1]
        assert view.resize_(2).tolist() == [place, place + 1]
    c = ad.arange(6)
    ad.add(ad.ones(2, dtype=ad.int64), 8, out=c[3:3])
    assert c.tolist() == [0, 1, 2, 9, 9, 5]


def test_sizes_are_whole_numbers() -> None:
    size, before = ad.Size((2, ad.tensor(3))), (1,)
    assert [type(n) for n in size] == [int, int]
    made = [size * 2, 2 * size, before + size, size + before, size[:1]]
    assert [type(x) for x in made] == [ad.Size] * 5
    assert made[2] == (1, 2, 3)
    for bad in (1.5, "a", None, ad.tensor(1.5)):
        with pytest.raises(TypeError, match=r"takes an iterable of 'int' \(item 1"):
            ad.Size((2, bad))


@pytest.mark.parametrize("tracked", [False, True])
@pytest.mark.parametrize("deep", [False, True])
def test_views_made_without_gradients_take_none(tracked: bool, deep: bool) -> None:
    """Refused before anything is written, also through views of such views."""
    w = ad.ones(3, requires_grad=True)
    base = ad.zeros(3) * w if tracked else ad.zeros(3)
    with ad.no_grad():
        view = base[:2]
    view = view[:1] if deep else view
    for write in (lambda: view.add_(w[0]), lambda: view.copy_(w[: len(view)])):
        with pytest.raises(RuntimeError, match="A view was created in no_grad mode"):
            write()
    assert base.tolist() == [0, 0, 0]
    assert base._version == 0
    assert base.requires_grad is tracked


@pytest.mark.parametrize("compiled", [False, True])
def test_what_is_overwritten_has_a_gradient_of_zero(compiled: bool) -> None:
    """Not none at all: what an optimizer does about weight decay depends on it, as in PyTorch."""
    for write in (
        lambda y, z: y.copy_(z),
        lambda y, z: y.copy_(z[0]),
        lambda y, z: y.fill_(z[0]),
        lambda y, z: y.copy_(z.detach()) + z,
    ):

        def step(w: Any, z: Any, write: Any = write) -> Any:
            write(w * 1, z).sum().backward()

        w, z = (ad.ones(3, requires_grad=True) for _ in range(2))
        (ad.compile(step) if compiled else step)(w, z)
        assert w.grad.tolist() == [0, 0, 0]  # type: ignore[union-attr]
        assert z.grad.sum().item() == 3  # type: ignore[union-attr]


def test_strided_views_of_nothing_start_anywhere() -> None:
    for x in (ad.zeros(2, 0), ad.zeros(2, 3), ad.zeros(2, 3)[2:]):
        assert x.as_strided((1, 0), (1, 1), 77).shape == (1, 0)
    with pytest.raises(RuntimeError, match="invalid storage offset -1"):
        ad.zeros(2, 0).as_strided((1, 0), (1, 1), -1)
    x = ad.ones(2, requires_grad=True)
    (grad,) = ad.autograd.grad(x.as_strided((0, 3), (3, 1), 9).sum(), x)
    assert grad.tolist() == [0, 0]


def test_what_has_the_common_shape_is_not_broadcast_again() -> None:
    """It stays a leaf, whose gradient a distribution's parameters are asked for."""
    x, small = ad.ones(2, 3, requires_grad=True), ad.ones(3, requires_grad=True)
    same, wide = ad.broadcast_tensors(x, small)
    assert same is x
    assert wide.shape == (2, 3)
    normal = ad.distributions.Normal(x, ad.ones(2, 3))
    normal.log_prob(ad.zeros(2, 3)).sum().backward()
    assert normal.loc is x
    assert normal.loc.grad is not None
