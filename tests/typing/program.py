"""A program as people write it: its types are asserted, and what is wrong in it is flagged.

Checked by mypy and pyright (tests/test_typing.py); `# wrong: NAME` marks lines that must be errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_type

import adjoint as ad
from adjoint import Tensor, nn, optim
from adjoint.nn import functional as F
from adjoint.utils.data import DataLoader, TensorDataset

x = ad.randn(3, 4)
y = ad.tensor([1, 2, 3])
assert_type(x, Tensor)
assert_type(x + 1, Tensor)
assert_type(1 - x, Tensor)
assert_type(x @ x.T, Tensor)
assert_type(x * x / 2.0, Tensor)
assert_type(-x, Tensor)
assert_type(x > 0, Tensor)
assert_type(x[0], Tensor)
assert_type(x**2, Tensor)
assert_type(2**x, Tensor)
assert_type(x // 2 % 3, Tensor)
assert_type((x > 0) & ~(x < 1), Tensor)
assert_type(x == 0, Tensor)
assert_type(x[:, 1], Tensor)
assert_type(x[x > 0], Tensor)
assert_type(x.shape, ad.Size)
assert_type(x.shape[0], int)
assert_type(x.shape[1:], ad.Size)
assert_type(x.size(), ad.Size)
assert_type(x.size(0), int)
assert_type(x.dtype, ad.dtype)
assert_type(x.device, ad.device)
assert_type(x.view(2, 6).transpose(0, 1).reshape(-1), Tensor)
assert_type(x.to(ad.float64).cpu().detach().clone(), Tensor)
assert_type(x.sum(), Tensor)
assert_type(x.exp().mean(dim=0), Tensor)
values, indices = x.max(dim=0)
assert_type(values, Tensor)
assert_type(indices, Tensor)
assert_type(x.min(dim=1).values, Tensor)
assert_type(ad.max(x, dim=0).indices, Tensor)
assert_type(x.sort(dim=0).values, Tensor)
assert_type(ad.topk(x, 2).indices, Tensor)
assert_type(x.argmax(dim=1), Tensor)
assert_type(ad.where(x > 0, x, 0.0), Tensor)
assert_type(ad.where(x > 0), tuple[Tensor, ...])
assert_type(x.chunk(2, dim=1), tuple[Tensor, ...])
assert_type(x.split(2), tuple[Tensor, ...])
assert_type(ad.unbind(x), tuple[Tensor, ...])
assert_type(ad.cat([x, x]), Tensor)
assert_type(ad.equal(x, x), bool)
loader = DataLoader(TensorDataset(x, y), batch_size=2, shuffle=True)
assert_type(loader, DataLoader[tuple[Tensor, ...]])
assert_type(DataLoader([1, 2, 3]), DataLoader[int])
assert_type(F.cross_entropy(x, y, label_smoothing=0.1), Tensor)
assert_type(F.nll_loss(x.log_softmax(dim=1), y), Tensor)
assert_type(F.binary_cross_entropy_with_logits(x, x.sigmoid()), Tensor)
assert_type(F.l1_loss(x, x, reduction="sum"), Tensor)
assert_type(F.smooth_l1_loss(x, x), Tensor)
assert_type(F.scaled_dot_product_attention(x, x, x), Tensor)
assert_type(F.mse_loss(x, x), Tensor)
assert_type(F.relu(x), Tensor)


@ad.compile
def double(x: Tensor, times: int = 2) -> Tensor:
    return x * times


@ad.compile(dynamic=True)
def triple(x: Tensor) -> Tensor:
    return x * 3


@ad.no_grad()
def evaluate(x: Tensor) -> float:
    return float(x.sum())


@ad.inference_mode()
def count(x: Tensor, *, each: int = 1) -> int:
    return len(x) * each


@ad.enable_grad()
def same(x: Tensor) -> Tensor:
    return x


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.layer(x))


model = nn.Sequential(Net(), nn.Linear(2, 3))
assert_type(model.train(), nn.Sequential)
assert_type(model.to("cpu").eval(), nn.Sequential)
assert_type(nn.Linear(4, 2).weight, nn.Parameter)
for name, parameter in model.named_parameters():
    assert_type(name, str)
    assert_type(parameter, nn.Parameter)
optimizer = optim.AdamW(model.parameters(), lr=1e-3)
assert_type(optimizer, optim.AdamW)
assert_type(optim.lr_scheduler.StepLR(optimizer, 3), optim.lr_scheduler.StepLR)
with ad.no_grad():
    assert_type(x * 2, Tensor)
assert_type(ad.compile(Net()), Net)
assert_type(count(x, each=3), int)
assert_type(same(x), Tensor)
assert_type(double(x), Tensor)
assert_type(triple(x), Tensor)
assert_type(evaluate(x), float)
assert_type(double.explain(), str)
assert_type(ad.compile(nn.Linear(4, 2)), nn.Linear)

if TYPE_CHECKING:
    double("no")  # wrong: a string
    double(x, 2, 3)  # wrong: too many
    ad.no_such_function(x)  # wrong: no such name
    evaluate(3)  # wrong: not a tensor
    x.no_such_method()  # wrong: no such method
    F.no_such_loss(x, y)  # wrong: no such function
    nn.NoSuchLayer(3)  # wrong: no such layer
    optim.NoSuchOptimizer(model.parameters())  # wrong: no such optimizer
    count(x, every=3)  # wrong: no such argument
    x.sum(dims=0)  # wrong: no such argument
    x.max(dim="rows")  # wrong: a string
    nn.Linear(2)  # wrong: too few
    nn.Linear("two", 2)  # wrong: a string
    ad.ones(2, dtype="float32")  # wrong: a string
    optim.SGD(model.parameters(), lr=0.1, momentun=0.9)  # wrong: no such argument
    F.cross_entropy(x)  # wrong: too few
    total: int = x + 1  # wrong: a tensor
