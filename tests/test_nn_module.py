"""Module: registration, state, hooks, conversion; what PyTorch users rely on."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import adjoint as ad
from adjoint import nn


class Block(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.linear = nn.Linear(size, size)
        self.gain = nn.Parameter(ad.ones(size))
        self.register_buffer("mean", ad.zeros(size))
        self.register_buffer("scratch", ad.zeros(1), persistent=False)

    def forward(self, x: Any) -> Any:
        return self.linear(x) * self.gain - self.mean


def test_names_and_order() -> None:
    net = nn.Sequential(Block(2), nn.Linear(2, 1))
    assert [n for n, _ in net.named_parameters()] == [
        "0.gain", "0.linear.weight", "0.linear.bias", "1.weight", "1.bias",
    ]  # fmt: skip
    assert list(net.state_dict()) == [
        "0.gain", "0.mean", "0.linear.weight", "0.linear.bias", "1.weight", "1.bias",
    ]  # fmt: skip
    assert [n for n, _ in net.named_buffers()] == ["0.mean", "0.scratch"]


def test_assignment_moves_between_tables() -> None:
    m = nn.Module()
    m.x = 3
    m.x = nn.Parameter(ad.ones(1))
    assert "x" in m._parameters
    assert "x" not in m.__dict__
    m.y = nn.Identity()
    m.y = None
    assert m.y is None
    del m.x
    with pytest.raises(AttributeError, match="'Module' object has no attribute 'x'"):
        _ = m.x
    with pytest.raises(TypeError, match="cannot assign 'int' as child module 'y'"):
        m.y = 4


def test_parameters_before_init_are_refused() -> None:
    class Late(nn.Module):
        def __init__(self) -> None:
            self.p = nn.Parameter(ad.ones(1))

    with pytest.raises(AttributeError, match="before Module.__init__"):
        Late()


def test_load_lists_every_problem() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    with pytest.raises(RuntimeError) as caught:
        net.load_state_dict({"0.weight": ad.ones(1, 1), "0.bias": ad.ones(3), "extra": ad.ones(1)})
    text = str(caught.value)
    assert 'Missing key(s) in state_dict: "1.weight", "1.bias".' in text
    assert 'Unexpected key(s) in state_dict: "extra".' in text
    assert "size mismatch for 0.weight" in text
    keys = net.load_state_dict({"0.bias": ad.ones(3)}, strict=False)
    assert keys.missing_keys == ["0.weight", "1.weight", "1.bias"]
    assert net[0].bias.tolist() == [1, 1, 1]


def test_a_failed_load_names_no_more_than_it_must() -> None:
    net = nn.Linear(2, 2)
    with pytest.raises(TypeError, match="dict-like"):
        net.load_state_dict([])  # type: ignore[arg-type]


def test_assign_keeps_requires_grad() -> None:
    net = nn.Linear(2, 2).requires_grad_(False)
    net.load_state_dict({k: v.double() for k, v in net.state_dict().items()}, assign=True)
    assert net.weight.dtype is ad.float64
    assert isinstance(net.weight, nn.Parameter)
    assert not net.weight.requires_grad


def test_conversion_keeps_parameters() -> None:
    net = Block(2)
    weight = net.linear.weight
    net(ad.ones(1, 2)).sum().backward()
    net.double()
    assert net.linear.weight is weight
    assert weight.grad is not None
    assert weight.grad.dtype is ad.float64
    assert net.mean.dtype is ad.float64
    with pytest.raises(TypeError, match="floating point or complex"):
        net.to(ad.int64)


def test_copies_keep_ties() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert twin[0].weight is twin[1].weight
        assert twin[0].weight is not net[0].weight
        assert ad.equal(twin[0].weight, net[0].weight)
        assert len(list(twin.parameters())) == 3


def test_copied_hooks_stay_apart() -> None:
    net = nn.Identity()
    handle = net.register_forward_hook(lambda m, a, out: out + 1)
    twin = copy.deepcopy(net)
    handle.remove()
    assert net(ad.zeros(1)).item() == 0
    assert twin(ad.zeros(1)).item() == 1


def test_parameter_is_a_tensor_and_results_are_plain() -> None:
    p = nn.Parameter(ad.ones(2))
    assert isinstance(p, ad.Tensor)
    assert type(p + 1) is ad.Tensor
    assert type(p.detach()) is ad.Tensor
    assert p.requires_grad
    assert type(pickle.loads(pickle.dumps(p))) is nn.Parameter


def test_parameter_of_a_subclass() -> None:
    class Mine(ad.Tensor):
        pass

    p: Any = nn.Parameter(ad.ones(2).as_subclass(Mine))
    assert type(p) is Mine
    assert isinstance(p, nn.Parameter)
    m = nn.Module()
    m.p = p
    assert list(m.parameters()) == [p]


def test_backward_hooks_see_and_replace_gradients() -> None:
    layer = nn.Linear(2, 1)
    seen: list[Any] = []
    layer.register_full_backward_pre_hook(lambda m, g: (g[0] * 2,))
    layer.register_full_backward_hook(lambda m, i, o: seen.append((i[0], o[0])))
    x = ad.ones(1, 2, requires_grad=True)
    layer(x).sum().backward()
    assert seen[0][1].tolist() == [[2.0]]
    assert x.grad is not None
    assert ad.allclose(x.grad, 2 * layer.weight)
    assert layer.bias.grad is not None
    assert layer.bias.grad.item() == 2


def test_backward_hooks_find_the_gradients_of_parameters() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))
    seen: list[Any] = []
    for name, layer in net.named_modules():
        layer.register_full_backward_hook(
            lambda m, i, o, name=name: seen.append((name, [p.grad is None for p in m.parameters()]))
        )
    net(ad.ones(1, 2, requires_grad=True)).sum().backward()
    assert seen == [("2", [False] * 2), ("1", []), ("0", [False] * 2), ("", [False] * 4)]


class _Pair(nn.Module):
    """Two results, of which programs may use one."""

    def __init__(self) -> None:
        super().__init__()
        self.w, self.b = (nn.Parameter(ad.ones(2)) for _ in range(2))

    def forward(self, x: ad.Tensor) -> tuple[ad.Tensor, ad.Tensor]:
        return x * self.w, x + self.b


def test_hooked_modules_give_unused_parameters_no_gradient() -> None:
    pair, log = _Pair(), []
    pair.register_full_backward_hook(lambda m, i, o: log.append(("after", o[1])))
    pair.register_full_backward_pre_hook(lambda m, o: log.append(("before", o[1])))
    used, _ = pair(ad.ones(2, requires_grad=True))
    used.grad_fn.register_prehook(lambda grads: log.append(("node", grads[1])))
    used.sum().backward()
    assert pair.w.grad is not None
    assert pair.b.grad is None
    assert log == [("node", None), ("before", None), ("after", None)]


def test_leaves_used_also_where_no_gradient_comes_arrive_in_time() -> None:
    """Edges of operations that are not run count as done, in the order of operations."""
    pair, log = _Pair(), []
    pair.register_full_backward_hook(lambda m, i, o: log.append("module"))
    pair.b.register_hook(lambda g: log.append("b"))
    x = ad.ones(2, requires_grad=True)
    x.register_hook(lambda g: log.append("x"))
    late, _ = pair(pair(x)[1])
    late.sum().backward()
    assert log == ["module", "b", "module", "x"]


def test_hooks_where_no_input_wants_a_gradient_warn() -> None:
    layer, seen = nn.Linear(2, 1), []
    layer.register_full_backward_hook(lambda m, i, o: seen.append(i))
    out = layer(ad.ones(1, 2)).sum()
    with pytest.warns(UserWarning, match="no inputs require gradients"):
        out.backward()
    assert seen == [(None,)]


def test_instance_norms_of_other_channels_warn() -> None:
    with pytest.warns(UserWarning, match="num_features"):
        nn.InstanceNorm1d(3)(ad.randn(2, 4, 5))


def test_hooks_see_what_was_asked_for_alone() -> None:
    """A `Function` may give gradients that nobody wanted."""

    class GivesMore(ad.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
            return x + y

        @staticmethod
        def backward(ctx: Any, g: ad.Tensor) -> Any:
            return g, g

    leaves = [ad.ones(2, requires_grad=True) for _ in range(3)]
    inner = leaves[1] * 2
    log: list[str] = []
    for name, t in zip(("x", "y", "z", "inner"), [*leaves, inner], strict=True):
        t.register_hook(lambda g, name=name: log.append(name))
    ad.autograd.grad(GivesMore.apply(GivesMore.apply(leaves[0], leaves[2]), inner).sum(), leaves[0])
    assert log == ["x"]


def test_a_step_in_a_hook_needs_one_gradient_at_a_time() -> None:
    """Gradients that hooks set to None are gone before those of earlier layers are made."""
    net = nn.Sequential(*[nn.Linear(2, 2) for _ in range(4)])
    there: list[int] = []

    def step(p: ad.Tensor) -> None:
        there.append(sum(q.grad is not None for q in net.parameters()))
        with ad.no_grad():
            p -= p.grad
        p.grad = None

    for p in net.parameters():
        p.register_post_accumulate_grad_hook(step)
    net(ad.ones(1, 2)).sum().backward()
    assert there == [1] * 8


def scaled(p: ad.Tensor) -> None:
    p.grad.mul_(10)


SHARED: dict[str, Callable[[ad.Tensor, ad.Tensor], ad.Tensor]] = {
    "a leaf and a node": lambda x, w: x + w.sin(),
    "two leaves": lambda x, w: x + w,
    "through views": lambda x, w: (x.reshape(2, 2) + w.cos().view(2, 2)).reshape(4),
    "a mean of both": lambda x, w: ad.lerp(x, w * 1, 0.5) + x - w,
}


@pytest.mark.parametrize("chosen", [False, True])
@pytest.mark.parametrize("name", SHARED)
def test_what_a_hook_writes_to_a_gradient_is_seen_nowhere_else(name: str, chosen: bool) -> None:
    """Gradients arrive while others wait for the same cotangent."""

    def gradients(*, hooked: bool) -> list[ad.Tensor]:
        x, w = (ad.linspace(a, 1.0, 4).requires_grad_() for a in (0.25, 0.5))
        for leaf in (x, w) if hooked else ():
            leaf.register_post_accumulate_grad_hook(scaled)
        loss = (SHARED[name](x, w) * ad.tensor([1.0, 2.0, 3.0, 4.0])).sum()
        loss.backward(inputs=[x, w] if chosen else None)
        return [x.grad, w.grad]

    for found, expected in zip(gradients(hooked=True), gradients(hooked=False), strict=True):
        ad.testing.assert_close(found, expected * 10)


def test_chosen_gradients_arrive_before_the_hooks_of_modules() -> None:
    layer, seen = nn.Linear(2, 2), []
    layer.register_full_backward_hook(lambda m, i, o: seen.append(m.weight.grad is None))
    layer(ad.ones(1, 2, requires_grad=True) * 1).sum().backward(inputs=list(layer.parameters()))
    x = ad.ones(1, 2, requires_grad=True)
    layer(x).sum().backward(inputs=[x, layer.weight])
    assert seen == [False]


def test_lazy_module_becomes_ordinary() -> None:
    layer = nn.LazyLinear(3)
    with pytest.raises(ValueError, match="uninitialized"):
        _ = layer.weight + 1
    with pytest.raises(RuntimeError, match="uninitialized"):
        _ = layer.weight.shape
    assert layer.to(ad.float64).weight.dtype is ad.float64
    assert layer(ad.ones(2, 5, dtype=ad.float64)).shape == (2, 3)
    assert type(layer) is nn.Linear
    assert type(layer.weight) is nn.Parameter
    assert layer.in_features == 5


def test_printing() -> None:
    net = nn.Sequential(nn.Linear(1, 2), nn.ModuleList([nn.Identity(), nn.Identity()]))
    assert repr(net) == (
        "Sequential(\n"
        "  (0): Linear(in_features=1, out_features=2, bias=True)\n"
        "  (1): ModuleList(\n"
        "    (0-1): 2 x Identity()\n"
        "  )\n"
        ")"
    )


def test_linear_names_the_shapes_it_was_given() -> None:
    with pytest.raises(RuntimeError, match=r"linear: .*\(2, 3\).*weight \(4, 5\)"):
        nn.Linear(5, 4)(ad.ones(2, 3))


def test_missing_function_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"adjoint\.nn\.functional.*no_such"):
        _ = nn.functional.no_such


def test_errors_of_a_property_are_seen() -> None:
    class Mine(nn.Module):
        @property
        def wrong(self) -> Any:
            return self.missing

        @property
        def refused(self) -> Any:
            raise AttributeError("not before it is trained")

    module: Any = Mine()
    with pytest.raises(AttributeError, match="'Mine' object has no attribute 'missing'"):
        _ = module.wrong
    with pytest.raises(AttributeError, match="not before it is trained"):
        _ = module.refused
    with pytest.raises(AttributeError, match="'Mine' object has no attribute 'absent'"):
        _ = module.absent
    assert not hasattr(module, "refused")


def test_operations_among_class_attributes_are_not_bound() -> None:
    class Net(nn.Module):
        act, away = ad.relu, nn.functional.conv1d

        def forward(self, x: Any) -> Any:
            return self.act(x) + self.helper()

        def helper(self) -> int:
            return 1

    class Further(Net):
        act = ad.tanh

    x = ad.tensor([-1.0, 2.0])
    assert Net()(x).tolist() == [1.0, 3.0]
    assert Further()(x).equal(x.tanh() + 1)
    assert Net().away(x.reshape(1, 1, 2), ad.ones(1, 1, 2)).item() == 1.0


@pytest.fixture
def exchange() -> Iterator[None]:
    ad.__future__.set_swap_module_params_on_conversion(True)
    yield
    ad.__future__.set_swap_module_params_on_conversion(False)


@pytest.mark.usefixtures("exchange")
def test_parameters_that_are_exchanged_stay_with_their_optimizer() -> None:
    layer = nn.Linear(2, 1, bias=False)
    weight, optimizer = layer.weight, ad.optim.SGD(layer.parameters(), lr=1.0)
    layer(ad.ones(1, 2)).sum().backward()
    layer.double()
    assert layer.weight is weight
    assert weight.dtype is weight.grad.dtype is ad.float64
    layer.load_state_dict({"weight": ad.ones(1, 2)})
    layer(ad.ones(1, 2, dtype=ad.float64)).sum().backward()
    optimizer.step()
    assert weight.tolist() == [[0.0, 0.0]]
    layer.load_state_dict({"weight": ad.ones(1, 2)}, assign=True)
    assert layer.weight is weight
    assert weight.dtype is ad.float32
    assert weight.requires_grad


@pytest.mark.usefixtures("exchange")
def test_a_class_says_what_becomes_of_a_loaded_tensor() -> None:
    class Doubled(ad.Tensor):
        def module_load(self, other: ad.Tensor, assign: bool = False) -> ad.Tensor:
            return (other * 2).as_subclass(Doubled)

    class Kept(ad.Tensor):
        def module_load(self, other: ad.Tensor, assign: bool = False) -> ad.Tensor:
            return other

    layer = nn.Module()
    layer.register_buffer("total", ad.zeros(2).as_subclass(Doubled))
    layer.load_state_dict({"total": ad.ones(2)})
    assert type(layer.total) is Doubled
    assert layer.total.tolist() == [2, 2]
    layer.total = ad.zeros(2).as_subclass(Kept)
    with pytest.raises(RuntimeError, match="module_load returned one of self or other"):
        layer.load_state_dict({"total": ad.ones(2)})


def test_conversions_make_new_parameters_where_asked() -> None:
    layer = nn.Linear(2, 1)
    weight = layer.weight
    ad.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        layer.double()
    finally:
        ad.__future__.set_overwrite_module_params_on_conversion(False)
    assert weight.dtype is ad.float32
    assert layer.weight.dtype is ad.float64
    assert isinstance(layer.weight, nn.Parameter)


def test_classes_of_code_without_a_module_name() -> None:
    """What `exec` runs with a dict of its own has functions whose `__module__` is None."""
    found: dict[str, Any] = {}
    exec(
        "import adjoint as ad\n"
        "class Twice(ad.nn.Module):\n"
        "    act = ad.relu\n"
        "    def forward(self, x): return self.act(x) * 2\n",
        found,
    )
    assert found["Twice"].forward.__module__ is None
    assert found["Twice"]()(ad.tensor([-1.0, 2.0])).tolist() == [0, 4]


def test_a_hook_after_loading_that_returns_something_is_refused() -> None:
    module = nn.Linear(1, 1)
    module.register_load_state_dict_post_hook(lambda module, keys: keys)  # type: ignore[return-value]
    with pytest.raises(AssertionError, match="not expected to return new values"):
        module.load_state_dict(module.state_dict())
