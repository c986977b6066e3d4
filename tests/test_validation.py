"""`compile(validate=True)`: what it finds, whom it names, and that it changes nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn
from adjoint.compiler import ValidationError
from adjoint.engine.backends.llvm.program.validate import Validated
from adjoint.engine.backends.llvm.runtime import library
from adjoint.engine.backends.registers import elementwise
from adjoint.engine.compiler.flow import scans
from adjoint.engine.compiler.package.tolerance import differing
from adjoint.quantization.functional import grouped_linear

Break = Callable[[str], None]
X = ad.linspace(-2, 2, 40).reshape(4, 10)


@pytest.fixture
def wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Break:
    """Have kernels compute something else for a function; none that was written before is used."""
    monkeypatch.setenv("ADJOINT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(library, "_loaded", {})

    def spoil(name: str) -> None:
        right = elementwise.LOWER[name]
        monkeypatch.setitem(elementwise.LOWER, name, lambda *xs: right(*xs) * 1.0001)

    return spoil


def fault_of(fn: Callable[..., Any], *args: Any, **settings: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        ad.compile(fn, validate=True, **settings)(*args)
    return str(caught.value)


# -- what it finds ------------------------------------------------------------------------------


def test_names_the_kernel_its_lines_and_the_element(wrong: Break) -> None:
    wrong("erf")

    def fn(x: Any) -> Any:
        y = (x @ x.t()).cumsum(0)
        y = y * 0.25
        y = y.erf()
        return y.softmax(-1) + 1

    told = fault_of(fn, X)
    line = fn.__code__.co_firstlineno
    assert f"{__file__}:{line + 3}" in told
    assert "(mul+erf+amax+sub+exp+sum+div+add)" in told
    assert "received np.float32(" in told
    assert "Element (0, 0) of its result" in told


def test_the_guilty_one_not_a_later_one(wrong: Break) -> None:
    wrong("atan")

    def fn(x: Any) -> Any:
        return ((x.sin() @ x.t()).atan() @ x).exp().sum(0)

    told = fault_of(fn, X)
    assert "(atan)" in told
    assert "step 3" in told


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_wrong_kernel_of_the_backward(wrong: Break, dynamic: bool) -> None:
    wrong("cos")
    x = X.clone().requires_grad_()
    y = ad.compile(lambda x: x.sin().sum(), validate=True, dynamic=dynamic)(x)
    with pytest.raises(ValidationError, match="cos"):
        y.backward()


def test_a_wrong_kernel_in_a_body(wrong: Break) -> None:
    wrong("tanh")

    def fn(x: Any) -> Any:
        return ad.scan(lambda c, row: ((c + row).tanh(), c * 2), ad.zeros(10), x)[0]

    assert "(add+tanh)" in fault_of(fn, X)
    chosen = lambda x: ad.cond(x.sum() < 1, lambda x: x.tanh(), lambda x: x, (x,))
    assert "(tanh)" in fault_of(chosen, X)


def test_wrong_turns_of_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels that are right each by itself, put together wrongly."""
    row = scans.row
    monkeypatch.setattr(scans, "row", lambda place, k: row(place, 0))

    def fn(x: Any) -> Any:
        return ad.scan(lambda c, row: (c * 0.5 + row, c), ad.zeros(10), x)[0]

    assert "(scan)" in fault_of(fn, X)


def test_state_is_as_before_a_call_that_fails(wrong: Break) -> None:
    wrong("sigmoid")
    total, seen = ad.zeros(4, 10), ad.zeros(4)

    @ad.compile(validate=True)
    def fn(x: Any) -> Any:
        total.add_(x)
        seen.copy_((x @ x.t()).sigmoid().sum(0))
        return total * 2

    for _ in range(2):  # the second call is still the first that could succeed
        with pytest.raises(ValidationError):
            fn(X)
        assert not total.any()
        assert not seen.any()


# -- what it leaves alone -----------------------------------------------------------------------


def losses(validate: bool) -> list[float]:
    ad.manual_seed(0)
    net = nn.Sequential(nn.Linear(10, 16), nn.BatchNorm1d(16), nn.Dropout(0.3), nn.Linear(16, 3))
    opt = ad.optim.AdamW(net.parameters(), lr=0.05)

    @ad.compile(validate=validate)
    def step(x: Any, y: Any) -> Any:
        loss = F.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    found = [float(step(X, ad.tensor([0, 1, 2, 0]))) for _ in range(4)]
    return [*found, *ad.cat([p.detach().reshape(-1) for p in net.parameters()]).tolist()]


def test_a_training_step_is_the_same() -> None:
    assert losses(validate=True) == losses(validate=False)


