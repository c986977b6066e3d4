"""Cross entropy, Adam, a scheduler, a DataLoader over a TensorDataset, train and eval."""

import torch
from torch import nn
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset

t = torch.arange(120, dtype=torch.float32)
x = torch.stack([torch.sin(t), torch.cos(t * 0.7), torch.sin(t * 0.3)], dim=1)
y = (x.sum(1) > 0).long() + (x[:, 0] > 0.5).long()

model = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Dropout(0.0), nn.Linear(16, 3))
for i, p in enumerate(model.parameters()):
    nn.init.constant_(p, 0.0)
    p.data.add_(torch.cos(torch.arange(p.numel()) * 1.3 + i).reshape(p.shape) * 0.4)
loader = DataLoader(TensorDataset(x, y), batch_size=24, shuffle=False)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
scheduler = StepLR(optimizer, step_size=2, gamma=0.5)
loss_fn = nn.CrossEntropyLoss(label_smoothing=0.1)
for epoch in range(5):
    model.train()
    total = 0.0
    for batch_idx, (data, target) in enumerate(loader):
        optimizer.zero_grad(set_to_none=True)
        output = model(data)
        loss = loss_fn(output, target)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        total += loss.item() * len(data)
    scheduler.step()
    model.eval()
    correct = 0
    with torch.no_grad():
        for data, target in loader:
            pred = model(data).argmax(dim=1, keepdim=True)
            correct += pred.eq(target.view_as(pred)).sum().item()
    print(
        f"epoch {epoch} loss {total / len(loader.dataset):.4f} correct {correct} {scheduler.get_last_lr()}"
    )
