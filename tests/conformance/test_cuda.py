"""The conformance rows on a GPU: values and gradients equal the CPU's. Run with `-m cuda`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.graph import capture
from tests.conformance.cases import Case, make, rows
from tests.test_capture import PROGRAMS
from tests.test_capture import run as run_program

pytestmark = pytest.mark.cuda
ROWS = rows()
# Singular and eigenvectors are defined up to sign or phase, and libraries choose differently.
UP_TO_PHASE = frozenset(
    ("svd", "linalg.svd", "linalg.eigh", "linalg.eig", "svd_lowrank", "pca_lowrank", "Tensor.svd")
)
TOLERANCE = {"float64": 1e-8, "complex128": 1e-8, "float32": 2e-4, "complex64": 2e-4}


def results(case: Case, row: Any, device: str) -> list[Any]:
    """Values, and gradients for fixed cotangents, as host arrays."""
    tensors = [
        t.clone().requires_grad_() if row.grad and i in case.wanted else t
        for i, t in enumerate(case.tensors)
    ]
    ad.manual_seed(0)
    outs = case.fn(*tensors)
    found = [o.detach().cpu().numpy() for o in outs]
    for o in outs:
        moved = not case.tensors or row.path in ("Tensor.to", "Tensor.cpu", "Tensor.cuda")
        assert o.device.type == device or moved, f"{o.device} is not {device}"
    tracked = [o for o in outs if o.requires_grad and row.path not in UP_TO_PHASE]
    if tracked:
        rng = np.random.default_rng(0)
        seeds = [
            ad.tensor(rng.uniform(-1, 1, tuple(o.shape))).to(o.dtype).to(o.device) for o in tracked
        ]
        leaves = [tensors[i] for i in case.wanted]
        grads = ad.autograd.grad(tracked, leaves, seeds, materialize_grads=True)
        found += [g.cpu().numpy() for g in grads]
    return found


@pytest.mark.parametrize("row", ROWS, ids=repr)
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_gpu_equals_cpu(row: Any, dtype: str) -> None:
    kind = getattr(ad, dtype)
    try:
        want = results(make(row, kind), row, "cpu")
    except (RuntimeError, NotImplementedError, TypeError):
        if dtype == "bfloat16":
            return  # refused on the CPU as well
        raise
    got = results(make(row, kind, "cuda"), row, "cuda")
    for g, w in zip(got, want, strict=True):
        assert g.dtype == w.dtype
        assert g.shape == w.shape
        if w.dtype.kind in "biu":
            np.testing.assert_array_equal(g, w)
            continue
        tolerance = TOLERANCE.get(str(w.dtype), 4e-2)
        wide = np.complex128 if w.dtype.kind == "c" else np.float64
        g, w = g.astype(wide), w.astype(wide)
        if row.path in UP_TO_PHASE:
            g, w = np.abs(g), np.abs(w)
        finite = np.abs(w[np.isfinite(w)])
        scale = max(1.0, float(finite.max()) if finite.size else 1.0)
        np.testing.assert_allclose(g, w, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("name", PROGRAMS)
def test_stateful_programs_on_a_gpu(name: str) -> None:
    """Eager and captured, five calls each, equal the CPU's."""
    want = run_program(name, lambda fn: fn)
    with ad.device("cuda"):
        eager = run_program(name, lambda fn: fn)
        captured = run_program(name, capture)
    for e, c, w in zip(eager, captured, want, strict=True):
        if w is None:
            assert e is None
            assert c is None
            continue
        np.testing.assert_allclose(e, w, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(c, w, rtol=1e-5, atol=1e-6)


TRANSFORMS = {
    "hessian": lambda f, x: ad.func.hessian(f)(x),
    "jvp of grad": lambda f, x: ad.func.jvp(ad.func.grad(f), (x,), (x,))[1],
    "per-sample gradients": lambda f, x: ad.func.vmap(ad.func.grad(f))(ad.stack([x, 2 * x])),
    "jacobian of vmap": lambda f, x: ad.func.jacrev(lambda v: ad.func.vmap(f)(ad.stack([v, v])))(x),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_on_a_gpu(name: str) -> None:
    def f(v: Any) -> Any:
        out = v.new_zeros(3)
        out[0] = v[0] * v[1]
        out[1:] = v[1:].exp()
        out *= v
        return (ad.softmax(out, 0) @ v.sin()) + out[v.new_tensor([0, 2], dtype=ad.int64)].sum()

    x = ad.tensor([0.5, -0.3, 0.8], dtype=ad.float64)
    want = TRANSFORMS[name](f, x).numpy()
    np.testing.assert_allclose(TRANSFORMS[name](f, x.cuda()).cpu().numpy(), want, rtol=1e-10)


def test_random_bits_are_the_cpu_s() -> None:
    for draw in (
        lambda device: ad.rand(1000, device=device),
        lambda device: ad.randn(1000, device=device),
        lambda device: ad.randint(0, 1000, (1000,), device=device),
        lambda device: ad.randn(1001, dtype=ad.float64, device=device),
        lambda device: ad.empty(500, device=device).exponential_(),
        lambda device: ad.randperm(77, device=device),
    ):
        ad.manual_seed(3)
        want = draw("cpu").numpy()
        ad.manual_seed(3)
        np.testing.assert_array_equal(draw("cuda").cpu().numpy(), want)


def test_two_devices_is_an_error_naming_both() -> None:
    with pytest.raises(RuntimeError, match="cuda:0.*cpu|cpu.*cuda:0"):
        ad.ones(3, device="cuda") + ad.ones(3)


def test_zero_dim_cpu_tensors_may_join() -> None:
    out = ad.ones(3, device="cuda") * ad.tensor(2.0)
    assert out.device == ad.device("cuda:0")
    assert out.cpu().numpy().tolist() == [2, 2, 2]


def test_moves_and_views() -> None:
    x = ad.arange(6.0).reshape(2, 3)
    y = x.cuda()
    y[:, 1] += 5
    y.t()[0].mul_(2)
    x[:, 1] += 5
    x.t()[0].mul_(2)
    np.testing.assert_array_equal(y.cpu().numpy(), x.numpy())
    assert y.device.type == "cuda"
    assert y.to("cpu").device.type == "cpu"


def test_backward_crosses_devices() -> None:
    w = ad.ones(3, requires_grad=True)
    (w.cuda() * 2).sum().cpu().backward()
    assert w.grad is not None
    assert w.grad.device.type == "cpu"
    assert w.grad.numpy().tolist() == [2, 2, 2]


def test_information() -> None:
    assert ad.cuda.is_available()
    assert ad.cuda.device_count() >= 1
    assert ad.cuda.get_device_name()
    assert ad.cuda.get_device_capability()[0] >= 7
    before = ad.cuda.memory_allocated()
    x = ad.ones(1 << 20, device="cuda")
    assert ad.cuda.memory_allocated() >= before + (1 << 22)
    assert ad.cuda.memory_reserved() >= ad.cuda.memory_allocated()
    del x
    ad.cuda.synchronize()
    ad.cuda.empty_cache()
    assert "MiB" in ad.cuda.memory_summary()


def test_capture_on_a_gpu() -> None:
    w = ad.ones(3, device="cuda")

    @capture
    def step(x: Any) -> Any:
        w.add_(x)
        return (w * x).sum()

    for i in range(3):
        step(ad.full((3,), float(i), device="cuda"))
    assert w.cpu().numpy().tolist() == [4, 4, 4]
    assert step.traces == 1


def test_interop_without_copies() -> None:
    import cupy

    x = ad.arange(4.0, device="cuda")
    view = cupy.asarray(x)
    view[0] = 9
    assert x.cpu().numpy()[0] == 9
    back = ad.from_dlpack(view)
    back[1] = 7
    assert x.cpu().numpy()[1] == 7
