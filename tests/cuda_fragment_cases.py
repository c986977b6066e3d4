"""What eager operations on a GPU are compared by: the eager table there, and the CPU."""

from __future__ import annotations

import importlib
import sys
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.engine.backends.triton.program import direct, filling
from adjoint.engine.backends.triton.runtime import open_numbers
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.graph.eager import fragment
from adjoint.engine.graph.eager.fragments import FRAGMENTS
from adjoint.engine.graph.eager.many_sizes import open_kinds
from adjoint.engine.graph.eager.updates import UPDATES
from adjoint.engine.ops.products.derived_products import affine

Case = tuple[Callable[..., Any], tuple[Any, ...]]
TOLERANCE = {"float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}
DTYPES = [*TOLERANCE]
RNG = np.random.default_rng(5)


def draw(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def whole(high: int, *shape: int) -> Any:
    return RNG.integers(0, high, shape)


def attend(**options: Any) -> Callable[..., Any]:
    return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **options)


def under_autocast(fn: Callable[..., Any]) -> Callable[..., Any]:
    def run(*given: Any) -> Any:
        with ad.autocast(given[0].device.type, dtype=ad.bfloat16):
            return fn(*given)

    return run


def complex_of(x: Any, y: Any) -> Any:
    """Numbers whose parts these are, in what complex numbers there are."""
    return ad.complex(x.float(), y.float())


def recurrent(kind: str, both: bool) -> Callable[..., Any]:
    """A recurrent layer's outputs, with its last states, without cuDNN, which would do all of it."""

    def run(x: Any, h: Any, *weights: Any) -> Any:
        start = (h, h * 2) if kind == "lstm" else h
        rest = (True, 1, 0.0, True, both, False)
        with ad.backends.cudnn.flags(enabled=False):
            out, *last = getattr(ad, kind)(x, start, list(weights), *rest)
        return ad.cat([out.flatten(), *[s.flatten() for s in last]])

    return run


def recurrent_case(kind: str, gates: int, both: bool = False) -> Case:
    rows = 6 * gates
    one = (draw(rows, 4) * 0.4, draw(rows, 6) * 0.4, draw(rows), draw(rows))
    weights = one + tuple(np.flip(w).copy() for w in one) if both else one
    return recurrent(kind, both), (draw(3, 2, 4), draw(1 + both, 2, 6), *weights)


CASES: dict[str, Case] = {
    "add": (lambda x, y: x + y, (draw(3, 40), draw(40))),
    "itself": (lambda x: x * x + x, (draw(5),)),
    "numbers": (lambda x: (x * 1.5 - 2) / 3, (draw(7, 11),)),
    "compare": (lambda x, y: ad.where(x > y, x, y), (draw(3, 5), draw(3, 1))),
    "functions": (lambda x: (x.abs() + 0.5).log() + x.tanh() + x.sigmoid(), (draw(33),)),
    "transposed": (lambda x: x.transpose(0, 1).exp() * 2, (draw(6, 9),)),
    "strided": (lambda x: x[:, 1::2] + 1, (draw(6, 9),)),
    "shifted": (lambda x: x.reshape(-1)[1:].tanh(), (draw(5, 13),)),
    "complex": (
        lambda x, y: ad.view_as_real(complex_of(x, y) * complex_of(y, x[:1]) / 3j).abs(),
        (draw(5, 6), draw(5, 6)),
    ),
    "complex by a number": (
        lambda x, y: ad.view_as_real(complex_of(x, y) / 2.5 + complex_of(y, x) * 0.5 - 3.0),
        (draw(5, 6), draw(5, 6)),
    ),
    "spectrum": (
        lambda x, y: (ad.fft.rfft(x.float()) * ad.fft.rfft(y.float()).conj()).abs(),
        (draw(3, 10), draw(10)),
    ),
    "sum": (lambda x: x.sum(1) + x.sum(), (draw(9, 17),)),
    "extremes": (lambda x: x.amax(1), (draw(9, 17),)),
    "softmax": (lambda x: F.softmax(x, -1), (draw(5, 33),)),
    "log_softmax": (lambda x: F.log_softmax(x, 0), (draw(5, 6),)),
    "gelu": (F.gelu, (draw(4, 9),)),
    "gelu tanh": (lambda x: F.gelu(x, approximate="tanh"), (draw(4, 9),)),
    "silu": (F.silu, (draw(3, 4),)),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (33,), w, b), (draw(7, 33), draw(33), draw(33))),
    "rms_norm": (lambda x, w: F.rms_norm(x, (8,), w), (draw(2, 3, 8), draw(8))),
    "batch_norm": (
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        (draw(3, 4, 5), draw(4), draw(4)),
    ),
    "group_norm": (lambda x: F.group_norm(x, 2), (draw(2, 4, 3),)),
    "linear": (F.linear, (draw(2, 3, 9), draw(5, 9), draw(5))),
    "addmm": (ad.addmm, (draw(5), draw(3, 7), draw(7, 5))),
    "matmul": (lambda x, y: x @ y, (draw(3, 4), draw(4, 5))),
    "turned matmul": (lambda x, y: x.mT @ y.mT, (draw(2, 4, 3), draw(2, 5, 4))),
    "matmul of views": (lambda x, y: x[1:] @ y[:, 1:], (draw(4, 3), draw(3, 6))),
    "attention": (attend(is_causal=True), (draw(2, 2, 17, 16), draw(2, 2, 17, 16), draw(2, 2, 17, 16))),
    "cross attention": (attend(), (draw(1, 2, 9, 8), draw(1, 2, 21, 8), draw(1, 2, 21, 8))),
    "cross_entropy": (lambda x, y: F.cross_entropy(x, y), (draw(7, 19), whole(19, 7))),
    "smoothed": (
        lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1, reduction="sum"),
        (draw(7, 5), whole(5, 7)),
    ),
    "mse": (F.mse_loss, (draw(3, 4), draw(3, 4))),
    "embedding": (lambda w, i: F.embedding(i, w), (draw(11, 6), whole(11, 3, 4))),
    "gather": (lambda x, i: x.gather(1, i), (draw(5, 7), whole(7, 5, 3))),
    "split": (lambda x: sum(p * (k + 1) for k, p in enumerate(x.split(3, 1))), (draw(4, 9),)),
    "joined": (lambda x, y: ad.cat([x, y, x], 1), (draw(4, 3), draw(4, 5))),
    "autocast linear": (under_autocast(F.linear), (draw(2, 3, 9), draw(5, 9), draw(5))),
    "autocast affine": (
        under_autocast(lambda b, x, w: affine(x, w, b)), (draw(5), draw(2, 3, 7), draw(7, 5))
    ),
    "autocast matmul": (under_autocast(lambda x, y: (x @ y).exp()), (draw(3, 4), draw(4, 5))),
    "autocast gelu": (under_autocast(lambda x, w: F.gelu(x @ w)), (draw(3, 4), draw(4, 5))),
    "autocast cross entropy": (
        under_autocast(lambda x, w, y: F.cross_entropy(x @ w, y)), (draw(6, 4), draw(4, 9), whole(9, 6))
    ),
    "autocast smoothed": (
        under_autocast(
            lambda x, w, y: F.cross_entropy(x @ w, y, label_smoothing=0.2, ignore_index=2)
        ),
        (draw(6, 4), draw(4, 9), whole(9, 6)),
    ),
    "attention with shared keys": (
        attend(is_causal=True, enable_gqa=True), (draw(1, 4, 9, 16), draw(1, 2, 9, 16), draw(1, 2, 9, 16)),
    ),
    "grid_sample": (
        lambda x, grid: F.grid_sample(x, grid, align_corners=False), (draw(1, 2, 5, 6), draw(1, 3, 4, 2))
    ),
    "prod": (lambda x: x.prod(-1), (draw(3, 4),)),
    "avg_pool": (lambda x: F.avg_pool2d(x, 2), (draw(2, 3, 6, 8),)),
    "avg_pool with edges": (
        lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), (draw(1, 2, 7, 5),)
    ),
    "nearest": (lambda x: F.interpolate(x, scale_factor=2), (draw(2, 3, 4, 5),)),
    "bilinear": (lambda x: F.interpolate(x, (7, 9), mode="bilinear"), (draw(2, 3, 4, 5),)),
    "lstm": recurrent_case("lstm", 4),
    "lstm of both ways": recurrent_case("lstm", 4, both=True),
    "gru": recurrent_case("gru", 3),
    "rnn_tanh": recurrent_case("rnn_tanh", 1),
    "rnn_relu": recurrent_case("rnn_relu", 1, both=True),
    "autocast lstm": (
        under_autocast(recurrent("lstm", both=True)), recurrent_case("lstm", 4, both=True)[1],
    ),
    "autocast gru": (under_autocast(recurrent("gru", both=False)), recurrent_case("gru", 3)[1]),
    "casts": (lambda x: x.float().to(x.dtype) * x, (draw(4, 5),)),
    "contiguous": (lambda x: x.transpose(1, 2).contiguous() * 2, (draw(2, 3, 4),)),
}  # fmt: skip


