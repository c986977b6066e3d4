"""The same numbers whoever draws them."""

import random, torch

_r = random.Random(0)


def manual_seed(s):
    global _r
    _r = random.Random(s)


class Generator:
    def __init__(self, *a):
        self.r = random.Random(0)

    def manual_seed(self, s):
        self.r = random.Random(s)
        return self


def _of(shape):
    return tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else tuple(shape)


def _n(shape):
    n = 1
    for s in shape:
        n *= s
    return n


def randn(*shape, generator=None, **kw):
    r, shape = (generator.r if generator else _r), _of(shape)
    return torch.tensor([r.gauss(0, 1) for _ in range(_n(shape))], dtype=torch.float32).reshape(
        shape
    )


def randint(*a, generator=None, **kw):
    r = generator.r if generator else _r
    lo, hi, shape = (0, *a) if len(a) == 2 else a
    return torch.tensor([r.randrange(lo, hi) for _ in range(_n(shape))], dtype=torch.int64).reshape(
        shape
    )


def fill(m):
    r = random.Random(1)
    with torch.no_grad():
        for name, p in m.named_parameters():
            if p.dim() > 1 or "bias" in name:
                p.copy_(
                    torch.tensor([r.uniform(-0.2, 0.2) for _ in range(p.numel())]).reshape(p.shape)
                )
    return m
