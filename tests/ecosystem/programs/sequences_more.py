"""Libraries of sequences and tensors: labels in a chain, local attention, spectra, factors."""

import tensorly
import torch
import torch_optimizer
import torchcde
from common import fill, picture, say, train
from laplace import Laplace
from local_attention import LocalTransformer
from nnAudio.features import MFCC, STFT, MelSpectrogram
from rotary_embedding_torch import RotaryEmbedding
from tensorly.decomposition import parafac, tensor_train, tucker
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchcrf import CRF
from unfoldNd import unfoldNd

found = []
chain, scores = fill(CRF(4, batch_first=True)), picture(2, 5, 4)
tags = torch.tensor([[0, 1, 2, 3, 1], [1, 1, 2, 0, 0]])
mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], dtype=torch.bool)
found += train(chain, lambda: -chain(scores, tags, mask=mask))
found += [tag for row in chain.decode(scores, mask=mask) for tag in row]
near = LocalTransformer(
    num_tokens=40, dim=16, depth=1, max_seq_len=32, local_attn_window_size=8, heads=2, dim_head=8,
    causal=True,
)  # fmt: skip
fill(near)
found += train(near, lambda: near(torch.arange(32).reshape(2, 16) % 40, return_loss=True), steps=2)
queries = picture(1, 2, 6, 8)
found.append(RotaryEmbedding(dim=8).rotate_queries_or_keys(queries).sum())
both = RotaryEmbedding(dim=8, use_xpos=True).rotate_queries_and_keys(queries, queries)
found += [each.sum() for each in both]
wave, spectrum = picture(1, 4000), {"n_fft": 256, "hop_length": 128, "verbose": False}
found += [
    STFT(**spectrum, output_format="Magnitude")(wave).sum(),
    MelSpectrogram(sr=8000, n_mels=20, **spectrum)(wave).sum(),
    MFCC(sr=8000, n_mfcc=8, n_mels=20, **spectrum)(wave).sum(),
]
tensorly.set_backend("pytorch")
block = picture(4, 5, 6) + 2
found += [
    tensorly.cp_to_tensor(parafac(block, rank=2, init="svd", n_iter_max=5)).sum(),
    tensorly.tucker_to_tensor(tucker(block, rank=[2, 2, 2], init="svd", n_iter_max=5)).sum(),
    tensorly.tt_to_tensor(tensor_train(block, rank=[1, 2, 2, 1])).sum(),
    unfoldNd(picture(1, 2, 6, 6, 6), 2, stride=2).abs().sum(),
]


class Field(nn.Module):
    """What drives a controlled equation."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 12)

    def forward(self, t, z):
        """The field at a point."""
        return torch.tanh(self.layer(z)).view(*z.shape[:-1], 4, 3)


path = torchcde.CubicSpline(
    torchcde.hermite_cubic_coefficients_with_backward_differences(picture(2, 6, 3).cumsum(1))
)
field = fill(Field())
fixed = {"method": "rk4", "options": {"step_size": 0.5}}


def end():
    """The square of where the equation leads."""
    led = torchcde.cdeint(X=path, func=field, z0=picture(2, 4), t=path.interval, **fixed)
    return led[:, -1].pow(2).mean()


found += train(field, end, steps=2)
net = fill(nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1)))
points = picture(12, 2)
pairs = DataLoader(TensorDataset(points, points.sum(1, keepdim=True)), batch_size=4)
posterior = Laplace(net, "regression", subset_of_weights="last_layer", hessian_structure="full")
posterior.fit(pairs)
found += [each.sum() for each in posterior(points[:3])]
for name in ("RAdam", "Yogi", "AdaBound", "Lamb", "DiffGrad", "NovoGrad", "AdamP", "Ranger"):
    value = nn.Parameter(picture(4, 3))
    optimizer = getattr(torch_optimizer, name)([value])
    for _ in range(3):
        optimizer.zero_grad()
        value.pow(2).sum().backward()
        optimizer.step()
    found.append(value.detach().sum())
say(*found)
