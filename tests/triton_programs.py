"""Programs that exercise every part of the emitter, each a function and its arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
from adjoint import nn
from adjoint.engine.core.state import late_faults as late
from adjoint.engine.core.state.rng import default_generator_of
from adjoint.engine.ops.nn.attention import ATTENTION
from adjoint.engine.ops.nn.attention_rows import draw_blocks
from adjoint.engine.ops.quantized.products import grouped_linear
from adjoint.engine.ops.random.placed import place_tensor
from adjoint.nn import functional as F
from adjoint.nn.attention.varlen import varlen_attn
from adjoint.quantization.weights import pack

Program = tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]


def small() -> tuple[Any, ...]:
    return (ad.randn(4, 7),)


def integers(x: Any) -> Any:
    n = (x * 100).int()
    return n // 3, (x * 100).long() % 7, (x * 10).to(ad.int8) * 5, n.fmod(5), n & 6, n << 2


def complex_parts(x: Any, y: Any) -> Any:
    """Complex numbers made, computed with and taken apart, and the gradients of that."""
    x, y = (v.detach().requires_grad_() for v in (x, y))
    z = ad.complex(x, y) * ad.complex(y, x[:1]) / (2 + 1j)
    out = z.abs() + ad.view_as_real(z.conj() + z.exp())[..., 1]
    half = ad.fft.irfft(ad.fft.rfft(x) * z[:, :4].sgn(), n=7)
    return out, z, half, *ad.autograd.grad(out.sum() + (half * half).sum(), (x, y))


def complex_and_numbers(x: Any, y: Any, k: float) -> Any:
    """Complex numbers beside ones that may change from call to call, on either side."""
    z, real = ad.complex(x, y), x + 0j
    found = [z + k, k - z, z * k, k / z, z / complex(k, 1), (x - k * 1j) / y]
    picked = [ad.where(x > 0, z, k), ad.where(x > 0, k, z), z.masked_fill(y > 0, complex(1, k))]
    same = [z == k, real == k, real != k, k == real, (z.real + 0j) == complex(k, 2)]
    return *found, *picked, *same, ad.addcmul(z, z, real, value=k), ad.add(z, real, alpha=k)


def heads(x: Any) -> Any:
    h = x.reshape(2, 6, 2, 5).transpose(1, 2)
    mask = ad.ones(6, 6, device=x.device).tril()
    scores = (h @ h.transpose(-1, -2)).masked_fill(mask == 0, float("-inf"))
    return (scores.softmax(-1) @ h).transpose(1, 2).flatten(2)


def picked(x: Any, i: Any) -> Any:
    return x[i], x.gather(1, i[:, None].abs()), x.index_select(0, i.abs())


def put(x: Any, i: Any) -> Any:
    return ad.zeros(10, 7, device=x.device).index_put((i,), x, accumulate=True)


def qkv() -> tuple[Any, ...]:
    return ad.randn(2, 3, 40, 16), ad.randn(2, 3, 40, 16), ad.randn(2, 3, 40, 32)


def attention(q: Any, k: Any, v: Any) -> Any:
    """Attention both ways, and its gradients."""
    found = []
    for causal in (True, False):
        q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        found += [out, *ad.autograd.grad((out * out).sum(), (q, k, v))]
        q, k, v = (x.detach().transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v))
    return tuple(found)


def twice_differentiated(q: Any, k: Any, v: Any) -> Any:
    """Second derivatives, in which the logsumexp has a cotangent of its own."""
    leaves = [x[:1, :1, :12].detach().requires_grad_() for x in (q, k, v)]
    out = F.scaled_dot_product_attention(*leaves, is_causal=True)
    first = ad.autograd.grad((out * out).sum(), leaves, create_graph=True)
    return ad.autograd.grad(sum((g * g).sum() for g in first), leaves)


def with_learned_mask(q: Any, k: Any, v: Any) -> Any:
    """Gradients of attention and of what is added to its scores, which no kernel of ours finds."""
    leaves = [x.detach().requires_grad_() for x in (q, k, v, q[0, 0] @ k[0, 0].t())]
    out = F.scaled_dot_product_attention(*leaves)
    return ad.autograd.grad((out * out).sum(), leaves)


def joined(x: Any, weight: Any, bias: Any) -> Any:
    """Attention whose queries, keys and values are one product; gradients of its weight and bias."""
    found = []
    for causal in (True, False):
        leaves = [t.detach().requires_grad_() for t in (weight, bias)]
        half = [t.bfloat16() for t in leaves]
        given = x.bfloat16().reshape(-1, x.shape[-1])
        # Biases have their gradients as sums of float32, and as sums of halves.
        rows = ad.addmm(half[1], given, half[0]) if causal else given @ half[0] + half[1]
        parts = rows.reshape(2, 128, 96).split(32, 2)
        q, k, v = (part.view(2, 128, 2, 16).transpose(1, 2) for part in parts)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        found += ad.autograd.grad((out * out).float().sum() / 2048, leaves)
    return tuple(found)


def over_sequences(x: Any, weight: Any, bias: Any) -> Any:
    """The same where the length comes before the batch, and the product has three dimensions."""
    found = []
    for dtype in (ad.float32, ad.bfloat16):
        leaves = [t.detach().to(dtype).requires_grad_() for t in (x, weight, bias)]
        rows = F.linear(leaves[0].transpose(0, 1), leaves[1].t(), leaves[2])  # (T, B, 3 E)
        q, k, v = (
            part.transpose(0, 1).reshape(2, 128, 2, 16).transpose(1, 2)
            for part in rows.chunk(3, -1)
        )
        out = F.scaled_dot_product_attention(q, k, v)
        found += ad.autograd.grad((out * out).float().sum() / 2048, leaves)
    return tuple(found)


def dropped(q: Any, k: Any, v: Any) -> Any:
    """Attention with dropout from a place that is a tensor, as on a GPU; and its gradients."""
    found = []
    rows = k[:, :1].detach(), v[:, :1].detach()
    for p, causal, keys, values in (
        (0.3, True, k, v),
        (0.8, False, *rows),
        (0.25, False, k[:, :, :39], v[:, :, :39]),
    ):
        leaves = [x.detach().requires_grad_() for x in (q, keys, values)]
        taken = default_generator_of(q.device).draw(draw_blocks(40, (2, 3), keys.shape[-2]))
        out, _ = ATTENTION(
            *leaves, place_tensor(*taken, q.device), scale=0.25, causal=causal, safe=False,
            masked=False, dropout=p, drawn=False, placed=True,
        )  # fmt: skip
        found += [out, *ad.autograd.grad((out * out).sum(), leaves)]
    seen = (ad.arange(40 * 38, device=q.device).reshape(40, 38) * 7) % 5 > 1
    leaves = [x.detach()[:, :, :38].requires_grad_() for x in (k, v)]
    place = place_tensor(*default_generator_of(q.device).draw(6 * 40 * 10), q.device)
    out, _ = ATTENTION(
        q.detach(), *leaves, seen, place, scale=0.25, causal=False, safe=True, masked=True,
        dropout=0.4, drawn=False, placed=True,
    )  # fmt: skip
    return (*found, out, *ad.autograd.grad((out * out).sum(), leaves))


def normed(x: Any) -> Any:
    """A norm's gradients: rows and columns are reduced in one kernel, columns by parts."""
    width = x.shape[-1]
    x = x.detach().requires_grad_()
    weight, bias = (ad.ones(width, device=x.device).requires_grad_() for _ in range(2))
    out = F.layer_norm(x, (width,), weight, bias)
    found = ad.autograd.grad((out * out.sin()).sum(), (x, weight, bias))
    return (*found, found[0].sum(0))


