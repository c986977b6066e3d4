"""Programs of function transforms and higher derivatives, the same in every framework.

Each takes `fw`, the module `torch` or `adjoint`, and gives a function of no arguments that performs
one step and returns what it computed, a tensor or several. Weights are `families.fill`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.families import fill

Step = Callable[[], Any]


def array(fw: Any, *shape: int, seed: int = 0) -> Any:
    """A standard normal sample, the same everywhere."""
    return fw.from_numpy(np.random.default_rng(seed).standard_normal(shape, np.float32))


def labels(fw: Any, count: int, *shape: int) -> Any:
    """Whole numbers below `count`."""
    return fw.from_numpy(np.random.default_rng(3).integers(0, count, shape))


def filled(fw: Any, net: Any) -> Any:
    """A network with weights drawn by name."""
    fill(fw, net)
    return net


def perceptron(fw: Any, *widths: int, activation: str = "Tanh") -> Any:
    """Linear layers with an activation between each two."""
    nn = fw.nn
    layers: list[Any] = []
    for inside, outside in pairwise(widths):
        layers += [nn.Linear(inside, outside), getattr(nn, activation)()]
    return filled(fw, nn.Sequential(*layers[:-1]))


def detached(net: Any) -> dict[str, Any]:
    """A network's parameters by name, off the tape."""
    return {name: p.detach() for name, p in net.named_parameters()}


def per_sample_gradients(fw: Any) -> Step:
    """The gradients of each of 64 samples by all weights, clipped to a norm and added up."""
    func, F = fw.func, fw.nn.functional
    net = perceptron(fw, 20, 64, 64, 10, activation="ReLU")
    weights, x, y = detached(net), array(fw, 64, 20), labels(fw, 10, 64)

    def loss(weights: Any, x: Any, y: Any) -> Any:
        out = func.functional_call(net, weights, (x.unsqueeze(0),))
        return F.cross_entropy(out, y.unsqueeze(0))

    each = func.vmap(func.grad(loss), in_dims=(None, 0, 0))

    def step() -> Any:
        gradients = each(weights, x, y)
        squares = [g.flatten(1).square().sum(1) for g in gradients.values()]
        factors = (1.0 / (sum(squares).sqrt() + 1e-6)).clamp(max=1.0)
        return [fw.tensordot(factors, g, 1) for g in gradients.values()]

    return step


def per_sample_convolution(fw: Any) -> Step:
    """The same of a small convolutional network and 16 images."""
    func, F, nn = fw.func, fw.nn.functional, fw.nn
    net = filled(fw, nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.ReLU(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(16 * 9, 10),
    ))  # fmt: skip
    weights, x, y = detached(net), array(fw, 16, 1, 12, 12), labels(fw, 10, 16)

    def loss(weights: Any, x: Any, y: Any) -> Any:
        out = func.functional_call(net, weights, (x.unsqueeze(0),))
        return F.cross_entropy(out, y.unsqueeze(0))

    each = func.vmap(func.grad(loss), in_dims=(None, 0, 0))
    return lambda: list(each(weights, x, y).values())


def per_sample_attention(fw: Any) -> Step:
    """The same of a transformer's block on tokens: embedding, norms, attention, label smoothing."""
    func, F, nn = fw.func, fw.nn.functional, fw.nn

    class Net(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.norm = nn.Embedding(50, 32), nn.LayerNorm(32)
            self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 50)

        def forward(self, tokens: Any) -> Any:
            x = self.norm(self.tokens(tokens))  # (B, T, C)
            q, k, v = self.qkv(x).unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # (B, heads, T, C/heads)
            return self.out(F.gelu(x + y.transpose(1, 2).flatten(2)))

    net = filled(fw, Net())
    weights, tokens, y = detached(net), labels(fw, 50, 8, 12), labels(fw, 50, 8, 12)

    def loss(weights: Any, tokens: Any, y: Any) -> Any:
        out = func.functional_call(net, weights, (tokens.unsqueeze(0),))
        return F.cross_entropy(out[0], y, label_smoothing=0.1)

    each = func.vmap(func.grad(loss), in_dims=(None, 0, 0))
    return lambda: list(each(weights, tokens, y).values())


