import torch
import torch.nn.functional as F
from common import fill, picture, say, train
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.loader import DataLoader, NeighborLoader
from torch_geometric.nn import (
    GIN,
    MLP,
    GATv2Conv,
    GINConv,
    GraphConv,
    GraphSAGE,
    HeteroConv,
    MessagePassing,
    NNConv,
    SAGEConv,
    TAGConv,
    TopKPooling,
    TransformerConv,
    global_add_pool,
    global_max_pool,
    global_mean_pool,
)
from torch_geometric.transforms import AddSelfLoops, Compose, NormalizeFeatures, ToUndirected
from torch_geometric.utils import (
    add_self_loops,
    coalesce,
    degree,
    dropout_edge,
    negative_sampling,
    scatter,
    softmax,
    subgraph,
    to_dense_adj,
    to_dense_batch,
    to_undirected,
)

edges = torch.tensor([[0, 1, 2, 3, 4, 0, 3], [1, 2, 3, 4, 0, 2, 1]])
x, y = picture(5, 4), torch.tensor([0, 1, 2, 0, 1])
found = []


class Own(MessagePassing):
    """Messages made of both ends, by the greatest."""

    def __init__(self):
        super().__init__(aggr="max")
        self.mix = torch.nn.Linear(8, 3)

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=x)

    def message(self, x_i, x_j):
        return self.mix(torch.cat([x_i, x_j - x_i], -1))


for layer in (
    Own(), GATv2Conv(4, 3, heads=2, concat=False, dropout=0.0), GraphConv(4, 3, aggr="mean"),
    TransformerConv(4, 3), TAGConv(4, 3, K=2), GINConv(torch.nn.Linear(4, 3), train_eps=True),
):  # fmt: skip
    fill(layer)
    found += train(layer, lambda: F.cross_entropy(layer(x, edges), y), steps=2)
weights = picture(7, 2)
edged = fill(NNConv(4, 3, torch.nn.Linear(2, 12)))
found += train(edged, lambda: F.cross_entropy(edged(x, edges, weights), y), steps=2)
graphs = [Data(x=x * (i + 1), edge_index=edges, y=torch.tensor([i % 2])) for i in range(4)]
for net in (GIN(4, 8, 2, out_channels=2), GraphSAGE(4, 8, 2, out_channels=2, dropout=0.0)):
    fill(net)
    for batch in DataLoader(graphs, batch_size=2):

        def loss():
            """Of graphs, by three pools."""
            h = net(batch.x, batch.edge_index)
            pooled = sum(
                p(h, batch.batch) for p in (global_mean_pool, global_max_pool, global_add_pool)
            )
            return F.cross_entropy(pooled, batch.y)

        found += train(net, loss, steps=1)
whole = Batch.from_data_list(graphs)
found += [whole.num_graphs, whole.ptr.sum(), len(whole.to_data_list())]
pool = fill(TopKPooling(4, ratio=0.5))
found += [each.sum() for each in pool(whole.x, whole.edge_index, batch=whole.batch)[:2]]
transform = Compose([ToUndirected(), AddSelfLoops(), NormalizeFeatures()])
found += [transform(graphs[0].clone()).x.sum(), transform(graphs[0].clone()).edge_index.sum()]
found += [
    degree(edges[1], 5).square().sum(),
    to_dense_adj(edges).sum(),
    add_self_loops(edges)[0].shape[1],
]
found += [
    softmax(picture(7), edges[1]).sum(),
    scatter(picture(7, 2), edges[1], reduce="mean").sum(),
]
found += [to_undirected(edges).sum(), coalesce(edges).sum(), subgraph([0, 1, 2], edges)[0].shape[1]]
found += [to_dense_batch(whole.x, whole.batch)[0].sum(), dropout_edge(edges, p=0.0)[0].shape[1]]
found.append(negative_sampling(edges, num_nodes=5).shape[0])
mixed = HeteroData()
mixed["user"].x, mixed["item"].x = picture(3, 4), picture(4, 4)
mixed["user", "buys", "item"].edge_index = torch.tensor([[0, 1, 2], [1, 2, 3]])
mixed["item", "of", "user"].edge_index = torch.tensor([[1, 2, 3], [0, 1, 2]])
both = fill(HeteroConv({kind: SAGEConv((4, 4), 3) for kind in mixed.edge_types}, aggr="sum"))
out = both(mixed.x_dict, mixed.edge_index_dict)
found += [out["user"].sum(), out["item"].sum()]
head = fill(MLP([4, 8, 2], norm=None, dropout=0.0))
found += train(head, lambda: F.cross_entropy(head(x), y % 2), steps=2)
say(*found)
