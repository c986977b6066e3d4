"""nn.utils and nn.init."""

from __future__ import annotations

import copy
import importlib
from typing import Any

from tests.compare.nn_programs import data, fill, message, program


def module_of(t: Any, path: str) -> Any:
    return importlib.import_module(f"{t.__name__}.{path}")


def trained(t: Any) -> Any:
    net = fill(t, t.nn.Sequential(t.nn.Linear(3, 4), t.nn.Linear(4, 2)))
    net(data(t, 5, 3)).square().sum().backward()
    return net


@program
def clipping(t: Any) -> Any:
    u, seen = t.nn.utils, []
    for norm in (2.0, 1.0, float("inf"), 3, 0.5):
        net = trained(t)
        seen.append(u.clip_grad_norm_(net.parameters(), 0.7, norm_type=norm))
        seen += [p.grad for p in net.parameters()]
    net = trained(t)
    seen.append(u.clip_grad_norm_(net[0].weight, 1e9))
    u.clip_grad_value_(net.parameters(), 0.25)
    seen += [p.grad for p in net.parameters()]
    seen.append(u.get_total_norm([p.grad for p in net.parameters()]))
    u.clip_grads_with_norm_(net.parameters(), 0.1, t.tensor(2.0))
    seen += [p.grad for p in net.parameters()]
    net[0].weight.grad[0, 0] = float("nan")
    seen.append(message(lambda: u.clip_grad_norm_(net[0].weight, 1.0, error_if_nonfinite=True)))
    seen.append(u.clip_grad_norm_([], 1.0))
    return seen


@program
def vectors(t: Any) -> Any:
    u, net = t.nn.utils, trained(t)
    flat = u.parameters_to_vector(net.parameters())
    u.vector_to_parameters(t.arange(flat.numel(), dtype=t.float64), net.parameters())
    return [flat, *net.parameters(), message(lambda: u.vector_to_parameters(3, net.parameters()))]


@program
def weight_norm_hook(t: Any) -> Any:
    seen: list[Any] = []
    for dim in (0, 1, None):
        layer = t.nn.utils.weight_norm(fill(t, t.nn.Linear(3, 2)), dim=dim)
        seen.append([n for n, _ in layer.named_parameters()])
        out = layer(data(t, 4, 3))
        out.square().sum().backward()
        seen += [out, layer.weight_g.grad, layer.weight_v.grad]
        seen.append(message(lambda: t.nn.utils.weight_norm(layer)))  # noqa: B023
        t.nn.utils.remove_weight_norm(layer)
        seen += [layer.weight, list(layer.state_dict())]
        seen.append(message(lambda: t.nn.utils.remove_weight_norm(layer)))  # noqa: B023
    return seen


@program
def spectral_norm_hook(t: Any) -> Any:
    layer = t.nn.utils.spectral_norm(fill(t, t.nn.Linear(3, 2)), n_power_iterations=2)
    with t.no_grad():
        layer.weight_u.copy_(data(t, 2))
        layer.weight_v.copy_(data(t, 3))
    out = layer(data(t, 4, 3))
    out.square().sum().backward()
    layer.eval()
    seen = [out, layer.weight_orig.grad, layer.weight_u, layer.weight_v, layer(data(t, 4, 3))]
    meta = {k: dict(v) for k, v in layer.state_dict()._metadata.items()}
    names = list(layer.state_dict())
    t.nn.utils.remove_spectral_norm(layer)
    return [*seen, meta, names, layer.weight, list(layer.state_dict())]