def results(fn: Callable[..., Any], given: tuple[Any, ...], dtype: str, device: str) -> list[Any]:
    """A function's result and its gradients."""
    leaves = []
    for x in given:
        tensor = ad.tensor(x).to(device)
        if tensor.dtype.is_floating_point:
            tensor = tensor.to(getattr(ad, dtype)).detach().requires_grad_()
        leaves.append(tensor)
    out = fn(*leaves)
    weights = (ad.arange(out.numel(), device=device) % 7 + 1).reshape(out.shape).to(out.dtype)
    out.backward(weights)
    return [out.detach()] + [x.grad for x in leaves if x.requires_grad]


def check_case(name: str, dtype: str) -> None:
    """Fragments give what the eager table gives, and what the CPU gives."""
    fn, given = CASES[name]
    FRAGMENTS.forget()
    got = results(fn, given, dtype, "cuda")
    assert any(FRAGMENTS.by_kind.values()), f"{name}: nothing ran as a fragment"
    before, fragment.AGAIN = fragment.AGAIN, 1
    try:  # the second time native code is told of fragments, and finds them the third time
        results(fn, given, dtype, "cuda")
        again = results(fn, given, dtype, "cuda")
    finally:
        fragment.AGAIN = before
    with CONTEXT.having(reference=True):
        table = results(fn, given, dtype, "cuda")
    host = results(fn, given, dtype, "cpu")
    bound = TOLERANCE["bfloat16" if name.startswith("autocast") else dtype]
    for mine, repeated, theirs, here in zip(got, again, table, host, strict=True):
        assert mine.dtype is theirs.dtype, name
        assert mine.device == theirs.device, name
        assert mine.stride() == theirs.stride(), (name, mine.stride(), theirs.stride())
        a, b, c = (np.asarray(x.float().cpu()) for x in (mine, theirs, here))
        scale = max(np.abs(c).max(), 1.0)
        np.testing.assert_allclose(a, np.asarray(repeated.float().cpu()), rtol=bound, atol=bound)
        np.testing.assert_allclose(a, b, rtol=bound, atol=bound * scale, err_msg=name)
        np.testing.assert_allclose(a, c, rtol=bound, atol=bound * scale, err_msg=name)