def tangent_kernel(fw: Any) -> Step:
    """The neural tangent kernel of 16 points and 8 others, by Jacobians."""
    func = fw.func
    net = perceptron(fw, 8, 64, 64, 2)
    weights, a, b = detached(net), array(fw, 16, 8), array(fw, 8, 8, seed=1)

    def one(weights: Any, x: Any) -> Any:
        return func.functional_call(net, weights, (x.unsqueeze(0),)).squeeze(0)

    jacobian = func.vmap(func.jacrev(one), (None, 0))

    def step() -> Any:
        left, right = jacobian(weights, a), jacobian(weights, b)
        kernel = 0
        for name in left:
            kernel = kernel + fw.einsum(
                "Naf,Mbf->NMab", left[name].flatten(2), right[name].flatten(2)
            )
        return kernel

    return step


def tangent_kernel_products(fw: Any) -> Step:
    """The same kernel by products with vectors: a vjp, then a jvp, for each pair of points."""
    func = fw.func
    net = perceptron(fw, 8, 32, 2)
    weights, a, b = detached(net), array(fw, 16, 8), array(fw, 8, 8, seed=1)

    def one(weights: Any, x: Any) -> Any:
        return func.functional_call(net, weights, (x.unsqueeze(0),)).squeeze(0)

    def of_pair(x: Any, y: Any) -> Any:
        _, pull = func.vjp(lambda w: one(w, x), weights)

        def product(v: Any) -> Any:
            return func.jvp(lambda w: one(w, y), (weights,), pull(v))[1]

        return func.vmap(product)(fw.eye(2))

    whole = func.vmap(func.vmap(of_pair, (None, 0)), (0, None))
    return lambda: whole(a, b)


def gradient_penalty(fw: Any) -> Step:
    """A critic's step with a penalty on its gradients by 64 points between real and made ones."""
    net = perceptron(fw, 32, 64, 64, 1, activation="LeakyReLU")
    optimizer = fw.optim.Adam(net.parameters(), lr=1e-6)
    real, made, mix = (
        array(fw, 64, 32),
        array(fw, 64, 32, seed=1),
        array(fw, 64, 1, seed=2).sigmoid(),
    )

    def step() -> Any:
        optimizer.zero_grad()
        between = (mix * real + (1 - mix) * made).requires_grad_(True)
        out = net(between)
        (g,) = fw.autograd.grad(out, between, fw.ones_like(out), create_graph=True)
        penalty = ((g.norm(2, dim=1) - 1) ** 2).mean()
        loss = net(made).mean() - net(real).mean() + 10 * penalty
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def image_warp(fw: Any) -> Step:
    """Training the six numbers of an affine map by which one image becomes another."""
    F = fw.nn.functional
    image, wanted = array(fw, 4, 3, 32, 32), array(fw, 4, 3, 32, 32, seed=1)
    theta = fw.tensor([[[1.0, 0.1, 0.05], [-0.1, 0.9, 0.02]]]).repeat(4, 1, 1).requires_grad_(True)
    optimizer = fw.optim.SGD([theta], lr=1e-4)

    def step() -> Any:
        optimizer.zero_grad()
        grid = F.affine_grid(theta, [4, 3, 32, 32], align_corners=False)
        warped = F.grid_sample(image, grid, align_corners=False)
        loss = F.mse_loss(warped, wanted)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def hessian(fw: Any) -> Step:
    """The Hessian of a logistic regression's loss by 20 weights, and Newton's step."""
    func, F = fw.func, fw.nn.functional
    x, y, w = array(fw, 100, 20), labels(fw, 2, 100).float(), 0.1 * array(fw, 20, seed=1)

    def loss(w: Any) -> Any:
        return F.binary_cross_entropy_with_logits(x @ w, y) + 0.01 * (w * w).sum()

    second, first = func.hessian(loss), func.grad(loss)
    return lambda: fw.linalg.solve(second(w), first(w))


def residual(fw: Any) -> Step:
    """A heat equation's residual at 100 points by vmap of second derivatives, and its gradient."""
    func = fw.func
    net = perceptron(fw, 2, 32, 32, 1)
    weights, points = detached(net), array(fw, 100, 2)

    def value(weights: Any, point: Any) -> Any:
        return func.functional_call(net, weights, (point,)).squeeze(-1)

    def at(weights: Any, point: Any) -> Any:
        gradient = func.grad(value, argnums=1)(weights, point)
        second = func.jacfwd(func.grad(value, argnums=1), argnums=1)(weights, point)
        return gradient[0] - second[1, 1]

    def loss(weights: Any) -> Any:
        return func.vmap(at, (None, 0))(weights, points).square().mean()

    gradient = func.grad_and_value(loss)
    return lambda: list(gradient(weights)[0].values())


