"""torch_geometric: layers, pools, aggregations, autoencoders, explanations, datasets that are made."""

import tempfile

import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from common import fill, parts, picture, train
from torch_geometric.data import Data, InMemoryDataset
from torch_geometric.datasets import FakeDataset, KarateClub
from torch_geometric.explain import Explainer, GNNExplainer
from torch_geometric.loader import DataLoader
from torch_geometric.utils import to_networkx, to_scipy_sparse_matrix

edges = torch.tensor([[0, 1, 2, 3, 4, 0, 3, 1, 2], [1, 2, 3, 4, 0, 2, 1, 0, 1]])
x, y = picture(5, 4), torch.tensor([0, 1, 2, 0, 1])
kinds, widths = torch.arange(9) % 2, picture(9, 2)


def learn(layer, *further):
    """Two steps."""
    fill(layer)
    return train(layer, lambda: F.cross_entropy(layer(x, edges, *further), y), steps=2)


def convolutions():
    """Convolutions of graphs."""
    found = []
    for layer in (
        pyg.ChebConv(4, 3, K=2), pyg.ARMAConv(4, 3, num_stacks=2), pyg.SGConv(4, 3, K=2), pyg.GENConv(4, 3), pyg.EdgeConv(torch.nn.Linear(8, 3)),
        pyg.LEConv(4, 3), pyg.ClusterGCNConv(4, 3), pyg.FeaStConv(4, 3, heads=2), pyg.SuperGATConv(4, 3, dropout=0.0), pyg.LGConv(), pyg.MFConv(4, 3),
        pyg.GatedGraphConv(4, 2), pyg.ResGatedGraphConv(4, 3), pyg.AGNNConv(), pyg.GraphConv(4, 3, aggr="max"), pyg.EGConv(4, 3, num_heads=1, num_bases=2),
        pyg.FAConv(4), pyg.GPSConv(4, pyg.GCNConv(4, 4), heads=2, dropout=0.0), pyg.SSGConv(4, 3, alpha=0.1, K=2), pyg.MixHopConv(4, 3, powers=[0, 1]),
    ):  # fmt: skip
        if isinstance(layer, (pyg.LGConv, pyg.AGNNConv, pyg.GatedGraphConv, pyg.GPSConv)):
            layer = pyg.Sequential("x, e", [(layer, "x, e -> x"), torch.nn.Linear(4, 3)])
        if isinstance(layer, pyg.FAConv):
            fill(layer)
            found.append(layer(x, x, edges))
            continue
        found += learn(layer)
    return found


def relations():
    """Edges of kinds and with features."""
    found = []
    for layer, further in (
        (pyg.RGCNConv(4, 3, 2), (kinds,)), (pyg.RGATConv(4, 3, 2), (kinds,)), (pyg.GMMConv(4, 3, 2, 2), (widths,)), (pyg.GINEConv(torch.nn.Linear(4, 3), edge_dim=2), (widths,)),
        (pyg.CGConv(4, 2), (widths,)), (pyg.PDNConv(4, 3, 2, 4), (widths,)), (pyg.GeneralConv(4, 3, in_edge_channels=2), (widths,)), (pyg.FiLMConv(4, 3, 2), (kinds,)),
        (pyg.PNAConv(4, 3, ["mean", "max", "std"], ["identity", "amplification"], torch.tensor([0, 2, 2, 1]), edge_dim=2), (widths,)),
    ):  # fmt: skip
        found += learn(layer, *further)
    return found


def gathered():
    """Aggregations and pools of nodes into graphs."""
    found = []
    rows, index = picture(6, 4), torch.tensor([0, 0, 1, 1, 1, 2])
    for each in (
        pyg.aggr.SoftmaxAggregation(learn=True), pyg.aggr.PowerMeanAggregation(learn=True), pyg.aggr.StdAggregation(), pyg.aggr.VarAggregation(), pyg.aggr.MulAggregation(),
        pyg.aggr.MedianAggregation(), pyg.aggr.QuantileAggregation([0.25, 0.75]), pyg.aggr.SortAggregation(2), pyg.aggr.LSTMAggregation(4, 3), pyg.aggr.Set2Set(4, 2),
        pyg.aggr.AttentionalAggregation(torch.nn.Linear(4, 1)), pyg.aggr.MultiAggregation(["sum", "mean", "max"]), pyg.aggr.DegreeScalerAggregation("mean", "linear", torch.tensor([1, 2, 3])),
        pyg.aggr.GRUAggregation(4, 3), pyg.aggr.DeepSetsAggregation(torch.nn.Linear(4, 3)), pyg.aggr.SetTransformerAggregation(4, heads=2),
    ):  # fmt: skip
        found.append(fill(each)((rows.abs() + 0.1), index))
    for pool in (pyg.SAGPooling(4, 0.5), pyg.MemPooling(4, 3, 2, 2)):
        out = fill(pool)(x, edges) if not isinstance(pool, pyg.MemPooling) else fill(pool)(x)
        found.append(out[0])
    dense = picture(2, 5, 4)
    out = pyg.dense_diff_pool(dense, (picture(2, 5, 5) > 0).float(), picture(2, 5, 3))
    found += list(out)
    out = fill(pyg.DMoNPooling(4, 2))(dense, (picture(2, 5, 5) > 0).float())
    return [*found, *out[1:]]


