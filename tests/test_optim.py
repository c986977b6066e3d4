"""Optimizers: closed forms, groups, state dicts, hooks, refusals."""

from __future__ import annotations

import copy
import inspect
import math
import pickle
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.optim.optimizer import register_optimizer_step_post_hook
from adjoint.optim.stepping.options import OPTIONS
from tests.samples.optimizers import APART, ROWS, first_rows


def parameter(*values: float) -> Any:
    return ad.tensor(list(values), dtype=ad.float64, requires_grad=True)


def stepped(optimizer: Any, p: Any, grads: list[list[float]]) -> np.ndarray[Any, Any]:
    for g in grads:
        p.grad = ad.tensor(g, dtype=ad.float64)
        optimizer.step()
    return p.detach().numpy()


GRADS = [[1.0, -2.0], [0.5, 0.25], [-1.0, 3.0]]
START = np.array([0.3, -0.7])


def reference(rule: Any, **state: Any) -> np.ndarray[Any, Any]:
    w = START.copy()
    for t, g in enumerate(map(np.array, GRADS), 1):
        w, state = rule(w, g, t, **state)
    return w


def test_sgd_with_momentum() -> None:
    def rule(w: Any, g: Any, t: int, b: Any) -> Any:
        g = g + 0.1 * w
        b = g if t == 1 else 0.9 * b + (1 - 0.2) * g
        return w - 0.05 * b, {"b": b}

    p = parameter(*START)
    optimizer = ad.optim.SGD([p], lr=0.05, momentum=0.9, dampening=0.2, weight_decay=0.1)
    np.testing.assert_allclose(stepped(optimizer, p, GRADS), reference(rule, b=0), rtol=1e-12)


@pytest.mark.parametrize("decoupled", [False, True])
def test_adam(decoupled: bool) -> None:
    def rule(w: Any, g: Any, t: int, m: Any, v: Any) -> Any:
        if decoupled:
            w = w * (1 - 0.05 * 0.1)
        else:
            g = g + 0.1 * w
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
        step = (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.99**t)) + 1e-8)
        return w - 0.05 * step, {"m": m, "v": v}

    p = parameter(*START)
    kind = ad.optim.AdamW if decoupled else ad.optim.Adam
    optimizer = kind([p], lr=0.05, betas=(0.9, 0.99), weight_decay=0.1)
    np.testing.assert_allclose(stepped(optimizer, p, GRADS), reference(rule, m=0, v=0), rtol=1e-10)


def test_lion() -> None:
    def rule(w: Any, g: Any, t: int, m: Any) -> Any:
        w = w * (1 - 0.1 * 0.05) - 0.05 * np.sign(0.9 * m + 0.1 * g)
        return w, {"m": 0.99 * m + 0.01 * g}

    p = parameter(*START)
    optimizer = ad.optim.Lion([p], lr=0.05, weight_decay=0.1)
    np.testing.assert_allclose(stepped(optimizer, p, GRADS), reference(rule, m=0), rtol=1e-12)


# Gradients that shrink and turn: what was averaged outweighs the last.
TURNING = [[math.cos(1.1 * t + k) * 0.6**t for k in range(2)] for t in range(9)]


@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("betas", [(0.9, 0.99), (0.8, 0.5)])
def test_lion_follows_what_it_averaged(betas: tuple[float, float], maximize: bool) -> None:
    w, mean = START.copy(), np.zeros(2)
    turned = []
    for given in map(np.array, TURNING):
        grad = -given if maximize else given
        toward = np.sign(betas[0] * mean + (1 - betas[0]) * grad)
        turned.append((toward != np.sign(grad)).any())
        w = w * (1 - 0.05 * 0.2) - 0.05 * toward
        mean = betas[1] * mean + (1 - betas[1]) * grad
    assert any(turned)
    p = parameter(*START)
    lion = ad.optim.Lion([p], lr=0.05, betas=betas, weight_decay=0.2, maximize=maximize)
    np.testing.assert_allclose(stepped(lion, p, TURNING), w)
    np.testing.assert_allclose(lion.state[p]["exp_avg"].numpy(), mean, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"betas": (0.7, 0.8), "eps": 0.1, "weight_decay": 0.3}])
