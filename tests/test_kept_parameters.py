"""What programs keep of parameters from call to call is never what they were before a write."""

from __future__ import annotations

import copy
import ctypes
import gc
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import adjoint as ad
from adjoint.engine.backends.llvm.program import lasting
from adjoint.engine.capture.program import ready
from adjoint.engine.tensor import watching
from adjoint.nn import Module
from adjoint.utils import swap_tensors

COUNTS = {"made": 0, "kept": 0}


@pytest.fixture(autouse=True)
def _counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Count the calls that made what is kept again, and those that did not."""
    begin = lasting.Lasting.begin

    def counting(self: lasting.Lasting) -> None:
        begin(self)
        COUNTS["made" if self.made is None else "kept"] += 1

    monkeypatch.setattr(lasting.Lasting, "begin", counting)
    COUNTS.update(made=0, kept=0)
    yield
    gc.collect()


def network() -> Any:
    """Layers of which something is kept on every processor: a norm's scales, filters, panels."""
    ad.manual_seed(0)
    nn = ad.nn
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 1), nn.ReLU(),
        nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        nn.Linear(64, 8),
    )  # fmt: skip
    return model.eval()


def image() -> ad.Tensor:
    return 20 * ad.randn(1, 3, 12, 12, generator=ad.Generator().manual_seed(1))


def first(model: Any) -> Any:
    return model[0].weight


def last(model: Any) -> Any:
    return model[3].weight


Change = Callable[[Any], Any]
CHANGES: dict[str, Change] = {}


def change(fn: Change) -> Change:
    """A way to change a network's parameters; what it returns lives until after the calls."""
    CHANGES[fn.__name__] = fn
    return fn


@change
def in_place(model: Any) -> None:
    first(model).mul_(2)


@change
def by_element(model: Any) -> None:
    first(model)[0, 0, 0, 0] = 9.0


@change
def by_mask(model: Any) -> None:
    w = first(model)
    w[w > 0] = 0.5


@change
def of_a_norm(model: Any) -> None:
    model[1].running_var.add_(3)


@change
def of_a_bias(model: Any) -> None:
    model[1].bias.fill_(2)


@change
def of_a_transposed_convolution(model: Any) -> None:
    model[7].weight.neg_()


@change
def of_a_linear_layer(model: Any) -> None:
    model[10].weight.add_(1)


@change
def through_data(model: Any) -> None:
    first(model).data.mul_(2)


@change
def through_data_copied(model: Any) -> None:
    first(model).data.copy_(ad.ones_like(first(model)))


@change
def through_data_kept(model: Any) -> Any:
    data = last(model).data
    data.add_(1)
    return data


@change
def by_other_data(model: Any) -> None:
    first(model).data = ad.ones_like(first(model))


@change
def by_data_that_is_written(model: Any) -> Any:
    other = ad.ones_like(first(model))
    first(model).data = other
    other.mul_(3)
    return other


@change
def through_detach(model: Any) -> None:
    first(model).detach().mul_(2)


@change
def through_a_view(model: Any) -> None:
    first(model).view(-1)[:5].fill_(3)


@change
def through_a_transposed_view(model: Any) -> None:
    model[10].weight.t()[0].fill_(1)


@change
def through_as_strided(model: Any) -> None:
    first(model).as_strided((4,), (2,), 1).fill_(3)


@change
def through_a_view_of_bytes(model: Any) -> None:
    first(model).detach().view(ad.int32).zero_()


@change
def by_load_state_dict(model: Any) -> None:
    state = {k: v + 1 if v.is_floating_point() else v for k, v in model.state_dict().items()}
    model.load_state_dict(state)


@change
def by_load_state_dict_assigned(model: Any) -> None:
    state = {k: v + 1 if v.is_floating_point() else v for k, v in model.state_dict().items()}
    model.load_state_dict(state, assign=True)


