"""The second half of `benchmarks.gpu_everyday`: what is no image and no transformer."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from benchmarks.gpu_everyday import DROPPED, bert, convnext, denoiser, gpt, swin, t5
from benchmarks.gpu_zoo import Given, Network


def recurrent(fw: Any, words: int = 5000, longest: int = 60) -> Network:
    """Two layers of a GRU, both ways, over sentences of many lengths; a class for each."""
    nn, f = fw.nn, fw.nn.functional
    lengths = [longest - (7 * k) % (longest - 9) for k in range(32)]

    class Reader(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(words, 128, padding_idx=0)
            self.layers = nn.GRU(128, 256, 2, batch_first=True, bidirectional=True)
            self.out = nn.Linear(512, 20)

        def forward(self, x: Any) -> Any:
            pack, pad = nn.utils.rnn.pack_padded_sequence, nn.utils.rnn.pad_packed_sequence
            packed = pack(self.words(x), lengths, batch_first=True, enforce_sorted=False)
            out, _ = pad(self.layers(packed)[0], batch_first=True)
            return self.out(out.amax(1))

    batch = (Given((32, longest), words), Given((32,), 20))
    return Network(Reader(), lambda m, b: f.cross_entropy(m(b[0]), b[1]), batch)


def recommender(fw: Any, tables: int = 8, rows: int = 20000, width: int = 32) -> Network:
    """Bags of categories, and products of each pair of what they are and of the numbers."""
    nn, f = fw.nn, fw.nn.functional

    def layers(*sizes: int) -> Any:
        pairs = pairwise(sizes)
        return nn.Sequential(*(y for a, b in pairs for y in (nn.Linear(a, b), nn.ReLU())))

    class Recommender(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            bags = [nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables)]
            self.bags, self.dense = nn.ModuleList(bags), layers(13, 128, width)
            count = tables + 1
            self.top = layers(width + count * (count - 1) // 2, 256, 128)
            self.out = nn.Linear(128, 1)
            lower = [(i, j) for i in range(count) for j in range(i)]
            self.register_buffer("one", fw.tensor([i for i, _ in lower]))
            self.register_buffer("two", fw.tensor([j for _, j in lower]))

        def forward(self, x: Any, chosen: Any) -> Any:
            x = self.dense(x)
            parts = [bag(chosen[:, k]) for k, bag in enumerate(self.bags)]
            every = fw.stack([x, *(y.to(x.dtype) for y in parts)], 1)
            pairs = (every @ every.transpose(1, 2))[:, self.one, self.two]
            return self.out(self.top(fw.cat([x, pairs], 1)))[:, 0]

    def loss(model: Any, batch: list[Any]) -> Any:
        out = model(batch[0], batch[1]).float()
        return f.binary_cross_entropy_with_logits(out, batch[2].float())

    batch = (Given((2048, 13)), Given((2048, tables, 4), rows), Given((2048,), 2))
    return Network(Recommender(), loss, batch, operands=2)


def graph(fw: Any, nodes: int = 10000, edges: int = 80000, width: int = 128) -> Network:
    """Messages along edges: one layer of means, two that weigh neighbours by attention."""
    nn, f = fw.nn, fw.nn.functional

    class Weighed(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.value, self.out = nn.Linear(width, width), nn.Linear(width, width)
            self.given, self.taken = nn.Linear(width, 4), nn.Linear(width, 4)

        def forward(self, x: Any, source: Any, target: Any) -> Any:
            v = self.value(x).unflatten(-1, (4, -1))
            score = f.leaky_relu(self.given(x)[source] + self.taken(x)[target], 0.2).float()
            at = target[:, None].expand(-1, 4)
            top = score.new_zeros(nodes, 4).scatter_reduce(0, at, score, "amax")
            weight = fw.exp(score - top[target])
            total = weight.new_zeros(nodes, 4).index_add(0, target, weight)
            weight = weight / (total[target] + 1e-9)
            parts = v[source].float() * weight[..., None]
            mixed = parts.new_zeros(nodes, *parts.shape[1:]).index_add(0, target, parts)
            return x + self.out(f.elu(mixed.flatten(1)))

    class Graph(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(64, width), nn.Linear(width, 40)
            self.own, self.others = nn.Linear(width, width), nn.Linear(width, width)
            self.weighed = nn.ModuleList([Weighed(), Weighed()])
            self.dropping = nn.Dropout(DROPPED)

        def forward(self, x: Any, source: Any, target: Any) -> Any:
            x = f.relu(self.first(x)).float()
            count = x.new_zeros(nodes).index_add(0, target, x.new_ones(edges))
            mean = fw.zeros_like(x).index_add(0, target, x[source]) / count.clamp(min=1)[:, None]
            x = f.relu(self.own(x) + self.others(mean))
            for layer in self.weighed:
                x = self.dropping(layer(x, source, target))
            return self.last(x)

    loss = lambda m, b: f.cross_entropy(m(*b[:3]), b[3])
    numbers = (Given((edges,), nodes), Given((edges,), nodes), Given((nodes,), 40))
    return Network(Graph(), loss, (Given((nodes, 64)), *numbers), operands=3)


def speech(fw: Any, width: int = 256, layers: int = 4) -> Network:
    """Strided convolutions over a waveform, a transformer with dropout, an alignment's loss."""
    nn, f = fw.nn, fw.nn.functional

    class Speech(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            sizes = ((10, 5), (3, 2), (3, 2), (3, 2), (3, 2), (2, 2), (2, 2))
            convs = [
                nn.Conv1d(width if k else 1, width, size, step, bias=False)
                for k, (size, step) in enumerate(sizes)
            ]
            self.convs, self.first = nn.ModuleList(convs), nn.GroupNorm(width, width)
            self.norm = nn.LayerNorm(width)
            self.places = nn.Conv1d(width, width, 31, padding=15, groups=16)
            layer = nn.TransformerEncoderLayer(
                width, 4, 4 * width, DROPPED, "gelu", batch_first=True, norm_first=True
            )
            self.body, self.out = nn.TransformerEncoder(layer, layers), nn.Linear(width, 32)

        def forward(self, x: Any) -> Any:
            for k, conv in enumerate(self.convs):
                x = conv(x)
                x = f.gelu(x if k else self.first(x))
            x = x + f.gelu(self.places(x))
            return self.out(self.body(self.norm(x.transpose(1, 2))))

    def loss(model: Any, batch: list[Any]) -> Any:
        rows = model(batch[0]).float().log_softmax(-1).transpose(0, 1)
        lengths = [rows.shape[0]] * 8, [20] * 8
        return f.ctc_loss(rows, batch[1] + 1, *map(fw.tensor, lengths))

    return Network(Speech(), loss, (Given((8, 1, 32000)), Given((8, 20), 31)))


def experts(fw: Any, width: int = 256, layers: int = 4, count: int = 8) -> Network:
    """Each token goes through the two of eight feed-forward parts that a router chooses."""
    nn, f = fw.nn, fw.nn.functional
    room = 512  # tokens that a part takes: later ones go past it

    class Experts(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.router = nn.Linear(width, count, bias=False)
            self.up = nn.Parameter(fw.randn(count, width, 2 * width) * width**-0.5)
            self.down = nn.Parameter(fw.randn(count, 2 * width, width) * width**-0.5)

        def forward(self, x: Any) -> Any:
            rows = x.flatten(0, 1)
            share, chosen = self.router(rows).float().softmax(-1).topk(2, -1)
            share = share / share.sum(-1, keepdim=True)
            asked = f.one_hot(chosen.flatten(), count)  # (tokens * 2, parts)
            place = ((asked.cumsum(0) - 1) * asked).sum(-1)
            kept = place < room
            slot = fw.where(kept, chosen.flatten() * room + place, count * room)
            doubled = rows.repeat_interleave(2, 0)
            given = doubled.new_zeros(count * room + 1, width).index_add(0, slot, doubled)
            given = given[:-1].view(count, room, width)
            made = (f.silu(given @ self.up) @ self.down).flatten(0, 1)
            made = fw.cat([made, made.new_zeros(1, width)])[slot]
            made = made * (share.flatten() * kept)[:, None]
            return made.view(-1, 2, width).sum(1).view(x.shape)

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attend = nn.MultiheadAttention(width, 4, DROPPED, batch_first=True)
            self.parts = Experts()

        def forward(self, x: Any) -> Any:
            h = self.before(x)
            x = x + self.attend(h, h, h, need_weights=False)[0]
            return x + self.parts(self.between(x))

    class Mixture(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.out = nn.Embedding(8000, width), nn.Linear(width, 8000)
            self.blocks = nn.Sequential(*[Block() for _ in range(layers)])

        def forward(self, x: Any) -> Any:
            return self.out(self.blocks(self.words(x)))

    loss = lambda m, b: f.cross_entropy(m(b[0]).flatten(0, 1), b[1].flatten())
    return Network(Mixture(), loss, (Given((8, 128), 8000), Given((8, 128), 8000)))


def state_space(fw: Any, width: int = 256, layers: int = 4, states: int = 16) -> Network:
    """Mamba's layers: a linear recurrence whose factors hang on the input, chunk by chunk."""
    nn, f, chunk = fw.nn, fw.nn.functional, 64

    class Layer(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.both = nn.LayerNorm(width), nn.Linear(width, 4 * width)
            self.near = nn.Conv1d(2 * width, 2 * width, 4, padding=3, groups=2 * width)
            heads = self.heads = 2 * width // 32
            self.told, self.out = (
                nn.Linear(2 * width, 2 * states + heads),
                nn.Linear(2 * width, width),
            )
            self.rate, self.past = nn.Parameter(fw.zeros(heads)), nn.Parameter(fw.ones(heads))

        def forward(self, x: Any) -> Any:
            n, t, _ = x.shape
            u, gate = self.both(self.norm(x)).chunk(2, -1)
            u = f.silu(self.near(u.transpose(1, 2))[..., :t].transpose(1, 2))
            b, c, step = self.told(u).split([states, states, self.heads], -1)
            step = f.softplus(step.float())
            decay = (-step * self.rate.exp()).view(n, -1, chunk, self.heads).cumsum(2)
            v = (u.float().unflatten(-1, (self.heads, -1)) * step[..., None]).unflatten(
                1, (-1, chunk)
            )
            b, c = (y.float().view(n, -1, chunk, states) for y in (b, c))
            apart = decay[:, :, :, None] - decay[:, :, None]  # (n, chunks, to, from, heads)
            lower = fw.ones(chunk, chunk, dtype=fw.bool, device=x.device).tril()[..., None]
            weight = fw.exp(apart.masked_fill(~lower, -1e9))
            inside = fw.einsum("ncis,ncjs,ncijh,ncjhd->ncihd", c, b, weight, v)
            left = fw.exp(decay[:, :, -1:] - decay)
            made = fw.einsum("ncjs,ncjh,ncjhd->nchds", b, left, v)
            state, before = fw.zeros_like(made[:, 0]), []
            for k in range(made.shape[1]):
                before.append(state)
                state = state * fw.exp(decay[:, k, -1])[..., None, None] + made[:, k]
            carried = fw.einsum("ncis,nchds,ncih->ncihd", c, fw.stack(before, 1), fw.exp(decay))
            y = inside + carried + v * self.past[:, None]
            return x + self.out(y.reshape(n, t, -1).to(x.dtype) * f.silu(gate))

    class Model(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.out = nn.Embedding(4000, width), nn.Linear(width, 4000)
            self.layers = nn.Sequential(*[Layer() for _ in range(layers)])

        def forward(self, x: Any) -> Any:
            return self.out(self.layers(self.words(x)))

    loss = lambda m, b: f.cross_entropy(m(b[0]).flatten(0, 1), b[1].flatten())
    return Network(Model(), loss, (Given((4, 512), 4000), Given((4, 512), 4000)))


def policy(fw: Any) -> Network:
    """An actor and a critic of two small layers each, by PPO's clipped loss."""
    nn = fw.nn

    def layers(out: int) -> Any:
        return nn.Sequential(
            nn.Linear(24, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, out)
        )

    class Policy(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.actor, self.critic = layers(6), layers(1)
            self.spread = nn.Parameter(fw.zeros(6))

        def forward(self, seen: Any) -> Any:
            return self.actor(seen).float(), self.critic(seen).float()[:, 0]

    def loss(model: Any, batch: list[Any]) -> Any:
        seen, done, before, gain, worth = batch
        mean, value = model(seen)
        chances = fw.distributions.Normal(mean, model.spread.exp(), validate_args=False)
        ratio = fw.exp(chances.log_prob(done).sum(-1) * 0.1 - before * 0.1)
        gain = (gain - gain.mean()) / (gain.std() + 1e-8)
        surrogate = fw.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
        return 0.5 * (value - worth).pow(2).mean() - surrogate - 0.01 * chances.entropy().mean()

    numbers = [Given((256,)) for _ in range(3)]
    return Network(Policy(), loss, (Given((256, 24)), Given((256, 6)), *numbers))


def adversaries(fw: Any, width: int = 64) -> Network:
    """A generator of transposed convolutions and who tells its images from given ones."""
    nn, f = fw.nn, fw.nn.functional

    def made(inside: int, out: int, step: int, padding: int) -> list[Any]:
        conv = nn.ConvTranspose2d(inside, out, 4, step, padding, bias=False)
        return [conv, nn.BatchNorm2d(out), nn.ReLU()]

    def judged(inside: int, out: int) -> list[Any]:
        conv = nn.Conv2d(inside, out, 4, 2, 1, bias=False)
        return [conv, nn.BatchNorm2d(out), nn.LeakyReLU(0.2)]

    class Both(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.maker = nn.Sequential(
                *made(100, 8 * width, 1, 0), *made(8 * width, 4 * width, 2, 1),
                *made(4 * width, 2 * width, 2, 1), *made(2 * width, width, 2, 1),
                nn.ConvTranspose2d(width, 3, 4, 2, 1, bias=False), nn.Tanh(),
            )  # fmt: skip
            self.judge = nn.Sequential(
                nn.Conv2d(3, width, 4, 2, 1, bias=False), nn.LeakyReLU(0.2),
                *judged(width, 2 * width), *judged(2 * width, 4 * width),
                *judged(4 * width, 8 * width), nn.Conv2d(8 * width, 1, 4, 1, 0, bias=False),
            )  # fmt: skip

        def forward(self, z: Any, x: Any) -> Any:
            images = self.maker(z)
            parts = self.judge(images), self.judge(images.detach()), self.judge(x)
            return [y.float().view(-1) for y in parts]

    def loss(model: Any, batch: list[Any]) -> Any:
        tell = f.binary_cross_entropy_with_logits
        wanted, false, true = model(*batch)
        ones = fw.ones_like(true)
        return tell(wanted, ones) + tell(false, 0 * ones) + tell(true, ones)

    batch = (Given((64, 100, 1, 1)), Given((64, 3, 64, 64)))
    return Network(Both(), loss, batch, operands=2)


EVERYDAY: dict[str, Callable[[Any], Network]] = {
    "gpt": gpt, "bert": bert, "t5": t5, "swin": swin, "convnext": convnext, "denoiser": denoiser,
    "recurrent": recurrent, "recommender": recommender, "graph": graph, "speech": speech,
    "experts": experts, "states": state_space, "policy": policy, "adversaries": adversaries,
}  # fmt: skip