@pytest.mark.parametrize("start", [START, np.zeros(2)], ids=["apart from zero", "at zero"])
def test_lamb_trusts_by_lengths(options: dict[str, Any], start: np.ndarray[Any, Any]) -> None:
    (beta1, beta2), eps = options.get("betas", (0.9, 0.999)), options.get("eps", 1e-6)
    w, mean, square = start.copy(), np.zeros(2), np.zeros(2)
    for t, grad in enumerate(map(np.array, TURNING), 1):
        mean = beta1 * mean + (1 - beta1) * grad
        square = beta2 * square + (1 - beta2) * grad**2
        scaled = mean / (1 - beta1**t) / (np.sqrt(square / (1 - beta2**t)) + eps)
        toward = scaled + options.get("weight_decay", 0.01) * w
        length, wanted = np.linalg.norm(toward), np.linalg.norm(w)
        w = w - 0.05 * toward * (wanted / length if wanted else 1.0)
    p = parameter(*start)
    lamb = ad.optim.LAMB([p], lr=0.05, **options)
    np.testing.assert_allclose(stepped(lamb, p, TURNING), w, rtol=1e-7)


def test_lamb() -> None:
    def rule(w: Any, g: Any, t: int, m: Any, v: Any) -> Any:
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        r = (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-6) + 0.1 * w
        trust = np.linalg.norm(w) / np.linalg.norm(r)
        return w - 0.05 * trust * r, {"m": m, "v": v}

    p = parameter(*START)
    optimizer = ad.optim.LAMB([p], lr=0.05, weight_decay=0.1)
    np.testing.assert_allclose(stepped(optimizer, p, GRADS), reference(rule, m=0, v=0), rtol=1e-10)


def test_muon_makes_steps_orthogonal() -> None:
    w = ad.zeros(4, 3, requires_grad=True)
    optimizer = ad.optim.Muon([w], lr=1.0, weight_decay=0.0)
    w.grad = ad.tensor(np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32))
    optimizer.step()
    singular = np.linalg.svd(w.detach().numpy() / np.sqrt(4 / 3), compute_uv=False)
    assert singular.max() < 1.3
    assert singular.min() > 0.5


def test_every_option_is_in_the_tables() -> None:
    """A row says what an option may be, and rows of samples set it."""
    kinds = {
        name: kind
        for name, kind in vars(ad.optim).items()
        if isinstance(kind, type) and issubclass(kind, ad.optim.Optimizer)
    }
    assert kinds.keys() - first_rows().keys() == APART
    eager_only = {"params", "foreach", "fused", "differentiable"}
    for name, kind in kinds.items():
        if name == "Optimizer":
            continue
        options = set(inspect.signature(kind).parameters) - {"params"}
        assert options <= OPTIONS.keys(), f"{name}: {sorted(options - OPTIONS.keys())} have no row"
        used = {option for other, given in ROWS if other is kind for option in given}
        if name not in APART:
            assert options - eager_only <= used, f"{name}: no row sets {sorted(options - used)}"


@pytest.mark.parametrize("name", sorted(first_rows().keys() - {"Muon"}))  # orthogonal steps circle
def test_every_optimizer_descends(name: str) -> None:
    w = ad.tensor([[1.5, -2.0], [0.5, 1.0]], requires_grad=True)
    rate = {"Adadelta": 50.0, "SGD": 0.1}.get(name, 0.05)
    optimizer = getattr(ad.optim, name)([w], lr=rate)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (w * w).sum()
        loss.backward()
        return loss

    losses = [optimizer.step(closure).item() for _ in range(60)]
    assert losses[-1] < 0.5 * losses[0]


def test_groups_have_their_own_options() -> None:
    a, b = parameter(1.0), parameter(1.0)
    optimizer = ad.optim.SGD([{"params": [a], "lr": 0.5}, {"params": b}], lr=0.1)
    a.grad, b.grad = ad.ones(1).double(), ad.ones(1).double()
    optimizer.step()
    assert (a.item(), b.item()) == (0.5, 0.9)
    c = parameter(1.0)
    optimizer.add_param_group({"params": [c]})
    assert optimizer.param_groups[2]["lr"] == 0.1
    with pytest.raises(ValueError, match="more than one parameter group"):
        optimizer.add_param_group({"params": [a]})
    assert "Parameter Group 1" in repr(optimizer)