def losses(x: Any, i: Any) -> Any:
    """Cross entropy over long rows in both dtypes, and its gradients."""
    found = []
    for dtype in (ad.float32, ad.bfloat16):
        y = x.detach().to(dtype).requires_grad_()
        loss = F.cross_entropy(y, i, ignore_index=2)
        found += [loss, *ad.autograd.grad(loss, (y,)), F.cross_entropy(y, i, reduction="none")]
    return tuple(found)


def masked(q: Any, k: Any, v: Any) -> Any:
    """Attention under masks, one of which hides all from a query; and of shared keys."""
    found = []
    some = ad.arange(40, device=q.device) % 3 > 0
    masks = (
        some.reshape(1, 40),
        some.reshape(40, 1) & some,
        q[:, :1, :, :1] + k[:, :1, :, 0][..., None, :],
    )
    for mask in (*masks, None):
        q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
        keys, values = (k, v) if mask is not None else (k[:, :1], v[:, :1])
        mask = mask if mask is None else mask.detach()
        out = F.scaled_dot_product_attention(q, keys, values, mask, enable_gqa=mask is None)
        found += [out, *ad.autograd.grad((out * out).sum(), (q, k, v))]
    return tuple(found)


def scanned(x: Any, w: Any) -> Any:
    """A loop over rows of odd and of even widths, forwards and backwards, and its gradients."""
    found = []
    for width in (5, 8):
        for reverse in (False, True):
            rows, weight = x[..., :width].contiguous(), w[:width, :width].contiguous()
            rows, weight = (t.detach().requires_grad_() for t in (rows, weight))

            def body(h: Any, row: Any, weight: Any = weight, width: int = width) -> Any:
                h = (h @ weight + row).tanh()
                return h, (h if width == 8 else h * 2)  # what is carried may be stacked too

            start = ad.zeros(3, width, device=x.device)
            last, every = ad.scan(body, start, rows, reverse=reverse)
            found += [last, every, *ad.autograd.grad((every * every).sum(), (rows, weight))]
    return tuple(found)


