"""torch_geometric: transforms, splits, graphs of kinds, models made for them, points, batches of parts."""

import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
import torch_geometric.transforms as T
import torch_geometric.utils as U
from common import fill, parts, picture, train
from torch_geometric.data import Batch, Data, HeteroData, TemporalData
from torch_geometric.loader import (
    ClusterData,
    DataLoader,
    DenseDataLoader,
    DynamicBatchSampler,
    RandomNodeLoader,
    TemporalDataLoader,
)

edges = torch.tensor([[0, 1, 2, 3, 4, 0, 3, 1, 2], [1, 2, 3, 4, 0, 2, 1, 0, 1]])
x, y = picture(5, 4), torch.tensor([0, 1, 2, 0, 1])


def changed():
    """Transforms without chance."""
    found = []
    for each in (
        T.ToUndirected(), T.AddSelfLoops(), T.GCNNorm(), T.NormalizeFeatures(), T.LocalDegreeProfile(), T.OneHotDegree(4), T.Constant(), T.TargetIndegree(), T.LineGraph(),
        T.AddLaplacianEigenvectorPE(1, attr_name="pe", is_undirected=False), T.AddRandomWalkPE(2, attr_name="walk"), T.GDC(exact=True), T.LargestConnectedComponents(), T.RemoveIsolatedNodes(),
        T.SVDFeatureReduction(2), T.AddRemainingSelfLoops(), T.FeaturePropagation(torch.zeros(5, 4, dtype=torch.bool)),
    ):  # fmt: skip
        out = each(Data(x=x.clone(), edge_index=edges, y=y))
        for name in ("x", "edge_index", "walk"):
            value = out.get(name)
            if value is not None:
                found += [value.float().abs().sum(), *value.shape]
    return found


def points():
    """Points in space: scales, meshes, neighbours, features of pairs."""
    found = []
    cloud = Data(pos=picture(8, 3) * 2, batch=torch.zeros(8).long())
    for each in (
        T.NormalizeScale(),
        T.Center(),
        T.NormalizeRotation(sort=True),
        T.KNNGraph(2),
        T.RadiusGraph(1.0),
    ):
        try:
            out = each(cloud.clone())
        except ImportError:
            found.append(-1)
            continue
        found.append(out.pos.abs().sum())
    mesh = Data(
        pos=picture(5, 3), face=torch.tensor([[0, 1, 2], [1, 2, 3], [2, 3, 4]]), edge_index=edges
    )
    for each in (
        T.FaceToEdge(remove_faces=False),
        T.GenerateMeshNormals(),
        T.Cartesian(),
        T.Distance(),
        T.Spherical(),
        T.LocalCartesian(),
        T.PointPairFeatures(),
    ):
        given = mesh.clone()
        if isinstance(each, T.PointPairFeatures):
            given.norm = F.normalize(picture(5, 3), dim=-1)
        out = each(given)
        found += [
            out.edge_attr.abs().sum() if out.edge_attr is not None else 0,
            out.edge_index.sum(),
        ]
    net = fill(pyg.PointNetConv(torch.nn.Linear(7, 3)))
    found += train(net, lambda: F.cross_entropy(net(x, mesh.pos, edges), y), steps=2)
    spline = fill(pyg.PPFConv(torch.nn.Linear(8, 3)))
    found += [spline(x, mesh.pos, F.normalize(picture(5, 3), dim=-1), edges)]
    gravity = fill(pyg.PointTransformerConv(4, 3))
    return [*found, gravity(x, mesh.pos, edges)]


def split():
    """Nodes and links for training and testing: how many."""
    torch.manual_seed(0)
    found = []
    graph = Data(x=x, edge_index=U.to_undirected(edges), y=y)
    for part in T.RandomLinkSplit(num_val=0.2, num_test=0.2, is_undirected=True)(graph):
        found += [part.edge_index.shape[1], part.edge_label.shape[0]]
    out = T.RandomNodeSplit(num_val=1, num_test=1)(graph)
    return [*found, out.train_mask.sum(), out.val_mask.sum(), out.test_mask.sum()]


def mixed():
    """A graph of users and things."""
    data = HeteroData()
    data["user"].x, data["item"].x = picture(3, 4), picture(4, 6)
    data["user", "buys", "item"].edge_index = torch.tensor([[0, 1, 2, 2], [1, 2, 3, 0]])
    data["item", "of", "user"].edge_index = torch.tensor([[1, 2, 3, 0], [0, 1, 2, 2]])
    return data


