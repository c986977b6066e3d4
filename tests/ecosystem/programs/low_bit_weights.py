"""bitsandbytes: weights in four and eight bits, linear layers of them, optimizers."""

import bitsandbytes as bnb
import bitsandbytes.functional as low
from common import fill, parts, picture
from torch import nn


def packed():
    """Weights packed and unpacked, by blocks of 64."""
    four, state = low.quantize_4bit(picture(64, 64), quant_type="nf4")
    eight, scales = low.quantize_blockwise(picture(64, 64))
    return [
        low.dequantize_4bit(four, state),
        low.dequantize_blockwise(eight, scales),
        four.numel(),
    ]


def learned():
    """Three steps of optimizers of 32 bits."""
    found = []
    for make in (bnb.optim.AdamW, bnb.optim.SGD, bnb.optim.Lion):
        layer = fill(nn.Linear(8, 8))
        momentum = {"momentum": 0.9} if make is bnb.optim.SGD else {}
        optimizer = make(layer.parameters(), lr=0.05, **momentum)
        for _ in range(3):
            optimizer.zero_grad()
            loss = (layer(picture(4, 8)) - 1).pow(2).mean()
            loss.backward()
            optimizer.step()
            found.append(loss)
    return found


parts(packed, learned)
