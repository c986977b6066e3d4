import torch
import torch.nn.functional as F
from common import fill, picture, say, train
from torch_geometric.data import Data
from torch_geometric.nn import GATConv, GCNConv, SAGEConv, global_mean_pool

edges = torch.tensor([[0, 1, 2, 3, 4, 0], [1, 2, 3, 4, 0, 2]])
graph, y = Data(x=picture(5, 4), edge_index=edges), torch.tensor([0, 1, 2, 0, 1])
found = []
for kind in (GCNConv, SAGEConv, GATConv):
    layer = fill(kind(4, 3))
    found += train(layer, lambda: F.cross_entropy(layer(graph.x, graph.edge_index), y))
say(*found, global_mean_pool(graph.x, torch.tensor([0, 0, 1, 1, 1])).sum())