def normalized():
    """Norms of graphs and nodes."""
    found = []
    batch = torch.tensor([0, 0, 1, 1, 1])
    for norm in (
        pyg.BatchNorm(4),
        pyg.GraphNorm(4),
        pyg.InstanceNorm(4),
        pyg.LayerNorm(4),
        pyg.PairNorm(),
        pyg.GraphSizeNorm(),
        pyg.MessageNorm(True),
        pyg.DiffGroupNorm(4, 2),
        pyg.MeanSubtractionNorm(),
    ):
        fill(norm)
        if isinstance(norm, pyg.MessageNorm):
            found.append(norm(x, x.cos()))
        else:
            found.append(
                norm(x) if isinstance(norm, (pyg.BatchNorm, pyg.DiffGroupNorm)) else norm(x, batch)
            )
    return found


def models():
    """Whole models: stacks, autoencoders, embeddings, labels that spread."""
    found = []
    for net in (
        pyg.GCN(4, 8, 3, out_channels=3, jk="cat"),
        pyg.PNA(
            4,
            8,
            2,
            out_channels=3,
            aggregators=["mean", "max"],
            scalers=["identity"],
            deg=torch.tensor([0, 2, 2, 1]),
        ),
        pyg.EdgeCNN(4, 8, 2, out_channels=3),
        pyg.GAT(4, 8, 2, out_channels=3, heads=2, v2=True),
    ):
        found += learn(net)
    coder = fill(pyg.GAE(pyg.GCNConv(4, 3)))
    hidden = coder.encode(x, edges)
    found += [
        coder.decode(hidden, edges),
        coder.test(hidden.detach(), edges[:, :5], edges[:, 5:])[0],
    ]
    spread = pyg.LabelPropagation(2, 0.8)
    found.append(spread(y, edges))
    correct = pyg.CorrectAndSmooth(2, 0.8, 2, 0.8)
    found.append(
        correct.smooth(
            picture(5, 3).softmax(-1), y[:3], torch.tensor([True, True, False, True, False]), edges
        )
    )
    atoms, places = torch.tensor([1, 6, 8, 1]), picture(4, 3) * 2
    schnet = fill(
        pyg.SchNet(
            hidden_channels=8,
            num_filters=8,
            num_interactions=1,
            num_gaussians=5,
            interaction_graph=lambda p, b: (
                edges[:, :4] % 4,
                (p[edges[0, :4] % 4] - p[edges[1, :4] % 4]).norm(dim=-1),
            ),
        )
    )
    found.append(schnet(atoms, places))
    deep = fill(
        pyg.DeepGCNLayer(pyg.GENConv(4, 4), torch.nn.LayerNorm(4), torch.nn.ReLU(), dropout=0.0)
    )
    found.append(deep(x, edges))
    meta = fill(
        pyg.MetaPath2Vec(
            {
                ("a", "to", "b"): torch.tensor([[0, 1], [1, 0]]),
                ("b", "to", "a"): torch.tensor([[1, 0], [0, 1]]),
            },
            4,
            [("a", "to", "b"), ("b", "to", "a")],
            3,
            2,
        )
    )
    return [*found, meta("a").sum()]


class Own(InMemoryDataset):
    """Four graphs, kept in a file."""

    @property
    def processed_file_names(self):
        return ["own.pt"]

    def process(self):
        graphs = [Data(x=x * (i + 1), edge_index=edges, y=torch.tensor([i % 2])) for i in range(4)]
        self.save(graphs, self.processed_paths[0])

    def __init__(self, root):
        super().__init__(root)
        self.load(self.processed_paths[0])


def datasets():
    """Datasets made here, and one that the library carries."""
    club = KarateClub()[0]
    found = [
        club.num_nodes,
        club.edge_index,
        club.y,
        FakeDataset(2, avg_num_nodes=5).num_classes > 0,
    ]
    net = fill(pyg.GCN(34, 8, 2, out_channels=4))
    found += train(
        net,
        lambda: F.cross_entropy(
            net(club.x, club.edge_index)[club.train_mask], club.y[club.train_mask]
        ),
    )
    with tempfile.TemporaryDirectory() as folder:
        own = Own(folder)
        again = Own(folder)
        found += [len(own), own.num_features, again[2].x, again[[0, 3]].y]
        for batch in DataLoader(own, batch_size=3):
            found += [batch.x, batch.ptr, batch.num_graphs]
    graph = Data(x=x, edge_index=edges)
    found += [
        to_networkx(graph).number_of_edges(),
        to_scipy_sparse_matrix(edges).sum(),
        graph.is_undirected(),
        graph.has_isolated_nodes(),
    ]
    return found


def explained():
    """Which edges matter."""
    net = fill(pyg.GCN(4, 8, 2, out_channels=3)).eval()
    explain = Explainer(net, GNNExplainer(epochs=3), explanation_type="model", node_mask_type="attributes", edge_mask_type="object",
                        model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"})  # fmt: skip
    told = explain(x, edges, index=1)
    return [
        list(told.node_mask.shape),
        list(told.edge_mask.shape),
        float(torch.isfinite(told.edge_mask).all()),
    ]


def sparse_edges():
    """Edges as a sparse matrix."""
    matrix = torch.sparse_coo_tensor(edges.flip(0), torch.ones(9), (5, 5)).coalesce()
    found = []
    for layer in (
        pyg.GCNConv(4, 3),
        pyg.SAGEConv(4, 3),
        pyg.GraphConv(4, 3),
        pyg.GINConv(torch.nn.Linear(4, 3)),
    ):
        fill(layer)
        found.append(layer(x, matrix.to_sparse_csr()))
    return found


parts(convolutions, relations, gathered, normalized, models, datasets, explained, sparse_edges)