OPTIMIZERS: dict[str, Callable[..., Any]] = {
    "sgd": lambda p: ad.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "adam": lambda p: ad.optim.Adam(p, lr=0.1, weight_decay=0.1, amsgrad=True),
    "adamw": lambda p: ad.optim.AdamW(p, lr=0.1),
    "one by one": lambda p: ad.optim.AdamW(p, lr=0.1, foreach=False),
    "nadam": lambda p: ad.optim.NAdam(p, lr=0.1),
    "radam": lambda p: ad.optim.RAdam(p, lr=0.1),
    "rmsprop": lambda p: ad.optim.RMSprop(p, lr=0.1, centered=True, momentum=0.9),
    "asgd": lambda p: ad.optim.ASGD(p, lr=0.1),
    "adagrad": lambda p: ad.optim.Adagrad(p, lr=0.1),
}


def trained(make: Callable[..., Any], device: str) -> list[Any]:
    """Parameters and state after some steps, one of them by a parameter less."""
    rng = np.random.default_rng(1)
    shapes = [(3, 5), (7,), (2, 3, 4), (1,)]
    starts = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    params = [ad.tensor(x).to(device).requires_grad_() for x in starts]
    optimizer = make(params)
    for step in range(5):
        for p in params:
            p.grad = ad.tensor(rng.standard_normal(p.shape).astype(np.float32)).to(device)
        if step == 2:
            params[1].grad = None
        if step == 3:
            optimizer.param_groups[0]["lr"] *= 0.5
        optimizer.step()
    held = [v for p in params for v in optimizer.state[p].values() if v is not None]
    assert all(p._storage.version >= 4 for p in params)
    return [np.asarray(x.detach().cpu()) for x in (*params, *held)]


