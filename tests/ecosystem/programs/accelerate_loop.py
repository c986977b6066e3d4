import torch
from accelerate import Accelerator
from common import fill, picture, say

accelerator = Accelerator(cpu=True)
model = fill(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)))
data = torch.utils.data.TensorDataset(picture(8, 4), torch.arange(8) % 2)
model, optimizer, loader = accelerator.prepare(
    model,
    torch.optim.AdamW(model.parameters(), lr=0.01),
    torch.utils.data.DataLoader(data, batch_size=4),
)
losses = []
for x, y in loader:
    loss = torch.nn.functional.cross_entropy(model(x), y)
    accelerator.backward(loss)
    accelerator.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.item())
say(*losses)
