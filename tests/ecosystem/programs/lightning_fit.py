import logging
import warnings

import lightning as L
import torch
from common import fill, picture, say

warnings.simplefilter("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(4, 2)
        self.seen = []

    def training_step(self, batch, _):
        loss = torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        self.seen.append(float(loss.detach()))
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


net = fill(Net())
data = torch.utils.data.DataLoader(
    torch.utils.data.TensorDataset(picture(8, 4), torch.arange(8) % 2), batch_size=4
)
L.Trainer(
    max_epochs=2,
    accelerator="cpu",
    devices=1,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
).fit(net, data)
say(*net.seen)