def check_optimizer(name: str) -> None:
    """An update of all parameters by one program does what the rule does on the CPU."""
    UPDATES.forget()
    got, want = (trained(OPTIMIZERS[name], device) for device in ("cuda", "cpu"))
    for mine, theirs in zip(got, want, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=2e-6, err_msg=name)


def check_faults() -> None:
    """An index out of bounds is told late, with its line, and state stays as it was."""
    table = ad.tensor(draw(10, 4)).to("cuda")
    good, bad = (ad.tensor(x).to("cuda") for x in ([1, 2], [1, 99]))
    param = ad.ones(3, device="cuda").requires_grad_()
    optimizer = ad.optim.AdamW([param], lr=1.0)
    for wrong, words in (
        (lambda: F.embedding(bad, table), "99 is out of bounds"),
        (lambda: F.cross_entropy(table[:2], bad), "Target 99 is out of bounds"),
    ):
        param.grad = ad.ones(3, device="cuda")
        out = wrong()
        optimizer.step()
        with pytest.raises(IndexError, match=words) as told:
            out.sum().item()
        assert any("cuda_fragment_cases.py" in note for note in told.value.__notes__)
        assert param.tolist() == [1.0, 1.0, 1.0], "an update after a fault"
        assert optimizer.state[param]["step"].item() == 0.0, "a count of no update"
    F.embedding(good, table).sum().item()
    optimizer.step()
    F.embedding(good, table)  # which may fail, for all that the host knows
    optimizer.step()
    gradient = weakref.ref(param.grad._array)
    param.grad = None
    assert gradient() is None, "what may be taken back holds no gradients"
    param.grad = ad.ones(3, device="cuda")
    out = F.embedding(bad, table)
    with pytest.raises(IndexError, match="99"):
        out.sum().item()  # after the updates: they were done
    assert param.tolist() != [1.0, 1.0, 1.0]
    assert optimizer.state[param]["step"].item() == 2.0


def check_sizes() -> None:
    """Kernels that leave the first size open are right for every one."""
    for rows in (1, 2, 3, 127, 128, 129, 300, 1024, 1025, 2049):
        x = draw(rows, 6)
        tensor = ad.tensor(x).to("cuda")
        np.testing.assert_allclose(np.asarray((tensor * 2 + 1).cpu()), x * 2 + 1, rtol=1e-6)
        turned = np.asarray((tensor.transpose(0, 1) * 3).contiguous().cpu())
        np.testing.assert_allclose(turned, x.T * 3, rtol=1e-6)
        soft = np.asarray(F.softmax(tensor, -1).cpu())
        want = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
        np.testing.assert_allclose(soft, want, rtol=1e-5, atol=1e-6)
        total = np.asarray((tensor + ad.tensor(x[0]).to("cuda")).sum(1).cpu())
        np.testing.assert_allclose(total, (x + x[0]).sum(1), rtol=1e-4, atol=1e-4)


