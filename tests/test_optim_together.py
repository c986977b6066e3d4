"""Many parameters at once: the same numbers as one by one, and nothing to be seen of it."""

from __future__ import annotations

import copy
import inspect
import io
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.backends.array.lists.many import SMALL
from adjoint.graph import capture
from tests.samples.optimizers import ROWS, Row, ident

optim = ad.optim
TOGETHER = [
    (kind, options)
    for kind, options in ROWS
    if "foreach" in inspect.signature(kind).parameters and "foreach" not in options
]


def draw(rng: Any, *shape: int, dtype: Any = np.float32) -> Any:
    return ad.tensor(rng.normal(size=shape).astype(dtype))


def parameters(complex_too: bool) -> list[Any]:
    """Small and large, scalar, empty, transposed, of three dtypes, two with the same memory."""
    rng = np.random.default_rng(0)
    both = draw(rng, 4)
    made = [
        draw(rng, 3, 4),
        draw(rng, 5),
        draw(rng),
        draw(rng, 0),
        draw(rng, 2, 3, dtype=np.float64),
        draw(rng, 7, dtype=np.float64),
        draw(rng, SMALL + 1),
        draw(rng, 4, 3).t(),
        draw(rng, 2, 2),
        draw(rng, 3).bfloat16(),
        draw(rng, 2).bfloat16(),
        both[:3],
        both[1:],
        draw(rng, 32, 8, 3, 3).contiguous(memory_format=ad.channels_last),  # large
    ]
    if complex_too:
        made.append(ad.complex(draw(rng, 3), draw(rng, 3)))
    return [p.detach().requires_grad_() for p in made]


def set_grads(params: list[Any], step: int) -> None:
    """Gradients for a step; one parameter has none at first, another none later."""
    rng = np.random.default_rng(step + 1)
    for p in params:
        values = rng.normal(size=p.shape).astype(np.float32)
        p.grad = ad.tensor(values).to(p.dtype)
        if p.ndim == 4 and step != 4:  # else laid out differently
            p.grad = p.grad.contiguous(memory_format=ad.channels_last)
    params[0].grad = params[0].grad.t().clone().t()  # laid out differently from the parameter
    if step < 2:
        params[1].grad = None
    if step == 3:
        params[8].grad = None


def run(make: Callable[..., Any], complex_too: bool, **kwargs: Any) -> Iterator[tuple[Any, Any]]:
    params = parameters(complex_too)
    groups = [{"params": params[:4], "lr": 0.05}, {"params": params[4:]}]
    optimizer = make(groups, **kwargs)
    for step in range(6):
        set_grads(params, step)
        optimizer.step()
        yield params, optimizer


def bits(x: Any) -> Any:
    return x.detach().contiguous().reshape(-1).view(ad.uint8).numpy().tobytes()


def asked_for() -> list[Any]:
    """Each row as it is by default; what is asked for in words is the same: of each kind one row."""
    kinds = [kind for kind, _ in TOGETHER]
    return [
        pytest.param(
            row,
            foreach,
            id=f"{ident(row)}-{foreach}",
            marks=pytest.mark.slow
            if foreach and row[0] in kinds[:n] and not ad.is_tensor(row[1].get("lr"))
            else (),
        )
        for foreach in (None, True)
        for n, row in enumerate(TOGETHER)
    ]


@pytest.mark.parametrize(("row", "foreach"), asked_for())
def test_same_bits_as_one_by_one(row: Row, foreach: bool | None) -> None:
    kind, options = row
    if foreach and ad.is_tensor(options.get("lr")):
        options = options | {"capturable": True}  # refused otherwise, as by PyTorch
    make = partial(kind, **options)
    complex_too = kind is not optim.Adafactor
    pairs = zip(
        run(make, complex_too, foreach=foreach),
        run(make, complex_too, foreach=False),
        strict=True,
    )
    for (got, together), (want, loop) in pairs:
        for g, w in zip(got, want, strict=True):
            assert bits(g) == bits(w)
            assert together.state[g].keys() == loop.state[w].keys()
            for key, value in loop.state[w].items():
                held = together.state[g][key]
                assert (held.shape, held.dtype) == (value.shape, value.dtype), key
                assert bits(held) == bits(value), key
    assert loop._plans is None
    bundles = [b for plan in (together._plans.updates if together._plans else {}).values()
               for b in plan.bundles]  # fmt: skip
    assert bool(bundles) == (kind.elementwise is not False)


def small(count: int = 3, **kwargs: Any) -> tuple[list[Any], Any]:
    params = [ad.full((2, i + 1), float(i)).requires_grad_() for i in range(count)]
    return params, optim.Adam(params, lr=0.1, **kwargs)


def step(params: list[Any], optimizer: Any, value: float = 1.0) -> None:
    for p in params:
        p.grad = ad.full_like(p, value, requires_grad=False)
    optimizer.step()


def twins() -> list[tuple[list[Any], Any]]:
    made = [small(foreach=True), small(foreach=False)]
    for params, optimizer in made:
        step(params, optimizer)
    return made