def kinds():
    """Models of graphs of kinds: HGT, HAN, dictionaries of layers, models translated for them."""
    data = mixed()
    found = [len(data.node_types), data.num_nodes, data.to_homogeneous().edge_index]
    metadata = data.metadata()
    hgt = fill(pyg.HGTConv({"user": 4, "item": 6}, 4, metadata, heads=2))
    out = hgt(data.x_dict, data.edge_index_dict)
    found += [out["user"], out["item"]]
    han = fill(pyg.HANConv({"user": 4, "item": 6}, 4, metadata, heads=2))
    found += [
        value for value in han(data.x_dict, data.edge_index_dict).values() if value is not None
    ]

    class Two(torch.nn.Module):
        """Two layers for any graph."""

        def __init__(self):
            super().__init__()
            self.first = pyg.SAGEConv((-1, -1), 4)
            self.second = pyg.SAGEConv((-1, -1), 3)

        def forward(self, x, edge_index):
            return self.second(self.first(x, edge_index).relu(), edge_index)

    net = pyg.to_hetero(Two(), metadata, aggr="sum")
    with torch.no_grad():
        net(data.x_dict, data.edge_index_dict)
    fill(net)
    found += train(
        net,
        lambda: F.cross_entropy(
            net(data.x_dict, data.edge_index_dict)["user"], torch.tensor([0, 1, 2])
        ),
        steps=2,
    )
    line = fill(pyg.HeteroLinear(4, 3, 2))
    found += [line(picture(5, 4), torch.tensor([0, 1, 0, 1, 1]))]
    dictionary = fill(pyg.HeteroDictLinear({"user": 4, "item": 6}, 3))
    return [*found, *dictionary(data.x_dict).values()]


def batches():
    """Loaders: dense, dynamic, of nodes, of events."""
    found = []
    graphs = [
        Data(x=x[: i + 2], edge_index=torch.tensor([[0], [1]]), y=torch.tensor([i]))
        for i in range(3)
    ]
    for batch in DataLoader(
        graphs, batch_sampler=DynamicBatchSampler(graphs, max_num=6, mode="node")
    ):
        found.append(batch.num_nodes > 0)
    dense = [Data(x=x, adj=torch.ones(5, 5), y=torch.tensor([1])) for _ in range(3)]
    for batch in DenseDataLoader(dense, batch_size=3):
        found += [
            list(batch.x.shape),
            fill(pyg.DenseGCNConv(4, 3))(batch.x, batch.adj),
            fill(pyg.DenseSAGEConv(4, 3))(batch.x, batch.adj),
            fill(pyg.DenseGINConv(torch.nn.Linear(4, 3)))(batch.x, batch.adj),
        ]
    events = TemporalData(
        src=torch.arange(6), dst=torch.arange(6) + 1, t=torch.arange(6) * 10, msg=picture(6, 2)
    )
    for batch in TemporalDataLoader(events, batch_size=4):
        found += [batch.src.sum(), batch.msg.sum()]
    found += [part.num_events for part in events.train_val_test_split(0.3, 0.3)]
    found += [
        sum(part.num_nodes for part in RandomNodeLoader(Data(x=x, edge_index=edges), num_parts=2))
    ]
    whole = Batch.from_data_list(graphs)
    return [*found, whole[1].x, whole.get_example(2).num_nodes]


def helpers():
    """Functions of edges."""
    found = []
    undirected = U.to_undirected(edges)
    found += [
        U.contains_self_loops(edges),
        U.is_undirected(edges),
        U.homophily(edges, y),
        U.assortativity(edges),
    ]
    found += [
        U.get_laplacian(undirected, normalization="sym")[1],
        U.k_hop_subgraph(0, 1, edges)[1],
        U.to_dense_adj(edges),
    ]
    found += [
        U.remove_self_loops(edges)[0],
        U.segregate_self_loops(edges)[0],
        U.sort_edge_index(edges),
        U.mask_to_index(y > 0),
    ]
    found += [
        U.scatter(picture(9), edges[0], reduce=way) for way in ("sum", "mean", "max", "min", "mul")
    ]
    found += [
        U.group_argsort(picture(9), edges[0]),
        U.cumsum(torch.tensor([2, 1, 3])),
        U.unbatch(x, torch.tensor([0, 0, 1, 1, 1])),
    ]
    found += [
        U.normalized_cut(edges, picture(9).abs(), 5),
        U.grid(2, 3)[0],
        U.tree_decomposition.__name__ == "tree_decomposition",
        U.one_hot(y),
    ]
    found += [
        U.degree(edges[0]),
        U.bipartite_subgraph((torch.tensor([0, 1]), torch.tensor([1, 2])), edges)[0],
    ]
    return found


parts(changed, points, split, kinds, batches, helpers)
