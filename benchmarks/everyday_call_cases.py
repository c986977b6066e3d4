"""Further small calls as people write them: by name, dtypes, keys, modes, data, steps."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

# The names are those of `small_call_cases.operands`, `small_program_cases.program_operands` and
# `everyday_operands`.
EVERYDAY_CALLS: dict[str, tuple[str, ...]] = {
    "arguments by name": (
        'x.sum(dim=1)', 'x.sum(dim=(0,1), keepdim=True)', 'x.mean(dim=-1)', 'x.sum(1).sqrt()',
        'fw.sum(x, 1, keepdim=True)', 'x.max(dim=1)', 'x.max(dim=1, keepdim=True)',
        'x.min(dim=0).values', 'x.argmax(dim=1)', 'x.argsort(dim=1, descending=True)',
        'x.std(dim=0, unbiased=False)', 'x.var(dim=(0,1))', 'fw.clamp(x, min=0.0)',
        'fw.clamp(x, max=y)', 'x.clamp(min=0, max=1)', 'x.round(decimals=2)',
        "fw.div(x, 2, rounding_mode='floor')", 'fw.stack(tensors=[x,y], dim=0)',
        'fw.cat(tensors=(x,y), dim=1)', 'fw.softmax(input=x, dim=1)',
        'x.softmax(dim=-1, dtype=fw.float64)', 'F.softmax(x, dim=1, dtype=fw.float32)',
        'fw.where(x > 0, 1.0, x)', 'fw.where(x > 0, 0.0, -1.0)', 'fw.where(m, 1, 0)',
        'fw.where(m, s, x)', 'fw.where(m, x, s)', 'fw.where(condition=m, input=x, other=y)',
    ),
    "numbers and tensors without dimensions": (
        'x + 1', '1 + x', 'x - 1', 'x * s', 's * x', 'x / 2', 'x / s', '2 / p', 'x // 1.0',
        'x % 2', 'i % 2 == 0', 'x > s', 'x == 1.0', '0 < x', 's > 0', 's + 1', 's * s', 's / 2',
        '-s', 's.exp()', 's.sqrt()', 's.abs().item()', 'float(s) + 1', 'int(i64)', 'i64 + 1',
        'i64.item()', 'i64 * 2', 'b0.item()', 'bool(b0)', 's.item() > 1', 'cond(s)',
        'i32.tolist()', 'u8.tolist()', 'bt.tolist()', 'cx.tolist()', 'f64.tolist()',
        'x[0].tolist()', 'x.detach().numpy()', '(x - y).abs().max().item()',
        '(x > 0).sum().item()', '(x > 0).all().item()', '(x > 0).any().item()',
        'i.max().item() + 1', 'x.shape[1]', 'x.shape[-1]', 'tuple(x.size())', 'x.shape[:1]',
        'list(x.shape)', 'x.shape + (1,)', 'b.shape[0] * b.shape[1]',
    ),
    "float64": (
        'f64 + f64', 'f64 * 2', 'f64 + x', 'f64 @ f64.T', 'f64.sum()', 'f64.softmax(1)',
        'f64.exp()', 'f64.max(1)', 'f64.float()', 'f64.mean(0)', 'f64 > 0',
    ),
    "whole numbers": (
        'i32 + i32', 'i32 * 2', 'i32.sum()', 'i32.sum(1)', 'i32 / 2', 'i32 // 2', 'i32 > 2',
        'i32.float()', 'i32.max()', 'i32 + x', 'i32.long()', 'i32 & 1', 'i32 ** 2',
        'i32.clamp(1,3)', 'i32[0]', 'u8 + 1', 'u8.float() / 255.0', 'u8 * 2', 'u8 > 3', 'u8.sum()',
        'u8 / 255', 'u8.long()', 'i ** 2', 'i // 3', 'i / 3', 'i - 1', 'i.prod()', 'i.flip(0)',
        'i == i', '(i == i).all()', 'i.min()', 'i.mean(dtype=fw.float32)', 'i.bincount()',
    ),
    "truths": (
        'bt & bt', 'bt | bt', '~bt', 'bt ^ bt', 'bt.sum()', 'bt.sum(1)', 'bt.any()', 'bt.all(1)',
        'bt.float()', 'bt.long()', 'bt.nonzero()', 'bt == bt', 'bt.any(dim=1, keepdim=True)',
        'bt.logical_not()', 'bt * x', 'bt.int().sum()', 'bt.count_nonzero()',
    ),
    "complex numbers": (
        'cx2 + cx2', 'cx2 * cx2', 'cx2 * 2', 'cx2.abs()', 'cx2.real', 'cx2.imag', 'cx2.conj()',
        'cx2.sum()', 'cx2 @ cx2.T', 'cx2.angle()', 'cx2.exp()', 'cx2[0]', 'cx2.clone()',
        'cx2.mean()', 'cx2.reshape(-1)', 'cx2 / 2', '1j * x', 'x * 1j',
    ),
    "keys": (
        'x[0, :]', 'x[:, 0]', 'x[..., -1]', 'x[:, ::2]', 'x[:, 1:3]', 'x[1:, :2]', 'x[::2]',
        'x[None, :, None]', 'x[:, None]', 'x[..., None, :]', 'x[0, None]', 'x[-1, -1]',
        'x[[1, 0]]', 'x[[0, 1], [1, 2]]', 'x[:, [0, 3, 1]]', 'x[[True, False]]', 'x[mask2]',
        'x[mask2, 1:]', 'x[:, mask2.repeat(2)]', 'x[x > 0].mean()', 'x[(x > 0) & (x < 1)]',
        'x[~m]', 'x[i2, 1]', 'x[i2, i2]', 'x[i2[:, None], i2]', 'x[s_int, s_int]', 'x[:, s_int]',
        'x[slice(0, 1)]', 'b[0, 1]', 'b[0, 1, 2]', 'b[:, -1]', 'b[:, -1, :]', 'b[:, :, 0]',
        'b[:, 1:, :-1]', 'b[..., 0, :]', 'b[0][0][0]', 'b[i2, :, 1]', 'b[:, i2, 0]',
        'b[i2, i2, i2]', 'b[0, i2]', 'x4[:, 0]', 'x4[:, :, 1:3, 1:3]', 'x4[..., ::2, ::2]',
        'x4[0, ..., 0]', 'v[1:]', 'v[:-1]', 'v[1:] - v[:-1]', 'v[-1]', 'v[i[:3]]',
        'v[fw.tensor([0, 1])]', 'x[array8[:2]]', 'x[fw.arange(2), i2]', 'x.narrow(0, 0, 1)',
        'x.select(1, 0)',
    ),
    "writes by keys": (
        'put(n, 0, 0.0)', 'put(n, (0, 1), 1.5)', 'put(n, (slice(None), 0), 1.0)',
        'put(n, (slice(None), slice(1, 3)), 0)', 'put(n, (slice(None), slice(1, 3)), y[:, 1:3])',
        'put(n, slice(None), 0.0)', 'put(n, (0,), row4)', 'put(n, -1, y[0])',
        'put(n, (i2, i2), 1.0)', 'put(n, i2, y)', 'put(n, m, 1)', 'put(n, ~m, y[~m])',
        'put(n, (Ellipsis, -1), 1.0)', 'put(n, (slice(None), [0, 2]), 1.0)', 'put(n, mask2, 0.0)',
        'put(k, 1, 5)', 'put(k, slice(0, 3), 1)', 'put(k, k == 2, 9)', 'add_at(n, 0, 1.0)',
        'add_at(n, (slice(None), 1), 0.1)', 'add_at(n, slice(0, 1), y[:1])',
        'add_at(n, (0, 1), 1.0)', 'add_at(n, m, 1.0)', 'add_at(n, i2, 1.0)',
    ),
    "in place": (
        'iadd(n, 1.0)', 'iadd(n, s)', 'imul(n, y)', 'iadd(k, 1)', 'n.add_(1.0)',
        'n.add_(y, alpha=-0.1)', 'n.mul_(0.99)', 'n.div_(s)', 'n.fill_(0.5)', 'n.fill_(s)',
        'n.clamp_(min=0)', 'n.sub_(y).mul_(0.1)', 'n.addmm_(x, sq, beta=1, alpha=0.5)',
        'n.masked_fill_(m, 0)', 'n.masked_fill_(x > 0, 0.0)', 'n.transpose_(0,1).transpose_(0,1)',
        'n.index_add_(0, i2, y)', 'n.index_add_(0, i2, y, alpha=0.5)', 'n.index_copy_(0, i2, y)',
        'n.index_fill_(0, i2, 1.0)', 'n.normal_(0, 0.02)', 'n.uniform_(-1, 1)',
        'n.normal_(generator=gen)', 'n.random_(0, 5)', 'n.requires_grad_(False)', 'k.add_(k)',
        'n.set_(n)',
    ),
    "given results": (
        'fw.mul(x, y, out=n)', 'fw.matmul(x, sq, out=n)', 'fw.sub(x, 1, out=n)',
        'fw.sqrt(p, out=n)', 'fw.stack([x, y], out=fw.empty(2,2,4))',
        'fw.cat([x[:1], y[:1]], out=n)', 'fw.where(m, x, y, out=n)', 'fw.sum(x, 0, out=v4)',
        'fw.argmax(x, 1, out=k[:2])', 'fw.cumsum(x, 0, out=n)',
    ),
    "new tensors": (
        'fw.zeros([2, 4])', 'fw.zeros(x.size(0), 3)', 'fw.zeros(x.shape[0], dtype=fw.long)',
        'fw.zeros(2, 4, dtype=fw.float64)', 'fw.zeros(1)', 'fw.ones(1)',
        "fw.ones(2, 4, device='cpu')", 'fw.ones_like(x, dtype=fw.bool)',
        'fw.zeros_like(i, dtype=fw.float32)', 'fw.full((2,), 3)',
        'fw.full((2, 4), 0.1, dtype=fw.float64)', "fw.full_like(x, float('-inf'))",
        'fw.arange(10)', 'fw.arange(1, 10)', 'fw.arange(0, 1, 0.1)',
        'fw.arange(4, dtype=fw.float32)', "fw.arange(4, device='cpu')", 'fw.arange(x.size(1))',
        'fw.linspace(0, 1, 5)', 'fw.eye(3)', 'fw.randn(2, 4)', 'fw.randn(4)', 'fw.randn((2, 4))',
        "fw.randn(2, 4, device='cpu')", 'fw.randn(2, 4, dtype=fw.float64)',
        'fw.randn(2, 4, generator=gen)', 'fw.rand(1)', 'fw.rand(2, 4)', 'fw.rand(1).item()',
        'fw.rand(())', 'fw.randint(0, 10, (1,)).item()', 'fw.randint(0, 10, (4,))',
        'fw.randint(10, size=(2, 4))', 'fw.randn_like(x) * 0.1 + x', 'fw.rand_like(x) < 0.5',
        'fw.normal(0, 1, size=(2, 4))', 'fw.multinomial(p, 1)', 'fw.multinomial(p, 1).squeeze(1)',
    ),
    "made of numbers": (
        'fw.tensor(1)', 'fw.tensor(1.5)', 'fw.tensor([1., 2., 3.])', 'fw.tensor((1., 2.))',
        'fw.tensor([[1., 2.], [3., 4.]])', 'fw.tensor([1, 2], dtype=fw.float32)',
        'fw.tensor([0, 1], dtype=fw.long)', 'fw.tensor([1.0], requires_grad=True)',
        'fw.tensor(array, dtype=fw.float32)', 'fw.tensor(np.float32(1.5))', 'fw.tensor(array8)',
        'fw.tensor([s.item(), 2.0])', 'fw.tensor(2.0, dtype=fw.float64)', 'fw.tensor([1+2j])',
        'fw.tensor(list(range(20)))',
        'fw.tensor([[float(j) for j in range(8)] for _ in range(8)])', 'fw.tensor([0.1]*50)',
        'fw.as_tensor(3)', 'fw.as_tensor(2.5)', 'fw.as_tensor([1, 2])',
        'fw.as_tensor(array, dtype=fw.float64)', 'fw.from_numpy(array8)', 'fw.Tensor(2, 4)',
        'fw.Tensor([1, 2])', 'x.new_zeros(2, 4)', 'x.new_ones((2, 4))', 'x.new_full((4,), 0.5)',
        'x.new_tensor([1.0])',
    ),
    "conversions": (
        "x.to('cpu')", "x.to(fw.device('cpu'))", 'x.to(dtype=fw.float64)', 'x.to(fw.float16)',
        'x.to(x.dtype)', "x.to(device='cpu', non_blocking=True)", 'x.type(fw.float32)',
        'x.half().float()', 'x.bfloat16().float()',
    ),
    "joined and taken apart": (
        'fw.stack(eight)', 'fw.stack(eight_rows)', 'fw.stack(eight_rows, dim=1)', 'fw.cat(eight)',
        'fw.cat(eight, dim=1)', 'fw.cat(eight_rows)', 'fw.stack([s, s, s, s])',
        'fw.stack([s, s]).mean()', 'fw.tensor([1.0, 2.0]).sum()', 'fw.cat([x, x[:1]])',
        'fw.cat([x, fw.zeros(2, 1)], 1)', 'fw.cat((v, w))', 'sum(eight_rows)',
        'fw.stack(eight_rows).mean(0)', 'fw.vstack(eight_rows)', 'x.chunk(2)', 'x.unbind(1)',
        '[t for t in x]',
    ),
    "shapes": (
        'x.view(-1, 2)', 'x.view(2, 2, 2)', 'x.reshape(2, -1)', 'x.reshape(-1, 1)',
        'x.flatten(0, 1)', 'x4.flatten(1)', 'x4.flatten(start_dim=1)', 'x4.permute(0, 2, 3, 1)',
        'x4.permute(0, 2, 3, 1).contiguous()', 'x4.permute(0, 2, 3, 1).reshape(-1, 3)',
        'x4.view(2, 3, -1)', 'x4.view(x4.size(0), -1)', 'x4.transpose(1, 2)', 'x4.mean((2, 3))',
        'x4.mean(dim=[2, 3])', 'x4.sum((1, 2, 3))', 'x4.amax((2, 3))', 'x4.unsqueeze(1)',
        'x4.squeeze(0)', 'x4.expand(2, 3, 4, 5)', 'x4.repeat(1, 2, 1, 1)',
        'x.unsqueeze(0).expand(3, -1, -1)', 'x.unsqueeze(1) - y.unsqueeze(0)',
        '(x.unsqueeze(1) - y.unsqueeze(0)).pow(2).sum(-1)',
    ),
    "products and what they are for": (
        'x.t() @ x', 'x @ x.t()', 'x @ sq + v4', 'b @ b.mT', 'b.transpose(1, 2) @ b',
        "fw.einsum('ij,ij->i', x, y)", "fw.einsum('bij->b', b)", "fw.einsum('i,i', v4, v4)",
        "fw.einsum('bi,ij,bj->b', x, sq, y)", 'fw.matmul(b, v4)', '(x * y).sum(-1)',
        '(x * y).sum(dim=1, keepdim=True)', 'x / x.norm(dim=1, keepdim=True)',
        'x - x.max(dim=1, keepdim=True)[0]', 'x.pow(2).mean().sqrt()', '((x - y) ** 2).sum(1)',
        'fw.sqrt(((x - y) ** 2).sum(1))', '(x.argmax(1) == i2).float().mean().item()',
        'x.argmax(1).eq(i2).sum().item()', 'x.topk(3, dim=1)', 'x.topk(2, dim=1)[1]',
        'x.sort(dim=-1, descending=True)[0]',
    ),
    "functions of networks": (
        'F.one_hot(i2, 4)', 'F.one_hot(i2, num_classes=4).float()', 'F.cross_entropy(x, i2)',
        "F.cross_entropy(x, i2, reduction='none')", 'F.cross_entropy(x, i2, label_smoothing=0.1)',
        'F.cross_entropy(x, x.softmax(1))', 'F.cross_entropy(x, i2, ignore_index=0)',
        "F.binary_cross_entropy_with_logits(x, p, reduction='none')",
        "F.kl_div(x.log_softmax(1), y.softmax(1), reduction='batchmean')", 'F.pad(x, (0, 1))',
        'F.pad(x, (1, 1), value=-1.0)', "F.pad(im, (1,1,1,1), mode='reflect')",
        'F.pad(im, (1,1,1,1))',
        "F.interpolate(im, scale_factor=0.5, mode='bilinear', align_corners=False)",
        'F.max_pool2d(im, kernel_size=2, stride=2)', 'F.max_pool2d(im, 3, 2, 1)',
        'F.max_pool1d(x, 2)', 'F.adaptive_avg_pool2d(im, (1, 1))', 'F.adaptive_max_pool2d(im, 1)',
        'F.conv2d(im, cw, stride=2, padding=1)', 'F.dropout(x, 0.1, training=False)',
        'F.dropout(x, p=0.1)', 'F.normalize(x, dim=1)', "F.gelu(x, approximate='tanh')",
        'F.relu(x, inplace=False)', 'F.leaky_relu(x, 0.1)', 'F.embedding(i2, W)', 'F.linear(b, W)',
        'F.unfold(im, 2, stride=2)', 'F.grid_sample(im, grid, align_corners=False)',
        'F.log_softmax(x, dim=-1).gather(1, i2[:, None])',
        'fw.nn.functional.softmax(x, dim=-1) @ sq',
    ),
    "order and masks": (
        'fw.searchsorted(v, w, right=True)', 'fw.bincount(i, minlength=10)',
        'fw.bincount(i, weights=v)', 'fw.tril(fw.ones(4, 4, dtype=fw.bool))',
        'fw.triu(fw.ones(4, 4), 1).bool()', 'fw.ones(4, 4).triu(1) == 1', 'fw.cumsum(i, 0)',
        'x.cumsum(dim=1)', 'x.cumprod(dim=1)', 'x.diff()', 'x.diff(dim=0)', 'fw.diff(v, n=1)',
        'x.flip(-1)', 'x.flip([0])', 'x.flip(dims=(0, 1))', 'x.roll(shifts=1, dims=1)',
        'x.tril(-1)', 'fw.diag(sq)', 'fw.outer(v4, v4)', 'x.median(dim=1)',
        'x.quantile(fw.tensor([0.2, 0.5]), dim=1)', 'fw.allclose(x, y, atol=1e-3)',
        'fw.equal(x, x)', 'fw.isnan(x).any()', 'fw.isnan(x).any().item()',
        'x.isfinite().all().item()', 'fw.any(x > 1)', 'fw.maximum(x, fw.tensor(0.0))',
        'fw.minimum(x, s)', "fw.meshgrid(v, w, indexing='xy')", 'fw.logical_and(x > 0, y > 0)',
        '(x > 0).logical_or(y > 0)', 'fw.broadcast_tensors(x, y)', 'fw.atleast_1d(s)',
    ),
    "questions": (
        'fw.squeeze(x, 0)', 'fw.unsqueeze(x, dim=0)', 'fw.ravel(x)', 'fw.is_floating_point(x)',
        'fw.manual_seed(1)', 'fw.Size((2, 4)).numel()', "fw.device('cpu')",
        "fw.device('cpu') == x.device", 'x.device.type', 'x.dtype.itemsize', 'str(x.dtype)',
        'fw.finfo(x.dtype).max', 'fw.iinfo(fw.int64).max', 'x.device == y.device',
    ),
    "modes": (
        'no_tape()', 'no_tape_told()', 'off_tape(lambda: net(x))', 'inferring(lambda: net(x))',
        'off_tape(lambda: mlp(x))', 'inferring(lambda: x + y)', 'on_tape(lambda: x + y)',
        'decorated(x)', 'off_tape(lambda: xg.add_(0.0))', 'off_tape(lambda: xg + y)',
        'off_tape(lambda: xg.mul_(1.0))',
    ),
    "modules": (
        'own_net(x)', 'blocks(x16)', 'small_net(pictures)', 'off_tape(lambda: blocks(x16))',
        'off_tape(lambda: small_net(pictures))', 'inferring(lambda: small_net(pictures))',
        'sum_back(net, x)', 'sum_back(mlp, x)', 'sum_back(own_net, x)', 'sum_back(blocks, x16)',
        'sum_back(small_net, pictures)', 'attention_eval(b, b, b)[0]',
        'off_tape(lambda: attention_eval(b, b, b, need_weights=False)[0])', 'one_lstm(b)[0]',
        'off_tape(lambda: one_lstm(b)[0])', 'blocks_adamw.zero_grad(set_to_none=False)',
        'nn.utils.clip_grad_norm_(params, 1.0)',
        'nn.utils.clip_grad_norm_(params, 1.0, foreach=False)', 'blocks_adamw.step()',
        'blocks.state_dict()', 'blocks.load_state_dict(kept_of_blocks)', 'copy.deepcopy(net)',
        'copy.deepcopy(blocks)', 'copy.deepcopy(kept_of_blocks)', 'blocks_adamw.state_dict()',
        'list(blocks.parameters())', 'list(blocks.named_parameters())',
        'list(blocks.named_modules())', 'list(blocks.children())',
        'sum(q.numel() for q in blocks.parameters())',
        'sum(q.numel() for q in blocks.parameters() if q.requires_grad)', 'blocks.train()',
        'blocks.eval()', "blocks.to('cpu')", 'blocks.to(fw.float32)', 'blocks.float()',
        'blocks.requires_grad_(True)', 'blocks.zero_grad(set_to_none=False)',
        'blocks.apply(lambda q: None)',
    ),
    "made anew": (
        'nn.Conv2d(3, 4, 3)', 'nn.BatchNorm2d(4)', 'nn.Embedding(10, 4)', 'nn.Dropout(0.1)',
        'nn.Parameter(fw.randn(4))', 'nn.init.xavier_uniform_(Wg.detach())',
        'nn.init.kaiming_normal_(Wg.detach())', 'nn.ModuleList([net, mlp])',
        'nn.ParameterList([sg])', 'net.weight.data', 'net.weight.shape', 'net.training',
        'blocks[0]', 'blocks[0][0].weight', 'fw.optim.SGD(params, lr=0.1)',
        'fw.optim.Adam(params)',
    ),
    "data": (
        'batches(loader)', 'batches(shuffled)', 'batches(loader_of_own)', 'next(iter(loader))',
        'pairs[3]', 'own_pairs[3]', 'len(loader)',
        'fw.utils.data.default_collate([pairs[0], pairs[1]])',
        'fw.utils.data.default_collate([(x, 1), (y, 2)])',
        'fw.utils.data.random_split(pairs, [48, 16])', 'fw.utils.data.Subset(pairs, [1, 2])[0]',
        'fw.nn.utils.rnn.pad_sequence([v, w], batch_first=True)',
        'fw.nn.utils.parameters_to_vector(params)',
    ),
    "on the tape": (
        'xg * yg', 'xg + 1', 'xg - yg', 'xg * 2', '-xg', 'xg / pg', 'xg ** 2', '1 - xg',
        'xg @ sqg', 'xg.sum(1)', 'xg.relu()', 'xg.sigmoid()', 'xg.tanh()', 'xg.softmax(-1)',
        'xg.log_softmax(-1)', 'xg.reshape(4, 2)', 'xg[:, 1]', 'xg[:, 1:3]', 'xg[m]', 'xg[i2]',
        'xg[0, 1]', 'xg.unsqueeze(0)', 'xg.transpose(0, 1)', 'xg.abs()', 'xg.pow(2).sum()',
        'xg.max()', 'xg.min(1)[0]', 'xg.norm()', 'xg.std()', 'xg.var(1)', 'xg.clamp(0, 1)',
        'xg.clamp(min=0)', 'xg.masked_fill(m, 0.0)', 'xg.gather(1, g)', 'xg.expand(3, 2, 4)',
        'xg.float()', 'xg.half()', 'xg.split(2, 1)', 'xg.chunk(2, 1)', 'xg.unbind(0)',
        'xg.repeat(2, 1)', 'xg.flatten()', 'xg.squeeze()', 'xg.permute(1, 0)', 'xg > 0',
        'xg.tolist()', 'fw.where(m, xg, 0.0)', 'fw.cat([xg, yg], 1)', 'fw.stack([xg, yg])',
        'fw.stack([sg, sg, sg])', 'fw.matmul(bg, bg)', 'fw.bmm(bg, bg)',
        "fw.einsum('ij,jk->ik', xg, sqg)", 'fw.maximum(xg, yg)', 'fw.log(pg)', 'fw.sqrt(pg)',
        'F.relu(xg)', 'F.gelu(xg)', 'F.silu(xg)', 'F.leaky_relu(xg)', 'F.elu(xg)',
        'F.softplus(xg)', 'F.softmax(xg, -1)', 'F.dropout(xg, 0.5)', 'F.linear(xg, Wg)',
        'F.linear(xg, Wg, bias)', 'F.mse_loss(xg, y)', 'F.l1_loss(xg, y)',
        'F.smooth_l1_loss(xg, y)', 'F.nll_loss(xg, c)',
        'F.binary_cross_entropy_with_logits(xg, p)', 'F.binary_cross_entropy(pg, p)',
        'F.kl_div(xg, p)', 'F.normalize(xg)', 'F.cosine_similarity(xg, yg)', 'F.embedding(c, Wg)',
        'F.conv2d(img, cw, padding=1)', 'F.max_pool2d(img, 2)', 'F.avg_pool2d(img, 2)',
        'F.adaptive_avg_pool2d(img, 1)', 'F.interpolate(img, scale_factor=2)', 'F.pad(xg, (1, 1))',
        'F.batch_norm(xg, v4, v4)', 'F.scaled_dot_product_attention(bg, bg, bg)',
    ),
    "writes on the tape": (
        'put_on_tape(xg, 0, 1.0)', 'put_on_tape(xg, 0, y[0])',
        'put_on_tape(xg, (slice(None), 1), 0.0)', 'put_on_tape(xg, m, 0.0)',
        'put_on_tape(xg, i2, 0.0)', 'add_on_tape(xg, i2, y)', 'add_on_tape(xg, 0, 1.0)',
        'add_on_tape(xg, (slice(None), 1), yg[:, 1])',
        'add_on_tape(xg, (slice(None), slice(0, 2)), y[:, :2])', 'add_on_tape(xg, m, 1.0)',
        'add_on_tape(xg, (0, 1), 1.0)', '(xg * 1).add_(y)', '(xg * 1).mul_(2)', '(xg * 1).relu_()',
        '(xg * 1).masked_fill_(m, 0.0)', '(xg * 1).index_add_(0, i2, yg)',
        'xg.index_add(0, i2, yg)',
    ),
    "more on the tape": (
        'xg.index_select(0, i2)', 'xg.scatter(1, g, yg)', 'xg.scatter_add(1, g, yg)',
        'xg.index_fill(0, i2, 0.0)', 'xg.index_copy(0, i2, yg)', 'xg.masked_select(m)',
        'xg.take_along_dim(g, 1)', 'xg.roll(1, 0)', 'xg.flip(0)', 'xg.logsumexp(1)',
        'xg.addmm(xg, sqg)', 'fw.addmm(bias, xg, Wg)', 'fw.baddbmm(bg, bg, bg)',
        'fw.outer(v4, sqg[0])', 'fw.lerp(xg, yg, 0.5)', 'fw.addcmul(xg, yg, y)',
        'fw.linalg.norm(xg)', 'fw.linalg.inv(sqg)', 'fw.linalg.det(sqg)',
        'fw.linalg.solve(sqg, sqg)', 'fw.linalg.cholesky(sqg @ sqg.T)',
    ),
    "backward": (
        'back(lambda: xg.sum(), xg)', 'back(lambda: (xg * yg).sum(), xg, yg)',
        'back(lambda: (xg ** 2).mean(), xg)', 'back(lambda: F.mse_loss(xg @ sqg, y), xg, sqg)',
        'back(lambda: F.cross_entropy(xg, i2), xg)', 'back(lambda: xg[0].sum(), xg)',
        'back(lambda: xg[m].sum(), xg)', 'back(lambda: xg[i2].sum(), xg)',
        'back(lambda: xg[:, 1:3].sum(), xg)', 'back(lambda: fw.stack([xg, yg]).sum(), xg, yg)',
        'back(lambda: fw.cat([xg, yg]).mean(), xg, yg)',
        'back(lambda: xg.softmax(1)[:, 0].sum(), xg)',
        'back(lambda: add_on_tape(xg, i2, y).sum(), xg)',
        'back(lambda: add_on_tape(xg, (slice(None), 1), yg[:, 1]).sum(), xg, yg)',
        'back(lambda: put_on_tape(xg, m, 0.0).sum(), xg)',
        'back(lambda: put_on_tape(xg, (slice(None), 1), y[:, 1]).sum(), xg)',
        'back(lambda: xg.gather(1, g).sum(), xg)',
        'back(lambda: xg.index_add(0, i2, yg).sum(), xg, yg)', 'back(lambda: xg.norm(), xg)',
        'back(lambda: xg.max(1)[0].sum(), xg)', 'back(lambda: xg.std(), xg)',
        'back(lambda: fw.where(m, xg, yg).sum(), xg, yg)',
        'back(lambda: F.layer_norm(xg, (4,)).sum(), xg)',
        'back(lambda: F.conv2d(img, cw, padding=1).sum(), img)',
        'back(lambda: F.max_pool2d(img, 2).sum(), img)',
        'back(lambda: F.avg_pool2d(img, 2).sum(), img)',
        'back(lambda: F.interpolate(img, scale_factor=2).sum(), img)',
        'back(lambda: F.embedding(c, Wg).sum(), Wg)', 'back(lambda: F.gelu(xg).sum(), xg)',
        'back(lambda: xg.cumsum(0).sum(), xg)', 'back(lambda: xg.prod(), xg)',
        'back(lambda: fw.linalg.inv(sqg).sum(), sqg)',
        "back(lambda: fw.einsum('bij,bjk->bik', bg, bg).sum(), bg)",
        'back(lambda: F.scaled_dot_product_attention(bg, bg, bg).sum(), bg)',
        'back(lambda: fw.logsumexp(xg, 1).sum(), xg)', 'grad(sg * sg, sg)',
        'grad((xg * yg).sum(), (xg, yg))',
        'fw.autograd.grad(xg.exp().sum(), xg, create_graph=True)',
        'fw.func.grad(lambda t: (t ** 2).sum())(x)', 'fw.func.vmap(lambda t: t.sum())(x)',
        'fw.autograd.functional.jacobian(lambda t: t * 2, v4)',
    ),
}  # fmt: skip


def everyday_operands(fw: Any, given: dict[str, Any]) -> dict[str, Any]:
    """What the calls of this file are made with besides the operands of the others."""
    x = given["x"]
    tensors = {
        "i64": fw.tensor(3), "b0": fw.tensor(True), "row4": fw.ones(4), "k2": fw.arange(2),
        "mask2": fw.tensor([True, False]), "eight": [x] * 8, "eight_rows": [fw.ones(4)] * 8,
        "f64": fw.ones(2, 4, dtype=fw.float64),
        "i32": fw.arange(8, dtype=fw.int32).reshape(2, 4),
        "u8": fw.arange(8, dtype=fw.uint8).reshape(2, 4), "bt": fw.arange(8).reshape(2, 4) > 3,
        "cx2": fw.complex(fw.ones(2, 4), fw.ones(2, 4)), "x4": fw.ones(2, 3, 4, 5),
        "gen": fw.Generator().manual_seed(1), "array8": np.arange(8),
        "x16": fw.ones(4, 16), "pictures": fw.ones(2, 3, 6, 6),
    }  # fmt: skip
    leaves = {
        "yg": given["y"], "pg": given["p"], "sqg": given["sq"], "Wg": fw.ones(4, 4),
        "sg": fw.tensor(2.0), "img": fw.ones(1, 2, 6, 6), "bg": fw.ones(2, 4, 4),
    }  # fmt: skip
    followed = {name: leaf.clone().requires_grad_() for name, leaf in leaves.items()}
    return tensors | followed | _networks(fw) | _data(fw) | _modes(fw) | _writes(fw)


def _networks(fw: Any) -> dict[str, Any]:
    """Modules with gradients, and what is done with them."""
    nn = fw.nn

    class OwnNet(nn.Module):  # type: ignore[misc, name-defined]
        """Two layers and a factor."""

        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 2)
            self.scale = nn.Parameter(fw.ones(2))

        def forward(self, x: Any) -> Any:
            return self.second(nn.functional.relu(self.first(x))) * self.scale

    def sum_back(module: Any, value: Any) -> None:
        module.zero_grad()
        module(value).sum().backward()

    blocks = nn.Sequential(
        *[nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.LayerNorm(16)) for _ in range(12)]
    )
    for parameter in blocks.parameters():
        parameter.grad = fw.ones_like(parameter)
    return {
        "blocks": blocks, "params": list(blocks.parameters()), "own_net": OwnNet(),
        "kept_of_blocks": copy.deepcopy(blocks.state_dict()), "sum_back": sum_back,
        "small_net": nn.Sequential(
            nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 5)
        ),
        "blocks_adamw": fw.optim.AdamW(blocks.parameters(), lr=1e-3),
        "attention_eval": nn.MultiheadAttention(4, 2, batch_first=True).eval(),
        "one_lstm": nn.LSTM(4, 3, batch_first=True),
    }  # fmt: skip


def _data(fw: Any) -> dict[str, Any]:
    """Sets of data and their loaders."""
    data = fw.utils.data
    rows, classes = fw.linspace(0, 1, 64 * 4).reshape(64, 4).clone(), fw.arange(64) % 3

    class OwnPairs(data.Dataset):  # type: ignore[misc, name-defined]
        """Rows that are transformed when they are asked for."""

        def __len__(self) -> int:
            return 64

        def __getitem__(self, place: int) -> Any:
            return (rows[place] - 0.5) / 0.25, int(classes[place])

    def batches(loader: Any) -> None:
        for _ in loader:
            pass

    pairs, own = data.TensorDataset(rows, classes), OwnPairs()
    return {
        "pairs": pairs, "own_pairs": own, "batches": batches,
        "loader": data.DataLoader(pairs, batch_size=8),
        "shuffled": data.DataLoader(pairs, batch_size=8, shuffle=True),
        "loader_of_own": data.DataLoader(own, batch_size=8),
    }  # fmt: skip


def _modes(fw: Any) -> dict[str, Any]:
    """Calls made with gradients on or off."""

    def off_tape(call: Any) -> Any:
        with fw.no_grad():
            return call()

    def inferring(call: Any) -> Any:
        with fw.inference_mode():
            return call()

    def on_tape(call: Any) -> Any:
        with fw.enable_grad():
            return call()

    def no_tape() -> None:
        with fw.no_grad():
            pass

    def no_tape_told() -> None:
        with fw.set_grad_enabled(False):
            pass

    return {
        "off_tape": off_tape, "inferring": inferring, "on_tape": on_tape, "no_tape": no_tape,
        "no_tape_told": no_tape_told, "decorated": fw.no_grad()(lambda value: value + 1),
        "grad": fw.autograd.grad, "cond": lambda value: 1 if value > 0 else 0,
    }  # fmt: skip


def _writes(fw: Any) -> dict[str, Any]:
    """Writes that the tape follows, and ways back."""

    def put_on_tape(leaf: Any, key: Any, value: Any) -> Any:
        target = leaf.clone()
        target[key] = value
        return target

    def add_on_tape(leaf: Any, key: Any, value: Any) -> Any:
        target = leaf * 1
        target[key] += value
        return target

    def back(call: Any, *leaves: Any) -> None:
        for leaf in leaves:
            leaf.grad = None
        call().backward()

    return {"put_on_tape": put_on_tape, "add_on_tape": add_on_tape, "back": back}
