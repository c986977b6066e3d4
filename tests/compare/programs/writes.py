"""In-place writes, views and versions."""

from __future__ import annotations

from typing import Any

from tests.compare.programs.registry import leaf, program


@program
def write_through_view(t: Any) -> Any:
    x = leaf(t)
    y = x * 2
    y[0] = x[1] * 3
    v = y[1:]
    v.mul_(x[:2])
    y.sum().backward()
    return x.grad, y, v.grad_fn is not None


@program
def view_of_view(t: Any) -> Any:
    x = leaf(t, 1, 2, 3, 4)
    y = (x * 1).view(2, 2)
    row = y[0]
    cell = row[1]
    cell.mul_(5)
    row.add_(x[:2])
    (y * y).sum().backward()
    return x.grad, y, row, cell


@program
def view_read_after_base_write(t: Any) -> Any:
    x = leaf(t)
    y = x.clone()
    v = y[:2]
    y.mul_(x)
    (v * v).sum().backward()
    return x.grad, v


@program
def untracked_base_becomes_tracked(t: Any) -> Any:
    x = leaf(t)
    z = t.zeros(3, dtype=t.float64)
    v = z[1:]
    v.copy_(x[1:] * 2)
    assert z.requires_grad
    (z * z).sum().backward()
    return x.grad, z.requires_grad, v.requires_grad, v.is_leaf


@program
def overwritten_by_constant(t: Any) -> Any:
    x = leaf(t)
    y = x * 2
    y.zero_()
    (y + x).sum().backward()
    return x.grad, y.requires_grad


@program
def part_overwritten_by_constant(t: Any) -> Any:
    x = leaf(t)
    y = x * 2
    y[0] = 7.0
    y.fill_(3.0) if False else None
    (y * y).sum().backward()
    return x.grad


@program
def leaf_write(t: Any) -> Any:
    leaf(t).add_(1)


@program
def leaf_view_write(t: Any) -> Any:
    leaf(t)[0].add_(1)


@program
def leaf_setitem(t: Any) -> Any:
    x = leaf(t)
    x[0] = 2.0


@program
def leaf_write_no_grad(t: Any) -> Any:
    x = leaf(t)
    with t.no_grad():
        x.add_(1)
        x[0] = 5
    (x * x).sum().backward()
    return x, x.grad, x._version


@program
def no_grad_view_write(t: Any) -> Any:
    x = leaf(t) * 1
    with t.no_grad():
        v = x[0]
    v.mul_(2)


@program
def detached_view_write(t: Any) -> Any:
    x = leaf(t)
    y = x * 2
    y.detach()[0].fill_(9.0)
    y.sum().backward()
    return x.grad, y


@program
def stale_saved(t: Any) -> Any:
    x = leaf(t)
    y = x.exp()
    y.add_(1)
    y.sum().backward()


@program
def stale_operand(t: Any) -> Any:
    x = leaf(t)
    a = x * 1
    y = a * a
    a.add_(1)
    y.sum().backward()


@program
def stale_by_detached_write(t: Any) -> Any:
    x = leaf(t)
    y = x.exp()
    y.detach().add_(1)
    y.sum().backward()


@program
def data_write_unseen(t: Any) -> Any:
    x = leaf(t)
    y = x.exp()
    y.data.zero_()
    y.sum().backward()
    return x.grad, y._version


@program
def not_stale_when_unneeded(t: Any) -> Any:
    x = leaf(t)
    a = x * 1
    y = a + 2
    a.mul_(3)
    (y * a.detach()).sum().backward()
    return x.grad


@program
def inplace_keeps_needed_operand(t: Any) -> Any:
    x, w = leaf(t), leaf(t, 4, 5, 6)
    y = x * 1
    y.mul_(w)
    y.sum().backward()
    return x.grad, w.grad


@program
def versions(t: Any) -> Any:
    x = t.ones(3)
    v = x[1:]
    out = [x._version]
    v.add_(1)
    out += [x._version, v._version]
    x[0] = 4
    x.data.add_(1)
    x.detach().add_(1)
    return [*out, x._version, v._version]


@program
def index_put_gradient(t: Any) -> Any:
    x = leaf(t)
    i = t.tensor([0, 2])
    y = x * 1
    y[i] = x[i] * x[1]
    y[y > 100] = 0
    (y * y).sum().backward()
    return x.grad


@program
def expand_write_refused(t: Any) -> Any:
    t.ones(1).expand(3).add_(1)
