"""Calls on thousands to millions of elements, as text that both frameworks evaluate."""

from __future__ import annotations

from typing import Any

import numpy as np

# `fw` is the framework, `F` its `nn.functional`; the other names are those of `larger_operands`.
# "!" stands before calls of which no gradient is asked.
LARGER_CALLS: dict[str, tuple[str, ...]] = {
    "order": (
        'x.sort()', 'x.sort(0)', 'x.sort(descending=True)', 'v.sort()', 'v.sort(stable=True)',
        '!vi.sort()', '!vi32.sort()', '!vu8.sort()', '!vb.sort()', 'xd.sort(-1)', '!xh.sort()',
        '!x.argsort()', '!v.argsort(descending=True)', 'x.topk(5)', 'x.topk(50, 0)', 'v.topk(100)',
        'v.topk(10, largest=False)', '!v.unique()', '!vi.unique()',
        '!vi.unique(return_inverse=True, return_counts=True)', '!xi[:, :2].unique(dim=0)',
        '!fw.unique_consecutive(vi)', '!fw.searchsorted(sv, v)', '!fw.bucketize(x, sv)',
        '!fw.bincount(vi)', '!fw.bincount(vi, weights=w)', '!fw.histc(v, 100)',
        '!fw.histogram(v, 50)',
    ),
    "running": (
        'x.cumsum(0)', 'x.cumsum(1)', 'v.cumsum(0)', '!vi.cumsum(0)', 'x.cumprod(1)',
        'x.cumprod(0)', 'x.logcumsumexp(1)', 'x.cummax(1)', 'x.cummin(0)',
    ),
    "medians": (
        'v.median()', 'x.median(1)', 'x.median(0)', 'x.nanmedian(1)',
        'x[:1000,:1000].quantile(0.3)', 'x.quantile(0.5, dim=1)', 'x.nanquantile(0.5, dim=1)',
        'x.kthvalue(7)', 'x.kthvalue(3, 0)', 'xi.mode(1)', '!x.mode()',
    ),
    "indices": (
        'x.scatter(1, gx, y)', 'x.scatter_add(1, gx, y)', 'x.scatter_add(0, gx, y)',
        "x.scatter_reduce(1, gx, y, 'amax')", "x.scatter_reduce(0, gx, y, 'mean')",
        'x.gather(1, gx)', 'x.gather(0, gx)', 'x.index_add(0, ix, y)', 'x.index_add(1, ix, y)',
        'x.index_select(0, ix)', 'x.index_select(1, ix)', 'x.index_copy(0, ix, y)',
        'x.index_fill(1, ix, 0.5)', 'fw.take_along_dim(x, gx, 1)', 'x[ix]', 'x[:, ix]',
        'x[gx[0], ix]', 'x.take(gx)', 'v[vix]', 'v[vm]', 'x[xm]',
    ),
    "masks": (
        'fw.where(xm, x, y)', 'fw.where(xm, x, 0.0)', 'fw.where(xm, 1.0, 0.0)',
        'x.masked_fill(xm, 0.5)', 'x.masked_select(xm)', 'x.masked_scatter(xm, y)',
        '!xm.nonzero()', '!x.nonzero()', '!vm.nonzero(as_tuple=True)', '!put(n, xm, 0.5)',
        '!put(n, ix, y)', '!put(n, (slice(None), ix), y)',
        '!put(n, (slice(None), slice(None,None,2)), 0.5)', '!add_at(n, ix, y)',
        '!n.index_put_((ix, ix), row, accumulate=True)',
    ),
    "arranged": (
        'F.pad(x, (3,5,2,1))', "F.pad(im, (2,2,2,2), mode='reflect')",
        "F.pad(im, (2,2,2,2), mode='replicate')", "F.pad(im, (2,2,2,2), mode='circular')",
        "F.pad(sig, (4,4), mode='reflect')", 'x.roll(3, 1)', 'x.roll((2,3), (0,1))', 'v.roll(100)',
        'x.flip(0)', 'x.flip((0,1))', 'v.flip(0)', 'x.rot90()', 'x.repeat(2, 2)',
        'x.repeat_interleave(3, 0)', 'x.repeat_interleave(3, 1)', 'v.repeat_interleave(2)',
        'x.tile((2,))', 'fw.cat([x, y])', 'fw.cat([x, y], 1)', 'fw.stack([x, y])',
        'fw.stack([x, y], 2)', 'fw.cat(x.split(7, 1), 1)', 'x.T.contiguous()', 'x.t() + y',
    ),
    "turned": (
        'xT + xT', 'xs * 2', 'xs.sum(1)', 'xT.sum(1)', 'xT.exp()', 'xT.softmax(1)',
        'xs.contiguous()', 'x3.permute(2,0,1).contiguous()', 'x3.transpose(1,2).reshape(-1)',
    ),
    "windows and triangles": (
        'x.unfold(1, 8, 4).sum(-1)', 'x.tril()', 'x.triu(1)', 'x.diagonal().clone()',
        'fw.diag_embed(x[:50])', 'fw.diff(x)',
        "fw.meshgrid(row, row, indexing='ij')[0].contiguous()", '!fw.tril_indices(side, side)',
    ),
    "images": (
        'F.interpolate(im, scale_factor=2)', "F.interpolate(im, scale_factor=2, mode='bilinear')",
        "F.interpolate(im, scale_factor=2, mode='bicubic')",
        "F.interpolate(im, scale_factor=0.5, mode='bilinear')",
        "F.interpolate(im, scale_factor=0.5, mode='bilinear', antialias=True)",
        "F.interpolate(im, scale_factor=0.5, mode='area')",
        "F.interpolate(im, scale_factor=2, mode='nearest-exact')",
        "F.interpolate(im3, scale_factor=2, mode='trilinear')",
        'F.interpolate(im3, scale_factor=2)', "F.interpolate(sig, scale_factor=2, mode='linear')",
        'F.grid_sample(im, grid, align_corners=False)',
        "F.grid_sample(im, grid, mode='nearest', align_corners=False)", 'F.pixel_shuffle(im, 2)',
        'F.pixel_unshuffle(im, 2)', 'F.unfold(im, 3, padding=1)',
        'F.fold(F.unfold(im, 3, padding=1), (hw, hw), 3, padding=1)',
    ),
    "spectra": (
        'fw.fft.fft(x)', 'fw.fft.rfft(x)', 'fw.fft.fft2(x)', 'fw.fft.ifft(xc)', 'fw.fft.fftn(im)',
        'fw.fft.fftshift(x)', 'fw.stft(v, 64, window=fw.ones(64), return_complex=True)',
    ),
    "products": (
        "fw.einsum('ij,kj->ik', x[:200], y[:200])", "fw.einsum('bij,bjk->bik', x3, x3)",
        "fw.einsum('bij,bj->bi', x3, x3[:,0])", "fw.einsum('ij,ij->i', x, y)",
        "fw.einsum('ij,ij->', x, y)", "fw.einsum('ij->ji', x)",
        "fw.einsum('bij,bkj->bik', x3, x3)", "fw.einsum('i,j->ij', row, row)",
        "fw.einsum('bchw,cd->bdhw', im, x[:8,:8])", "fw.einsum('bchw,bchw->bc', im, im)",
        'fw.bmm(bm, bm)', 'bm @ bm.transpose(1,2)', 'bm @ row[:8]', 'b3 @ b3', 'x @ row',
        'row @ x', 'fw.dot(v, w)', 'fw.outer(row, row)', 'x[:,:3] @ y[:3]', 'x @ y[:,:2]',
        'x[:5] @ y', 'fw.kron(x[:20,:20], y[:20,:20])', 'fw.tensordot(im, k1[:,:,0,0], ([1],[1]))',
        'fw.addmm(x, x[:,:64], y[:64])', 'fw.baddbmm(bm, bm, bm)',
    ),
    "linear algebra": (
        'fw.linalg.cholesky(spd)', 'fw.linalg.qr(m)', 'fw.linalg.svd(m)', 'fw.linalg.svdvals(m)',
        'fw.linalg.eigh(spd)', 'fw.linalg.eigvalsh(spd)', '!fw.linalg.eig(m)',
        'fw.linalg.solve(m, mv)', 'fw.linalg.inv(m)', 'fw.linalg.det(m)', 'fw.linalg.slogdet(m)',
        'fw.linalg.lstsq(m, mv).solution', 'fw.linalg.pinv(m)', 'fw.linalg.matrix_exp(m/20)',
        'fw.linalg.lu_factor(m)', 'fw.linalg.solve_triangular(m, mv, upper=True)',
        'fw.cholesky_solve(mv, spd)', 'fw.linalg.cholesky(bspd)', 'fw.linalg.solve(bm, bm)',
        'fw.linalg.inv(bm)', 'fw.linalg.det(bm)', 'fw.linalg.eigh(bspd)', 'fw.linalg.svd(bm)',
        'fw.linalg.qr(bm)', 'fw.linalg.inv(b3)', 'fw.linalg.det(b3)', 'fw.linalg.cross(b3, b3)',
    ),
    "norms": (
        'fw.linalg.norm(x)', 'fw.linalg.vector_norm(x, 3, dim=1)', 'fw.linalg.matrix_norm(bm)',
        'x.norm(dim=1)', 'x.norm(1)', "x.norm(float('inf'), 0)",
    ),
    "pooling": (
        'F.max_pool2d(im, 2)', 'F.max_pool2d(im, 3, stride=1, padding=1)',
        'F.max_pool2d(im, 3, stride=2, padding=1)', 'F.max_pool2d(im, 2, return_indices=True)',
        'F.avg_pool2d(im, 2)', 'F.avg_pool2d(im, 3, stride=1, padding=1)',
        'F.adaptive_avg_pool2d(im, 7)', 'F.adaptive_avg_pool2d(im, 1)',
        'F.adaptive_max_pool2d(im, 5)', 'F.max_pool1d(sig, 2)', 'F.avg_pool1d(sig, 3, 1)',
        'F.max_pool3d(im3, 2)', 'F.avg_pool3d(im3, 2)', 'F.lp_pool2d(im, 2, 2)',
        'F.max_unpool2d(*F.max_pool2d(im, 2, return_indices=True), 2)',
    ),
    "convolutions": (
        'F.conv2d(im, k3, padding=1)', 'F.conv2d(im, k3, stride=2)',
        'F.conv2d(im, k3, padding=2, dilation=2)', 'F.conv2d(im, kdw, padding=1, groups=8)',
        'F.conv2d(im, kg, padding=1, groups=2)', 'F.conv2d(im, k5, padding=2)', 'F.conv2d(im, k1)',
        'F.conv_transpose2d(im, kt, stride=2)', 'F.conv_transpose2d(im, kdw, stride=2, groups=8)',
        'F.conv1d(sig, k1d, padding=2)', 'F.conv1d(sig, k1d, stride=2, dilation=2)',
        'F.conv_transpose1d(sig, k1dt, stride=2)', 'F.conv3d(im3, k3d, padding=1)',
        'F.conv_transpose3d(im3, k3d, stride=2)',
    ),
    "rows of tables": (
        'F.embedding(bag, emb)', 'F.embedding_bag(bag, emb, off)',
        "F.embedding_bag(bag, emb, off, mode='sum')", "F.embedding_bag(bag, emb, off, mode='max')",
    ),
    "losses": (
        'F.ctc_loss(logp, tg, il, tl)', 'F.cross_entropy(x, cls)',
        'F.cross_entropy(x, cls, label_smoothing=0.1)', 'F.nll_loss(x.log_softmax(1), cls)',
        'F.binary_cross_entropy_with_logits(x, y.sigmoid())', 'F.mse_loss(x, y)',
        'F.smooth_l1_loss(x, y)',
        "F.kl_div(x.log_softmax(1), y.softmax(1), reduction='batchmean')",
        'F.cosine_similarity(x, y)', 'F.triplet_margin_loss(x, y, xT)',
        'F.margin_ranking_loss(v, w, w.sign())', 'F.gaussian_nll_loss(x, y, p)',
        'F.multi_margin_loss(x, cls)',
    ),
    "distances": (
        'fw.cdist(pts, pts2)', 'fw.cdist(pts, pts2, p=1)', 'F.pdist(pts)',
        'F.pairwise_distance(x, y)', 'F.normalize(x)',
    ),
    "draws": (
        '!fw.rand(N)', '!fw.randn(N)', '!fw.randint(0, 10, (N,))', '!fw.randperm(N)',
        '!n.normal_()', '!n.uniform_()', '!n.exponential_()', '!n.geometric_(0.3)', '!n.cauchy_()',
        '!n.log_normal_()', '!n.bernoulli_(0.3)', '!fw.bernoulli(p.clamp(0,1))', '!fw.poisson(p)',
        '!fw.multinomial(p[:50], 10)', '!fw.multinomial(p[:50], 10, replacement=True)',
        '!fw.normal(x, p)', '!fw.distributions.Gamma(p, p).sample()',
        '!fw.distributions.Beta(p, p).sample()', '!fw.distributions.Dirichlet(p).sample()',
        '!fw.distributions.Categorical(p).sample()', '!fw.distributions.StudentT(p+1).sample()',
        '!fw.distributions.Laplace(x, p).sample()', '!fw.distributions.Gumbel(x, p).sample()',
        '!fw.distributions.VonMises(x, p).sample()', 'F.dropout(x, 0.3)', 'F.gumbel_softmax(x)',
    ),
    "other dtypes": (
        'xd + xd', 'xd.exp()', 'xd.sum(1)', 'xd.softmax(1)', '!xh + xh', '!xh.exp()', '!xh.sum(1)',
        '!xh.softmax(1)', '!xh.float()', '!xh @ xh[:, :64]', '!xe + xe', '!xe.exp()', '!xe.sum(1)',
        '!vi + vi', '!vi * 3', '!vi // 7', '!vi % 7', '!vi / 7', '!vi.sum()', '!vi.max()',
        '!vi.argmax()', '!vi.float()', '!vi32.float()', '!vu8.float() / 255', '!vu8 + vu8',
        '!vi == 3', '!vi & 15', '!vi << 2', '!vi.abs()', '!vi.clamp(3, 500)', '!vi.to(fw.int32)',
        '!vi.bool()', '!v.long()', '!v.bool()', '!v.double()', '!v.half()', '!v.bfloat16()',
        '!vb.sum()', '!vb.any()', '!vb.float()', '!~vb', '!vb & vm', '!vb.float().mean()',
        '!(vi == 3).sum()',
    ),
    "complex numbers": (
        'xc + xc', 'xc * xc', 'xc.abs()', 'xc.sum()', 'xc.exp()', 'xc @ xc[:, :16]',
        'xc.conj() * xc', 'fw.view_as_real(xc).contiguous()', 'fw.complex(x, y)', 'xc.angle()',
    ),
    "elementwise": (
        'x + y', 'x * 2 + 1', 'x - x.mean(1, keepdim=True)', 'x ** 2', 'x ** 3', 'p ** 0.3',
        'p ** y', 'x.sin()', 'x.tan()', 'x.asinh()', 'x.erf()', 'p.lgamma()', 'p.digamma()',
        'x.sigmoid()', 'F.gelu(x)', 'F.silu(x)', 'F.elu(x)', 'F.softplus(x)', 'F.leaky_relu(x)',
        'F.hardswish(x)', 'F.glu(x[:, :side//2*2])', 'F.prelu(x, row[:1])', 'F.rrelu(x)',
        'x.clamp(-1, 1)', 'x.clamp(y, y+1)', 'x.round()', 'x.round(decimals=2)', 'x.fmod(0.7)',
        'x.remainder(0.7)', '!x // 0.3', 'fw.atan2(x, y)', 'fw.hypot(x, y)', 'fw.logaddexp(x, y)',
        'fw.lerp(x, y, 0.3)', 'fw.addcmul(x, x, y)', 'fw.maximum(x, y)', 'fw.xlogy(p, p)',
        '!x.isnan()', '!x.isfinite().all()', '!fw.isclose(x, y)', '!fw.allclose(x, x)',
        '!fw.equal(x, x)', '!fw.isin(vi, vi[:50])', 'x.nan_to_num()',
    ),
    "reductions": (
        'x.sum()', 'x.sum(0)', 'x.mean((0,1))', 'x.std()', 'x.std(1)', 'x.var(0)',
        'fw.var_mean(x, 1)', 'x.max()', 'x.max(1)', 'x.max(0)', '!x.argmax(1)', '!x.argmax(0)',
        '!x.argmin()', 'x.amax(0)', 'fw.aminmax(x)', 'x.prod(1)', 'x.logsumexp(1)',
        'x.logsumexp(0)', '!x.count_nonzero(1)', 'x.nansum()', 'x.nanmean(1)',
    ),
    "normalized": (
        'x.softmax(1)', 'x.softmax(0)', 'x.log_softmax(1)', 'F.layer_norm(x, (side,))',
        'F.group_norm(im, 2)', 'F.batch_norm(im, None, None, training=True)',
        'F.instance_norm(im)', 'F.rms_norm(x, (side,))', 'F.local_response_norm(im, 3)',
    ),
    "of images": (
        'im.mean((2,3))', 'im.sum(1)', 'im.permute(0,2,3,1).contiguous()',
        'im.permute(0,2,3,1) @ k1[:,:,0,0].T', 'im.flatten(1).norm(dim=1)', 'im.amax((2,3))',
        'im * row[:8].view(1,8,1,1)', 'im.var((0,2,3))',
    ),
    "further": (
        '!F.one_hot(vi[:N//100], 1000)', '!fw.cov(x[:100])', '!fw.corrcoef(x[:100])',
        'fw.trapezoid(x)', 'fw.cumulative_trapezoid(x)', '!fw.vander(row, 4)',
        'fw.cross(b3, b3, dim=-1)', 'fw.renorm(x, 2, 0, 1.0)', 'fw.bucketize(v, sv).float() * v',
        "fw.segment_reduce(v, 'sum', lengths=fw.tensor([100, v.numel()-100]))",
    ),
    "channels last": (
        'F.conv2d(imL, k3, padding=1)', 'F.conv2d(imL, kdw, padding=1, groups=8)',
        'F.max_pool2d(imL, 2)', 'F.max_pool2d(imL, 3, 2, 1)', 'F.avg_pool2d(imL, 2)',
        'F.adaptive_avg_pool2d(imL, 1)', 'F.batch_norm(imL, None, None, training=True)',
        'F.group_norm(imL, 2)', 'F.interpolate(imL, scale_factor=2)',
        "F.interpolate(imL, scale_factor=2, mode='bilinear')", 'F.relu(imL)', 'imL + imL',
        'imL.mean((2,3))', 'imL.contiguous()', 'F.pad(imL, (1,1,1,1))', 'fw.cat([imL, imL], 1)',
        'F.pixel_shuffle(imL, 2)', 'imL[:, :, ::2, ::2]*2', 'imL.sum(1)',
    ),
    "float64": (
        'F.conv2d(imd, k3d64, padding=1)', 'F.conv1d(sigd, k1dd)', 'F.max_pool2d(imd, 2)',
        'F.avg_pool2d(imd, 2)', 'F.batch_norm(imd, None, None, training=True)',
        'F.layer_norm(xd, (side,))', 'xd @ xd[:, :64]', 'xd.cumsum(1)', 'xd.std(1)', 'xd.topk(5)',
        'xd.tanh()', 'xd.sigmoid()', 'F.gelu(xd)', 'xd.log_softmax(1)', 'xd.max(1)', 'xd.pow(2.5)',
        'F.linear(xd, xd[:64])', 'F.mse_loss(xd, xd*2)', 'F.cross_entropy(xd, cls)',
        'xd.gather(1, gx)', 'xd.index_select(0, ix)', 'xd.masked_fill(xm, 0.)', 'xd.median(1)',
        "F.interpolate(imd, scale_factor=2, mode='bilinear')",
    ),
    "halves": (
        '!F.conv2d(imh, k3h, padding=1)', '!F.linear(xh, xh[:64])', '!F.layer_norm(xh, (side,))',
        '!F.gelu(xh)', '!F.silu(xh)', '!xh.log_softmax(1)', '!xh.mean(1)', '!xh.std(1)',
        '!xh.max(1)', '!xh.cumsum(1)', '!xh * 2.0 + xh', '!xh.sqrt()', '!xh.T.contiguous()',
        '!fw.cat([xh, xh], 1)', '!F.max_pool2d(imh, 2)', '!F.avg_pool2d(imh, 2)',
        '!F.batch_norm(imh, None, None, training=True)', '!F.embedding(bag, embh)',
        '!F.cross_entropy(xh, cls)', '!xh.norm(dim=1)',
        '!F.scaled_dot_product_attention(qh, qh, qh)', '!xh.topk(5)', '!xh.argmax(1)',
        '!fw.where(xm, xh, xh*2)', '!xh.masked_fill(xm, 0.)', '!xh == xh', '!xh > 0',
        '!xh.gather(1, gx)', '!xh[ix]', '!xh.sum()', '!xh.abs().max()', '!xh.to(fw.float16)',
        '!xe @ xe[:, :64]', '!xe.softmax(1)', '!F.layer_norm(xe, (side,))', '!F.relu(xe)',
        '!xe.mean(1)',
    ),
    "whole numbers": (
        '!xi.sum(1)', '!xi.max(1)', '!xi.argmax(1)', '!xi.min(0)', '!xi.cumsum(1)',
        '!xi.float().mean()', '!xi.prod(1)', '!xi.sort(1)', '!xi.topk(5)', '!xi.gather(1, gx)',
        '!xi[ix]', '!xi.T.contiguous()', '!xi @ xi[:, :8]', '!xi.unique()', '!xi.any(1)',
        '!(xi > 5) & (xi < 500)', '!(xi > 5).sum(1)', '!(xi % 2 == 0)', '!xi.float()',
        '!xi.to(fw.int8)', '!vi32 + vi32', '!vi32 * 3', '!vi32.sum()', '!vi32.max()', '!vi32 // 7',
        '!vi32 > 5', '!vi32.cumsum(0)', '!vi32.clamp(0, 5)', '!vu8.sum()', '!vu8.max()',
        '!vu8 > 5', '!vu8.long()',
        '!vu8.reshape(-1,3)[:, 0].contiguous() if vu8.numel()%3==0 else vu8',
        '!vu8.float().mul(1/255).sub(.5)', '!vu8.bincount()',
    ),
    "truths": (
        '!vb & vb', '!vb.all()', '!vb.nonzero()', '!xm.sum(1)', '!xm.any(1)', '!xm.all(0)',
        '!xm.float()', '!xm.long()', '!~xm', '!xm.cumsum(1)', '!xm.T.contiguous()', '!xm ^ xm',
        '!xm == xm', '!fw.where(xm, 1, 0)', '!fw.where(xm)',
    ),
    "turned operands": (
        'xT.max(1)', 'xT.cumsum(1)', 'xT.sort(1)', 'xT @ y', 'xT.softmax(0)', 'xT * y',
        'xT.mean()', 'xT.std(0)', 'xT.gather(1, gx)', 'xT[ix]', 'xT.reshape(-1)',
        'xT.masked_fill(xm, 0.)', 'xT.flip(0)', 'xT.topk(3)', 'F.layer_norm(xT, (side,))',
        'F.linear(xT, y[:64])',
    ),
    "parts": (
        'xs.max(1)', 'xs.softmax(1)', 'xs.exp()', 'xs @ y[:xs.shape[1]]', 'xs.mean(0)',
        'xs.cumsum(0)', 'xs.reshape(-1)', 'xs + xs', 'xs * row[::2]', 'x[::2, ::2] + 1',
        'x[:, 1:-1].sum(1)', 'x[1:, :] - x[:-1, :]', 'x[:, 1:] - x[:, :-1]',
        'x[None, :, :].expand(3, -1, -1) * 2', 'x.unsqueeze(1) * col.unsqueeze(2)',
    ),
    "spread": (
        'row[:, None] - row[None, :]', '(row[:, None] - row[None, :]) ** 2', 'x.T @ x', 'x @ x.T',
        '(x * y).sum(-1)', '(x ** 2).sum(1).sqrt()', 'x / x.norm(dim=1, keepdim=True)',
        '(x - x.mean(0)) / x.std(0)', 'x.softmax(-1) @ y', 'x.abs().max(1)[0]',
        '(x > 0).float() * x', 'x.clone().fill_(0)',
    ),
    "three dimensions": (
        'x3.sum(1)', 'x3.sum(-1)', 'x3.mean((1,2))', 'x3.max(-1)', 'x3.softmax(-1)',
        'x3.transpose(1,2) + 1', 'x3.norm(dim=-1)', 'x3.cumsum(1)', 'x3.argmax(-1)', 'x3.flip(-1)',
        'x3.sort(-1)', 'x3.reshape(-1, 64) @ y[:64, :32]',
    ),
    "attention and layers": (
        'F.scaled_dot_product_attention(qf, qf, qf)',
        'F.scaled_dot_product_attention(qf, qf, qf, is_causal=True)',
        "fw.einsum('bhid,bhjd->bhij', qf, qf)",
        "fw.einsum('bhij,bhjd->bhid', qf @ qf.transpose(-1,-2), qf)",
        'qf.transpose(1,2).reshape(qf.shape[0], qf.shape[2], -1)', 'qf.softmax(-2)',
        'nngru(seq)[0]', 'nnenc(seq)', 'nnmlp(x[:, :64])', 'nnbn(im)',
    ),
    "more of images": (
        'fw.roll(im, (1,1), (2,3))', 'im.flip(3)', 'im.rot90(1, (2,3))',
        'im[:, :, 1:-1, 1:-1].contiguous()', 'im.reshape(2, 8, -1).max(2)',
        'im.unfold(2, 3, 1).unfold(3, 3, 1).sum((-1,-2))',
        "F.interpolate(im, size=(64,64), mode='bilinear', align_corners=True)",
        'F.interpolate(im, size=(33,47))',
        'F.affine_grid(theta, (2,8,64,64), align_corners=False)', 'F.softmax(im, 1)',
        'F.cross_entropy(im, segcls)', 'F.mse_loss(im, im*2)',
        'F.binary_cross_entropy(p.clamp(0.01,.99), y.sigmoid())', 'F.l1_loss(im, im*2)',
        'F.huber_loss(x, y)', 'F.nll_loss(im.log_softmax(1), segcls)',
        'F.cosine_embedding_loss(x, y, row.sign())', 'F.normalize(im, dim=1)',
        'F.dropout2d(im, 0.2)', 'F.max_pool2d(im, 5, 1, 2)', 'F.avg_pool2d(im, 5, 1, 2)',
        'F.fold(F.unfold(im, 2, stride=2), (hw, hw), 2, stride=2)',
    ),
    "further convolutions": (
        'F.conv2d(im, k7, padding=3)', 'F.conv2d(im1, k31, padding=1)',
        'F.conv2d(im16, k16, stride=4)', 'F.conv2d(im, kdw5, padding=2, groups=8)',
        'F.conv_transpose2d(im, kt, stride=2, padding=1, output_padding=1)',
        'F.conv1d(sig, kdw1, padding=1, groups=8)', 'F.conv1d(sig1, k1big, padding=7)',
    ),
}  # fmt: skip