def stepped(model: Any, optimizer: Any) -> None:
    with ad.enable_grad():
        model(image()).sum().backward()
    optimizer.step()


@change
def by_sgd(model: Any) -> None:
    stepped(model, ad.optim.SGD(model.parameters(), lr=0.5))


@change
def by_momentum(model: Any) -> None:
    stepped(model, ad.optim.SGD(model.parameters(), lr=0.5, momentum=0.9))


@change
def by_adamw(model: Any) -> None:
    stepped(model, ad.optim.AdamW(model.parameters(), lr=0.1))


@change
def by_adam_looped(model: Any) -> None:
    stepped(model, ad.optim.Adam(model.parameters(), lr=0.1, foreach=False))


@change
def by_a_compiled_step(model: Any) -> None:
    optimizer = ad.optim.SGD(model.parameters(), lr=0.5)

    @ad.compile
    def step(x: Any) -> None:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    with ad.enable_grad():
        step(image())


@change
def by_a_compiled_function(model: Any) -> None:
    @ad.compile
    def double() -> None:
        first(model).mul_(2)

    double()


@change
def by_a_compiled_function_given_it(model: Any) -> None:
    @ad.compile
    def double(w: Any) -> None:
        w.mul_(2)

    double(first(model))


@change
def by_a_compiled_function_through_data(model: Any) -> None:
    @ad.compile
    def double() -> None:
        first(model).data.mul_(2)

    double()


@change
def by_set(model: Any) -> None:
    first(model).set_(ad.ones_like(first(model)))


@change
def by_set_of_a_storage(model: Any) -> Any:
    other = ad.ones_like(first(model))
    first(model).set_(other.untyped_storage(), 0, first(model).shape)
    other.add_(1)
    return other


@change
def through_numpy(model: Any) -> None:
    first(model).detach().numpy()[...] = 2


@change
def through_numpy_kept(model: Any) -> Any:
    array = last(model).detach().numpy()
    array[0] += 1
    return array


@change
def through_asarray(model: Any) -> None:
    np.asarray(first(model).detach())[0] += 1


@change
def through_dlpack(model: Any) -> None:
    np.from_dlpack(first(model).detach())[0] += 1


@change
def through_dlpack_and_back(model: Any) -> None:
    ad.from_dlpack(first(model).detach()).mul_(2)


@change
def through_an_address(model: Any) -> None:
    address = ctypes.c_void_p(first(model).data_ptr())
    ctypes.cast(address, ctypes.POINTER(ctypes.c_float))[0] = 7


@change
def through_an_address_that_a_compiled_function_gives(model: Any) -> None:
    address, _ = ad.compile(lambda x: (first(model).data_ptr(), x + 1))(ad.ones(1))
    pointer = ctypes.cast(ctypes.c_void_p(address), ctypes.POINTER(ctypes.c_float))
    for k in range(27):
        pointer[k] = 3


@change
def through_data_that_a_compiled_function_gives(model: Any) -> None:
    data, _ = ad.compile(lambda x: (first(model).data, x + 1))(ad.ones(1))
    data.mul_(2)


@change
def through_a_view_that_a_compiled_function_gives(model: Any) -> None:
    view, _ = ad.compile(lambda x: (first(model).detach()[1:], x + 1))(ad.ones(1))
    view.mul_(2)


@change
def through_numpy_in_a_compiled_function(model: Any) -> None:
    array, _ = ad.compile(lambda x: (first(model).detach().numpy(), x + 1))(ad.ones(1))
    array *= 2


@change
def by_a_compiled_function_that_sets_data(model: Any) -> None:
    def replace(x: Any) -> Any:
        first(model).data = x * 2
        return x + 1

    ad.compile(replace)(ad.ones_like(first(model)))


@change
def by_a_compiled_function_of_another_backend(model: Any) -> None:
    ad.compile(lambda: first(model).mul_(2), backend="interpret")()