def attended_long(x: Any) -> Any:
    """Wide heads over 512 tokens, packed and apart, of their own keys, in groups, all sharing one;
    causal or not: where there is cuDNN, by it."""
    results = []
    for causal, dtype in ((True, ad.bfloat16), (False, ad.float16)):
        rows = x.detach().to(dtype).requires_grad_()
        q, k, v = (
            part.view(1, 512, 2, 72).transpose(1, 2)
            for part in rows.reshape(1, 512, -1).split(144, 2)
        )
        how = {"is_causal": causal, "enable_gqa": True}
        if causal:
            first = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            second = F.scaled_dot_product_attention(ad.cat([q, q * 0.5], 1), k, v, **how)
        else:
            first = F.scaled_dot_product_attention(q[0] * 2, k[0], v[0])
            second = F.scaled_dot_product_attention(q, k[:, :1], v[:, 1:], **how)
        total = (first * first).float().sum() + second.float().sin().sum()
        # Gradients of about one: what halves round sums to is within the tolerance then.
        results += [first, second, *ad.autograd.grad(total * 0.125, (rows,))]
    return tuple(results)


def root_normed(x: Any) -> Any:
    """The same of a norm by roots of mean squares, whose weight's gradient comes first."""
    x = x.detach().requires_grad_()
    weight = ad.linspace(0.5, 2.0, x.shape[-1], device=x.device).requires_grad_()
    y = x.sin()
    out = y * ad.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5) * weight
    return tuple(ad.autograd.grad((out * out.sin()).sum(), (x, weight)))


def rotated(q: Any, k: Any, v: Any) -> Any:
    """Rotary positions and their gradients: halves side by side that loops read."""
    angle = ad.arange(40.0, device=q.device)[:, None] * ad.ones(16, device=q.device) / 7
    found = []
    for dtype in (ad.float32, ad.bfloat16):
        x = q.detach().to(dtype).requires_grad_()
        a, b = (x * 2).chunk(2, -1)
        y = x * angle.cos().to(dtype) + ad.cat([-b, a], -1) * angle.sin().to(dtype)
        found += [y, *ad.autograd.grad((y * y).sum(), (x,))]
    return tuple(found)


def turned_queries(x: Any, weight: Any) -> Any:
    """Attention of turned queries and shared keys, projected apart; gradients of its weights."""
    angle = ad.arange(16.0, device=x.device)[:, None] * ad.ones(16, device=x.device) / 7
    leaves = [w.detach().bfloat16().requires_grad_() for w in weight.split((64, 16, 16))]

    def turned(y: Any) -> Any:
        a, b = y.chunk(2, -1)
        return (y * angle.cos() + ad.cat([-b, a], -1) * angle.sin()).to(y.dtype)

    q, k, v = (F.linear(x.bfloat16(), w).view(2, 16, -1, 16).transpose(1, 2) for w in leaves)
    out = F.scaled_dot_product_attention(turned(q), turned(k), v, enable_gqa=True)
    return ad.autograd.grad((out * out).float().sum() / 2048, leaves)


def beside(x: Any) -> Any:
    """Parts side by side: along each dimension, three of them, drawn, summed up, and handed out."""
    three = ad.cat([x, x + 1, x.sin()], 1) * 2
    drawn = ad.cat([F.dropout(x, 0.5), x], 0) + 1
    whole = ad.cat([x * 3, x], 0)
    flat = ad.cat([x.sum(1), x.sum(1)]).exp() + 1
    return three, drawn, whole, whole + 1, flat, ad.cat([x > 0, x < 0], 1) & True


def tied(x: Any, i: Any) -> Any:
    """An embedding whose weights are also those of the head, and the sum of both gradients."""
    weight = x.detach().requires_grad_()
    rows = weight[i.abs()]
    logits = rows.bfloat16() @ weight.bfloat16().t()
    return ad.autograd.grad(logits.float().logsumexp(-1).sum() + rows.sin().sum(), (weight,))


