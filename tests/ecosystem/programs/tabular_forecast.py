"""fastai, skorch, tabnet, pytorch-forecasting's network and higher on small tables."""

import higher
import numpy as np
import torch
from common import fill, picture, say
from pytorch_tabnet.tab_model import TabNetRegressor
from pytorch_tabnet.tab_network import TabNet
from skorch import NeuralNetClassifier
from skorch.callbacks import EpochScoring, LRScheduler

found = []
rows, kinds = picture(24, 5).numpy(), (np.arange(24) * 5 % 2).astype("int64")


class Net(torch.nn.Module):
    """Two layers."""

    def __init__(self, width=6):
        super().__init__()
        self.net = fill(
            torch.nn.Sequential(
                torch.nn.Linear(5, width), torch.nn.ReLU(), torch.nn.Linear(width, 2)
            )
        )

    def forward(self, x):
        return self.net(x)


fit = NeuralNetClassifier(
    Net, criterion=torch.nn.CrossEntropyLoss, max_epochs=4, lr=0.1, batch_size=6, train_split=None, verbose=0,
    iterator_train__shuffle=False, module__width=8,
    callbacks=[EpochScoring("accuracy", on_train=True), LRScheduler("StepLR", step_size=2)],
).fit(rows, kinds)  # fmt: skip
found += [
    *fit.history[:, "train_loss"],
    fit.score(rows, kinds),
    *fit.predict_proba(rows[:2]).flatten(),
]
tab = fill(
    TabNet(
        5, 2, n_d=4, n_a=4, n_steps=2, virtual_batch_size=12, group_attention_matrix=torch.eye(5)
    )
)
optimizer = torch.optim.Adam(tab.parameters(), lr=0.02)
for _ in range(3):
    out, sparse = tab(torch.tensor(rows))
    loss = torch.nn.functional.cross_entropy(out, torch.tensor(kinds)) - 1e-3 * sparse
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    found.append(loss.item())
fitted = TabNetRegressor(n_d=4, n_a=4, n_steps=2, verbose=0, seed=1)
fitted.fit(rows, rows[:, :1], max_epochs=2, batch_size=12, virtual_batch_size=6)
found += [*fitted.predict(rows).shape]
net = fill(torch.nn.Linear(5, 1))
inner, aim = torch.optim.SGD(net.parameters(), lr=0.1), torch.tensor(rows[:, :1])
with higher.innerloop_ctx(net, inner, copy_initial_weights=False) as (fast, steps):
    for _ in range(3):
        steps.step(torch.nn.functional.mse_loss(fast(torch.tensor(rows)), aim))
    outer = torch.nn.functional.mse_loss(fast(torch.tensor(rows)), aim)
    outer.backward()
found += [outer, *net.weight.grad.flatten().tolist()]
say(*found)
