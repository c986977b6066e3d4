"""Further small calls: more forms and dtypes, losses and layers with options, steps, gradients."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

# The names are those of `small_call_cases.operands` and of `program_operands`.
PROGRAM_CALLS: dict[str, tuple[str, ...]] = {
    "questions about tensors": (
        'x.size()', 'x.ndim', 'x.dtype', 'x.device', 'x.requires_grad', 'x.is_leaf', 'x.grad',
        'xg.grad', 'x.layout', 'x.itemsize', 'x.nbytes', 'x.element_size()', 'x.is_contiguous()',
        'x.is_floating_point()', 'x.is_complex()', 'x.dtype.is_floating_point',
        'x.dtype == fw.float32', 'x.shape[0]', 'x.shape == y.shape', 'x.shape.numel()',
        'tuple(x.shape)', 'fw.is_tensor(x)', 'isinstance(x, fw.Tensor)', 'fw.numel(x)',
        'x.get_device()', 'x.data', 'x.untyped_storage()', 'x.untyped_storage().data_ptr()',
        'x.stride(0)', 'x.size(-1)', 'x.is_sparse', 'x._version', 'x.grad_fn', 'x.retains_grad',
        'hash(x)', 'fw.is_grad_enabled()', 'fw.get_default_dtype()', 'fw.finfo(fw.float32)',
        'fw.finfo(fw.float32).eps', 'fw.promote_types(fw.float32, fw.int64)',
        'fw.result_type(x, 1.0)', 'fw.device("cpu")', 'fw.Size([2, 4])',
        'fw.broadcast_shapes((2, 1), (1, 4))',
    ),
    "values for Python": (
        'int(s)', 'i2[0].item()', 'i.tolist()', 'm.tolist()', 's.tolist()', 'list(x)',
        '[row for row in x]', 'list(v)', 'bool(x.sum() > 0)', 'bool((x > 0).any())',
        'x.sum().item()', 'x.mean().item()', 'i.max().item()', 'x[0, 1].item()', 'float(x[0, 1])',
        'f"{s:.4f}"', 'x.detach().cpu().numpy()', 'xg.detach().numpy()', 'np.asarray(x)', '2 in i',
        'repr(x)', 'str(s)', 'copy.copy(x)', 'copy.deepcopy(x)',
    ),
    "further creation": (
        'fw.tensor([1, 2, 3])', 'fw.tensor([True, False])',
        'fw.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=fw.float64)', 'fw.tensor(array)',
        'fw.tensor([1.0, 2.0], requires_grad=True)', 'fw.tensor(3.0, dtype=fw.float64)',
        'fw.tensor(True)', 'fw.tensor([])', 'fw.as_tensor([1.0, 2.0])', 'fw.as_tensor(x)',
        'fw.as_tensor(3.0)', 'fw.scalar_tensor(3.0)', 'fw.Tensor([1.0, 2.0])',
        'fw.FloatTensor([1.0, 2.0])', 'fw.LongTensor([1, 2])', 'fw.zeros(2, 4)', 'fw.zeros((2, 4))',
        'fw.zeros(x.shape)', 'fw.zeros(8, dtype=fw.int64)', 'fw.zeros(2, 4, device="cpu")',
        'fw.zeros(2, 4, device=x.device, dtype=x.dtype)', 'fw.zeros(())',
        'fw.ones(2, 4, dtype=fw.bool)', 'fw.ones(8, dtype=fw.bfloat16)', 'fw.full((2, 4), 1)',
        'fw.full((2, 4), float("-inf"))', 'fw.full((2, 2), True)', 'fw.arange(0, 8, 2)',
        'fw.arange(1, 3, 0.5)', 'fw.arange(8, dtype=fw.float32)', 'fw.arange(8, device=x.device)',
        'fw.linspace(0, 1, 8, dtype=fw.float64)', 'fw.logspace(0, 1, 8)', 'fw.eye(4, 3)',
        'fw.eye(3, dtype=fw.float64)', 'fw.zeros_like(x, dtype=fw.int64)', 'fw.ones_like(i)',
        'fw.full_like(x, 1)', 'fw.empty_like(x).normal_()', 'fw.randn(2, 4, requires_grad=True)',
        'fw.rand(2, 4, dtype=fw.float64)', 'fw.randint(5, (2, 4))', 'fw.randint_like(x, 5)',
        'fw.normal(0.0, 1.0, (8,))', 'fw.normal(x, p)', 'fw.multinomial(p, 2)',
        'fw.empty(8).uniform_(-1, 1)', 'fw.empty(2, 4)', 'fw.triu_indices(4, 4)',
        'fw.manual_seed(0)', 'x.new_full((2, 2), 1.0)', 'x.new_empty(3)',
        'x.new_tensor([1.0, 2.0])', 'x.new_zeros((2, 3), dtype=fw.int64)',
        'fw.cartesian_prod(i2, z2)', 'fw.combinations(i2)', 'fw.from_numpy(array).float()',
        'fw.from_numpy(array64).float()', 'fw.empty_strided((2, 4), (4, 1))',
    ),
    "further conversion": (
        'x.type_as(i)', 'x.to(i.dtype)', 'x.to("cpu", fw.float64)',
        'x.to(device="cpu", dtype=fw.float32)', 'x.to(x.device)', 'x.to(fw.float64, copy=True)',
        'x.to(fw.float32, non_blocking=True)', 'x.to(fw.bfloat16)', 'x.bfloat16()', 'x.short()',
        'x.byte()', 'x.char()', 'x.type(fw.float64)', 'x.type()', 'x.cfloat()', 'i.float()',
        'i.double()', 'i.to(fw.float32)', 'i.int()', 'i.bool()', 'm.float()', 'm.long()', 'm.int()',
        'h.float()', 'd.float()', 'e.float()', 'x.clone().detach()', 'x.detach().clone()',
        'x.detach_()', 'x.contiguous().view(-1)', 'x.resolve_conj()', 'fw.clone(x)',
        'x.data.clone()', 'x.requires_grad_(False)', 'x.clone().requires_grad_()',
        'x.cpu().numpy()', 'x.view(fw.int32)', 'x.t().contiguous()',
        'x.contiguous(memory_format=fw.contiguous_format)',
        'im.contiguous(memory_format=fw.channels_last)', 'im.to(memory_format=fw.channels_last)',
    ),
    "further elementwise": (
        'fw.add(x, y)', 'fw.add(x, y, alpha=2)', 'fw.sub(x, y)', 'fw.mul(x, 2)', 'fw.div(x, y)',
        "fw.div(x, y, rounding_mode='floor')", "x.div(2, rounding_mode='trunc')", 'fw.pow(x, 3)',
        'fw.pow(2, x)', 'p ** 0.5', 'p ** y', '2 ** x', 'x ** 3', '2 * x', '2.0 / p', 'x + v4',
        'x * v4[None, :]', 'x - x.mean()', 'x - x.mean(1, keepdim=True)', 'x + s', 's * 2', 's + s',
        '1 - m.float()', 'x + i2[:, None]', 'x * m', 'x < y', 'x <= 0.5', 'x == 0', 'i == 2',
        'i != 0', 'i > 2', 'fw.eq(i, 2)', 'fw.gt(x, y)', 'm | m', 'm ^ m', '(x > 0) & (x < 1)',
        'fw.logical_not(m)', 'fw.logical_or(m, m)', 'x.logical_not()', 'fw.bitwise_and(i, 3)',
        'i & 1', 'i << 1', 'i >> 1', 'i + 1', 'i * 2', 'i // 2', 'i / 2', '-i', 'i.abs()',
        'i.clamp(0, 3)', 'i.remainder(3)', 'fw.fmod(x, 0.5)', 'fw.remainder(x, 0.5)',
        'x.clamp(max=1.0)', 'x.clamp_min(0.1)', 'fw.clamp(x, min=-1, max=1)', 'x.clip(0, 1)',
        'x.clamp(y, y + 1)', 'x.neg()', 'x.positive()', '+x', 'abs(x)', 'x.trunc()', 'x.tan()',
        'p.asin()', 'p.acos()', 'x.atan()', 'x.sinh()', 'x.cosh()', 'p.log2()', 'p.log10()',
        'x.exp2()', 'p.logit()', 'fw.special.expit(x)', 'x.erfc()', 'fw.sinc(x)', 'fw.xlogy(p, p)',
        'fw.hypot(x, y)', 'fw.logaddexp(x, y)', 'fw.copysign(x, y)', 'fw.fmax(x, y)', 'fw.sgn(x)',
        'fw.signbit(x)', 'fw.deg2rad(x)', 'x.isinf()', 'x.isnan().any()', 'fw.isfinite(x).all()',
        'fw.where(m, x, 0)', 'fw.where(m, 1.0, 0.0)', 'fw.where(m)', 'x.where(m, y)',
        'fw.addcdiv(x, y, p, value=0.5)', 'x.add(y, alpha=0.5)', 'x.sub(1)', 'x.mul(y).add(y)',
        'fw.rsub(x, 1)', 'x.float_power(2)', 'x.softmax(0)', 'x.softmax(-1)',
        'fw.softmax(x, dim=1)', 'x.log_softmax(-1)', 'fw.sigmoid(x)', 'fw.tanh(x)', 'fw.exp(-x)',
        'fw.log(p + 1e-8)', 'fw.sqrt(p)', 'fw.relu(x)', 'fw.square(x)', 'fw.abs(x - y)',
        'fw.clone(x).sub_(y).pow_(2)', 'fw.gcd(i, i)', 'fw.isin(i, i2)',
    ),
    "other dtypes": (
        'd + d', 'd * 2', 'd.exp()', 'd.sum()', 'd.mean(1)', 'd @ d.T', 'd > 0', 'd.sqrt()',
        'd.softmax(-1)', 'd + x', 'i + i', 'i * i', 'i.sum()', 'i.max()', 'i.argmax()',
        'i.cumsum(0)', 'i.sort()', 'i.unique()', 'i + x.view(-1)', 'i.float().mean()', 'h + h',
        'h * 2', 'h.sum()', 'h @ h.T', 'h.exp()', 'h.relu()', 'h.softmax(-1)', 'h + x', 'e + e',
        'e @ e.T', 'e.sum()', 'm.float().mean()', 'm.any(1)', 'm.all(1)', 'm == m', '~m & m',
        'cx - cx', 'cx / cx', 'cx.conj()', 'cx.imag', 'cx.angle()', 'cx.exp()', 'cx.sum()',
        'cx * 2', 'cx @ cx', 'cx.abs().square()', 'fw.polar(v, v)',
        'fw.view_as_complex(b.view(-1, 2))', 'u + u', 'u.float() / 255',
    ),
    "further reductions": (
        'fw.sum(x)', 'fw.sum(x, dim=1)', 'x.sum((0, 1))', 'x.sum(dim=0, keepdim=True)',
        'x.sum(dtype=fw.float64)', 'fw.mean(x, dim=0)', 'x.mean((0, 1))',
        'x.mean(dim=-1, keepdim=True)', 'x.var()', 'x.var(dim=1, unbiased=False)',
        'x.var(1, keepdim=True)', 'x.std(0)', 'x.std(dim=1, keepdim=True)', 'fw.std_mean(x)',
        'fw.max(x)', 'fw.max(x, 1)', 'fw.max(x, dim=1, keepdim=True)', 'fw.max(x, y)',
        'fw.min(x, dim=1)', 'x.max(dim=-1).values', 'x.max(dim=-1)[1]', 'x.amax()',
        'x.amax((0, 1))', 'x.amin(dim=0, keepdim=True)', 'x.argmax(dim=-1, keepdim=True)',
        'fw.argmin(x)', 'x.prod(1)', 'x.norm(p=1)', 'x.norm(2, dim=-1, keepdim=True)', 'fw.norm(x)',
        'fw.norm(x, dim=1)', "x.norm(float('inf'))", 'fw.linalg.vector_norm(x)',
        'fw.linalg.vector_norm(x, dim=1)', 'fw.linalg.norm(x, dim=1)', 'fw.linalg.matrix_norm(sq)',
        'fw.dist(x, y)', 'fw.any(m, dim=0)', 'fw.all(m)', '(x == y).all()',
        '(x.argmax(1) == c).float().mean()', '(x.argmax(1) == c).sum().item()', 'x.abs().max()',
        'x.abs().sum()', '((x - y) ** 2).mean()', '(x - y).pow(2).sum()', 'x.nansum()',
        'x.nanmean()', 'fw.logsumexp(x, dim=1, keepdim=True)', 'fw.cumsum(x, dim=1)',
        'x.cumprod(1)', 'x.cummin(1)', 'x.mode()', 'x.quantile(0.5)', 'fw.quantile(x, p[0], dim=1)',
        'x.nanmedian()', 'fw.trapezoid(v)', 'fw.corrcoef(x)', 'fw.count_nonzero(x, dim=1)',
    ),
    "further order": (
        'x.sort(descending=True)', 'x.sort(dim=1, descending=True)', 'fw.sort(v)',
        'fw.argsort(x, dim=1, descending=True)', 'fw.topk(x, 2, dim=1)', 'x.topk(2, largest=False)',
        'fw.topk(v, 3).indices', 'fw.unique(i)', 'fw.unique(i, return_counts=True)',
        'fw.unique_consecutive(i)', 'fw.nonzero(x)', 'fw.nonzero(m, as_tuple=True)', 'x.nonzero()',
        'fw.searchsorted(v, 0.3)', 'fw.bincount(i, minlength=8)', 'fw.msort(x)',
    ),
    "further shapes": (
        'x.mT', 'b.mT', 'x.view_as(y)', 'x.reshape(-1)', 'x.reshape(2, 2, 2)', 'x.reshape((4, 2))',
        'x.reshape(x.shape[0], -1)', 'x.view(x.size(0), -1)', 'x.view((4, 2))',
        'fw.reshape(x, (4, 2))', 'x.T.reshape(-1)', 'b.view(2, 16)', 'b.flatten(1)',
        'fw.flatten(b, 1)', 'b.permute(0, 2, 1)', 'b.transpose(-2, -1)',
        'b.transpose(1, 2).contiguous()', 'b.transpose(1, 2).reshape(2, 16)',
        'fw.transpose(b, 1, 2)', 'fw.permute(b, (2, 0, 1))', 'fw.unsqueeze(x, 1)',
        'x.unsqueeze(-1)', 'x.unsqueeze(1).expand(-1, 3, -1)', 'fw.squeeze(x)',
        'x[None].squeeze(0)', 'x.expand(2, 4)', 'v4.expand(2, -1)', 'x.ravel()',
        'x.unflatten(1, (2, 2))', 'x.swapaxes(0, 1)', 'fw.movedim(b, 0, -1)', 'fw.atleast_2d(v)',
        'fw.flip(x, [0, 1])', 'fw.rot90(x)', 'fw.roll(x, 1)', 'x.tile(2)', 'x.repeat(2, 1, 1)',
        'x.repeat_interleave(2)', 'fw.repeat_interleave(v4, 2)', 'fw.split(x, 2, dim=1)',
        'fw.split(x, [1, 3], dim=1)', 'fw.chunk(x, 2)', 'fw.unbind(x, 1)', 'x.tensor_split(2, 1)',
        'fw.cat((x, y), dim=-1)', 'fw.cat([x, y, x], dim=0)', 'fw.cat([v, w])', 'fw.concat([x, y])',
        'fw.stack((x, y), dim=1)', 'fw.stack([s, s, s])', 'fw.dstack([x, y])',
        'fw.column_stack([v, v])', 'fw.broadcast_tensors(x, v4)', 'fw.meshgrid(v, w)',
        'fw.tril(fw.ones(4, 4))', 'fw.triu(fw.ones(4, 4), diagonal=1)',
        'fw.triu(fw.full((4, 4), float("-inf")), diagonal=1)', 'fw.diag(v4)', 'fw.diag_embed(x)',
        'fw.diagonal(sq, offset=1)', 'fw.gather(x, 1, g)', 'fw.index_select(x, 0, z2)',
        'fw.masked_select(x, m)', 'fw.scatter(x, 1, g, 0.5)',
        'fw.zeros(2, 4).scatter_(1, c[:, None], 1.0)', 'x.scatter_reduce(1, g, y, "sum")',
        'x.index_reduce(0, z2, y, "amax")', 'fw.take_along_dim(x, g, 1)', 'x.take(i2)',
        'fw.select_scatter(x, v4, 0, 1)', 'fw.narrow(x, 1, 0, 2)', 'x.swapdims(0, 1)',
        'x.masked_fill(x > 0, float("-inf"))', 'n.fill_diagonal_(1.0)', 'fw.vander(w)',
        'fw.gradient(v)', 'fw.cumulative_trapezoid(v)',
    ),
    "further indexing": (
        'x[-1]', 'x[0, 1]', 'x[0][1]', 'x[:, -1]', 'x[:, :2]', 'x[..., 0]', 'x[..., 1:]', 'x[None]',
        'x[:, None, :]', 'x[:]', 'x[1:]', 'x[:-1]', 'v[::2]', 'v[2:5]', 'v[i2]', 'v[[1, 2]]',
        'v[v > 0.5]', 'x[0, x[0] > 0]', 'x[i2, :]', 'x[i2][:, i2]', 'x[i2[:, None], g[:, :2]]',
        'x[range(2), [0, 1]]', 'x[fw.arange(2), c]', 'x[m].sum()', 'x[(0, 1)]',
        'x[np.array([0, 1])]', 'x[True]', 'b[:, 0, :]', 'b[0, :, 1:3]', 'b[..., None, 0]',
        'b[:, i2]', 'b[:, :, i2]', 'b[:, z2, i2]', 'x[s_int]', 'put(n, 0, 1.0)',
        'put(n, (0, 1), 2.0)', 'put(n, (slice(None), 1), v4[:2])', 'put(n, slice(0, 1), 0.0)',
        'put(n, Ellipsis, 0.0)', 'put(n, (Ellipsis, 0), 1.0)', 'put(n, slice(None), y)',
        'put(n, [0, 1], 1.0)', 'put(n, (slice(None), i2), 0.0)', 'put(n, n > 0, 1.0)',
        'put(n, m, y[m])', 'put(n, 0, y[1])', 'put(n, (0, 1), s)', 'put(k, 0, 3)', 'put(k, i2, 7)',
        'put(k, k > 2, 0)', 'n.index_put_((z2, i2), w[:2], accumulate=True)',
        'n.index_fill_(1, i2, 0.5)', 'n.index_copy_(0, z2, y)', 'n.index_add_(0, z2, y)',
        'n.scatter_(1, g, y)', 'n.scatter_(1, g, 1.0)', 'n.masked_scatter_(m, y)',
        'add_at(n, 0, 1.0)', 'add_at(n, (slice(None), 1), 1.0)', 'add_at(n, z2, 1.0)',
        'x[..., i2]', 'x[i2, 1:]', 'x[:, None, i2]', 'x[:, m[0]]', 'x[s_int, 1]', 'x[np.int64(1)]',
        'put(n, m, s)', 'put(n, (Ellipsis, i2), 1.0)', 'put(n, (slice(None), m[0]), 1.0)',
        'put(n, (0, m[0]), 1.0)', 'put(n, slice(None), v4)', 'put(n, s_int, 1.0)', 'n.copy_(v4)',
    ),
    "further in place": (
        'n.sub_(y)', 'n.sub_(0.1)', 'n.mul_(y)', 'n.div_(2)', 'n.div_(p)', 'n.pow_(2)', 'n.abs_()',
        'n.sqrt_()', 'n.sigmoid_()', 'n.tanh_()', 'n.sin_()', 'n.round_()', 'n.clamp_min_(0)',
        'n.clamp_(min=0.1)', 'n.add_(1)', 'n.add_(s)', 'n.addcdiv_(y, p, value=-0.1)',
        'n.mul_(0.9).add_(y, alpha=0.1)', 'n.lerp_(y, 0.1)', 'n.normal_()', 'n.uniform_()',
        'n.uniform_(-0.1, 0.1)', 'n.bernoulli_(0.5)', 'n.random_(5)', 'n.exponential_()',
        'n.triu_()', 'n.masked_fill_(m, float("-inf"))', 'n.copy_(d)', 'n.data.copy_(y)',
        'n.data.mul_(0.5)', 'n.detach().zero_()', 'n.t_().t_()', 'n.unsqueeze_(0).squeeze_(0)',
        'n.zero_().add_(y)', 'n.logical_not_()', 'n.floor_divide_(2)', 'n.remainder_(1.5)',
        'n.eq_(y)', 'k.add_(1)', 'k.zero_()', 'F.relu(n, inplace=True)', 'fw.relu_(n)',
        'fw.add(x, y, out=n)', 'fw.mul(x, 2, out=n)', 'fw.exp(x, out=n)',
        'fw.matmul(sq, sq, out=sq2)', 'fw.mm(sq, sq, out=sq2)', 'fw.sum(x, 1, out=v2)',
        'fw.cat([x, y], out=n4)', 'fw.maximum(x, y, out=n)', 'fw.clamp(x, 0, 1, out=n)',
        'iadd(n, y)', 'imul(n, 0.5)', 'n.addmm_(x, sq)', 'sq2.addmm_(sq, sq, beta=0.5, alpha=0.5)',
        'n.swapaxes_(0, 1).swapaxes_(0, 1)', 'n.resize_(2, 4)',
    ),
    "further products": (
        'fw.matmul(x, W)', 'sq @ sq', 'b @ b', 'b @ b.transpose(1, 2)', 'b @ sq',
        'q @ q.transpose(-2, -1)', 'x @ v4', 'v4 @ sq', 'fw.mv(sq, v4)', 'sq.mm(sq)',
        'fw.inner(x, y)', 'fw.vdot(v, v)', 'fw.ger(v, w)', '(v * v).sum()',
        "fw.einsum('ij,jk->ik', sq, sq)", "fw.einsum('bij,bjk->bik', b, b)",
        "fw.einsum('i,j->ij', v, w)", "fw.einsum('ii->i', sq)", "fw.einsum('ij->', x)",
        "fw.einsum('bhid,bhjd->bhij', q, q)", 'fw.baddbmm(b, b, b)', 'fw.addmv(v4, sq, v4)',
        'fw.addr(sq, v4, v4)', 'fw.addbmm(sq, b, b)', 'fw.linalg.slogdet(sq)', 'fw.logdet(spd)',
        'fw.linalg.eigvalsh(spd)', 'fw.linalg.lstsq(sq, sq)',
        'fw.linalg.solve_triangular(sq, sq, upper=True)', 'fw.cholesky_solve(sq, spd)',
        'fw.linalg.svdvals(sq)', 'fw.linalg.matrix_rank(sq)', 'fw.matrix_exp(sq)',
        'fw.cross(c3, c3, dim=1)', 'fw.linalg.vecdot(x, y)', 'fw.chain_matmul(sq, sq)',
    ),
    "functions of networks": (
        "F.mse_loss(x, y, reduction='sum')", "F.mse_loss(x, y, reduction='none')",
        "F.l1_loss(x, y, reduction='none')", 'F.smooth_l1_loss(x, y, beta=0.5)',
        'F.cross_entropy(x, c, label_smoothing=0.1)', 'F.cross_entropy(x, c, weight=v4)',
        "F.cross_entropy(x, c, reduction='none')", "F.cross_entropy(x, c, reduction='sum')",
        'F.cross_entropy(x, c, ignore_index=1)', 'F.cross_entropy(x, p)', 'F.cross_entropy(b, g)',
        "F.nll_loss(x, c, reduction='sum')", 'F.nll_loss(F.log_softmax(x, dim=1), c)',
        "F.binary_cross_entropy(p, p, reduction='none')", 'F.binary_cross_entropy(p, p, weight=p)',
        'F.binary_cross_entropy_with_logits(x, p, pos_weight=v4)',
        "F.binary_cross_entropy_with_logits(x, p, reduction='sum')",
        "F.kl_div(x, p, reduction='batchmean')",
        "F.kl_div(x, y, reduction='batchmean', log_target=True)", 'F.poisson_nll_loss(x, p)',
        'F.gaussian_nll_loss(x, y, p)', 'F.hinge_embedding_loss(x, sgn)',
        'F.margin_ranking_loss(x, y, sgn)', 'F.cosine_embedding_loss(x, y, sgn[:, 0])',
        'F.triplet_margin_loss(x, y, p)', 'F.soft_margin_loss(x, sgn)', 'F.multi_margin_loss(x, c)',
        'F.multilabel_soft_margin_loss(x, p)', 'F.relu6(x)', 'F.gelu(x, approximate="tanh")',
        'F.selu(x)', 'F.celu(x)', 'F.prelu(x, s1)', 'F.rrelu(x)', 'F.softsign(x)',
        'F.softmin(x, dim=1)', 'F.logsigmoid(x)', 'F.hardsigmoid(x)', 'F.hardshrink(x)',
        'F.softshrink(x)', 'F.tanhshrink(x)', 'F.threshold(x, 0.1, 0.0)', 'F.leaky_relu(x, 0.2)',
        'F.softmax(x, dim=0)', 'F.softmax(x, dim=-1, dtype=fw.float64)', 'F.gumbel_softmax(x)',
        'F.gumbel_softmax(x, hard=True)', 'F.dropout(x, 0.5, training=False)',
        'F.dropout(x, p=0.1, training=True)', 'F.dropout2d(im, 0.5)', 'F.alpha_dropout(x, 0.5)',
        'F.normalize(x, dim=0)', 'F.normalize(x, p=1, dim=1)', 'F.cosine_similarity(x, y, dim=0)',
        'F.pairwise_distance(x, y, p=1)', 'F.group_norm(im, 2)', 'F.group_norm(im, 2, v2, v2)',
        'F.instance_norm(im)', 'F.batch_norm(im, z2f, v2, training=False)',
        'F.batch_norm(im, z2f, v2, training=True)', 'F.rms_norm(x, (4,), v4)',
        'F.local_response_norm(im, 2)', 'F.embedding(g, W)', 'F.embedding(c, W, padding_idx=0)',
        'F.embedding_bag(g, W)', 'F.one_hot(c)', 'F.one_hot(c, 4).float()',
        'F.pad(x, (1, 1, 1, 1))', 'F.pad(x, (0, 2), value=1.0)', "F.pad(b, (1, 1), mode='reflect')",
        "F.pad(im, (1, 1, 1, 1), mode='replicate')", "F.pad(b, (1, 1), mode='circular')",
        'F.conv1d(b, cw1, padding=1)', 'F.conv1d(b, cw1, bias3, stride=2)', 'F.conv2d(im, cw)',
        'F.conv2d(im, cw, bias3, stride=2, padding=1)', 'F.conv2d(im, depthwise, groups=2)',
        'F.conv3d(im[None], cw3)', 'F.conv_transpose1d(b, ct1)',
        'F.conv_transpose2d(im, ct, stride=2)', 'F.max_pool1d(b, 2)',
        'F.max_pool2d(im, 2, stride=1)', 'F.max_pool2d(im, 3, stride=2, padding=1)',
        'F.max_pool2d(im, 2, return_indices=True)', 'F.max_pool3d(im, 2)', 'F.avg_pool1d(b, 2)',
        'F.avg_pool2d(im, 3, stride=1, padding=1)', 'F.avg_pool3d(im, 2)', 'F.lp_pool2d(im, 2, 2)',
        'F.adaptive_avg_pool1d(b, 2)', 'F.adaptive_avg_pool2d(im, (2, 3))',
        'F.adaptive_max_pool2d(im, 2)', 'F.adaptive_max_pool1d(b, 1)',
        'F.interpolate(im, size=(3, 3))', 'F.interpolate(b, scale_factor=2)',
        "F.interpolate(im, size=(4, 4), mode='bilinear', align_corners=True)",
        "F.interpolate(im, scale_factor=2, mode='bicubic')",
        "F.interpolate(b, size=8, mode='linear')", "F.interpolate(im, size=(3, 3), mode='area')",
        'F.grid_sample(im, grid)', 'F.affine_grid(theta, (1, 2, 3, 3))',
        'F.scaled_dot_product_attention(q, q, q, is_causal=True)',
        'F.scaled_dot_product_attention(q, q, q, attn_mask=causal)', 'F.linear(b, W, bias)',
        'F.linear(v4, W)', 'F.bilinear(x, x, W3)', 'F.fold(cols, (3, 3), 2)',
        'F.pixel_unshuffle(im, 2)', 'F.channel_shuffle(im4, 2)', 'F.glu(x, dim=1)', 'F.silu(x) * y',
        'F.ctc_loss(logp, targets, in_len, out_len)',
    ),
    "modules": (
        'linear(x)', 'linear(b)', 'no_bias(x)', 'deep(x)', 'nn.ReLU()(x)', 'relu(x)', 'gelu(x)',
        'softmax(x)', 'flatten(b)', 'identity(x)', 'layer_norm(x)', 'rms_norm(x)', 'batch_eval(x)',
        'batch_train(x)', 'batch2d_eval(im)', 'batch2d_train(im)', 'group_norm(im)',
        'instance_norm(im)', 'dropout(x)', 'dropout_eval(x)', 'embedding(c)', 'embedding(g)',
        'conv1d(b)', 'conv2d(im)', 'max_pool(im)', 'avg_pool(im)', 'gru_cell(x, x3)',
        'lstm_cell(x)', 'rnn_cell(x, x)', 'gru(b)', 'lstm(b)', 'attention(b, b, b)',
        'attention(b, b, b, need_weights=False)', 'encoder(b)', 'mse(x, y)', 'cross(x, c)',
        'bce(x, p)', 'l1(x, y)', 'no_grad(net, x)', 'no_grad(mlp, x)', 'no_grad(deep, x)',
        'no_grad(conv2d, im)', 'no_grad(layer_norm, x)', 'no_grad(batch_eval, x)',
        'inference(mlp, x)', 'net.weight', 'net.train()', 'net.eval()', 'mlp.train()',
        'list(mlp.parameters())', 'list(deep.named_parameters())', 'deep.state_dict()',
        'deep.load_state_dict(kept)', 'deep.zero_grad()', 'net.requires_grad_(True)',
        'sum(t.numel() for t in deep.parameters())', 'next(mlp.parameters()).device',
        'list(mlp.children())', 'list(deep.modules())', 'mlp[0]', 'nn.Linear(4, 4)',
        'nn.Sequential(nn.Linear(4, 4), nn.ReLU())', 'nn.LayerNorm(4)', 'nn.Embedding(5, 4)',
        'nn.Conv2d(2, 3, 3)', 'nn.Dropout(0.5)', 'nn.init.xavier_uniform_(W)',
        'nn.init.kaiming_normal_(W)', 'nn.init.zeros_(bias)', 'nn.init.normal_(W, 0.0, 0.02)',
        'nn.utils.parameters_to_vector(net.parameters())',
    ),
    "steps of training": (
        'backward(xg, xg.sum())', 'backward(xg, (xg * y).sum())', 'backward(xg, xg.exp().mean())',
        'backward(xg, (xg - y).pow(2).mean())', 'backward(xg, F.mse_loss(xg, y))',
        'backward(xg, F.cross_entropy(xg, c))', 'backward(xg, F.softmax(xg, -1).sum())',
        'backward(xg, (xg @ W).relu().sum())', 'backward(xg, F.layer_norm(xg, (4,)).sum())',
        'backward(xg, xg[0].sum())', 'backward(xg, xg[:, 1:].sum())',
        'backward(xg, xg.max(1)[0].sum())', 'backward(xg, xg.max())',
        'backward(xg, xg.reshape(4, 2).t().sum())', 'backward(xg, fw.cat([xg, xg]).sum())',
        'backward(xg, fw.stack([xg, y]).sum())', 'backward(xg, xg.norm())',
        'backward(xg, xg.std())', 'backward(xg, fw.where(m, xg, y).sum())',
        'backward(xg, xg.clamp(0, 1).sum())', 'backward(xg, xg[m].sum())',
        'backward(xg, xg[z2, i2].sum())', 'backward(xg, xg.gather(1, g).sum())',
        'backward(xg, xg.sigmoid().log().sum())', 'backward(xg, F.gelu(xg).sum())',
        'backward(xg, F.binary_cross_entropy_with_logits(xg, p))',
        "backward(xg, fw.einsum('ij,kj->ik', xg, y).sum())", 'backward(xg, xg.cumsum(1).sum())',
        'backward(xg, fw.logsumexp(xg, 1).sum())', 'backward(xg, F.normalize(xg).sum())',
        'xg.sum().backward()', '(xg * 2).sum()', 'xg.detach()', 'xg * xg', 'xg @ W', 'xg.sum()',
        'xg[0]', 'xg.view(-1)', 'xg.t()', 'xg.clone()', 'xg.double()', '(xg + y).retain_grad()',
        'xg == y', 'xg.argmax(1)', 'fw.zeros_like(xg)', 'xg * 2.0', 'xg.tril()', 'xg.cumsum(0)',
        'xg.prod()', 'fw.where(m, xg, y)', 'xg.matmul(W)', 'fw.addmm(bias, xg, W)',
        'hooked(xg * 2)', 'fw.autograd.grad(xg.sum(), xg)',
        'fw.autograd.grad((xg ** 3).sum(), xg, create_graph=True)', 'second(xg)',
        'fw.func.grad(cubed)(x)', 'fw.func.vmap(cubed)(x)', 'no_grad(fw.add, xg, y)',
        'no_grad(fw.exp, xg)', 'train(net, x, y)', 'train(mlp, x, y[:, :2])', 'train(deep, x, y)',
        'classify(deep, x, c)', 'train(normed, x, y)', 'train(gru_cell, x, y[:, :3])',
        'train(conv2d, im, picture)', 'sgd1.step()', 'sgd4.step()', 'sgd20.step()',
        'momentum4.step()', 'momentum20.step()', 'adam1.step()', 'adam4.step()', 'adam20.step()',
        'adamw4.step()', 'adamw20.step()', 'fused4.step()', 'foreach20.step()', 'single4.step()',
        'rmsprop4.step()', 'adagrad4.step()', 'sgd4.zero_grad(set_to_none=False)',
        'adam20.zero_grad()', 'nn.utils.clip_grad_norm_(four, 1.0)',
        'nn.utils.clip_grad_norm_(twenty, 1.0)', 'nn.utils.clip_grad_value_(four, 1.0)',
        'nn.utils.get_total_norm(grads)', 'schedule.step()', 'cosine.step()', 'plateau.step(1.0)',
        'schedule.get_last_lr()', 'whole_step(mlp, mlp_adam, x, y[:, :2])',
        'whole_step(deep, deep_sgd, x, y)', 'fw._foreach_add(four_plain, 1.0)',
        'fw._foreach_mul_(four_plain, 0.5)', 'fw.utils.data.default_collate([x, y])',
    ),
}  # fmt: skip


def program_operands(fw: Any, given: dict[str, Any]) -> dict[str, Any]:
    """What the calls of this file are made with besides the operands of the others."""
    nn, optim, x, y = fw.nn, fw.optim, given["x"], given["y"]
    F = nn.functional

    def leaves(count: int) -> list[Any]:
        """Parameters with gradients."""
        made = [nn.Parameter(fw.linspace(-1, 1, 16).reshape(4, 4).clone()) for _ in range(count)]
        for parameter in made:
            parameter.grad = fw.ones(4, 4) * 0.01
        return made

    def backward(leaf: Any, loss: Any) -> None:
        leaf.grad = None
        loss.backward()

    def train(module: Any, value: Any, wanted: Any) -> None:
        module.zero_grad()
        F.mse_loss(module(value), wanted).backward()

    def classify(module: Any, value: Any, classes: Any) -> None:
        module.zero_grad()
        F.cross_entropy(module(value), classes).backward()

    def whole_step(module: Any, optimizer: Any, value: Any, wanted: Any) -> None:
        optimizer.zero_grad()
        F.mse_loss(module(value), wanted).backward()
        optimizer.step()

    def no_grad(call: Any, *values: Any) -> Any:
        with fw.no_grad():
            return call(*values)

    def inference(call: Any, *values: Any) -> Any:
        with fw.inference_mode():
            return call(*values)

    def second(leaf: Any) -> Any:
        (first,) = fw.autograd.grad((leaf**3).sum(), leaf, create_graph=True)
        return fw.autograd.grad(first.sum(), leaf)

    def hooked(tensor: Any) -> None:
        tensor.register_hook(abs).remove()

    def iadd(tensor: Any, value: Any) -> None:
        tensor += value

    def imul(tensor: Any, value: Any) -> None:
        tensor *= value

    def add_at(tensor: Any, key: Any, value: Any) -> None:
        tensor[key] += value

    deep = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 4))
    mlp, four, twenty = given["mlp"], leaves(4), leaves(20)
    scheduled = optim.SGD(leaves(1), lr=0.1)
    fixed = {
        "d": x.double(), "h": x.bfloat16(), "e": x.half(), "k": fw.arange(8) % 5,
        "u": fw.arange(8).to(fw.uint8), "s_int": fw.tensor(1), "s1": fw.full((1,), 0.25),
        "sq2": fw.ones(4, 4), "v2": fw.ones(2), "z2f": fw.zeros(2), "n4": fw.ones(4, 4),
        "sgn": y.sign(), "bias3": fw.ones(3), "depthwise": fw.ones(2, 1, 3, 3),
        "cw3": fw.ones(3, 1, 1, 3, 3), "ct1": fw.ones(4, 3, 2), "ct": fw.ones(2, 3, 2, 2),
        "grid": fw.zeros(1, 3, 3, 2), "theta": fw.ones(1, 2, 3), "W3": fw.ones(3, 4, 4),
        "cols": fw.ones(1, 8, 4), "causal": fw.ones(4, 4).tril().bool(),
        "picture": fw.ones(1, 3, 6, 6), "x3": x[:, :3].clone(),
        "array64": np.linspace(0, 1, 8), "np": np, "copy": copy,
        "logp": fw.linspace(-1, 2, 24).reshape(6, 1, 4).log_softmax(-1),
        "targets": fw.tensor([[1, 2]]), "in_len": fw.tensor([6]), "out_len": fw.tensor([2]),
    }  # fmt: skip
    modules = {
        "linear": nn.Linear(4, 3), "no_bias": nn.Linear(4, 3, bias=False), "deep": deep,
        "relu": nn.ReLU(), "gelu": nn.GELU(), "softmax": nn.Softmax(-1), "flatten": nn.Flatten(),
        "identity": nn.Identity(), "layer_norm": nn.LayerNorm(4), "rms_norm": nn.RMSNorm(4),
        "batch_eval": nn.BatchNorm1d(4).eval(), "batch_train": nn.BatchNorm1d(4),
        "batch2d_eval": nn.BatchNorm2d(2).eval(), "batch2d_train": nn.BatchNorm2d(2),
        "group_norm": nn.GroupNorm(2, 2), "instance_norm": nn.InstanceNorm2d(2),
        "dropout": nn.Dropout(0.5), "dropout_eval": nn.Dropout(0.5).eval(),
        "embedding": nn.Embedding(5, 4), "conv1d": nn.Conv1d(4, 3, 2),
        "conv2d": nn.Conv2d(2, 3, 3, padding=1), "max_pool": nn.MaxPool2d(2),
        "avg_pool": nn.AvgPool2d(2), "gru_cell": nn.GRUCell(4, 3), "lstm_cell": nn.LSTMCell(4, 3),
        "rnn_cell": nn.RNNCell(4, 4), "gru": nn.GRU(4, 3, batch_first=True),
        "lstm": nn.LSTM(4, 3, batch_first=True),
        "attention": nn.MultiheadAttention(4, 2, batch_first=True),
        "encoder": nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True),
        "mse": nn.MSELoss(), "cross": nn.CrossEntropyLoss(), "bce": nn.BCEWithLogitsLoss(),
        "l1": nn.L1Loss(), "normed": nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.GELU()),
    }  # fmt: skip
    steps = {
        "sgd1": optim.SGD(leaves(1), lr=1e-4), "sgd4": optim.SGD(leaves(4), lr=1e-4),
        "sgd20": optim.SGD(leaves(20), lr=1e-4),
        "momentum4": optim.SGD(leaves(4), lr=1e-4, momentum=0.9, weight_decay=1e-4),
        "momentum20": optim.SGD(leaves(20), lr=1e-4, momentum=0.9, nesterov=True),
        "adam1": optim.Adam(leaves(1), lr=1e-4), "adam4": optim.Adam(leaves(4), lr=1e-4),
        "adam20": optim.Adam(leaves(20), lr=1e-4), "adamw4": optim.AdamW(leaves(4), lr=1e-4),
        "adamw20": optim.AdamW(leaves(20), lr=1e-4),
        "fused4": optim.AdamW(leaves(4), lr=1e-4, fused=True),
        "foreach20": optim.Adam(leaves(20), lr=1e-4, foreach=True),
        "single4": optim.Adam(leaves(4), lr=1e-4, foreach=False),
        "rmsprop4": optim.RMSprop(leaves(4), lr=1e-4),
        "adagrad4": optim.Adagrad(leaves(4), lr=1e-4),
        "mlp_adam": optim.Adam(mlp.parameters(), lr=1e-4),
        "deep_sgd": optim.SGD(deep.parameters(), lr=1e-4, momentum=0.9),
        "schedule": optim.lr_scheduler.StepLR(scheduled, 10),
        "cosine": optim.lr_scheduler.CosineAnnealingLR(optim.SGD(leaves(1), lr=0.1), 1000),
        "plateau": optim.lr_scheduler.ReduceLROnPlateau(optim.SGD(leaves(1), lr=0.1)),
        "four": four, "twenty": twenty, "grads": [leaf.grad for leaf in four],
        "four_plain": [fw.ones(4) for _ in range(4)],
    }  # fmt: skip
    helpers = {
        "backward": backward, "train": train, "classify": classify, "whole_step": whole_step,
        "no_grad": no_grad, "inference": inference, "second": second, "hooked": hooked,
        "iadd": iadd, "imul": imul, "add_at": add_at, "cubed": lambda t: (t**3).sum(),
        "kept": deep.state_dict(),
    }  # fmt: skip
    return fixed | modules | steps | helpers
