"""Calls as older programs write them: numbers before tensors, Python's types as dtypes."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint as ad

OLDER_FORMS = [
    ("x.add(2, y)", "x.add(y, alpha=2)"),
    ("ad.add(x, 2, y)", "x.add(y, alpha=2)"),
    ("x.clone().add_(2, y)", "x.add(y, alpha=2)"),
    ("x.sub(0.5, y)", "x.sub(y, alpha=0.5)"),
    ("x.clone().addcmul_(2, y, y)", "x.addcmul(y, y, value=2)"),
    ("ad.addcdiv(x, 2, y, y + 4)", "x.addcdiv(y, y + 4, value=2)"),
    ("x.addmm(2, y, y)", "x.addmm(y, y, beta=2)"),
    ("x.clone().addmm_(3, 2, y, y)", "x.addmm(y, y, beta=3, alpha=2)"),
    ("ad.addmm(3, x, 2, y, y)", "x.addmm(y, y, beta=3, alpha=2)"),
]


@pytest.mark.parametrize(("older", "today"), OLDER_FORMS)
def test_numbers_before_tensors_as_pytorch_had_it_first(older: str, today: str) -> None:
    names = {"ad": ad, "x": ad.arange(4.0).reshape(2, 2), "y": ad.ones(2, 2) * 1.5}
    with pytest.warns(UserWarning, match="deprecated. Pass the numbers by name"):
        found = eval(older, names)
    assert found.equal(eval(today, names))


def test_orders_that_never_were_are_refused() -> None:
    x = ad.ones(2, 2)
    for call in (lambda: x.add(x, 2), lambda: x.add_(1, x, x), lambda: ad.addmm(1, 2, x, x, x)):
        with pytest.raises(TypeError):
            call()  # type: ignore[no-untyped-call]


@pytest.mark.parametrize(("kind", "dtype"), [(int, ad.int64), (float, ad.float64), (bool, ad.bool)])
def test_python_types_stand_for_dtypes(kind: Any, dtype: Any) -> None:
    x = ad.ones(2)
    made = [
        ad.tensor(1, dtype=kind),
        ad.as_tensor([1], dtype=kind),
        ad.zeros_like(x, dtype=kind),
        x.new_tensor([1], dtype=kind),
        x.to(kind),
    ]
    if kind is float:
        made += [x.mean(dtype=float), ad.rand(2, dtype=float), ad.nn.Linear(1, 1).to(float).weight]
    assert {each.dtype for each in made} == {dtype}
    with pytest.raises(ValueError, match="invalid type"):
        x.type(kind)


def test_sums_of_numbers_are_tensors() -> None:
    assert (ad.add(1, 2).item(), ad.add(1, 2).dtype) == (3, ad.int64)
    out = ad.zeros(())
    assert ad.add(1, 2, out=out) is out
    assert out.item() == 3
    assert ad.div(7, 2, rounding_mode="floor").item() == 3
    assert ad.mul(2.0, 3).dtype == ad.float32


@pytest.mark.parametrize("name", ["add", "sub", "add_", "sub_"])
def test_two_numbers_are_another_and_its_factor(name: str) -> None:
    sign = 1 if name.startswith("add") else -1
    with pytest.warns(UserWarning, match="deprecated"):
        assert getattr(ad.ones(2), name)(1, 2).tolist() == [1 + 2 * sign] * 2


@pytest.mark.parametrize("k", [0, 1])
def test_the_largest_of_one_number(k: int) -> None:
    """Without a dimension nothing is cut off, as in PyTorch."""
    values, at = ad.tensor(3.0).topk(k)
    assert (values.tolist(), at.tolist()) == (3.0, 0)