def test_sizes_and_calls_of_the_eager_table() -> None:
    fn = ad.compile(lambda x: x.sort(0).values.softmax(-1) + x.mean(0), validate=True)
    many = ad.compile(lambda x: x.softmax(0) @ x.t(), validate=True, dynamic=True)
    for n in (4, 7, 4):
        x = ad.randn(n, 6)
        np.testing.assert_allclose(
            fn(x).numpy(), (x.sort(0).values.softmax(-1) + x.mean(0)).numpy(), rtol=1e-5
        )
        np.testing.assert_allclose(
            many(x).numpy(), (x.softmax(0) @ x.t()).numpy(), rtol=1e-4, atol=1e-6
        )


def test_rounding_that_matters_is_no_fault() -> None:
    """Differences of close numbers, comparisons of rounded ones, loops that go on by them."""

    def fn(x: Any) -> Any:
        y = x.sin() * x.cos() - (2 * x).sin() / 2
        far = ad.while_loop(lambda x: (x.sin() > 0.1).any(), lambda x: (x * 0.9,), (x.abs(),))
        return y, y > 0, (x.exp() * 3).floor(), (x.exp().log() == x), far

    x = ad.randn(33, 65)
    ad.compile(fn, validate=True)(x)
    ad.compile(fn, validate=True)(x.to(ad.float64))


def test_sums_that_cancel_inside_what_was_kept_whole() -> None:
    """The weights' terms are some hundred times the sum: rounding is of their size."""
    scale, weight = ad.full((1, 5), 0.1), ad.randint(-128, 128, (1, 160), dtype=ad.int8)
    fn = lambda x: grouped_linear(x, weight, scale, None, None, 8, 32)
    for _ in range(20):
        x = ad.randn(1, 160)
        x -= (x @ weight.float().t()) / (weight.float() ** 2).sum() * weight.float()
        ad.compile(fn, validate=True)(x)


@pytest.mark.parametrize(
    ("got", "want", "others", "wrong"),
    [
        ([np.nan, -0.0, np.inf], [np.nan, 0.0, np.inf], [[np.nan, 0.0, np.inf]], [0, 0, 0]),
        ([1.0, np.nan, np.inf], [np.nan, 1.0, 1.0], [[np.nan, 1.0, 1.0]], [1, 1, 1]),
        ([1.0, 2.0, 3.0], [1.0, 2.1, 3.0], [[1.0, 2.2, 3.0]], [0, 0, 0]),
        ([1.0, 2.0, 3.0], [1.0, 2.1, 3.0], [[1.0, 2.10001, 3.0]], [0, 1, 0]),
        ([1.0, 2.0, 3.0], [1.0, 2.0, np.inf], [[1.0, 2.0, 3.0]], [0, 0, 0]),
        ([1, 2, 3], [1, 3, 4], [[1, 3, 3]], [0, 1, 0]),
    ],
)
def test_which_elements_differ(got: Any, want: Any, others: Any, wrong: Any) -> None:
    with np.errstate(all="ignore"):
        found = differing(np.array(got), np.array(want), [np.array(x) for x in others])
    assert found.astype(int).tolist() == wrong


# -- how it is asked for ------------------------------------------------------------------------


def is_validated(**settings: Any) -> bool:
    fn = ad.compile(lambda x: x + 1, **settings)
    fn(X)
    return isinstance(fn.latest.executable, Validated)


def test_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ADJOINT_VALIDATE", raising=False)
    assert not is_validated()
    assert is_validated(validate=True)
    assert is_validated(options={"validate": True})
    monkeypatch.setenv("ADJOINT_VALIDATE", "1")
    assert is_validated()
    assert not is_validated(validate=False)
    assert not is_validated(backend="interpret")


def test_refused() -> None:
    with pytest.raises(RuntimeError, match="validate=True checks the kernels of the native"):
        ad.compile(lambda x: x, validate=True, backend=ad.graph.interpreted)
    with pytest.raises(RuntimeError, match="unknown option 'checked'"):
        ad.compile(lambda x: x, options={"checked": True})
    with pytest.raises(RuntimeError, match="must be True or False"):
        ad.compile(lambda x: x, options={"validate": 2})
    assert issubclass(ValidationError, RuntimeError)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["native_fusion", "native_steps", "native_products"])
def test_programs_of_the_suite(name: str) -> None:
    """`make validate` runs all of them."""
    here = Path(__file__).parent
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", str(here / f"test_{name}.py")],
        env={**os.environ, "ADJOINT_VALIDATE": "1"},
        cwd=here.parent,
        capture_output=True,
        text=True,
    )
    assert not ran.returncode, ran.stdout[-4000:]