def one_row(x: Any, w: Any) -> Any:
    """One row times matrices that lie either way, in both precisions, and attention of one query."""
    found = []
    for dtype in (ad.float32, ad.bfloat16):
        row, matrix = x[:1].to(dtype), w.to(dtype)
        found += [F.linear(row, matrix, matrix[:, 0]).tanh(), row @ matrix.t().contiguous()]
        heads = matrix[None, None, :, :16]
        seen = ad.arange(w.shape[0], device=x.device) < 100
        found.append(F.scaled_dot_product_attention(row[None, None, :, :16], heads, heads, seen))
    return tuple(found)


def recurrent(x: Any, w: Any) -> Any:
    """A loop whose weight is converted in each turn, as under autocast, and its gradients."""
    rows, weight = (t.detach().requires_grad_() for t in (x, w))

    def body(h: Any, row: Any) -> Any:
        h = ((h.bfloat16() @ weight.bfloat16()).float() + row).tanh()
        return h, h

    last, every = ad.scan(body, ad.zeros(3, 8, device=x.device), rows)
    return (last, *ad.autograd.grad((every * every).sum(), (rows, weight)))


def one_column(x: Any, w: Any) -> Any:
    """A layer of one result: products over one element, and sums beside them."""
    x, w, b = x.detach().requires_grad_(), w.detach().requires_grad_(), w[0].detach()
    out = F.linear(x.tanh(), w, b.requires_grad_()[:1])
    return (out, *ad.autograd.grad((out * out).sum(), (x, w)))


def packed_rows(q: Any, k: Any, v: Any, starts: Any) -> Any:
    """Sequences of several lengths one after another; in windows, heads that share keys."""
    rows = [x.detach().movedim(1, 2).flatten(0, 1).requires_grad_() for x in (q, k, v)]
    results: list[Any] = []
    for window, shared in (((-1, -1), False), ((9, 0), True)):
        keys, values = (x[:, :1] if shared else x for x in rows[1:])
        out = varlen_attn(
            rows[0], keys, values, starts, None, 43, 43, window_size=window, enable_gqa=shared
        )
        assert isinstance(out, ad.Tensor)
        results += [out, *ad.autograd.grad((out * out).sum(), rows)]
    return tuple(results)


def starts_and_qkv() -> tuple[Any, ...]:
    return *qkv(), ad.tensor([0, 7, 7, 50, 80], dtype=ad.int32)


def running(x: Any) -> Any:
    """What runs along either dimension, both ways, NaN and infinities among it; gradients."""
    some = x.masked_fill(x > 1, float("-inf"))
    none = x.round().masked_fill(x > 1.5, float("nan"))
    found = [(x * 9).int().cumsum(0), (x * 99).to(ad.uint8).cumsum(-1), x.double().cumprod(0)]
    for dim in (0, 1):
        found += [x.cumsum(dim), x.flip(dim).cumprod(dim), some.logcumsumexp(dim)]
        found += [*none.cummax(dim), *none.cummin(dim), *(x * 3).long().cummax(dim)]
    y = x.detach().requires_grad_()
    total = (y.cumprod(1) * y.logcumsumexp(0)).sum() + (y.cumsum(0) * y.cummax(1).values).sum()
    return (*found, *ad.autograd.grad(total, y))


def ordered(x: Any) -> Any:
    """Elements in order, the first of them, medians; equal ones, NaN, both zeros; gradients."""
    rough = (x * 3).round().masked_fill(x > 2, float("nan"))
    found = []
    for y in (rough, rough.double(), (x * 3).int()):
        found += [*y.sort(1, stable=True), y.argsort(0, descending=True, stable=True)]
        found += [*y.median(1), *y.nanmedian(0), y.nanmedian()]
    for y in (x, x.double(), x.half()):  # no two are equal
        found += [*y.topk(2, 1), *y.topk(1, 0, largest=False), *y.kthvalue(3, 1)]
    y = x.detach().requires_grad_()
    total = (y.topk(2, 1).values ** 2).sum() + (y.sort(0).values.cumsum(0) ** 2).sum() + y.median()
    return (*found, *ad.autograd.grad(total, y))


