import torch
from common import fill, picture, say, train
from pytorch_metric_learning import distances, losses, miners, reducers

net = fill(torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4)))
x, y = picture(12, 6), torch.arange(12) % 3
miner = miners.MultiSimilarityMiner()
found = []
for loss_of in (
    losses.TripletMarginLoss(distance=distances.CosineSimilarity(), reducer=reducers.MeanReducer()),
    losses.NTXentLoss(),
    losses.ContrastiveLoss(),
    losses.SupConLoss(),
    losses.CircleLoss(),
    losses.MultiSimilarityLoss(),
):

    def loss(loss_of=loss_of):
        out = net(x)
        return loss_of(out, y, miner(out, y))

    found += train(net, loss, steps=2, lr=0.01)
say(*found)
