"""`autograd.functional`: derivatives of functions by the tape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.engine.autodiff.tape.reverse import grad
from adjoint.engine.autodiff.transforms.forward import jvp as push_forward
from adjoint.engine.autodiff.transforms.gradient import grad as gradient_of
from adjoint.engine.autodiff.transforms.jacobians import jacfwd
from adjoint.engine.core.errors import ShapeError
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.ops.shape.join import stack

Fn = Callable[..., Any]


def _tuple(x: Any, what: str, name: str) -> tuple[tuple[Any, ...], bool]:
    """A tuple of tensors, and whether it was one."""
    many = isinstance(x, (tuple, list))
    values = tuple(x) if many else (x,)
    for i, v in enumerate(values):
        if not is_tensor(v):
            given = f" at index {i}" if many else ""
            raise TypeError(
                f"The {what} given to {name} must be either a Tensor or a tuple of Tensors but "
                f"the value{given} has type {type(v)}."
            )
    return values, many


def _prepare(inputs: tuple[Any, ...], *, create_graph: bool) -> tuple[Any, ...]:
    """Inputs to differentiate by: still on the tape only where the result should be."""
    if create_graph:
        return tuple(
            x.view_as(x) if x.requires_grad else x.detach().requires_grad_() for x in inputs
        )
    return tuple(x.detach().requires_grad_() for x in inputs)


def _finish(values: Any, *, create_graph: bool) -> Any:
    if isinstance(values, tuple):
        return tuple(_finish(v, create_graph=create_graph) for v in values)
    return values if create_graph else values.detach()


def _call(func: Fn, inputs: tuple[Any, ...], name: str) -> tuple[tuple[Any, ...], bool]:
    return _tuple(func(*inputs), "outputs of the user-provided function", name)


def _require_dependence(outputs: tuple[Any, ...], strict: bool) -> None:
    for i, o in enumerate(outputs):
        if strict and not o.requires_grad:
            raise RuntimeError(
                f"Output {i} of the user-provided function does not require gradients. The "
                "outputs must be computed in a differentiable manner from the input when running "
                "in strict mode."
            )


def _filled(
    grads: Any, like: tuple[Any, ...], *, strict: bool, create_graph: bool, what: str
) -> tuple[Any, ...]:
    """Gradients with zeros for None, or strict mode's errors."""
    full = []
    for i, (g, x) in enumerate(zip(grads, like, strict=True)):
        if g is None:
            if strict:
                raise RuntimeError(
                    f"The {what} of the user-provided function is independent of input {i}. This "
                    "is not allowed in strict mode."
                )
            g = x.new_zeros(x.shape)
        elif strict and create_graph and not g.requires_grad:
            raise RuntimeError(
                f"The {what} of the user-provided function is independent of input {i}. This is "
                "not allowed in strict mode when create_graph=True."
            )
        full.append(g)
    return tuple(full)


def _pull(
    outputs: tuple[Any, ...], inputs: tuple[Any, ...], v: Any, *, create_graph: bool
) -> tuple[Any, ...]:
    pairs = [(o, None if v is None else v[i]) for i, o in enumerate(outputs) if o.requires_grad]
    if not pairs:
        return (None,) * len(inputs)
    tracked, cotangents = zip(*pairs, strict=True)
    return grad(tracked, inputs, cotangents, create_graph=create_graph, allow_unused=True)