def scattered(x: Any, i: Any) -> Any:
    """Values put, added and combined at indices, along either dimension."""
    once = ad.arange(x.shape[1], device=x.device).flip(0).expand(x.shape)
    found = [x.scatter(1, once, x * 2), (x > 0).scatter(1, once, x > 1)]
    for y in (x, x.double(), (x * 3).int(), (x * 3).long(), (x * 3).to(ad.int8), x.bfloat16()):
        found += [y.scatter_add(1, i, y), y.scatter_add(0, i[:2] % x.shape[0], y)]
        found += [y.scatter_reduce(1, i, y, how) for how in ("prod", "amax", "amin")]
        found += [y.scatter_reduce(1, i, y, "amax", include_self=False), y.index_add(1, i[0], y)]
        found.append(y.index_put((i[0] % x.shape[0],), y[0], accumulate=True))
    return tuple(found)


def extremes_with_nans(x: Any, i: Any) -> Any:
    """The largest and the smallest of elements that go to one place, NaNs with and without a sign
    among them and among what is there."""
    none = float("nan")
    values = x.masked_fill(x > 1.2, none).masked_fill(x < -1.2, -none)
    values[0, 0], values[1, 1] = float("inf"), -float("inf")
    base = values.flip(0).contiguous()
    found = []
    for kind, own in ((ad.float32, True), (ad.float32, False), (ad.float64, True)):
        for how in ("amax", "amin"):
            y = values.to(kind)
            found.append(base.to(kind).scatter_reduce(1, i, y, how, include_self=own))
    return tuple(found)


def routed(x: Any, w: Any) -> Any:
    """Rows that go to the best two of several layers, by a gate; and its gradients."""
    x, w = (t.detach().requires_grad_() for t in (x, w))
    chances, chosen = (x @ w[0].t()).softmax(-1).topk(2, -1)
    rows = ad.arange(len(x), device=x.device).repeat_interleave(2)
    order = chosen.reshape(-1).argsort(stable=True)
    sent = x.index_select(0, rows[order]) * chances.reshape(-1)[order][:, None]
    out = ad.zeros_like(x).index_add(0, rows[order], sent @ w[1])
    load = F.one_hot(chosen, w.shape[1]).float().mean((0, 1))
    return (out, load, *ad.autograd.grad((out * out).sum() + (load * load).sum(), (x, w)))


def integer_products(x: Any) -> Any:
    """Products of int8: few rows and many, odd sizes, whole words, batches."""
    a, b = ((x * k).to(ad.int8) for k in (40, -60))
    found = [ad._int_mm(a[0, :m], b[0, :n].t()) for m, n in ((1, 70), (33, 17), (5, 1))]
    rows, columns = a.flatten(0, 1)[:, :32], b[1, :, :32]
    words = ad._int_mm(rows[:48].contiguous(), columns[:32].contiguous().t())
    return (*found, words, ad._int_mm(rows, columns.t()))