def test_named_parameters() -> None:
    model = ad.nn.Linear(2, 1)
    optimizer = ad.optim.Adam(model.named_parameters())
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["weight", "bias"]
    with pytest.raises(ValueError, match="with/without names"):
        optimizer.add_param_group({"params": [parameter(1.0)]})


def test_state_dict_continues_a_run() -> None:
    straight = parameter(*START)
    want = stepped(ad.optim.Adam([straight], lr=0.1), straight, GRADS)
    p = parameter(*START)
    first = ad.optim.Adam([p], lr=0.1)
    stepped(first, p, GRADS[:2])
    second = ad.optim.Adam([p], lr=0.5)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    np.testing.assert_array_equal(stepped(second, p, GRADS[2:]), want)
    state = first.state_dict()
    assert set(state) == {"state", "param_groups"}
    assert set(state["state"][0]) == {"step", "exp_avg", "exp_avg_sq"}
    assert state["param_groups"][0]["params"] == [0]
    assert type(state["param_groups"][0]) is dict


def test_loading_casts_state_but_not_the_count() -> None:
    p = parameter(*START)
    optimizer = ad.optim.Adam([p])
    stepped(optimizer, p, GRADS[:1])
    small = ad.ones(2, dtype=ad.float16, requires_grad=True)
    other = ad.optim.Adam([small])
    other.load_state_dict(optimizer.state_dict())
    assert other.state[small]["exp_avg"].dtype is ad.float16
    assert other.state[small]["step"].dtype is ad.float32
    with pytest.raises(ValueError, match="different number of parameter groups"):
        other.load_state_dict({"state": {}, "param_groups": []})
    with pytest.raises(ValueError, match="doesn't match the size"):
        ad.optim.Adam([small, parameter(1.0)]).load_state_dict(optimizer.state_dict())


