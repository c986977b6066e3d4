import torch
from common import picture, say
from torch.utils.data import TensorDataset
from torchdata.stateful_dataloader import StatefulDataLoader

rows = TensorDataset(picture(20, 3), torch.arange(20))
found = []
for workers in (0, 2):
    loader = StatefulDataLoader(rows, batch_size=4, num_workers=workers)
    steps = iter(loader)
    next(steps), next(steps)
    state = loader.state_dict()
    rest = [float(y.sum()) for _, y in steps]
    again = StatefulDataLoader(rows, batch_size=4, num_workers=workers)
    again.load_state_dict(state)
    found += rest + [float(y.sum()) for _, y in again]
say(*found)
