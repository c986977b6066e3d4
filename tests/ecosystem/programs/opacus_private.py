import torch
from common import fill, picture, say
from opacus import GradSampleModule, PrivacyEngine
from opacus.accountants import GaussianAccountant, RDPAccountant
from opacus.accountants.utils import get_noise_multiplier
from opacus.layers import DPLSTM, DPMultiheadAttention
from opacus.validators import ModuleValidator

found = []


def net():
    """Convolution, normalisation, embedding of none."""
    return fill(
        torch.nn.Sequential(
            torch.nn.Conv2d(1, 4, 3),
            torch.nn.GroupNorm(2, 4),
            torch.nn.ReLU(),
            torch.nn.Flatten(),
            torch.nn.Linear(16, 2),
        )
    )


rows = torch.utils.data.TensorDataset(picture(12, 1, 4, 4), torch.arange(12) % 2)
per_sample = GradSampleModule(net())
torch.nn.functional.cross_entropy(
    per_sample(picture(3, 1, 4, 4)), torch.tensor([0, 1, 0])
).backward()
for value in per_sample.parameters():
    found += [value.grad_sample.sum(), value.grad_sample.square().sum(), value.grad.sum()]
for clipping in ("flat", "per_layer"):
    engine, model = PrivacyEngine(), net()
    limit = 0.5 if clipping == "flat" else [0.5] * 6
    model, optimizer, loader = engine.make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), data_loader=torch.utils.data.DataLoader(rows, batch_size=4),
        noise_multiplier=0.0, max_grad_norm=limit, poisson_sampling=False, clipping=clipping,
    )  # fmt: skip
    for x, y in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
engine, model = PrivacyEngine(accountant="rdp"), net()
model, optimizer, loader = engine.make_private(
    module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), data_loader=torch.utils.data.DataLoader(rows, batch_size=4),
    noise_multiplier=1.1, max_grad_norm=1.0,
)  # fmt: skip
for x, y in loader:
    if len(x) == 0:
        continue
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
found.append(len(loader))
account = RDPAccountant()
account.history = [(1.1, 0.3, 3)]
found += [account.get_epsilon(1e-3), GaussianAccountant().mechanism() == "gdp"]
found.append(
    get_noise_multiplier(
        target_epsilon=3.0, target_delta=1e-3, sample_rate=0.3, epochs=2, accountant="rdp"
    )
)
wrong = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4))
found += [
    len(ModuleValidator.validate(wrong, strict=False)),
    isinstance(ModuleValidator.fix(wrong)[1], torch.nn.GroupNorm),
]
lstm = fill(DPLSTM(3, 4, batch_first=True))
out, _ = lstm(picture(2, 5, 3))
found.append(out.sum())
attention = fill(DPMultiheadAttention(8, 2))
found.append(attention(picture(5, 2, 8), picture(5, 2, 8), picture(5, 2, 8))[0].sum())
say(*found)
