"""torch_geometric's transforms, edges as tensors of a class of their own, loaders that wrap the loader's pass."""

import torch
import torch_geometric.transforms as T
from common import parts, picture
from torch_geometric import EdgeIndex
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader, DenseDataLoader
from torch_geometric.utils import coalesce, spmm, to_torch_csr_tensor

edges = torch.tensor([[0, 1, 2, 3, 4, 5, 6, 7, 0, 2, 4], [1, 2, 3, 4, 5, 6, 7, 0, 3, 5, 7]])
weights = picture(11).abs()
graph = Data(x=picture(8, 5), edge_index=edges, edge_attr=weights, pos=picture(8, 3))


def transforms():
    found = []
    for transform in (
        T.ToUndirected(), T.AddSelfLoops(), T.NormalizeFeatures(), T.GCNNorm(), T.OneHotDegree(4), T.Constant(),
        T.Distance(), T.Cartesian(), T.Center(), T.NormalizeScale(), T.LineGraph(), T.LocalDegreeProfile(),
        T.AddRandomWalkPE(3), T.LargestConnectedComponents(), T.RemoveIsolatedNodes(), T.ToDense(9),
        T.VirtualNode(), T.TargetIndegree(), T.RootedEgoNets(1),
    ):  # fmt: skip
        made = sorted(transform(graph.clone()).to_dict().items())
        found += [value.float() for _, value in made if isinstance(value, torch.Tensor)]
    return found


def edges_as_tensors():
    """Joined along the edges they stay edges; along the ends they do not."""
    kept = EdgeIndex(edges, sparse_size=(8, 8))
    ordered, places = kept.sort_by("row")
    joined = torch.cat([kept, kept], dim=1)
    return [
        ordered.as_tensor(), places, ordered.matmul(graph.x), ordered.to_dense(), type(joined) is EdgeIndex,
        joined.as_tensor(), torch.cat([kept, kept], dim=0), torch.stack([kept, kept]),
        coalesce(torch.cat([edges, edges], dim=1)), spmm(to_torch_csr_tensor(edges, weights, (8, 8)), graph.x),
    ]  # fmt: skip


class Doubled(DataLoader):
    """Changes each batch of the pass it inherits."""

    def _get_iterator(self):
        return (batch.apply(lambda value: value * 2, "x") for batch in super()._get_iterator())


def loaders():
    graphs = [
        Data(x=picture(n, 5), edge_index=edges[:, :2], y=torch.tensor([n % 2]))
        for n in (3, 4, 5, 6)
    ]
    found = []
    for batch in DataLoader(graphs, batch_size=3):
        found += [batch.x, batch.edge_index, batch.batch, batch.ptr, batch.y, batch.num_graphs]
    for _ in range(2):
        found += [batch.x for batch in Doubled(graphs, batch_size=2)]
    dense = [Data(x=picture(4, 2), adj=torch.eye(4)) for _ in range(3)]
    return found + [batch.adj for batch in DenseDataLoader(dense, batch_size=2)]


parts(transforms, edges_as_tensors, loaders)
