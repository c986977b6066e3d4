"""fastai: learners, one-cycle fits, frozen groups, callbacks, files."""

import tempfile

import torch
from common import fill, picture, say
from fastai.callback.all import (
    GradientAccumulation,
    GradientClip,
    SaveModelCallback,
    TrackerCallback,
)
from fastai.data.core import DataLoaders
from fastai.data.load import DataLoader
from fastai.learner import Learner, load_learner
from fastai.losses import CrossEntropyLossFlat, FocalLossFlat, LabelSmoothingCrossEntropy
from fastai.metrics import F1Score, accuracy
from fastai.optimizer import Adam, Lamb, RAdam, ranger
from fastai.layers import ConvLayer, SimpleSelfAttention, AdaptiveConcatPool2d, SigmoidRange
from fastai.tabular.model import TabularModel
from fastai.text.models.awdlstm import AWD_LSTM
from fastai.vision.models.xresnet import xresnet18

x, y = picture(24, 6), torch.arange(24) % 3
rows = list(zip(x, y))
found = []


def splitter(net):
    """The body and the head."""
    return [list(net[0].parameters()), list(net[2].parameters())]


for optimizer in (Adam, Lamb, RAdam, ranger):
    net = fill(torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)))
    loaders = DataLoaders(DataLoader(rows, bs=8), DataLoader(rows[:8], bs=8))
    with tempfile.TemporaryDirectory() as folder:
        learner = Learner(
            loaders, net, loss_func=CrossEntropyLossFlat(), opt_func=optimizer, metrics=[accuracy, F1Score(average="macro")], splitter=splitter,
            cbs=[GradientClip(1.0), GradientAccumulation(8), SaveModelCallback(monitor="valid_loss")], path=folder,
        )  # fmt: skip
        with learner.no_bar(), learner.no_logging():
            learner.fit_one_cycle(2, 1e-2)
            learner.freeze()
            learner.fit(1, 1e-2, wd=0.1)
            learner.unfreeze()
            learner.fit_flat_cos(1, slice(1e-3, 1e-2))
        found += [number for values in learner.recorder.values for number in values]
        found += learner.recorder.lrs[:3]
        scores, aims = learner.get_preds()
        found += [scores.sum(), aims.sum(), scores.square().sum()]
        learner.save("kept")
        learner.load("kept")
        learner.export("whole.pkl")
        found.append(
            load_learner(folder + "/whole.pkl").get_preds(dl=loaders.valid)[0].square().sum()
        )
for loss in (FocalLossFlat(), LabelSmoothingCrossEntropy()):
    found.append(loss(picture(4, 3), y[:4]))
net = fill(
    torch.nn.Sequential(
        ConvLayer(3, 8),
        SimpleSelfAttention(8),
        AdaptiveConcatPool2d(),
        torch.nn.Flatten(),
        torch.nn.Linear(16, 1),
        SigmoidRange(0, 2),
    )
)
net.eval()
found.append(net(picture(2, 3, 8, 8)).sum())
table = fill(TabularModel([(4, 3), (5, 2)], 3, 2, [8, 4], ps=0.0)).train()
found.append(table(torch.tensor([[1, 2], [3, 4], [0, 1]]), picture(3, 3)).square().sum())
reader = fill(AWD_LSTM(20, 8, 12, 2, hidden_p=0, input_p=0, embed_p=0, weight_p=0)).eval()
found.append(reader(torch.arange(12).reshape(2, 6))[-1].sum())
found.append(fill(xresnet18(n_out=3)).eval()(picture(1, 3, 32, 32)).sum())
say(*found)
