import tempfile

import torch
from common import fill, picture, say
from lightning.fabric import Fabric

found = []
for precision in ("32-true", "bf16-mixed"):
    fabric = Fabric(accelerator="cpu", devices=1, precision=precision)
    fabric.launch()
    fabric.seed_everything(1)
    model = fill(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 1)))
    model, optimizer = fabric.setup(model, torch.optim.AdamW(model.parameters(), lr=0.05))
    rows = torch.utils.data.TensorDataset(picture(12, 4), picture(12, 1))
    loader = fabric.setup_dataloaders(torch.utils.data.DataLoader(rows, batch_size=4))
    for place, (x, y) in enumerate(loader):
        with fabric.no_backward_sync(model, enabled=place == 0):
            loss = torch.nn.functional.mse_loss(model(x).float(), y)
            fabric.backward(loss)
        fabric.clip_gradients(model, optimizer, max_norm=0.5)
        optimizer.step()
        optimizer.zero_grad()
        found.append(round(loss.item(), 3) if precision == "32-true" else round(loss.item(), 1))
    with tempfile.TemporaryDirectory() as folder:
        state = {"model": model, "optimizer": optimizer, "step": 3}
        fabric.save(folder + "/kept.pt", state)
        state["step"] = 0
        fabric.load(folder + "/kept.pt", state)
        found.append(state["step"])
    found.append(fabric.all_reduce(torch.ones(2)).sum())
say(*found)