def _vector(v: Any, like: tuple[Any, ...], name: str, many: bool, what: str) -> tuple[Any, ...]:
    """A vector of the shape of `like`; ones where it may be left out."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise ShapeError(
                f"{name}: the vector v can only be None if the {what} of the user-provided "
                "function is a single Tensor with a single element."
            )
        return (like[0].detach().new_ones(like[0].shape),)
    values, _ = _tuple(v, "v", name)
    if len(values) != len(like):
        raise RuntimeError(
            f"{name}: v is a tuple of invalid length: should be {len(like)} but got {len(values)}."
        )
    for i, (a, b) in enumerate(zip(values, like, strict=True)):
        if a.shape != b.shape:
            raise ShapeError(
                f"{name}: Entry {i} in v has invalid size: should be {tuple(b.shape)} but got "
                f"{tuple(a.shape)}."
            )
    return values


def _one(values: tuple[Any, ...], many: bool) -> Any:
    return values if many else values[0]


def vjp(
    func: Fn, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The value of a function and v times its Jacobian."""
    given, many = _tuple(inputs, "inputs", "vjp")
    with CONTEXT.having(grad_enabled=True):
        xs = _prepare(given, create_graph=create_graph)
        outputs, many_out = _call(func, xs, "vjp")
        _require_dependence(outputs, strict)
        vector = _vector(v, outputs, "vjp", many_out, "output")
        grads = _pull(outputs, xs, vector, create_graph=create_graph)
        pulled = _filled(grads, xs, strict=strict, create_graph=create_graph, what="vjp")
    done = _finish((outputs, pulled), create_graph=create_graph)
    return _one(done[0], many_out), _one(done[1], many)