@change
def by_graph_breaks(model: Any) -> None:
    def write(x: Any) -> Any:
        if float(x.sum()) > 0:
            first(model).mul_(2)
        return x + 1

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ad.compile(write, fullgraph=False)(ad.ones(1))


@change
def through_an_address_of_a_storage(model: Any) -> None:
    address = ctypes.c_void_p(first(model).untyped_storage().data_ptr())
    ctypes.cast(address, ctypes.POINTER(ctypes.c_float))[0] = 7


@change
def through_untyped_storage(model: Any) -> None:
    first(model).untyped_storage().fill_(0)


@change
def through_a_slice_of_a_storage(model: Any) -> None:
    first(model).untyped_storage()[0:512].fill_(0)


@change
def through_typed_storage(model: Any) -> None:
    first(model).storage()[3] = 5.0


@change
def through_a_wrapped_storage(model: Any) -> None:
    held = first(model).untyped_storage()
    ad.TypedStorage(wrap_storage=held, dtype=ad.float32)[0] = 5.0


@change
def through_a_tensor_of_a_storage(model: Any) -> None:
    ad.tensor(first(model).storage()).zero_()


@change
def in_shared_memory(model: Any) -> Any:
    model.share_memory()
    alias = first(model).detach()
    alias.mul_(2)
    return alias


@change
def by_swap(model: Any) -> None:
    swap_tensors(first(model), ad.nn.Parameter(ad.ones_like(first(model))))


@change
def by_foreach(model: Any) -> None:
    ad._foreach_mul_([first(model), last(model)], 2.0)


@change
def by_foreach_copy(model: Any) -> None:
    ad._foreach_copy_([first(model)], [ad.ones_like(first(model))])


@change
def in_a_thread(model: Any) -> None:
    def write() -> None:
        with ad.no_grad():
            first(model).mul_(2)

    thread = threading.Thread(target=write)
    thread.start()
    thread.join()


@change
def by_out(model: Any) -> None:
    ad.mul(last(model).detach(), 3.0, out=last(model).detach())


@change
def by_an_initialiser(model: Any) -> None:
    ad.nn.init.normal_(first(model))


@change
def by_vector_to_parameters(model: Any) -> None:
    vector = ad.nn.utils.parameters_to_vector(model.parameters())
    ad.nn.utils.vector_to_parameters(vector * 2, model.parameters())


@change
def by_clipping_its_gradient(model: Any) -> None:
    first(model).clamp_(-0.05, 0.05)


@change
def by_copysign_of_rows(model: Any) -> None:
    model[10].weight.index_fill_(0, ad.tensor([1, 3]), 0.25)


@change
def by_index_put(model: Any) -> None:
    model[10].weight.index_put_((ad.tensor([0]),), ad.tensor(4.0), accumulate=True)


@change
def by_scatter(model: Any) -> None:
    model[10].weight.scatter_(0, ad.zeros(1, 64, dtype=ad.int64), 2.0)


@change
def by_addmm(model: Any) -> None:
    model[10].weight.addmm_(ad.ones(8, 2), ad.ones(2, 64))


@change
def by_random_numbers(model: Any) -> None:
    first(model).uniform_(-1, 1)


@change
def by_another_memory_format(model: Any) -> None:
    model.to(memory_format=ad.channels_last)
    first(model).mul_(2)


@change
def by_another_dtype_and_back(model: Any) -> None:
    model.double()
    first(model).mul_(2)
    model.float()


@change
def of_a_new_parameter(model: Any) -> None:
    model[0].weight = ad.nn.Parameter(ad.ones_like(first(model)))


@change
def by_a_parametrization(model: Any) -> None:
    class Twice(Module):
        def forward(self, x: Any) -> Any:
            return 2 * x

    ad.nn.utils.parametrize.register_parametrization(model[0], "weight", Twice())