def larger_operands(fw: Any, elements: int) -> dict[str, Any]:
    """What calls are made with: the same numbers in every framework."""
    rng = np.random.default_rng(3)
    side = int(elements**0.5)

    def drawn(*shape: int) -> Any:
        return fw.from_numpy(rng.standard_normal(shape).astype(np.float32))

    def whole(below: int, *shape: int) -> Any:
        return fw.from_numpy(rng.integers(0, below, shape))

    def put(tensor: Any, key: Any, value: Any) -> None:
        tensor[key] = value

    def add_at(tensor: Any, key: Any, value: Any) -> None:
        tensor[key] += value

    x, y, v, w = drawn(side, side), drawn(side, side), drawn(elements), drawn(elements)
    vi, xi = whole(1000, elements), whole(1000, side, side)
    little = elements // 64 * 64
    bags = max(8, elements // 32)
    given = {
        "fw": fw, "F": fw.nn.functional, "nn": fw.nn, "side": side, "N": elements,
        "put": put, "add_at": add_at, "x": x, "y": y, "v": v, "w": w, "p": x.abs() + 0.1,
        "n": x.clone(), "row": drawn(side), "col": drawn(side, 1), "xT": x.T, "xs": x[:, ::2],
        "x3": v[:little].reshape(-1, 8, 8), "vi": vi, "xi": xi, "vi32": vi.to(fw.int32),
        "vu8": (vi % 256).to(fw.uint8), "vb": vi > 500, "xm": x > 0.3, "vm": v > 0.3,
        "ix": whole(side, side), "vix": whole(elements, elements), "gx": whole(side, side, side),
        "cls": whole(side, side), "sv": drawn(1000).sort()[0], "xd": x.double(),
        "xh": x.bfloat16(), "xe": x.half(), "xc": fw.complex(x, y), "emb": drawn(1000, 32),
        "bag": whole(1000, bags), "off": fw.arange(0, bags, 5), "pts": drawn(side // 2 + 2, 16),
        "pts2": drawn(side // 2 + 3, 16), "bm": drawn(max(1, elements // 64), 8, 8),
        "b3": drawn(max(1, elements // 9), 3, 3),
        "qf": drawn(max(1, elements // 8192), 4, 64, 32),
    }  # fmt: skip
    given |= _matrices(fw, given, min(side, 256), drawn)
    given |= _images(fw, elements, drawn, whole)
    given |= _sequences(fw, elements, drawn, whole)
    halves = {"embh": "emb", "imh": "im", "k3h": "k3", "qh": "qf"}
    doubles = {"imd": "im", "k3d64": "k3", "sigd": "sig", "k1dd": "k1d"}
    given |= {name: given[of].bfloat16() for name, of in halves.items()}
    return given | {name: given[of].double() for name, of in doubles.items()}


def _matrices(fw: Any, given: dict[str, Any], size: int, drawn: Any) -> dict[str, Any]:
    """Square ones, some of which have Cholesky factors."""
    m, bm = drawn(size, size), given["bm"]
    return {
        "m": m, "spd": m @ m.T / size + fw.eye(size), "mv": drawn(size, 8),
        "bspd": bm @ bm.transpose(1, 2) + fw.eye(8),
    }  # fmt: skip


def _images(fw: Any, elements: int, drawn: Any, whole: Any) -> dict[str, Any]:
    """Images, signals, volumes, and what they are convolved with."""
    size = int((elements / 16) ** 0.5) // 2 * 2
    deep = max(8, int((elements / 4) ** (1 / 3)) // 2 * 2)
    im = drawn(2, 8, size, size)
    return {
        "im": im, "hw": size, "imL": im.to(memory_format=fw.channels_last),
        "im1": drawn(1, 3, size, size), "im3": drawn(1, 4, deep, deep, deep),
        "im16": drawn(2, 3, size // 4 * 4, size // 4 * 4), "sig": drawn(2, 8, elements // 16),
        "sig1": drawn(1, 1, elements), "k3": drawn(8, 8, 3, 3) * 0.1, "k5": drawn(8, 8, 5, 5) * 0.1,
        "k7": drawn(8, 8, 7, 7) * 0.1, "k1": drawn(16, 8, 1, 1), "kt": drawn(8, 8, 3, 3) * 0.1,
        "k16": drawn(32, 3, 4, 4) * 0.1, "k31": drawn(16, 3, 3, 3) * 0.2, "kdw": drawn(8, 1, 3, 3),
        "kdw5": drawn(8, 1, 5, 5), "kdw1": drawn(8, 1, 3), "kg": drawn(8, 4, 3, 3),
        "k1d": drawn(8, 8, 5), "k1dt": drawn(8, 8, 4), "k1big": drawn(4, 1, 15),
        "k3d": drawn(4, 4, 3, 3, 3) * 0.1, "theta": drawn(2, 2, 3),
        "grid": drawn(2, size, size, 2).tanh(), "segcls": whole(8, 2, size, size),
    }  # fmt: skip


def _sequences(fw: Any, elements: int, drawn: Any, whole: Any) -> dict[str, Any]:
    """Sequences and layers that read them, with the same weights in every framework."""
    nn = fw.nn
    batch = max(1, elements // 6000)
    layers = {
        "nnlstm": nn.LSTM(64, 32, batch_first=True), "nngru": nn.GRU(64, 32, batch_first=True),
        "nnenc": nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True),
        "nnmlp": nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 10)),
        "nnbn": nn.BatchNorm2d(8),
    }  # fmt: skip
    with fw.no_grad():
        for layer in layers.values():
            for parameter in layer.parameters():
                parameter.copy_(drawn(*parameter.shape) * 0.1)
    return layers | {
        "seq": drawn(8, max(4, elements // 512), 64) * 0.3,
        "logp": drawn(50, batch, 30).log_softmax(-1), "tg": whole(29, batch, 10) + 1,
        "il": fw.full((batch,), 50), "tl": fw.full((batch,), 10),
    }  # fmt: skip