def grouped_products(x: Any) -> Any:
    """Rows times weights of 4 and 8 bits in groups: few rows and many, odd sizes, a bias."""
    found = []
    for bits, group, rows, features in (
        (4, 32, 1, 96),
        (4, 70, 5, 70),
        (8, 11, 3, 77),
        (8, 32, 9, 96),
    ):
        kind, zero = (ad.uint8, 8) if bits == 4 else (ad.int8, 0)
        numbers = (x[1, :33, :features] * 2 + zero).clamp(zero - 8, zero + 7).to(kind)
        weight = pack(numbers) if bits == 4 else numbers
        scale = x[0, :33, : features // group].abs() / 20
        points = (x[1, :33, : features // group] + zero).to(kind) if group != 11 else None
        bias = x[0, 0, :33] if rows > 1 else None
        given = weight, scale, points, bias, bits, group
        found += [grouped_linear(x[0, :rows, :features], *given)]
        found += [grouped_linear(x[0, :rows, 3 : 3 + features].bfloat16(), *given)]
    return found


def scaled_products(x: Any) -> Any:
    """Products of float8, with one scale each and with one to every row and column."""
    a, b = x[0, :5].to(ad.float8_e4m3fn), x[1, :33].to(ad.float8_e5m2)
    one, each = x[0, 0, :1].abs(), (x[0, :5, :1].abs(), x[1, :1, :33].abs())
    return (
        ad._scaled_mm(a, b.t(), one, one, out_dtype=ad.float32),
        ad._scaled_mm(b, a.t(), one, one, x[0, 0, :5], out_dtype=ad.bfloat16),
        ad._scaled_mm(a, b.t(), *each, out_dtype=ad.float16),
    )


def beams(x: Any) -> Any:
    """The best of all continuations, and which beam each goes on."""
    scores, found = x.log_softmax(-1).flatten(1).topk(3, -1)
    beam, token = found // x.shape[-1], found % x.shape[-1]
    return scores, beam, token, x.gather(1, beam[..., None].expand(-1, -1, x.shape[-1]))


def put_into_state(device: str, **how: Any) -> None:
    """Rows put into state where it lies: as eagerly, and nothing is written after a fault."""
    ad.manual_seed(0)
    table, first, second = (ad.randn(s).to(device) for s in ((6, 3), (2, 6, 4), (6, 5)))

    def step(at: Any, rows: Any) -> Any:
        h = F.embedding(at, table).sum()
        first.index_copy_(1, at, rows * h)  # within bounds that were checked: in place
        second.index_copy_(0, at, rows[0, :, :1].expand(-1, 5) + first.sum())
        return first.sum() * h, second.amax()

    compiled = ad.compile(step, **how)
    start = first.clone(), second.clone()
    places = [ad.tensor([2]), ad.tensor([5]), ad.tensor([0]), ad.tensor([3, 1])]
    given = [(at.to(device), ad.randn(2, len(at), 4).to(device)) for at in places]
    found: list[Any] = []
    for run in (step, compiled):
        first.copy_(start[0])
        second.copy_(start[1])
        found.append(([run(*each) for each in given], first.clone(), second.clone()))
    ad.testing.assert_close(found[0], found[1])

    def told(at: Any) -> None:
        compiled(at.to(device), ad.randn(2, len(at), 4).to(device))
        late.look()

    for at in (ad.tensor([6]), ad.tensor([-1]), ad.tensor([1, 6])):
        with pytest.raises(IndexError, match="index"):
            told(at)
        ad.testing.assert_close((first, second), found[0][1:])


PROGRAMS: dict[str, Program] = {
    "chain": (lambda x: (x.exp() + 1).log() * x.tanh() / (x * x + 1).sqrt(), small),
    "complex": (complex_parts, lambda: (ad.randn(4, 7), ad.randn(4, 7))),
    "complex and numbers": (
        complex_and_numbers, lambda: (ad.randn(4, 7), ad.randn(4, 7), 2.5)
    ),
    "functions": (
        lambda x: (
            x.sin() + x.cos() + x.erf() + x.sigmoid() + x.abs().pow(1.7) + x.expm1(),
            x.abs().log1p() + x.atan() + x.floor() + x.round() + x.trunc() + x.sign(),
            ad.lgamma(x.abs() + 1), ad.digamma(x.abs() + 1), ad.atan2(x, x + 1), x.remainder(0.3),
            ad.nextafter(x, x + 1), ad.copysign(x, -x), ad.hypot(x, x), ad.logaddexp(x, -x),
        ),
        small,
    ),
    "bounds": (lambda x: (x.clamp(-1, 1), x.relu(), ad.maximum(x, -x), x.fmin(x * 2)), small),
    "bfloat16": (lambda x: (x.bfloat16() * 3 + x.bfloat16().exp()).softmax(-1), small),
    "numbers beside halves": (
        lambda x: (x.half() == 0.1, x.bfloat16() + ad.tensor(0.1), x.half() * 0.1, x.half() % 0.7),
        lambda: (ad.full((3, 5), 0.1),),
    ),
    "float16": (lambda x: (x.half() * 3 + x.half().exp()).sum(-1), small),
    "float64": (lambda x: (x.double() * 3 + x.double().exp()).sum(0), small),
    "integers": (integers, small),
    "bools": (lambda x: ((x > 0) & (x < 1), (x > 0).all(0), (x > 0).sum(), x.prod(-1)), small),
    "extremes": (lambda x: (x.argmax(-1), x.amin(0), (x > 0).any(-1), x.max()), small),
    "softmax": (lambda x: x.softmax(-1) * x.log_softmax(-1), small),
    "rotary positions": (rotated, qkv),
    "turned queries of halves": (
        turned_queries, lambda: (ad.randn(2, 16, 24), ad.randn(96, 24) * 0.3)
    ),
    "long attention of halves": (attended_long, lambda: (ad.randn(512, 432),)),
    "parts side by side": (beside, small),
    "tied weights of halves": (tied, lambda: (ad.randn(20, 8), ad.tensor([3, -4, 3, 0, 19, 7]))),
    "norm": (lambda x: F.layer_norm(F.gelu(x), (7,)), small),
    "broadcast": (lambda x: x[:, :1] * x[:1] + x.t().sum(-1), lambda: (ad.randn(7, 7),)),
    "joined": (lambda x: ad.cat([x.sin(), x.cos()], 1).roll(1, 1).flip(0), small),
    "permuted": (lambda x: (x.permute(2, 0, 1) + 1).contiguous(), lambda: (ad.randn(5, 6, 7),)),
    "long rows": (lambda x: x.softmax(-1), lambda: (ad.randn(3, 5001),)),
    "long sum": (lambda x: (x.sum(), x.amax()), lambda: (ad.randn(61, 101),)),
    "columns that are read": (
        lambda x: [
            (y.sum(d, keepdim=True), y * y.sum(d, keepdim=True), y / (1 + y.sum(1 - d, keepdim=True)))
            for d in (0, 1)
            for y in (x - x.mean(1, keepdim=True), (x - x.amax(0)).exp())
        ],
        small,
    ),
    "columns": (lambda x: (x.sum(0), x.exp().amax(0)), lambda: (ad.randn(300, 33),)),
    "two reduced": (lambda x: x.exp().sum((0, 1)), lambda: (ad.randn(10, 100, 17),)),
    "picked": (picked, lambda: (ad.randn(4, 7), ad.tensor([3, 0, -1]))),
    "put": (put, lambda: (ad.randn(4, 7), ad.tensor([1, 1, 3, 9]))),
    "embedding": (lambda w, i: F.embedding(i, w) * 2,
                  lambda: (ad.randn(10, 16), ad.tensor([[1, 2], [9, 0]]))),
    "products": (lambda x: (x @ x.t(), x.t() @ x, (x @ x.t()).relu() + 1), small),
    "products of halves": (
        lambda x: (
            ad.addmm(x[0].bfloat16(), x.bfloat16(), x.t().bfloat16() @ x.bfloat16()),
            F.scaled_dot_product_attention(*[x[None, None].bfloat16()] * 3, is_causal=True),
        ),
        lambda: (ad.randn(7, 7),),
    ),
    "batched products": (lambda x: x @ x.transpose(-1, -2), lambda: (ad.randn(2, 3, 4, 5),)),
    "products of batches that do not follow one another": (
        lambda x: [
            (a @ b.transpose(-2, -1)) @ b
            for q in (x, x.expand(2, -1, -1, -1, -1, -1), x.transpose(1, 2))
            for a, b in [(q.permute(3, 0, 1, 4, 2, 5)[0], q.permute(3, 0, 1, 4, 2, 5)[1])]
        ]
        + [x[0, 0].permute(1, 2, 0, 3) @ x[0, 0, :, 0, 0].t(), x[0, 0].mT @ x[0, 0, :, :1]],
        lambda: (ad.randn(2, 3, 4, 2, 6, 5),),
    ),
    "attention": (heads, lambda: (ad.randn(2, 6, 10),)),
    "whole attention": (attention, qkv),
    "whole attention of halves": (
        lambda q, k, v: attention(q.half(), k.half(), v.half()), qkv
    ),
    "attention twice differentiated": (twice_differentiated, qkv),
    "attention with a learned mask": (with_learned_mask, qkv),
    "joined attention of halves": (
        joined, lambda: (ad.randn(2, 128, 32), ad.randn(32, 96) * 0.3, ad.randn(96))
    ),
    "attention of halves over sequences": (
        over_sequences, lambda: (ad.randn(2, 128, 32), ad.randn(32, 96) * 0.3, ad.randn(96))
    ),
    "shared heads": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k[:, :1], v[:, :1], enable_gqa=True),
        qkv,
    ),
    "norms": (normed, lambda: (ad.randn(2304, 8),)),
    "root norms": (root_normed, lambda: (ad.randn(2304, 8),)),
    "norms of odd lengths": (normed, lambda: (ad.randn(64, 37, 8),)),
    "norms of a few": (normed, lambda: (ad.randn(3, 7, 24),)),
    "affine": (
        lambda x: (F.linear(x, x, x[0]), ad.addmm(x[0], x, x), F.linear(x[None] + 1, x, x[1])),
        lambda: (ad.randn(7, 7),),
    ),
    "losses of halves": (losses, lambda: (ad.randn(5, 5001), ad.tensor([0, 2, 5000, 17, 3]))),
    "activations of halves": (
        lambda x: (F.gelu(x.half(), approximate="tanh"), x.half().tanh(), x.half().sigmoid()),
        lambda: (ad.randn(4, 700) * ad.tensor([[1e-4], [1e-2], [1.0], [10.0]]),),
    ),
    "lines": (lambda x: (x - x.amax(1, keepdim=True)).exp() * x[:, 1:2], lambda: (ad.randn(3, 2500),)),
    "masked attention": (masked, qkv),
    "attention with dropout": (dropped, qkv),
    "attention of halves with dropout": (
        lambda q, k, v: dropped(q.half(), k.half(), v.half()), qkv
    ),
    "packed attention": (packed_rows, starts_and_qkv),
    "packed attention of halves": (
        lambda q, k, v, s: packed_rows(q.half(), k.half(), v.half(), s), starts_and_qkv,
    ),
    "masked attention of halves": (lambda q, k, v: masked(q.half(), k.half(), v.half()), qkv),
    "draws": (lambda x: (x + ad.randn_like(x), ad.rand_like(x), F.dropout(x, 0.5)), small),
    "draws of integers": (lambda x: ad.randint(0, 10, (4, 7), device=x.device) + x, small),
    "calls": (lambda x: ad.histc(x.exp(), 6, 0, 4) * 2, small),
    "Bessel functions": (
        lambda x: (
            x.i0(), ad.special.i1(x), ad.special.bessel_j0(x), ad.special.bessel_j1(x),
            ad.special.bessel_y0(x.abs()), ad.special.bessel_y1(x.abs()), x.double().i0(),
            ad.special.bessel_j0(x.half()),
        ),
        small,
    ),
    "searches": (lambda x: ad.bucketize(x.exp(), x[0].exp().sort()[0]) * 2, small),
    "running": (running, small),
    "along many lines side by side": (
        lambda x: (x.cumsum(1), x.flip(1).logcumsumexp(1), x.cummax(1), (x * 9).int().cummin(1)),
        lambda: (ad.randn(140, 3, 32),),
    ),
    "running long": (
        lambda x: (x.cumsum(1), x.cummax(1).indices, x[:, :8200].logcumsumexp(1)),
        lambda: (ad.randn(2, 9000),),
    ),
    "ordered": (ordered, lambda: (ad.randn(4, 70) * ad.arange(1.0, 71),)),
    "ordered long": (
        lambda x: (*x.sort(1, stable=True), *x.topk(9, 1), x.double().argsort(stable=True), x.median(1).values),
        lambda: (ad.randn(2, 2600),),
    ),
    "scattered": (scattered, lambda: (ad.randn(4, 7), ad.randint(0, 7, (4, 7)))),
    "extremes with NaN": (
        extremes_with_nans, lambda: (ad.randn(4, 7), ad.randint(0, 7, (4, 7)))
    ),
    "routed": (routed, lambda: (ad.randn(12, 8), ad.randn(2, 8, 8))),
    "integer products": (integer_products, lambda: (ad.randn(2, 70, 75),)),
    "grouped products of halves": (grouped_products, lambda: (ad.randn(2, 33, 100),)),
    "scaled products to halves": (scaled_products, lambda: (ad.randn(2, 33, 70),)),
    "beams": (beams, lambda: (ad.randn(2, 3, 50),)),
    "scalar": (lambda x: (x.sum() * 2).exp(), small),
    "one row of halves": (one_row, lambda: (ad.randn(2, 80), ad.randn(200, 80))),
    "recurrent of halves": (recurrent, lambda: (ad.randn(4, 3, 8), ad.randn(8, 8) * 0.3)),
    "one column": (one_column, lambda: (ad.randn(64, 32), ad.randn(1, 32))),
    "scanned": (scanned, lambda: (ad.randn(4, 3, 8), ad.randn(8, 8) * 0.3)),
    "triangles": (lambda x: x.triu(1) + ad.arange(7, device=x.device), lambda: (ad.randn(7, 7),)),
}  # fmt: skip


def training(backend: str, optimizer: str, device: str = "cpu", steps: int = 4) -> list[float]:
    """The losses of a small network's training; "eager": not compiled."""
    ad.manual_seed(0)
    net = nn.Sequential(
        nn.Embedding(11, 8), nn.Flatten(), nn.Linear(24, 16), nn.LayerNorm(16), nn.GELU(),
        nn.Dropout(0.1), nn.Linear(16, 3),
    ).to(device)  # fmt: skip
    made = getattr(ad.optim, optimizer)(net.parameters(), lr=1e-2)

    def step(x: Any, y: Any) -> Any:
        loss = F.cross_entropy(net(x), y)
        made.zero_grad()
        loss.backward()
        made.step()
        return loss

    run = step if backend == "eager" else ad.compile(step, backend=backend)
    x = ad.randint(0, 11, (12, 3)).to(device)
    y = ad.randint(0, 3, (12,)).to(device)
    return [run(x, y).item() for _ in range(steps)]