LENGTHS = (17, 20, 23, 16, 8, 24, 30, 32, 33, 36, 48, 64, 65, 100)  # each by another kernel, or not
BITS = (17, 20, 23, 16, 30, 33, 64, 100)  # of each kind that loads are wide by, one or two

# What is done with sequences x (2, length, 6) and a weight of 6; rows (2, 6, length) lie along it.
ALONG: dict[str, Callable[[Any, Any, Any], list[Any]]] = {
    "norms": lambda x, w, rows: [
        F.layer_norm(x, (6,), w, w).softmax(1), rows.contiguous().softmax(-1)
    ],
    "attention": lambda x, w, rows: [attended(x.reshape(2, -1, 2, 3).transpose(1, 2))],
    "sums": lambda x, w, rows: [x.mean(1) + rows.var(-1) * x.mean()],
    "windows": lambda x, w, rows: [F.max_pool1d(rows, 3, 2).cumsum(-1), x[:, ::2].sort(1)[0]],
    "joins": lambda x, w, rows: [
        ad.cat([x, x * w], 1).transpose(0, 1).contiguous(),
        F.cross_entropy(x.reshape(-1, 6), ad.arange(2 * x.shape[1], device=x.device) % 6),
    ],
}  # fmt: skip


def attended(heads: Any) -> Any:
    return F.scaled_dot_product_attention(heads, heads, heads, is_causal=True)


def over_a_length(length: int, device: str, names: Sequence[str] = tuple(ALONG)) -> list[Any]:
    """Results of operations on sequences of a length, and their gradients."""
    rng = np.random.default_rng(length)
    x, w = (
        ad.tensor(rng.standard_normal(shape).astype(np.float32), device=device).requires_grad_()
        for shape in ((2, length, 6), (6,))
    )
    results = [r for name in names for r in ALONG[name](x, w, x.transpose(1, 2))]
    total = sum([(r * r).sum() for r in results]) + (w * w).sum()
    return [*results, *ad.autograd.grad(total, (x, w))]


def lengths_on(device: str, lengths: Sequence[int], names: Sequence[str]) -> list[list[Any]]:
    """The same for many lengths, as arrays."""
    return [
        [np.asarray(r.detach().cpu()) for r in over_a_length(n, device, names)] for n in lengths
    ]


def check_lengths(lengths: Sequence[int] = LENGTHS, names: Sequence[str] = tuple(ALONG)) -> None:
    """Programs for many lengths are right for every one (Note [open plans])."""
    FRAGMENTS.forget()
    on_host, on_device = (lengths_on(device, lengths, names) for device in ("cpu", "cuda"))
    assert any(f.recordings for f in FRAGMENTS.open.families.values()), "nothing was for many"
    for length, want, got in zip(lengths, on_host, on_device, strict=True):
        for k, (a, b) in enumerate(zip(want, got, strict=True)):
            np.testing.assert_allclose(b, a, 3e-4, 3e-4, err_msg=f"result {k} of {length}")