@program
def parametrised(t: Any) -> Any:
    p = module_of(t, "nn.utils.parametrize")

    class Symmetric(t.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return x.triu() + x.triu(1).T

        def right_inverse(self, x: Any) -> Any:
            return x.triu()

    class Positive(t.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return x.exp()

        def right_inverse(self, x: Any) -> Any:
            return x.log()

    class Wider(t.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return t.cat([x, x])

    layer = fill(t, t.nn.Linear(3, 3))
    held = layer.weight
    p.register_parametrization(layer, "weight", Symmetric())
    first = [layer.weight, layer.parametrizations.weight.original is held, repr(layer)]
    p.register_parametrization(layer, "weight", Positive())
    layer(data(t, 2, 3)).sum().backward()
    twin = copy.deepcopy(layer)
    seen = [*first, layer.weight, held.grad, list(layer.state_dict()), repr(layer), twin.weight,
            p.is_parametrized(layer), p.is_parametrized(layer, "weight"),
            p.is_parametrized(layer, "bias"), p.type_before_parametrizations(layer).__name__]  # fmt: skip
    layer.weight = t.full((3, 3), 2.0, dtype=t.float64)
    with p.cached():
        same = layer.weight is layer.weight
    seen += [layer.weight, same, layer.weight is layer.weight]
    seen.append(message(lambda: p.register_parametrization(layer, "weight", Wider())))
    seen.append(message(lambda: p.register_parametrization(t.nn.Linear(2, 2), "bias", Wider())))
    seen.append(message(lambda: p.register_parametrization(layer, "nothing", Wider())))
    p.remove_parametrizations(layer, "weight")
    seen += [layer.weight, layer.weight is held, repr(layer), list(layer.state_dict())]
    seen.append(message(lambda: p.remove_parametrizations(layer, "weight")))
    return seen


@program
def parametrisations(t: Any) -> Any:
    p = module_of(t, "nn.utils.parametrizations")
    seen: list[Any] = []
    layer = p.weight_norm(fill(t, t.nn.Linear(3, 2)))
    layer(data(t, 4, 3)).square().sum().backward()
    seen += [layer.weight, list(layer.state_dict()), *[q.grad for q in layer.parameters()]]
    for name in ("matrix_exp", "cayley", "householder"):
        square = p.orthogonal(fill(t, t.nn.Linear(3, 3)), orthogonal_map=name)
        with t.no_grad():
            square.parametrizations.weight.original.add_(data(t, 3, 3) * 0.1)
            if name == "householder":  # signs on the diagonal
                square.parametrizations.weight.original.diagonal().fill_(-1.0)
        (square.weight * data(t, 3, 3)).sum().backward()
        seen += [square.weight, square.parametrizations.weight.original.grad, repr(square)]
    free = p.orthogonal(
        fill(t, t.nn.Linear(2, 3)), orthogonal_map="householder", use_trivialization=False
    )
    seen += [free.weight, list(free.state_dict())]
    free.weight = t.linalg.qr(data(t, 3, 2))[0]
    seen += [free.weight]
    spectral = p.spectral_norm(fill(t, t.nn.Linear(3, 2)))
    with t.no_grad():
        spectral.parametrizations.weight[0]._u.copy_(data(t, 2))
        spectral.parametrizations.weight[0]._v.copy_(data(t, 3))
    spectral(data(t, 4, 3)).square().sum().backward()
    seen += [spectral.parametrizations.weight.original.grad, list(spectral.state_dict())]
    seen += [*spectral.parametrizations.weight.buffers()]
    return seen


@program
def pruning(t: Any) -> Any:
    q = module_of(t, "nn.utils.prune")
    layer = fill(t, t.nn.Linear(6, 4))
    q.l1_unstructured(layer, "weight", 0.3)
    q.ln_structured(layer, "weight", 1, 2, 0)
    q.l1_unstructured(layer, "weight", 2)
    layer(data(t, 2, 6)).sum().backward()
    seen = [layer.weight, layer.weight_mask, layer.weight_orig.grad, list(layer.state_dict())]
    kinds = [type(h).__name__ for h in layer._forward_pre_hooks.values()]
    seen += [kinds, q.is_pruned(layer)]
    q.remove(layer, "weight")
    seen += [layer.weight, q.is_pruned(layer), list(layer.state_dict())]
    net = trained(t)
    q.global_unstructured([(net[0], "weight"), (net[1], "weight")], q.L1Unstructured, amount=0.5)
    seen += [net[0].weight, net[1].weight]
    q.custom_from_mask(net[0], "bias", t.tensor([1, 0, 1, 0]))
    q.identity(net[1], "bias")
    seen += [net[0].bias, net[1].bias_mask]
    seen.append(message(lambda: q.l1_unstructured(layer, "weight", -1)))
    seen.append(message(lambda: q.l1_unstructured(layer, "weight", 1.5)))
    seen.append(message(lambda: q.l1_unstructured(layer, "weight", "a")))
    seen.append(message(lambda: q.l1_unstructured(layer, "weight", 1000)))
    seen.append(message(lambda: q.ln_structured(layer, "bias", 1, 2, 0)))
    seen.append(message(lambda: q.remove(layer, "weight")))
    return seen


@program
def initialisers(t: Any) -> Any:
    i, e = t.nn.init, lambda *s: t.empty(*s, dtype=t.float64)
    return [
        i.eye_(e(2, 3)), i.dirac_(e(4, 2, 3)), i.dirac_(e(4, 2, 3, 3), 2), i.ones_(e(2)),
        i.zeros_(e(2)), i.constant_(e(2), 0.3), i.dirac_(e(2, 3, 1, 2, 3)),
        [i.calculate_gain(n) for n in ("linear", "conv2d", "sigmoid", "tanh", "relu", "selu",
                                       "leaky_relu")],
        i.calculate_gain("leaky_relu", 0.3),
        list(i._calculate_fan_in_and_fan_out(e(3, 4, 5, 5))),
        message(lambda: i.calculate_gain("gelu")), message(lambda: i.xavier_uniform_(e(3))),
        message(lambda: i.eye_(e(3))), message(lambda: i.dirac_(e(3))),
        message(lambda: i.dirac_(e(3, 2, 2), 2)), message(lambda: i.orthogonal_(e(3))),
        message(lambda: i.sparse_(e(3), 0.1)),
        message(lambda: i.kaiming_uniform_(e(3, 3), mode="fan")),
        message(lambda: i.calculate_gain("leaky_relu", "a")),
    ]  # fmt: skip


@program
def stateless(t: Any) -> Any:
    net = trained(t)
    given = {k: v.detach() * 2 for k, v in net.named_parameters()}
    out = t.func.functional_call(net, given, (data(t, 2, 3),))
    old = t.nn.utils.stateless.functional_call(net, given, (data(t, 2, 3),))
    stacked, _ = t.func.stack_module_state([trained(t), trained(t)])
    return [out, old, *stacked.values(), net[0].weight]


@program
def fusion(t: Any) -> Any:
    nn, u = t.nn, t.nn.utils
    seen: list[Any] = []
    for bias in (True, False):
        conv = fill(t, nn.Conv2d(2, 3, 3, bias=bias)).eval()
        norm = fill(t, nn.BatchNorm2d(3)).eval()
        norm.running_var.abs_().add_(0.5)
        x = data(t, 2, 2, 5, 5)
        fused = u.fuse_conv_bn_eval(conv, norm)
        seen += [fused(x), norm(conv(x)), fused.weight, fused.bias, fused.bias.requires_grad]
        up = fill(t, nn.ConvTranspose2d(2, 3, 3, bias=bias)).eval()
        seen += [u.fuse_conv_bn_eval(up, norm, transpose=True)(x)]
        flat = fill(t, nn.BatchNorm1d(3, affine=bias)).eval()
        flat.running_var.abs_().add_(0.5)
        linear = fill(t, nn.Linear(4, 3, bias=bias)).eval()
        seen += [u.fuse_linear_bn_eval(linear, flat)(data(t, 6, 4))] if bias else []
        seen.append(message(lambda: u.fuse_conv_bn_eval(conv.train(), norm)))  # noqa: B023
    return seen


@program
def prefixes(t: Any) -> Any:
    take = module_of(t, "nn.modules.utils").consume_prefix_in_state_dict_if_present
    state = t.nn.ModuleDict({"module": t.nn.Sequential(t.nn.Linear(1, 1))}).state_dict()
    take(state, "module.")
    return [list(state), list(state._metadata)]


@program
def layouts(t: Any) -> Any:
    conv = t.nn.Conv2d(2, 3, 3).to(memory_format=t.channels_last)
    return [tuple(conv.weight.stride()), tuple(conv.bias.stride()), conv.weight.is_leaf]


@program
def batch_norms_for_vmap(t: Any) -> Any:
    net = t.nn.Sequential(t.nn.Linear(2, 2), t.nn.BatchNorm1d(2))
    t.func.replace_all_batch_norm_modules_(net)
    return [list(net.state_dict()), net[1].track_running_stats]