def agree(made: list[tuple[list[Any], Any]]) -> None:
    (got, _), (want, _) = made
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(g.detach().numpy(), w.detach().numpy())


def _write_state(params: list[Any], optimizer: Any) -> None:
    optimizer.state[params[1]]["exp_avg"].fill_(2.0)


def _replace_state(params: list[Any], optimizer: Any) -> None:
    optimizer.state[params[1]]["exp_avg"] = ad.full_like(params[1], 2.0, requires_grad=False)


def _replace_entry(params: list[Any], optimizer: Any) -> None:
    old = optimizer.state[params[0]]
    optimizer.state[params[0]] = {k: v.clone() * 2 for k, v in old.items()}


def _count(params: list[Any], optimizer: Any) -> None:
    optimizer.state[params[2]]["step"].fill_(9.0)


def _write_parameter(params: list[Any], optimizer: Any) -> None:
    with ad.no_grad():
        params[0].mul_(3.0)


def _replace_parameter(params: list[Any], optimizer: Any) -> None:
    params[0].data = ad.full((2, 1), 7.0)


def _reload(params: list[Any], optimizer: Any) -> None:
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))


def _rate(params: list[Any], optimizer: Any) -> None:
    optimizer.param_groups[0]["lr"] = 0.7


def _forget(params: list[Any], optimizer: Any) -> None:
    optimizer.state.clear()


@pytest.mark.parametrize(
    "change",
    [
        _write_state,
        _replace_state,
        _replace_entry,
        _count,
        _write_parameter,
        _replace_parameter,
        _reload,
        _rate,
        _forget,
    ],
)
def test_changes_between_steps_are_seen(change: Callable[..., None]) -> None:
    made = twins()
    for params, optimizer in made:
        change(params, optimizer)
        step(params, optimizer, 0.5)
        step(params, optimizer, -0.5)
    agree(made)


def test_state_tensors_stay_the_same_objects() -> None:
    params, optimizer = small()
    step(params, optimizer)
    held = optimizer.state_dict()["state"][1]["exp_avg"]
    step(params, optimizer)
    step(params[:2], optimizer)
    assert held is optimizer.state[params[1]]["exp_avg"]
    assert held.shape == params[1].shape
    assert held.is_contiguous()
    assert held.untyped_storage().nbytes() == 16


def test_parameters_keep_their_memory() -> None:
    params, optimizer = small()
    views = [p.detach() for p in params]
    step(params, optimizer)
    step(params, optimizer)
    for p, view in zip(params, views, strict=True):
        assert p.data_ptr() == view.data_ptr()
        np.testing.assert_array_equal(p.detach().numpy(), view.numpy())


def test_a_step_between_forward_and_backward_is_noticed() -> None:
    params, optimizer = small()
    loss = (params[0] ** 2).sum() + (params[1] ** 2).sum()
    step(params, optimizer)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_saved_and_copied_states() -> None:
    params, optimizer = small()
    step(params, optimizer)
    file = io.BytesIO()
    ad.save(optimizer.state_dict(), file)
    size = len(file.getvalue())
    file.seek(0)
    others, other = small()
    for p, q in zip(params, others, strict=True):
        with ad.no_grad():
            q.copy_(p)
    other.load_state_dict(ad.load(file))
    twin = copy.deepcopy(optimizer)
    for ps, o in ((params, optimizer), (others, other), (twin.param_groups[0]["params"], twin)):
        step(ps, o, 0.5)
    for p, q, r in zip(params, others, twin.param_groups[0]["params"], strict=True):
        np.testing.assert_array_equal(p.detach().numpy(), q.detach().numpy())
        np.testing.assert_array_equal(p.detach().numpy(), r.detach().numpy())
    assert size < 20_000


