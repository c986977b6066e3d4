import torch
from common import fill, picture, say
from vector_quantize_pytorch import FSQ, LFQ, ResidualVQ, VectorQuantize

x = picture(2, 10, 8).requires_grad_()
found = []
quantize = VectorQuantize(
    dim=8, codebook_size=16, decay=0.8, commitment_weight=1.0, ema_update=False
)
with torch.no_grad():
    quantize._codebook.embed.copy_(picture(1, 16, 8))
    quantize._codebook.initted.fill_(True) if hasattr(quantize._codebook, "initted") else None
out, where, loss = quantize(x)
(out.square().sum() + loss.sum()).backward()
found += [out.sum(), where.float().sum(), loss.sum(), x.grad.sum()]
out, where = FSQ(levels=[8, 5, 5, 5])(picture(2, 6, 4))
found += [out.sum(), where.float().sum()]
say(*found)
