"""A hundred steps of every optimizer, beside PyTorch's, for the arguments PyTorch tests with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import adjoint as ad

torch: Any = pytest.importorskip("torch")
# PyTorch's own test modules need packages that are not installed with it.
optim_db: Any = pytest.importorskip(
    "torch.testing._internal.common_optimizers", exc_type=ImportError
).optim_db

from tests.compare.bridge import ours, theirs  # noqa: E402

pytestmark = [pytest.mark.compare, pytest.mark.filterwarnings("ignore")]

STEPS = 100
# Muon iterates in bfloat16, where the order of a product's sum shows.
LOOSE = {"Muon": 2e-2, "Adafactor": 1e-4, "LBFGS": 1e-3}


def cases() -> Iterator[Any]:
    for info in optim_db:
        name = info.optim_cls.__name__
        if name == "SparseAdam":  # beside PyTorch's in test_sparse
            continue
        for i, case in enumerate(info.optim_inputs_func("cpu")):
            kwargs = {k: v for k, v in case.kwargs.items() if k != "capturable"}
            if kwargs.get("fused"):
                continue
            yield pytest.param(name, kwargs, id=f"{name}-{i}-{case.desc}")


def start(dtype: Any = torch.float64) -> list[Any]:
    generator = torch.Generator().manual_seed(0)
    return [
        torch.randn(4, 3, generator=generator).to(dtype),
        torch.randn(3, 2, generator=generator).to(dtype),
    ]


def batch(i: int, dtype: Any) -> Any:
    return torch.randn(8, 4, generator=torch.Generator().manual_seed(i + 1)).to(dtype)


def trajectory(lib: Any, name: str, kwargs: dict[str, Any], dtype: Any, steps: int) -> list[Any]:
    mine = lib is ad
    convert = ours if mine else lambda x: x
    params = [convert(p.clone()).requires_grad_() for p in start(dtype)]
    options = {
        k: convert(v.clone()) if isinstance(v, torch.Tensor) else v for k, v in kwargs.items()
    }
    if isinstance(options.get("betas"), tuple):
        options["betas"] = tuple(
            convert(b) if isinstance(b, torch.Tensor) else b for b in options["betas"]
        )
    differentiable = options.get("differentiable", False)
    if differentiable:  # its writes are recorded, so parameters must not be leaves
        options.pop("differentiable")
    optimizer = getattr(lib.optim, name)(params, **options)
    seen = []
    for i in range(steps):
        x = convert(batch(i if name != "LBFGS" else 0, dtype))

        def closure(x: Any = x) -> Any:
            optimizer.zero_grad()
            loss = ((x @ params[0]).tanh() @ params[1] - 0.5).pow(2).mean()
            loss.backward()
            return loss

        if name == "LBFGS":
            optimizer.step(closure)
        else:
            closure()
            optimizer.step()
        if i % 10 == 0 or i == steps - 1:
            seen += [(theirs(p) if mine else p.detach().clone()).numpy() for p in params]
    return seen


@pytest.mark.parametrize(("name", "kwargs"), list(cases()))
def test_trajectory(name: str, kwargs: dict[str, Any]) -> None:
    steps = 3 if name == "LBFGS" else STEPS
    want = trajectory(torch, name, kwargs, torch.float64, steps)
    got = trajectory(ad, name, kwargs, torch.float64, steps)
    tolerance = LOOSE.get(name, 1e-7)
    if any(isinstance(v, torch.Tensor) for v in [*kwargs.values(), *kwargs.get("betas", ())]):
        tolerance = max(tolerance, 1e-5)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "NAdam", "RAdam", "Adamax", "Adadelta"]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_other_dtypes(name: str, dtype: Any) -> None:
    if dtype.is_complex:
        start_value = [
            torch.view_as_complex(torch.randn(3, 2, generator=torch.Generator().manual_seed(3)))
        ]
        ends = []
        for lib in (torch, ad):
            p = (
                ours(start_value[0].clone()) if lib is ad else start_value[0].clone()
            ).requires_grad_()
            optimizer = getattr(lib.optim, name)([p], lr=0.05)
            for _ in range(20):
                optimizer.zero_grad()
                (p * p.conj()).real.sum().backward()
                optimizer.step()
            ends.append((theirs(p) if lib is ad else p.detach()).numpy())
        np.testing.assert_allclose(ends[1], ends[0], rtol=1e-4, atol=1e-5)
        return
    want = trajectory(torch, name, {"lr": 0.01}, dtype, 50)
    got = trajectory(ad, name, {"lr": 0.01}, dtype, 50)
    np.testing.assert_allclose(got[-1], want[-1], rtol=1e-4, atol=1e-5)


def numbers(x: Any) -> Any:
    """A state dict with tensors as lists."""
    if isinstance(x, dict):
        return {k: numbers(v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return [numbers(v) for v in x]
    return x.tolist() if hasattr(x, "tolist") else x


@pytest.mark.parametrize(
    "name", sorted({i.optim_cls.__name__ for i in optim_db} - {"SparseAdam", "LBFGS"})
)
def test_state_dicts_are_interchangeable(name: str) -> None:
    kwargs: dict[str, Any] = {"momentum": 0.9} if name == "SGD" else {}
    made = {}
    for lib in (torch, ad):
        params = [(ours(p) if lib is ad else p).requires_grad_() for p in start(torch.float32)]
        optimizer = getattr(lib.optim, name)(params, **kwargs)
        for p in params:
            p.grad = p.detach() * 2
        optimizer.step()
        made[lib] = (params, optimizer)
    mine, yours = made[ad][1].state_dict(), made[torch][1].state_dict()
    assert mine.keys() == yours.keys()
    assert [sorted(g) for g in mine["param_groups"]] == [sorted(g) for g in yours["param_groups"]]
    for i, held in yours["state"].items():
        assert sorted(held) == sorted(mine["state"][i])
        for key, value in held.items():
            other = mine["state"][i][key]
            assert tuple(value.shape) == tuple(other.shape)
            assert str(value.dtype).rsplit(".")[-1] == other.dtype.name
            np.testing.assert_allclose(
                theirs(other).float().numpy(), value.float().numpy(), rtol=1e-4, atol=1e-6
            )

    # Each loads the other's and goes on alike.
    def both(x: Any, convert: Any) -> Any:
        if isinstance(x, dict):
            return {k: both(v, convert) for k, v in x.items()}
        return convert(x) if isinstance(x, (torch.Tensor, ad.Tensor)) else x

    made[ad][1].load_state_dict(both(yours, ours))
    made[torch][1].load_state_dict(both(mine, theirs))
    for lib in (torch, ad):
        for p in made[lib][0]:
            p.grad = p.detach() * 3
        made[lib][1].step()
    for p, q in zip(made[torch][0], made[ad][0], strict=True):
        np.testing.assert_allclose(theirs(q).numpy(), p.detach().numpy(), rtol=2e-3, atol=1e-5)


@pytest.mark.parametrize(
    "name", ["SGD", "Adam", "RMSprop", "Adagrad", "Adadelta", "NAdam", "RAdam"]
)
def test_differentiable_steps(name: str) -> None:
    """The gradient of a loss after three steps with respect to the start."""
    ends = []
    kwargs: dict[str, Any] = {"momentum": 0.9} if name == "SGD" else {}
    for lib in (torch, ad):
        leaf = (ours if lib is ad else lambda x: x)(start()[0]).requires_grad_()
        p = leaf.clone()
        optimizer = getattr(lib.optim, name)([p], lr=0.1, differentiable=True, **kwargs)
        for _ in range(3):
            p.grad = (p**3).detach() * 0.1 + p.detach()
            p.grad = 0.3 * p.clone() + p.grad
            optimizer.step()
        (g,) = lib.autograd.grad((p**2).sum(), leaf)
        ends.append((theirs(g) if lib is ad else g).numpy())
    np.testing.assert_allclose(ends[1], ends[0], rtol=1e-4, atol=2e-5)  # PyTorch counts in float32


@pytest.mark.parametrize("name", sorted({i.optim_cls.__name__ for i in optim_db}))
def test_refusals(name: str) -> None:
    info = next(i for i in optim_db if i.optim_cls.__name__ == name)
    for case in info.optim_error_inputs_func("cpu", torch.float32):
        params = case.optimizer_error_input.params
        if params is None:
            params = [torch.nn.Parameter(torch.randn(2, 3))]
        if case.error_on.name != "CONSTRUCTION_ERROR":
            continue

        made: dict[int, Any] = {}  # the same tensor twice is the same twice

        def convert(x: Any, made: dict[int, Any] = made) -> Any:
            if isinstance(x, dict):
                return {k: convert(v) for k, v in x.items()}
            if isinstance(x, (list, tuple)):
                return type(x)(map(convert, x))
            return made.setdefault(id(x), ours(x))

        kwargs = {k: ours(v) for k, v in case.optimizer_error_input.kwargs.items()}
        given = [convert(p) for p in params] if isinstance(params, list) else params
        expect: Any = pytest.warns if case.error_type is UserWarning else pytest.raises
        with expect(case.error_type):
            getattr(ad.optim, name)(given, **kwargs)


def test_sparse_adam_and_dense_gradients() -> None:
    """The same error, and parameters without a gradient are passed over."""
    messages = []
    for lib in (torch, ad):
        w = lib.ones(2, requires_grad=True)
        optimizer = lib.optim.SparseAdam([w])
        assert optimizer.step() is None
        w.grad = lib.ones(2)
        with pytest.raises(RuntimeError) as caught:
            optimizer.step()
        messages.append(str(caught.value))
        assert not optimizer.state.get(w)
    assert messages[0] == messages[1]