def check_bits(names: Sequence[str]) -> None:
    """They give the bits that programs of one length give, whatever lengths came before.

    Sums that a kernel takes of a whole row may be taken in another order, and rounded otherwise:
    what Triton knows of a number that it is told decides how it lays a tile out.
    """
    rounded = "norms" in names
    with pytest.MonkeyPatch.context() as patch:
        found = []
        # Kernels as written, planned for each length; numbers open in all kernels, or when met.
        for as_written, met in ((1 << 30, 1 << 30), (0, 1 << 30), (2, open_kinds.MET)):
            FRAGMENTS.forget()
            patch.setattr(open_kinds, "MET", met)
            patch.setattr(open_numbers, "AS_WRITTEN", as_written)
            patch.setattr(direct, "OPEN_NUMBERS", open_numbers.OpenNumbers())
            found.append(lengths_on("cuda", BITS, names))
        FRAGMENTS.forget()
    for other in found[1:]:
        for length, want, got in zip(BITS, found[0], other, strict=True):
            if rounded:
                for a, b in zip(want, got, strict=True):
                    np.testing.assert_allclose(
                        b, a, 0.0, 2**-20 * np.abs(a).max(), True, f"{length}"
                    )
                continue
            same = [a.tobytes() == b.tobytes() for a, b in zip(want, got, strict=True)]
            assert all(same), (length, same)


def check_random_lengths(seed: int) -> None:
    """Programs filled in for lengths drawn at random give the bits of those planned for each."""
    rng = np.random.default_rng(seed)
    drawn = [*map(int, rng.integers(2, 90, 12)), 1, 2, 3, 127, 251, 1000]
    names = ("norms", "sums", "joins")
    found = []
    for met in (open_kinds.MET, 1 << 30):
        with pytest.MonkeyPatch.context() as patch:
            FRAGMENTS.forget()
            patch.setattr(open_kinds, "MET", met)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of one element's variance
                found.append(lengths_on("cuda", drawn, names))
    FRAGMENTS.forget()
    for length, got, want in zip(drawn, *found, strict=True):
        same = [a.tobytes() == b.tobytes() for a, b in zip(got, want, strict=True)]
        assert all(same), (length, same)


def trained_on(length: int, device: str) -> list[Any]:
    """Losses of sequences of a length, and their gradients, by products and by kernels."""
    rng = np.random.default_rng(length)
    x, w, b = (
        ad.tensor(rng.standard_normal(shape).astype(np.float32), device=device).requires_grad_()
        for shape in ((length, 6), (5, 6), (5,))
    )
    classes = ad.tensor(rng.integers(0, 5, length), device=device)
    loss = F.cross_entropy(F.gelu(F.linear(x, w, b)), classes) + (x.softmax(0) * x[:, :1]).sum()
    return [loss, *ad.autograd.grad(loss, (x, w, b))]


def check_copies() -> None:
    """Programs that are copies of another, at other sizes, give what the CPU gives."""
    copied: list[int] = []
    plain = filling.ProgramForm.program

    def counted(form: Any, numbers: Any) -> Any:
        found = plain(form, numbers)
        copied.append(found is not None and form.is_checked)
        return found

    FRAGMENTS.forget()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(filling.ProgramForm, "program", counted)
        for length in (17, 19, 21, 23, 25, 27, 29):  # of which the last three can be copies
            pairs = zip(trained_on(length, "cuda"), trained_on(length, "cpu"), strict=True)
            for k, (got, want) in enumerate(pairs):
                np.testing.assert_allclose(
                    np.asarray(got.detach().cpu()), np.asarray(want.detach()), 3e-4, 3e-5,
                    err_msg=f"result {k} of {length}",
                )  # fmt: skip
    assert sum(copied) >= 20, copied
    FRAGMENTS.forget()


def main(dtypes: list[str]) -> None:
    """All of it on the stand-in, by Triton's interpreter."""
    cupy_stand_in = importlib.import_module("tests.cupy_stand_in")
    cupy_stand_in.connect()
    for name in CASES:
        for dtype in dtypes:
            check_case(name, dtype)
    for name in OPTIMIZERS:
        check_optimizer(name)
    check_faults()
    check_sizes()
    if dtypes == ["float32"]:
        check_lengths(LENGTHS[:4])  # of which two are open
        check_copies()
    print("all cases hold")


if __name__ == "__main__":
    main(sys.argv[1:])