def test_eager_and_captured_steps_take_turns() -> None:
    def train(captured: bool) -> list[Any]:
        ad.manual_seed(0)
        model = ad.nn.Sequential(ad.nn.Linear(3, 4), ad.nn.Tanh(), ad.nn.Linear(4, 1))
        optimizer = optim.AdamW(model.parameters(), lr=0.1)

        def whole(x: Any) -> None:
            optimizer.zero_grad()
            model(x).square().sum().backward()
            optimizer.step()

        run: Any = capture(whole) if captured else whole
        for i in range(8):
            (run if i % 3 else whole)(ad.ones(2, 3) * (i + 1))
        if captured:
            assert run.traces <= 2
            text = run.graph_text()
            assert "cat" not in text  # one by one: the compiler does its own joining
            assert "view_scatter" not in text
        return [p.detach().numpy() for p in model.parameters()]

    for got, want in zip(train(True), train(False), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_sets_of_gradients_that_keep_changing() -> None:
    made = twins()
    for i in range(12):
        for params, optimizer in made:
            for k, p in enumerate(params):
                p.grad = None if (i >> k) & 1 else ad.full_like(p, 0.1 * i, requires_grad=False)
            optimizer.step()
    agree(made)


def test_not_while_differentiating() -> None:
    p = [ad.ones(2, requires_grad=True).clone() for _ in range(2)]
    optimizer = optim.SGD(p, foreach=True, differentiable=True)
    with pytest.raises(AssertionError, match="foreach"):
        optimizer.step()


def test_a_failed_rule_changes_nothing() -> None:
    params, optimizer = small()
    step(params, optimizer)
    before = [p.detach().clone() for p in params]
    optimizer.param_groups[0]["betas"] = (0.9, "x")
    with pytest.raises(TypeError):
        step(params, optimizer)
    for p, b in zip(params, before, strict=True):
        np.testing.assert_array_equal(p.detach().numpy(), b.numpy())


def gradients() -> list[Any]:
    params = parameters(complex_too=True)
    set_grads(params, 2)
    params[0].grad.copy_(params[0].grad * 100)
    params[5].grad = params[5].grad.t() if params[5].ndim > 1 else params[5].grad
    return params


@pytest.mark.parametrize("order", [2.0, 1.0, 3.0, float("inf"), 0.0, -1.0])
def test_total_norm(order: float) -> None:
    grads = [p.grad.float() for p in gradients() if p.numel() and not p.dtype.is_complex]
    got = ad.nn.utils.get_total_norm(grads, order)
    want = ad.nn.utils.get_total_norm(grads, order, foreach=False)
    np.testing.assert_allclose(got.item(), want.item(), rtol=1e-6)


@pytest.mark.parametrize("foreach", [None, True, False])
def test_clipping(foreach: bool | None) -> None:
    params = gradients()
    params[9].grad = params[10].grad = None
    wanted: list[Any] = [None if p.grad is None else p.grad.clone() for p in params]
    versions = [None if p.grad is None else p.grad._version for p in params]
    total = sum(float(g.abs().square().sum()) for g in wanted if g is not None) ** 0.5
    norm = ad.nn.utils.clip_grad_norm_(params, 0.5, foreach=foreach)
    np.testing.assert_allclose(norm.item(), total, rtol=1e-5)
    for p, g, version in zip(params, wanted, versions, strict=True):
        if g is not None:
            np.testing.assert_allclose(p.grad.numpy(), g.numpy() * (0.5 / total), rtol=1e-5)
            assert p.grad._version > version
    ad.nn.utils.clip_grad_value_(params[:4], 0.01, foreach=foreach)
    for p, g in zip(params[:4], wanted, strict=False):
        clipped = np.clip(g.numpy() * (0.5 / total), -0.01, 0.01)
        np.testing.assert_allclose(p.grad.numpy(), clipped, rtol=1e-5)


def test_a_shared_gradient_is_scaled_for_each_holder() -> None:
    def clipped(foreach: bool | None) -> Any:
        params = [ad.ones(2, requires_grad=True) for _ in range(2)]
        params[0].grad = params[1].grad = ad.full((2,), 10.0)
        ad.nn.utils.clip_grad_norm_(params, 1.0, foreach=foreach)
        return params[0].grad.numpy()

    np.testing.assert_array_equal(clipped(None), clipped(False))


def test_functions_on_lists_differentiate_and_capture() -> None:
    def loss(x: Any, y: Any) -> Any:
        scaled = ad._foreach_mul([x, y], 3.0)
        moved = [t.clone() for t in scaled]
        ad._foreach_add_(moved, [x, y], alpha=2.0)
        return sum(t.square().sum() for t in moved)

    x, y = ad.ones(2, requires_grad=True), ad.full((3,), 2.0).requires_grad_()
    loss(x, y).backward()
    np.testing.assert_allclose(x.grad.numpy(), np.full(2, 50.0))  # type: ignore[union-attr]
    captured = capture(lambda x, y: ad.func.grad(loss)(x, y))
    for _ in range(2):
        np.testing.assert_allclose(captured(x.detach(), y.detach()).numpy(), np.full(2, 50.0))


def test_functions_on_lists_in_place() -> None:
    xs = [ad.ones(2), ad.zeros(3), ad.ones(SMALL + 1)]
    held = xs[0]
    with ad.no_grad():
        ad._foreach_add_(xs, 1)
        ad._foreach_lerp_(xs, [ad.zeros_like(x) for x in xs], 0.5)
    assert xs[0] is held
    assert [float(x[0]) for x in xs] == [1.0, 0.5, 1.0]
    with pytest.raises(RuntimeError, match="same number of tensors"):
        ad._foreach_mul_(xs, [ad.ones(2)])
    with pytest.raises(AttributeError, match="_foreach_nothing"):
        ad._foreach_nothing  # noqa: B018


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("size", [3, 1 << 18])
def test_a_rule_put_in_its_place_later_is_used(
    size: int, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    params = [ad.nn.Parameter(ad.ones(size)) for _ in range(2)]
    optimizer = ad.optim.Adam(params, lr=0.1)

    def train() -> None:
        optimizer.zero_grad()
        ad.stack([(p * p).sum() for p in params]).sum().backward()
        optimizer.step()

    step = ad.compile(train) if compiled else train
    step()
    monkeypatch.setattr(ad.optim.Adam, "update", lambda self, p, g, state, group: p.fill_(7))
    step()
    assert [p[0].item() for p in params] == [7, 7]
