"""skorch in scikit-learn: searches, pipelines, callbacks, files, classes of its own; scikit-learn on tensors."""

import tempfile

import numpy as np
import torch
from common import fill, parts, picture
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNet, NeuralNetBinaryClassifier, NeuralNetClassifier, NeuralNetRegressor
from skorch.callbacks import (
    BatchScoring,
    Checkpoint,
    EarlyStopping,
    EpochScoring,
    Freezer,
    GradientNormClipping,
    LRScheduler,
    ParamMapper,
)
from skorch.dataset import ValidSplit
from skorch.helper import SliceDataset, predefined_split
from torch import nn

x = picture(24, 4).numpy()
y = (np.arange(24) * 5 % 3).astype("int64")


class Net(nn.Module):
    """Two layers."""

    def __init__(self, width=6, out=3):
        super().__init__()
        self.first, self.last = nn.Linear(4, width), nn.Linear(width, out)
        fill(self)

    def forward(self, x):
        return torch.softmax(self.last(torch.tanh(self.first(x))), -1)


QUIET = {"verbose": 0, "iterator_train__shuffle": False, "max_epochs": 3, "lr": 0.1}


def classes():
    """A fit with callbacks, and what it remembers."""
    net = NeuralNetClassifier(
        Net, criterion=nn.NLLLoss, optimizer=torch.optim.SGD, optimizer__momentum=0.9, train_split=ValidSplit(3),
        callbacks=[EarlyStopping(patience=5), LRScheduler("StepLR", step_size=1, gamma=0.5), GradientNormClipping(0.5), EpochScoring("accuracy", lower_is_better=False)],
        **QUIET,
    )  # fmt: skip
    net.fit(x, y)
    return [
        net.history[:, "train_loss"],
        net.history[:, "valid_loss"],
        net.history[:, "valid_acc"],
        net.predict_proba(x[:3]).ravel().tolist(),
        net.score(x, y),
    ]


def searched():
    """A grid, within a pipeline."""
    net = NeuralNetClassifier(Net, criterion=nn.NLLLoss, train_split=None, **QUIET)
    whole = Pipeline([("scale", StandardScaler()), ("net", net)])
    grid = GridSearchCV(
        whole, {"net__lr": [0.01, 0.1], "net__module__width": [4, 6]}, cv=2, scoring="accuracy"
    )
    grid.fit(x, y)
    return [
        grid.best_score_,
        grid.cv_results_["mean_test_score"].tolist(),
        grid.best_params_["net__module__width"],
        cross_val_score(net, x, y, cv=2).tolist(),
    ]


def files():
    """Checkpoints, pickles, parts of parameters."""
    with tempfile.TemporaryDirectory() as folder:
        keep = Checkpoint(dirname=folder, monitor=None)
        net = NeuralNetClassifier(
            Net, criterion=nn.NLLLoss, train_split=None, callbacks=[keep], **QUIET
        )
        net.fit(x, y)
        other = NeuralNetClassifier(
            Net, criterion=nn.NLLLoss, train_split=None, **QUIET
        ).initialize()
        other.load_params(checkpoint=keep)
        net.save_params(
            f_params=folder + "/p.pt", f_optimizer=folder + "/o.pt", f_history=folder + "/h.json"
        )
        third = NeuralNetClassifier(
            Net, criterion=nn.NLLLoss, train_split=None, **QUIET
        ).initialize()
        third.load_params(
            f_params=folder + "/p.pt", f_optimizer=folder + "/o.pt", f_history=folder + "/h.json"
        )
        third.partial_fit(x, y)
        import pickle

        again = pickle.loads(pickle.dumps(net))
        return [
            net.history[:, "train_loss"],
            other.predict_proba(x[:2]).ravel().tolist(),
            third.history[:, "train_loss"],
            again.predict(x[:4]).tolist(),
        ]


def frozen():
    """Layers that stay, values by a schedule of one's own, regressions, two classes."""
    freeze = Freezer("first.*")
    net = NeuralNetClassifier(
        Net, criterion=nn.NLLLoss, train_split=None, callbacks=[freeze], **QUIET
    )
    net.fit(x, y)
    found = [net.module_.first.weight, net.module_.last.bias]
    line = NeuralNetRegressor(
        nn.Linear,
        module__in_features=4,
        module__out_features=1,
        train_split=None,
        callbacks=[("fill", ParamMapper("*", fn=lambda p: nn.init.constant_(p, 0.1)))],
        **QUIET,
    )
    line.fit(x, x.sum(1, keepdims=True))
    found += [line.history[:, "train_loss"], line.predict(x[:2]).ravel().tolist()]
    yes = NeuralNetBinaryClassifier(
        nn.Linear,
        module__in_features=4,
        module__out_features=1,
        train_split=None,
        callbacks=[("fill", ParamMapper("*", fn=lambda p: nn.init.constant_(p, 0.1)))],
        **QUIET,
    )
    yes.fit(x, (y > 0).astype("float32"))
    return [*found, yes.history[:, "train_loss"], yes.predict(x[:6]).tolist()]


def own():
    """A loss of one's own, several inputs, datasets as they are."""

    class Twice(NeuralNet):
        """Adds the size of weights."""

        def get_loss(self, y_pred, y_true, *args, **kwargs):
            return super().get_loss(y_pred, y_true, *args, **kwargs) + 0.01 * sum(
                p.square().sum() for p in self.module_.parameters()
            )

    data = torch.utils.data.TensorDataset(torch.tensor(x), torch.tensor(y))
    net = Twice(
        Net,
        criterion=nn.NLLLoss,
        train_split=predefined_split(data),
        callbacks=[BatchScoring(lambda net, X, y: 1.0, name="one")],
        **QUIET,
    )
    net.fit(data, y=None)
    sliced = SliceDataset(data, idx=0)
    return [
        net.history[:, "train_loss"],
        net.history[:, "valid_loss"],
        net.forward(x[:2]),
        len(sliced),
        cross_val_predict(
            NeuralNetClassifier(Net, criterion=nn.NLLLoss, train_split=None, **QUIET), x, y, cv=2
        ).tolist(),
    ]


parts(classes, searched, files, frozen, own)