def jvp(
    func: Fn, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The value of a function and its Jacobian times v."""
    given, _ = _tuple(inputs, "inputs", "jvp")
    vector = _vector(v, given, "jvp", False, "input")
    with CONTEXT.having(grad_enabled=True):
        xs = _prepare(given, create_graph=create_graph)
        outputs, tangents = push_forward(func, xs, vector, strict=strict)
        many_out = isinstance(outputs, (tuple, list))
        outs, ts = _tuple(outputs, "outputs", "jvp")[0], _tuple(tangents, "outputs", "jvp")[0]
        if strict and create_graph and not all(t.requires_grad for t in ts):
            raise RuntimeError(
                "jvp: The jacobian of the user-provided function is independent of the inputs. "
                "This is not allowed in strict mode when create_graph=True."
            )
    done = _finish((outs, ts), create_graph=create_graph)
    return _one(done[0], many_out), _one(done[1], many_out)


def _scalar(func: Fn, xs: tuple[Any, ...], name: str, strict: bool) -> Any:
    outputs, many = _call(func, xs, name)
    if many or outputs[0].numel() != 1:
        raise ShapeError(
            f"{name}: the function given to {name} should return a single Tensor with a single "
            "element."
        )
    _require_dependence(outputs, strict)
    return outputs[0]


def vhp(
    func: Fn, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The value of a scalar function and v times its Hessian."""
    return _second(func, inputs, v, create_graph, strict, "vhp")


def hvp(
    func: Fn, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The value of a scalar function and its Hessian times v (the Hessian is symmetric)."""
    return _second(func, inputs, v, create_graph, strict, "hvp")


def _second(
    func: Fn, inputs: Any, v: Any, create_graph: bool, strict: bool, name: str
) -> tuple[Any, Any]:
    given, many = _tuple(inputs, "inputs", name)
    with CONTEXT.having(grad_enabled=True):
        xs = _prepare(given, create_graph=create_graph)
        vector = _vector(v, given, name, many, "input")
        value = _scalar(func, xs, name, strict)
        first = _pull((value,), xs, None, create_graph=True)
        jac = _filled(first, xs, strict=strict, create_graph=strict, what="jacobian")
        second = _pull(jac, xs, vector, create_graph=create_graph)
        product = _filled(second, xs, strict=strict, create_graph=create_graph, what="hessian")
    done = _finish((value, product), create_graph=create_graph)
    return done[0], _one(done[1], many)


def jacobian(
    func: Fn,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of a function: `jacobian[i][j]` of output i by input j.

    >>> import adjoint as ad
    >>> ad.autograd.functional.jacobian(lambda x: x * x, ad.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if strategy not in ("forward-mode", "reverse-mode"):
        raise ValueError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your '
            'function has more outputs than inputs, "forward-mode" tends to be more performant. '
            'Otherwise, prefer to use "reverse-mode".'
        )
    given, many = _tuple(inputs, "inputs", "jacobian")
    if strategy == "forward-mode":
        return _forward_jacobian(func, given, many, create_graph, strict, vectorize)
    if strict and vectorize:
        raise RuntimeError(
            "torch.autograd.functional.jacobian: `strict=True` and `vectorize=True` are not "
            "supported together. Please either set `strict=False` or `vectorize=False`."
        )
    with CONTEXT.having(grad_enabled=True):
        xs = _prepare(given, create_graph=create_graph)
        outputs, many_out = _call(func, xs, "jacobian")
        _require_dependence(outputs, strict)
        by_rows = rows_at_once if vectorize else rows_one_by_one
        table = tuple(by_rows(o, xs, create_graph, strict) for o in outputs)
    done = _finish(table, create_graph=create_graph)
    rows = tuple(_one(row, many) for row in done)
    return _one(rows, many_out)


def rows_one_by_one(
    out: Any, xs: tuple[Any, ...], create_graph: bool, strict: bool
) -> tuple[Any, ...]:
    """The Jacobian of one output, an element at a time."""
    columns: list[list[Any]] = [[] for _ in xs]
    for element in out.reshape(-1).unbind(0) if out.numel() else ():
        grads: tuple[Any, ...] = (None,) * len(xs)
        if element.requires_grad:
            grads = grad(
                element, xs, retain_graph=True, create_graph=create_graph, allow_unused=True
            )
        filled = _filled(grads, xs, strict=strict, create_graph=create_graph, what="jacobian")
        for column, g in zip(columns, filled, strict=True):
            column.append(g)
    return tuple(
        (stack(column) if column else x.new_zeros((0, *x.shape))).reshape((*out.shape, *x.shape))
        for column, x in zip(columns, xs, strict=True)
    )


def rows_at_once(
    out: Any, xs: tuple[Any, ...], create_graph: bool, strict: bool
) -> tuple[Any, ...]:
    """The Jacobian of one output, all elements at once by vmap."""
    grads: tuple[Any, ...] = (None,) * len(xs)
    n = out.numel()
    if out.requires_grad:
        basis = out.detach().new_eye(n).reshape((n, *out.shape))
        grads = grad(
            out, xs, basis, retain_graph=True, create_graph=create_graph, allow_unused=True,
            is_grads_batched=True,
        )  # fmt: skip
    return tuple(
        (x.new_zeros((n, *x.shape)) if g is None else g).reshape((*out.shape, *x.shape))
        for g, x in zip(grads, xs, strict=True)
    )


def _forward_jacobian(
    func: Fn, given: tuple[Any, ...], many: bool, create_graph: bool, strict: bool, vectorize: bool
) -> Any:
    if strict:
        raise RuntimeError(
            'torch.autograd.functional.jacobian: `strict=True` and `strategy="forward-mode"` are '
            "not supported together (yet)."
        )
    if not vectorize:
        raise NotImplementedError(
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian is only "
            "implemented for `vectorize=True`."
        )
    with CONTEXT.having(grad_enabled=True):
        xs = _prepare(given, create_graph=create_graph)
        columns = jacfwd(func, tuple(range(len(xs))))(*xs)
        many_out = not is_tensor(columns[0])
    done = _finish(columns, create_graph=create_graph)
    rows = tuple(_one(row, many) for row in (done if many_out else (done,)))
    return _one(rows, many_out)


def hessian(
    func: Fn,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The Hessian of a scalar function: `hessian[i][j]` by inputs i and j.

    >>> import adjoint as ad
    >>> ad.autograd.functional.hessian(lambda x: (x * x).sum(), ad.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 2.]])
    """
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise ValueError(
            'Expected strategy to be either "forward-mode" or "reverse-mode", received '
            f"{outer_jacobian_strategy!r}"
        )
    given, many = _tuple(inputs, "inputs", "hessian")
    shapes = [x.shape for x in given]

    def gradient(*xs: Any) -> tuple[Any, ...]:
        if outer_jacobian_strategy == "forward-mode":
            scalar = lambda *ys: _scalar(func, ys, "hessian", False).reshape(())
            return gradient_of(scalar, tuple(range(len(xs))))(*xs)
        value = _scalar(func, xs, "hessian", strict)
        grads = _pull((value,), xs, None, create_graph=True)
        return _filled(grads, xs, strict=strict, create_graph=strict, what="jacobian")

    table = jacobian(gradient, given, create_graph, strict, vectorize, outer_jacobian_strategy)
    if many:
        return table
    return table[0][0].reshape((*shapes[0], *shapes[0]))
