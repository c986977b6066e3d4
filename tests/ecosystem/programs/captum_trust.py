"""captum: how far attributions are to be trusted, attacks, influences of examples, concepts, text's features."""

import torch
from captum.attr import (
    IntegratedGradients, InterpretableEmbeddingBase, LayerDeepLift, LayerFeatureAblation, LayerLRP, NeuronConductance, NeuronDeepLift, NeuronFeatureAblation,
    NeuronGuidedBackprop, NeuronIntegratedGradients, Saliency, ShapleyValues, TokenReferenceBase, configure_interpretable_embedding_layer,
    remove_interpretable_embedding_layer, visualization,
)  # fmt: skip
from captum.influence import SimilarityInfluence, TracInCP, TracInCPFast
from captum.metrics import infidelity, sensitivity_max
from captum.robust import FGSM, PGD, AttackComparator, MinParamPerturbation
from common import fill, parts, picture
from torch import nn

net = fill(nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))).eval()
x = picture(3, 4)


def measures():
    """Infidelity and sensitivity where nothing is drawn."""

    def moved(inputs):
        return torch.full_like(inputs, 0.01), inputs - 0.01

    told = IntegratedGradients(net).attribute(x, target=1, n_steps=8)
    found = [infidelity(net, moved, x, told, target=1, n_perturb_samples=2, normalize=True)]
    found.append(
        sensitivity_max(
            Saliency(net).attribute,
            x,
            perturb_func=lambda t, r: t + r,
            target=1,
            n_perturb_samples=2,
        )
    )
    return found


def attacks():
    """Inputs made worse."""
    found = [
        FGSM(net, lower_bound=-1, upper_bound=1).perturb(
            x, epsilon=0.1, target=torch.tensor([0, 1, 2])
        )
    ]
    found.append(
        PGD(net, lower_bound=-1, upper_bound=1).perturb(
            x, radius=0.2, step_size=0.05, step_num=3, target=torch.tensor([0, 1, 2])
        )
    )

    def right(out, target):
        return (out.argmax(-1) == target).float()

    compare = AttackComparator(net, lambda out: out.argmax(-1).float().mean())
    compare.add_attack(FGSM(net), "fgsm", attack_kwargs={"epsilon": 0.1, "target": 1})
    told = compare.evaluate(x)
    found += [
        float(
            torch.as_tensor(
                told["Original"].get("mean", 0) if isinstance(told["Original"], dict) else 0
            )
        )
    ]
    least = MinParamPerturbation(
        net,
        lambda inp, minval: inp + minval,
        "minval",
        0.0,
        5.0,
        0.5,
        correct_fn=lambda out, target: bool(right(out, target).all()),
    )
    return [
        *found,
        0.0 if least.evaluate(x[:1], target=2)[1] is None else least.evaluate(x[:1], target=2)[1],
    ]


def neurons():
    """Neurons and layers."""
    zero = torch.zeros_like(x)
    hidden = net[0]
    return [
        NeuronConductance(net, hidden).attribute(x, neuron_selector=2, target=1, n_steps=6), NeuronDeepLift(net, hidden).attribute(x, neuron_selector=2, baselines=zero),
        NeuronFeatureAblation(net, hidden).attribute(x, neuron_selector=2), NeuronGuidedBackprop(net, hidden).attribute(x, neuron_selector=2),
        NeuronIntegratedGradients(net, hidden).attribute(x, neuron_selector=2, n_steps=6), LayerDeepLift(net, hidden).attribute(x, zero, target=1),
        LayerFeatureAblation(net, hidden).attribute(x, target=1), LayerLRP(net, hidden).attribute(x, target=1), ShapleyValues(net).attribute(x[:1], target=1),
    ]  # fmt: skip


def influences():
    """Which examples taught what."""
    import tempfile

    rows = torch.utils.data.TensorDataset(picture(6, 4), torch.arange(6) % 3)
    with tempfile.TemporaryDirectory() as folder:
        torch.save(net.state_dict(), folder + "/one.pt")

        def load(model, path):
            model.load_state_dict(torch.load(path))
            return 1.0

        found = []
        loss = nn.CrossEntropyLoss(reduction="none")
        whole = TracInCP(
            net, rows, [folder + "/one.pt"], checkpoints_load_func=load, loss_fn=loss, batch_size=2
        )
        found.append(whole.influence((x, torch.tensor([0, 1, 2]))))
        top = whole.influence((x, torch.tensor([0, 1, 2])), k=2, proponents=True)
        found += [top.indices.float(), top.influence_scores]
        fast = TracInCPFast(
            net,
            net[2],
            rows,
            [folder + "/one.pt"],
            checkpoints_load_func=load,
            loss_fn=nn.CrossEntropyLoss(reduction="sum"),
            batch_size=2,
        )
        found.append(fast.influence((x, torch.tensor([0, 1, 2]))))
    return found


class Words(nn.Module):
    """Words, averaged."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 4)
        self.last = nn.Linear(4, 2)

    def forward(self, ids):
        return self.last(self.embedding(ids).mean(1))


def words():
    """Words by their embeddings."""
    model = fill(Words()).eval()
    ids = torch.tensor([[1, 4, 7], [2, 5, 8]])
    layer = configure_interpretable_embedding_layer(model, "embedding")
    given = layer.indices_to_embeddings(ids)
    base = layer.indices_to_embeddings(
        TokenReferenceBase(0).generate_reference(3, "cpu")[None].repeat(2, 1)
    )
    told = IntegratedGradients(model).attribute(given, base, target=1, n_steps=8)
    remove_interpretable_embedding_layer(model, layer)
    record = visualization.VisualizationDataRecord(
        told[0].sum(-1), 0.5, 1, 1, "x", told.sum(), ["a", "b", "c"], 0.1
    )
    return [told, model(ids), isinstance(layer, InterpretableEmbeddingBase), record.pred_prob]


parts(measures, attacks, neurons, influences, words)