class Counting(ad.optim.Optimizer):
    """An optimizer as others write them: its count of steps is a number."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, {"lr": 0.1, "warm": 2})

    @ad.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                state["step"] = state.get("step", 0) + 1
                p.add_(p.grad, alpha=-group["lr"] / math.sqrt(1 - 0.9 ** state["step"]))


def test_what_others_keep_is_loaded_as_it_was_saved() -> None:
    p = parameter(*START)
    first = Counting([p])
    stepped(first, p, GRADS[:2])
    saved = first.state_dict()
    del saved["param_groups"][0]["warm"]  # written before there was such an option
    for other in (Counting([p]), Counting([p])):
        other.load_state_dict(copy.deepcopy(saved))
        assert other.state_dict() == saved
    assert type(pickle.loads(pickle.dumps(first)).state_dict()["state"][0]["step"]) is int
    old = ad.optim.Adam([p]).state_dict() | {"state": {0: {"step": 3}}}
    own = ad.optim.Adam([p])
    own.load_state_dict(old)
    assert own.state[p]["step"].dtype is ad.float32


def test_pickle_and_copy() -> None:
    p = parameter(*START)
    optimizer = ad.optim.Adam([p])
    stepped(optimizer, p, GRADS)
    again = copy.deepcopy(optimizer)
    assert again.param_groups[0]["lr"] == 1e-3
    assert len(again.state) == 1
    assert pickle.loads(pickle.dumps(optimizer.state_dict()["param_groups"])) == [
        *optimizer.state_dict()["param_groups"]
    ]


def test_hooks() -> None:
    p = parameter(1.0)
    optimizer = ad.optim.SGD([p], lr=0.1)
    calls: list[str] = []
    handles = [
        optimizer.register_step_pre_hook(lambda o, a, k: calls.append("pre")),
        optimizer.register_step_post_hook(lambda o, a, k: calls.append("post")),
        register_optimizer_step_post_hook(lambda o, a, k: calls.append("every")),
        optimizer.register_state_dict_pre_hook(lambda o: calls.append("saving")),
        optimizer.register_state_dict_post_hook(lambda o, s: {**s, "extra": 1}),
        optimizer.register_load_state_dict_pre_hook(lambda o, s: calls.append("loading")),
        optimizer.register_load_state_dict_post_hook(lambda o: calls.append("loaded")),
    ]
    optimizer.step()
    state = optimizer.state_dict()
    assert state["extra"] == 1
    optimizer.load_state_dict(state)
    assert calls == ["pre", "post", "every", "saving", "loading", "loaded"]
    for handle in handles:
        handle.remove()
    calls.clear()
    optimizer.step()
    assert calls == []


def test_zero_grad() -> None:
    p = parameter(1.0)
    optimizer = ad.optim.SGD([p])
    p.grad = ad.ones(1).double()
    held = p.grad
    optimizer.zero_grad(set_to_none=False)
    assert p.grad is held
    assert held.item() == 0
    optimizer.zero_grad()
    assert p.grad is None


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda p: ad.optim.SGD(p), TypeError, "iterable of Tensors"),
        (lambda p: ad.optim.SGD([]), ValueError, "empty parameter list"),
        (lambda p: ad.optim.SGD([{"params": {p}}]), TypeError, "sets"),
        (lambda p: ad.optim.SGD([1.0]), TypeError, "can only optimize Tensors"),
        (lambda p: ad.optim.SGD([p * 2]), ValueError, "non-leaf"),
        (lambda p: ad.optim.SGD([p], lr=-1), ValueError, "Invalid learning rate"),
        (lambda p: ad.optim.SGD([p], nesterov=True), ValueError, "Nesterov"),
        (lambda p: ad.optim.Adam([p], betas=(1.0, 0.9)), ValueError, "beta parameter at index 0"),
        (lambda p: ad.optim.Adam([p], lr=ad.ones(2)), ValueError, "1-element"),
        (lambda p: ad.optim.Adam([p], fused=True, foreach=True), RuntimeError, "together"),
        (lambda p: ad.optim.Muon([p]), ValueError, "2D"),
        (
            lambda p: ad.optim.LBFGS([{"params": [p]}, {"params": [parameter(1.0)]}]),
            ValueError,
            "groups",
        ),
    ],
)
def test_refusals(make: Any, error: Any, match: str) -> None:
    with pytest.raises(error, match=match):
        make(parameter(1.0))


def test_sparse_adam_refuses_dense_gradients() -> None:
    p = parameter(1.0)
    p.grad = ad.ones(1).double()
    with pytest.raises(RuntimeError, match="dense gradients"):
        ad.optim.SparseAdam([p]).step()


def test_complex_parameters_are_pairs_of_reals() -> None:
    z = ad.tensor([1.0 + 2.0j], requires_grad=True)
    pair = ad.tensor([[1.0, 2.0]], requires_grad=True)
    for p, g in ((z, ad.tensor([0.5 - 1.0j])), (pair, ad.tensor([[0.5, -1.0]]))):
        optimizer = ad.optim.Adam([p], lr=0.1)
        for _ in range(3):
            p.grad = g
            optimizer.step()
    np.testing.assert_array_equal(ad.view_as_real(z.detach()).numpy(), pair.detach().numpy())


def test_lbfgs_finds_a_minimum() -> None:
    w = parameter(-1.2, 1.0)
    optimizer = ad.optim.LBFGS([w], line_search_fn="strong_wolfe", max_iter=100)

    def rosenbrock() -> Any:
        optimizer.zero_grad()
        loss = 100 * (w[1] - w[0] ** 2) ** 2 + (1 - w[0]) ** 2
        loss.backward()
        return loss

    optimizer.step(rosenbrock)
    np.testing.assert_allclose(w.detach().numpy(), [1.0, 1.0], rtol=1e-4)


def test_an_update_without_memory_has_no_state() -> None:
    p = parameter(1.0)
    optimizer = ad.optim.SGD([p], lr=0.1)
    p.grad = ad.ones_like(p)
    optimizer.step()
    assert optimizer.state_dict()["state"] == {}
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.step()


def _part() -> ad.Tensor:
    """A parameter of which a process keeps a part, as `fully_shard` makes them."""
    part = ad.nn.Parameter(ad.ones(6))
    part.split_over = "a group"
    return part


@pytest.mark.parametrize("name", ["Muon", "Adafactor", "LAMB", "LBFGS", "SparseAdam"])
def test_optimizers_of_whole_parameters_refuse_parts(name: str) -> None:
    with pytest.raises(NotImplementedError, match=f"{name}: its update looks at whole parameters"):
        getattr(ad.optim, name)([_part()], lr=0.1)


def test_optimizers_of_elements_take_parts() -> None:
    for name in ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad"):
        getattr(ad.optim, name)([_part()], lr=0.1)


def test_sgd_keeps_nothing_without_momentum() -> None:
    """As in PyTorch: no entry at all; one for each parameter when the group gets a momentum."""
    layers = [ad.nn.Linear(2, 2) for _ in range(3)]
    optimizer = ad.optim.SGD([p for layer in layers for p in layer.parameters()], lr=0.1)
    for momentum, entries in ((0.0, 0), (0.0, 0), (0.9, 6), (0.9, 6)):
        optimizer.param_groups[0]["momentum"] = momentum
        sum(layer(ad.ones(1, 2)).sum() for layer in layers).backward()  # type: ignore[union-attr]
        before = layers[0].weight.detach().clone()
        optimizer.step()
        assert len(optimizer.state) == len(optimizer.state_dict()["state"]) == entries
        assert not bool((layers[0].weight == before).any())


STATES = {
    "Adam": [1, 1, 1, 1, 0, 1], "AdamW": [1, 1, 1, 1, 0, 1], "SGD": [1, 1, 0],
    "RMSprop": [1, 1, 1, 0, 0, 1], "Adagrad": [1, 1, 1, 1], "Adadelta": [1, 1, 1, 1, 1],
    "Adamax": [1, 1, 1, 1, 1], "NAdam": [1, 1, 1, 1, 1, 1], "RAdam": [1, 1, 1, 1, 1],
    "Rprop": [1, 1, 1, 1, 1], "ASGD": [1, 1, 1, 1, 1, 1],
}  # fmt: skip


@pytest.mark.parametrize("name", STATES)
def test_subclasses_see_what_a_step_updates(name: str) -> None:
    """`_init_group` lists parameters, gradients and state as PyTorch's does, and a step asks it."""
    base: Any = getattr(ad.optim, name)
    seen: list[Any] = []

    class Halved(base):  # type: ignore[misc]
        def _init_group(self, group: Any, params: Any, grads: Any, *states: Any) -> Any:
            told = super()._init_group(group, params, grads, *states)
            seen.append([len(one) for one in (params, grads, *states)])
            grads[:] = [g / 2 for g in grads]
            return told

    ways = []
    for optimizer, scale in ((Halved, 1.0), (base, 0.5)):
        w = ad.nn.Parameter(ad.ones(3))
        unused = ad.nn.Parameter(ad.ones(2))
        w.grad = ad.tensor([1.0, 2.0, 3.0]) * scale
        optimizer([w, unused]).step()
        ways.append(w)
    assert seen == [STATES[name]]
    assert ad.equal(*ways)


