import torch
from common import picture, say
from torchmetrics import Accuracy, F1Score, MeanSquaredError
from torchmetrics.functional import pearson_corrcoef

p, y = picture(10, 3).softmax(-1), torch.arange(10) % 3
say(
    Accuracy(task="multiclass", num_classes=3)(p, y),
    F1Score(task="multiclass", num_classes=3, average="macro")(p, y),
    MeanSquaredError()(p[:, 0], p[:, 1]),
    pearson_corrcoef(p[:, 0], p[:, 1]),
)