@change
def by_weight_norm(model: Any) -> None:
    ad.nn.utils.parametrizations.weight_norm(model[0])
    model[0].parametrizations.weight.original0.mul_(2)


@change
def by_pruning(model: Any) -> None:
    ad.nn.utils.prune.l1_unstructured(model[0], "weight", amount=0.9)


@change
def by_functional_call_in_between(model: Any) -> None:
    doubled = {name: p * 2 for name, p in model.named_parameters()}
    ad.func.functional_call(model, doubled, (image(),))
    first(model).mul_(3)


@change
def by_vmap(model: Any) -> None:
    def write(row: Any) -> Any:
        return row.mul_(2)

    ad.func.vmap(write)(first(model).detach())


@change
def by_averaging(model: Any) -> None:
    other = ad.ones_like(first(model))
    first(model).lerp_(other, 0.5)


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_seen(name: str) -> None:
    """Whatever changes a parameter between two calls: the next is what eager execution gives."""
    model, x = network(), image()
    compiled = ad.compile(model)
    with ad.no_grad():
        before = model(x)
        for _ in range(3):
            ad.testing.assert_close(compiled(x), before, rtol=1e-4, atol=1e-5)
        assert COUNTS == {"made": 1, "kept": 2}, (
            "nothing was kept that the change could be missed in"
        )
        alive = CHANGES[name](model)
        wanted = model(x)
        assert not ad.allclose(wanted, before, rtol=1e-3, atol=1e-3), "the change changes nothing"
        for _ in range(2):
            ad.testing.assert_close(compiled(x), wanted, rtol=1e-4, atol=1e-5)
        del alive


# What can be done again and again, in any order, to a network that is still the same modules.
REPEATED = sorted(
    set(CHANGES)
    - {"by_a_parametrization", "by_weight_norm", "by_pruning", "by_another_dtype_and_back"}
)


@given(st.lists(st.tuples(st.sampled_from(REPEATED), st.integers(0, 2)), min_size=2, max_size=5))
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
def test_changes_in_any_order_are_seen(changes: list[tuple[str, int]]) -> None:
    """With calls between them or none, and with all that earlier ones gave still there."""
    model, x, alive = network(), image(), []
    compiled = ad.compile(model)
    with ad.no_grad():
        compiled(x)
        for name, calls in changes:
            alive.append(CHANGES[name](model))
            for _ in range(calls):
                wanted = model(x)
                scale = wanted.abs().max().clamp(min=1)
                ad.testing.assert_close(
                    compiled(x) / scale, wanted / scale, rtol=1e-4, atol=1e-4, equal_nan=True
                )


OUTSIDE = {
    "numpy": lambda w: w.detach().numpy(),
    "dlpack": lambda w: np.from_dlpack(w.detach()),
    "data": lambda w: w.data,
    "storage": lambda w: ad.TypedStorage(wrap_storage=w.untyped_storage(), dtype=ad.float32),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_writes_after_a_call_that_knew_of_the_alias(name: str) -> None:
    """Who was given the memory before may write at any time, again and again."""
    model, x = network(), image()
    alias = OUTSIDE[name](first(model))
    compiled = ad.compile(model)
    with ad.no_grad():
        for k in range(3):
            ad.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
            alias[k] = float(k + 1)
            ad.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
    assert COUNTS["kept"] == 0


def test_an_array_given_to_a_tensor_is_still_its_owners() -> None:
    array = np.ones((16, 16, 3, 3), np.float32)
    model, x = network(), image()
    model[3].weight = ad.nn.Parameter(ad.from_numpy(array))
    compiled = ad.compile(model)
    with ad.no_grad():
        for k in range(3):
            ad.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
            array[k] = k
            ad.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
    assert COUNTS["kept"] == 0


def test_writes_by_the_tensor_whose_data_it_has() -> None:
    """`p.data = other`: each counts its own writes, to the memory of both."""
    model, x = network(), image()
    other = ad.randn_like(first(model))
    first(model).data = other
    compiled = ad.compile(model)
    with ad.no_grad():
        for _ in range(3):
            ad.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)
            other.mul_(2)
            ad.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)
        assert COUNTS["kept"] == 0
        del other
        for _ in range(2):
            ad.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)
    assert COUNTS["kept"] == 1