def test_a_step_of_ones_own_by_the_functional_form() -> None:
    """As people write it: the lists of `_init_group`, given to `adam`."""
    from adjoint.optim.adam import adam

    class Mine(ad.optim.Adam):
        def step(self, closure: Any = None) -> Any:
            for group in self.param_groups:
                lists: list[list[Any]] = [[] for _ in range(6)]
                has_complex = self._init_group(group, *lists)
                beta1, beta2 = group["betas"]
                with ad.no_grad():
                    adam(
                        *lists, has_complex=has_complex, amsgrad=False, beta1=beta1, beta2=beta2,
                        lr=group["lr"], weight_decay=0.0, eps=group["eps"], maximize=False,
                    )  # fmt: skip

    ways = []
    for optimizer in (Mine, ad.optim.Adam):
        w = ad.nn.Parameter(ad.ones(3))
        made = optimizer([w], lr=0.1)
        for _ in range(3):
            w.grad = ad.tensor([1.0, 2.0, 3.0]) * w.detach()
            made.step()
        ways.append(w)
    ad.testing.assert_close(*ways)


def test_sparse_adam_goes_on_from_a_state_as_if_it_had_not_stopped() -> None:
    def step(optimizer: Any) -> None:
        optimizer.zero_grad()
        ad.nn.functional.embedding(ad.tensor([0, 2, 2]), table, sparse=True).exp().sum().backward()
        optimizer.step()

    ended: list[ad.Tensor] = []
    for stops in (False, True):
        table = ad.arange(6, dtype=ad.float64).view(3, 2).div(7).requires_grad_()
        optimizer = ad.optim.SparseAdam([table], lr=0.1)
        for _ in range(4):
            step(optimizer)
            if stops:
                state = optimizer.state_dict()
                optimizer = ad.optim.SparseAdam([table], lr=0.1)
                optimizer.load_state_dict(state)
        assert type(optimizer.state[table]["step"]) is int
        ended.append(table.detach())
    assert ad.equal(*ended)