def meta_learning(fw: Any) -> Step:
    """MAML: three inner steps on each of eight tasks at once, differentiated."""
    func, F = fw.func, fw.nn.functional
    net = perceptron(fw, 1, 40, 40, 1, activation="ReLU")
    weights = detached(net)
    x, y = array(fw, 8, 10, 1), array(fw, 8, 10, 1, seed=1)

    def loss(weights: Any, x: Any, y: Any) -> Any:
        return F.mse_loss(func.functional_call(net, weights, (x,)), y)

    def adapted(weights: Any, x: Any, y: Any) -> Any:
        inner = weights
        for _ in range(3):
            gradients = func.grad(loss)(inner, x, y)
            inner = {name: p - 0.01 * gradients[name] for name, p in inner.items()}
        return loss(inner, x, y)

    def of_tasks(weights: Any) -> Any:
        return func.vmap(adapted, (None, 0, 0))(weights, x, y).mean()

    outer = func.grad(of_tasks)
    return lambda: list(outer(weights).values())


def implicit(fw: Any) -> Step:
    """A fixed point's gradient by the implicit function theorem: products with a Jacobian."""
    func = fw.func
    W, U = 0.05 * array(fw, 32, 32), array(fw, 16, 32, seed=1)
    x = array(fw, 24, 16, seed=2)

    def cell(z: Any, W: Any, U: Any) -> Any:
        return fw.tanh(z @ W + x @ U)

    def step() -> Any:
        z = fw.zeros(24, 32)
        for _ in range(8):
            z = cell(z, W, U)
        _, pull = func.vjp(cell, z, W, U)
        wanted = 2 * z
        g = wanted
        for _ in range(8):
            g = wanted + pull(g)[0]
        return pull(g)[1:]

    return step


def ensemble(fw: Any) -> Step:
    """Ten networks at once: losses and gradients by stacked weights, and a step of descent."""
    func, F = fw.func, fw.nn.functional
    nets = [perceptron(fw, 16, 32, 32, 3, activation="GELU") for _ in range(10)]
    weights, buffers = func.stack_module_state(nets)
    weights = {name: p.detach() for name, p in weights.items()}
    x, y = array(fw, 32, 16), labels(fw, 3, 32)

    def loss(weights: Any, buffers: Any) -> Any:
        return F.cross_entropy(func.functional_call(nets[0], (weights, buffers), (x,)), y)

    each = func.vmap(func.grad_and_value(loss))

    def step() -> Any:
        gradients, losses = each(weights, buffers)
        return [losses, *[p - 0.1 * gradients[name] for name, p in weights.items()]]

    return step


def hessian_products(fw: Any) -> Step:
    """Two steps of conjugate gradients with Hessian vector products, forward over reverse."""
    func, F = fw.func, fw.nn.functional
    net = perceptron(fw, 10, 32, 5)
    weights, x, y = detached(net), array(fw, 40, 10), labels(fw, 5, 40)

    def loss(weights: Any) -> Any:
        return F.cross_entropy(func.functional_call(net, weights, (x,)), y)

    gradient = func.grad(loss)

    def product(v: Any) -> Any:
        return func.jvp(gradient, (weights,), (v,))[1]

    def step() -> Any:
        direction = gradient(weights)
        for _ in range(2):
            turned = product(direction)
            total = sum((direction[k] * turned[k]).sum() for k in turned)
            direction = {k: direction[k] - turned[k] / (1 + total.abs()) for k in turned}
        return list(direction.values())

    return step


PROGRAMS: dict[str, Callable[[Any], Step]] = {
    make.__name__: make
    for make in (
        per_sample_gradients, per_sample_convolution, per_sample_attention, tangent_kernel,
        tangent_kernel_products, gradient_penalty, image_warp, hessian, residual, meta_learning,
        implicit, ensemble, hessian_products,
    )
}  # fmt: skip