def test_an_alias_that_is_gone_stands_for_one_write() -> None:
    model, x = network(), image()
    compiled = ad.compile(model)
    with ad.no_grad():
        alias = first(model).data
        for _ in range(3):
            compiled(x)
        assert COUNTS["kept"] == 0
        del alias
        for _ in range(3):
            compiled(x)
    assert COUNTS == {"made": 4, "kept": 2}


def test_a_copy_has_its_own() -> None:
    model, x = network(), image()
    other = copy.deepcopy(model)
    one, two = ad.compile(model), ad.compile(other)
    with ad.no_grad():
        for _ in range(2):
            ad.testing.assert_close(one(x), two(x))
        first(other).mul_(2)
        ad.testing.assert_close(one(x), model(x), rtol=1e-4, atol=1e-5)
        ad.testing.assert_close(two(x), other(x), rtol=1e-4, atol=1e-5)


def test_nothing_is_kept_with_gradients() -> None:
    model, x = network(), image()
    compiled = ad.compile(model)
    for _ in range(2):
        compiled(x).sum().backward()
    assert COUNTS == {"made": 0, "kept": 0}


def test_an_error_leaves_nothing_kept() -> None:
    table, weight = ad.randn(10, 16), ad.randn(16, 16)

    @ad.compile
    def look(at: Any) -> Any:
        return table[at] @ weight.exp()

    with ad.no_grad():
        look(ad.tensor([1, 2]))
        look(ad.tensor([1, 2]))
        weight.mul_(0.5)
        with pytest.raises(IndexError):
            look(ad.tensor([1, 20]))
        got = look(ad.tensor([1, 2]))
    ad.testing.assert_close(got, table[ad.tensor([1, 2])] @ weight.exp(), rtol=1e-4, atol=1e-5)


def test_large_parameters_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready, "MOST_LASTING", 1 << 10)
    model, x = network(), image()
    compiled = ad.compile(model)
    with ad.no_grad():
        for _ in range(2):
            ad.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
    assert COUNTS == {"made": 0, "kept": 0}


def test_what_is_kept_is_told() -> None:
    model, x = network(), image()

    @ad.compile
    def run(x: Any) -> Any:
        return model(x)

    with ad.no_grad():
        run(x)
    text = run.explain()
    assert "made of parameters  [again where they have changed]" in text
    assert "kept from call to call, made of parameters" in text


def test_memory_that_is_held_elsewhere_is_not_watched() -> None:
    w = ad.ones(4)
    assert watching.is_watched(w._storage)
    view = w[1:]  # of the same storage, whose writes it counts
    assert watching.is_watched(view._storage)
    assert not watching.is_watched(ad.from_numpy(np.ones(4))._storage)
    assert not watching.is_watched(ad.ones(4).share_memory_()._storage)
    with ad.inference_mode():
        assert not watching.is_watched(ad.ones(4)._storage)  # counts no writes
    images = ad.ones(2, 3, 4, 4).to(memory_format=ad.channels_last)
    assert watching.is_watched(images._storage)


def test_threads_see_writes_of_others() -> None:
    """Whoever calls after a write has ended sees it, whatever others do meanwhile."""
    model, x = network(), image()
    compiled = ad.compile(model)
    with ad.no_grad():
        compiled(x)
    failures: list[Any] = []
    lock = threading.Lock()

    def work(seed: int) -> None:
        try:
            with ad.no_grad():
                for k in range(8):
                    with lock:
                        first(model).fill_(0.01 * (seed + k))
                        got, wanted = compiled(x), model(x)
                        ad.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)
                    compiled(x)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
