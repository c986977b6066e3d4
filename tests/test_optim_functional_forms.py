"""Functional forms of optimizers: the optimizer's own steps, in place on lists; PyTorch's."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.optim import _functional, _multi_tensor, optimizer

ADAM = {"beta1": 0.9, "beta2": 0.99, "lr": 0.05, "weight_decay": 0.1, "eps": 1e-8}
ADAM_STATE = {"exp_avgs": 0.0, "exp_avg_sqs": 0.0}
UNSCALED = {"grad_scale": None, "found_inf": None}
MUON = {"ns_coefficients": (3.4445, -4.775, 2.0315), "ns_steps": 5, "eps": 1e-7}
# Function; the lists it takes after gradients (first numbers; None: no tensors; "steps": counts);
# its options.
FORMS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    (
        "sgd",
        {"momentum_buffer_list": [None] * 3},
        {"weight_decay": 0.1, "momentum": 0.9, "lr": 0.1, "dampening": 0.2, "nesterov": False},
    ),
    (
        "sgd",
        {"momentum_buffer_list": []},
        {"weight_decay": 0.1, "momentum": 0, "lr": 0.1, "dampening": 0, "nesterov": False},
    ),
    ("adam", {**ADAM_STATE, "max_exp_avg_sqs": [], "state_steps": 0.0}, {**ADAM, "amsgrad": False}),
    ("adam", {**ADAM_STATE, "max_exp_avg_sqs": 0.0, "state_steps": 3.0}, {**ADAM, "amsgrad": True}),
    (
        "sgd._single_tensor_sgd",
        {"momentum_buffer_list": [None] * 3},
        {
            **UNSCALED,
            "weight_decay": 0.1,
            "momentum": 0.9,
            "lr": 0.1,
            "dampening": 0.2,
            "nesterov": False,
            "has_sparse_grad": False,
        },
    ),
    (
        "adam._single_tensor_adam",
        {**ADAM_STATE, "max_exp_avg_sqs": 0.0, "state_steps": 3.0},
        {
            **UNSCALED,
            **ADAM,
            "amsgrad": True,
            "has_complex": False,
            "capturable": False,
            "differentiable": False,
            "decoupled_weight_decay": True,
        },
    ),
    (
        "adamw",
        {**ADAM_STATE, "max_exp_avg_sqs": [], "state_steps": 0.0},
        {**ADAM, "amsgrad": False},
    ),
    (
        "adadelta",
        {"square_avgs": 0.0, "acc_deltas": 0.0, "state_steps": 0.0},
        {"lr": 1.0, "rho": 0.9, "eps": 1e-6, "weight_decay": 0.1},
    ),
    (
        "adagrad",
        {"state_sums": 0.5, "state_steps": 0.0},
        {"lr": 0.1, "weight_decay": 0.1, "lr_decay": 0.2, "eps": 1e-10},
    ),
    ("adamax", {"exp_avgs": 0.0, "exp_infs": 0.0, "state_steps": 0.0}, ADAM),
    (
        "asgd",
        {"axs": 0.0, "mus": "one", "etas": "one", "state_steps": 0.0},
        {"lambd": 1e-2, "lr": 0.1, "t0": 1.0, "alpha": 0.75, "weight_decay": 0.1},
    ),
    (
        "nadam",
        {**ADAM_STATE, "mu_products": "one", "state_steps": 0.0},
        {**ADAM, "momentum_decay": 4e-3, "decoupled_weight_decay": True},
    ),
    ("radam", {**ADAM_STATE, "state_steps": 3.0}, ADAM),
    (
        "rmsprop",
        {"square_avgs": 0.0, "grad_avgs": 0.0, "momentum_buffer_list": 0.0, "state_steps": 0.0},
        {
            "lr": 0.1,
            "alpha": 0.9,
            "eps": 1e-8,
            "weight_decay": 0.1,
            "momentum": 0.5,
            "centered": True,
        },
    ),
    (
        "rprop",
        {"prevs": 0.0, "step_sizes": 0.1, "state_steps": 0.0},
        {"step_size_min": 1e-6, "step_size_max": 50.0, "etaminus": 0.5, "etaplus": 1.2},
    ),
    (
        "_muon.muon",
        {"muon_momentum_bufs": 0.0},
        {
            **MUON,
            "lr": 0.1,
            "weight_decay": 0.1,
            "momentum": 0.9,
            "nesterov": True,
            "adjust_lr_fn": None,
            "has_complex": False,
        },
    ),
    (
        "_adafactor.adafactor",
        {"row_vars": "rows", "col_vars": "columns", "variances": [None] * 3, "state_steps": 0.0},
        {
            "d": 1.0,
            "lr": 0.1,
            "beta2_decay": -0.8,
            "weight_decay": 0.1,
            "eps1": 1e-30,
            "eps2": 1e-3,
        },
    ),
]
SHAPES = [(3, 2), (4, 4), (1, 5)]


def form(name: str, package: str) -> Any:
    """The function, of `adjoint` or of `torch`."""
    module, _, function = name.rpartition(".")
    if package == "adjoint":
        module = module.removeprefix("_")
    return getattr(importlib.import_module(f"{package}.optim.{module or function}"), function)


def start(library: Any, key: str, first: Any) -> list[Any]:
    """A list of state before the first step."""
    if isinstance(first, list):
        return list(first)
    if key == "state_steps":
        return [library.tensor(first) for _ in SHAPES]
    if first == "one":
        return [library.ones(()) for _ in SHAPES]
    if first == "rows":
        return [library.zeros((r, 1), dtype=library.float64) for r, _ in SHAPES]
    if first == "columns":
        return [library.zeros((1, c), dtype=library.float64) for _, c in SHAPES]
    return [library.full(s, first, dtype=library.float64) for s in SHAPES]


def steps(
    library: Any, function: Any, states: dict[str, Any], options: dict[str, Any], count: int = 3
) -> dict[str, list[Any]]:
    """Parameters and state after a few steps, as arrays."""
    rng = np.random.default_rng(0)
    params = [library.tensor(rng.normal(size=s)) for s in SHAPES]
    lists = {key: start(library, key, first) for key, first in states.items()}
    for _ in range(count):
        grads = [library.tensor(rng.normal(size=s)) for s in SHAPES]
        assert function(params, grads, *lists.values(), **options) is None
    return {
        key: [None if v is None else v.numpy() for v in values]
        for key, values in {"params": params, **lists}.items()
    }


def ids(case: Any) -> str:
    return case if isinstance(case, str) else ""


@pytest.mark.compare
@pytest.mark.parametrize(("name", "states", "options"), FORMS, ids=ids)
def test_functions_compute_what_pytorchs_do(
    name: str, states: dict[str, Any], options: dict[str, Any]
) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = form(name, "adjoint"), form(name, "torch")
    for maximize in (False, True):
        if "maximize" in inspect.signature(ours).parameters:
            options = {**options, "maximize": maximize}
        found, expected = (
            steps(library, function, states, options)
            for library, function in ((ad, ours), (torch, theirs))
        )
        # PyTorch's Newton-Schulz iteration is in bfloat16
        rtol, atol = (2e-2, 2e-2) if name == "_muon.muon" else (1e-6, 1e-7)
        for key, values in expected.items():
            assert len(found[key]) == len(values), key
            for a, b in zip(found[key], values, strict=True):
                assert (a is None) == (b is None), key
                if b is not None:
                    np.testing.assert_allclose(a, b, rtol=rtol, atol=atol, err_msg=key)


@pytest.mark.compare
@pytest.mark.parametrize("name", sorted({name for name, *_ in FORMS}))
def test_signatures_are_pytorchs(name: str) -> None:
    pytest.importorskip("torch")
    ours, theirs = (
        [(p.name, p.kind, p.default) for p in inspect.signature(f).parameters.values()]
        for f in (form(name, "adjoint"), form(name, "torch"))
    )
    assert ours == theirs


def adam(params: list[Any], grads: list[Any], steps: list[Any], **options: Any) -> list[Any]:
    averages = [ad.zeros_like(p) for p in params]
    squares = [ad.zeros_like(p) for p in params]
    given = {**ADAM, "amsgrad": False, "maximize": False, **options}
    _functional.adam(params, grads, averages, squares, [], steps, **given)
    return averages


def test_a_complex_parameter_is_two_real_ones() -> None:
    values, grad = np.array([1 + 2j, -0.5j]), np.array([0.3 - 1j, 2 + 0.1j])
    p = ad.tensor(values)
    averages = adam([p], [ad.tensor(grad)], [ad.tensor(0.0)], has_complex=True)
    pairs = ad.view_as_real(ad.tensor(values)).clone()
    of_pairs = adam([pairs], [ad.view_as_real(ad.tensor(grad)).clone()], [ad.tensor(0.0)])
    np.testing.assert_array_equal(ad.view_as_real(p).numpy(), pairs.numpy())
    np.testing.assert_array_equal(ad.view_as_real(averages[0]).numpy(), of_pairs[0].numpy())


def test_fused_steps_unscale_gradients_and_leave_out_infinite_ones() -> None:
    p, q = ad.ones(3), ad.ones(3)
    grad, scaled = ad.tensor([1.0, -2.0, 3.0]), ad.tensor([4.0, -8.0, 12.0])
    count = ad.tensor(0.0)
    adam([p], [grad], [ad.tensor(0.0)])
    more = {"fused": True, "grad_scale": ad.tensor(4.0)}
    adam([q], [scaled], [count], **more, found_inf=ad.tensor(0.0))
    np.testing.assert_array_equal(p.numpy(), q.numpy())
    np.testing.assert_array_equal(scaled.numpy(), grad.numpy())
    adam([q], [scaled], [count], **more, found_inf=ad.tensor(1.0))
    np.testing.assert_array_equal(p.numpy(), q.numpy())
    assert count.item() == 1
    with pytest.raises(AssertionError, match="fused=True alone"):
        adam([q], [scaled], [count], grad_scale=ad.tensor(4.0))


def test_refusals() -> None:
    p = ad.ones(2)
    with pytest.raises(RuntimeError, match="singleton tensors"):
        adam([p], [p.clone()], [1])
    with pytest.raises(ValueError, match="received 1 parameters and 2 gradients"):
        adam([p], [p.clone()] * 2, [ad.tensor(0.0)])
    with pytest.raises(ValueError, match="0 entries of 'max_exp_avg_sq'"):
        adam([p], [p.clone()], [ad.tensor(0.0)], amsgrad=True)
    with pytest.raises(AssertionError, match="foreach=True does not support"):
        adam([p], [p.clone()], [ad.tensor(0.0)], foreach=True, differentiable=True)
    with pytest.raises(RuntimeError, match="leaf"):  # as in PyTorch: the caller says `no_grad`
        adam([p.clone().requires_grad_()], [p.clone()], [ad.tensor(0.0)])
    np.testing.assert_array_equal(p.numpy(), np.ones(2))


def test_sparse_adam_is_given_counts_that_have_this_step() -> None:
    grad = ad.sparse_coo_tensor([[0, 2]], [1.0, -3.0], (4,))
    p, q = ad.ones(4, requires_grad=True), ad.ones(4)
    rule = ad.optim.SparseAdam([p], lr=0.1)
    averages, counts = ([ad.zeros(4)], [ad.zeros(4)]), [0]
    for _ in range(3):
        p.grad = grad
        rule.step()
        counts[0] += 1
        _functional.sparse_adam(
            [q], [grad], *averages, counts, eps=1e-8, beta1=0.9, beta2=0.999, lr=0.1, maximize=False
        )
    assert counts == [3]
    np.testing.assert_array_equal(p.detach().numpy(), q.numpy())
    counted: Any = ad.tensor(1.0)
    with pytest.raises(RuntimeError, match="list of ints"):
        _functional.sparse_adam(
            [q],
            [grad],
            *averages,
            [counted],
            eps=1e-8,
            beta1=0.9,
            beta2=0.9,
            lr=1,
            maximize=0,
        )


def test_compiled_calls_see_each_calls_rate() -> None:
    def step(p: Any, grad: Any, mean: Any, square: Any, count: Any, lr: float) -> Any:
        given = {**ADAM, "amsgrad": False, "maximize": False, "lr": lr}
        _functional.adam([p], [grad], [mean], [square], [], [count], **given)
        return p

    compiled, found = ad.compile(step), {}
    for name, function in (("eager", step), ("compiled", compiled)):
        tensors = [
            ad.ones(3),
            ad.tensor([1.0, -2.0, 0.5]),
            ad.zeros(3),
            ad.zeros(3),
            ad.tensor(0.0),
        ]
        for lr in (0.1, 0.1, 0.7, 0.01):
            function(*tensors, lr)
        found[name] = [t.numpy() for t in tensors]
    for a, b in zip(found["eager"], found["compiled"], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_multi_tensor_classes_ask_for_many_at_once() -> None:
    known = vars(_multi_tensor).values()
    kinds = [k for k in known if isinstance(k, type) and issubclass(k, ad.optim.Optimizer)]
    assert len(kinds) == 11
    for kind in kinds:
        p, q = ad.ones(3, requires_grad=True), ad.ones(3, requires_grad=True)
        p.grad = q.grad = ad.tensor([1.0, -2.0, 0.5])
        many = kind([p], lr=0.1)
        assert many.param_groups[0]["foreach"] is True
        assert isinstance(many, getattr(ad.optim, kind.__name__))
        many.step()
        getattr(ad.optim, kind.__name__)([q], lr=0.1).step()
        np.testing.assert_array_equal(p.detach().numpy(), q.detach().numpy())


def test_what_optimizers_written_elsewhere_import() -> None:
    assert optimizer._get_scalar_dtype() is ad.float32
    assert optimizer._get_scalar_dtype(is_fused=True) is ad.float32
    assert optimizer._get_value(ad.tensor(2.0)) == 2.0 == optimizer._get_value(2.0)
    assert optimizer._to_scalar(ad.ones(1)).shape == ()
    assert optimizer._to_scalar(3.0) == 3.0
    p, q = ad.tensor([1 + 2j]), ad.ones(2)
    params, grads = [p, q], [p.clone(), q.clone()]
    optimizer._view_as_real(params, grads)
    assert params[1] is q
    assert [tuple(t.shape) for t in params + grads] == [(1, 2), (2,)] * 2
    params[0].mul_(2)
    np.testing.assert_array_equal(p.numpy(), [2 + 4j])
    assert optimizer._stack_if_compiling(params) is params

    @optimizer._disable_dynamo_if_unsupported(single_tensor_fn=sum)
    def corrected(counts: list[Any]) -> Any:
        return optimizer._stack_if_compiling(counts)

    found = ad.compile(lambda counts: corrected(counts) * 2)([ad.tensor(1.0), ad.tensor(2.0)])
    np.testing.assert_array_equal(found.numpy(), [2.0, 4.0])
