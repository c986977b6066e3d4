"""torchrl: modules of tensordicts, losses of DQN, PPO and DDPG, advantages, replay."""

import torch
from common import fill, picture, say
from tensordict import TensorDict
from tensordict.nn import NormalParamExtractor, TensorDictModule, TensorDictSequential
from torchrl.data import LazyTensorStorage, OneHot, TensorDictReplayBuffer
from torchrl.data.replay_buffers.samplers import SamplerWithoutReplacement
from torchrl.modules import MLP, ProbabilisticActor, QValueActor, TanhNormal, ValueOperator
from torchrl.objectives import ClipPPOLoss, DDPGLoss, DQNLoss, SoftUpdate
from torchrl.objectives.value import GAE
from torchrl.objectives.value.functional import (
    generalized_advantage_estimate,
    td_lambda_return_estimate,
)

found = []
done = torch.zeros(6, 1, dtype=torch.bool)
done[3] = True
steps = TensorDict(
    {"observation": picture(6, 4), "action": torch.nn.functional.one_hot(torch.arange(6) % 2, 2), "sample_log_prob": picture(6) * 0.1 - 1,
     "next": {"observation": picture(6, 4).flip(0), "reward": picture(6, 1), "done": done, "terminated": done}}, [6],
)  # fmt: skip
actor = QValueActor(fill(MLP(4, 2, num_cells=[8, 8])), in_keys=["observation"], spec=OneHot(2))
loss = DQNLoss(actor, action_space="one-hot", delay_value=True)
loss.make_value_estimator(gamma=0.9)
target = SoftUpdate(loss, eps=0.9)
optimizer = torch.optim.Adam(loss.parameters(), 1e-2)
for _ in range(4):
    value = loss(steps)["loss"]
    value.backward()
    optimizer.step()
    optimizer.zero_grad()
    target.step()
    found.append(value)
found += [actor(steps.select("observation"))["chosen_action_value"].sum()]
critic = ValueOperator(fill(MLP(4, 1, num_cells=[8])), in_keys=["observation"])
body = fill(torch.nn.Sequential(MLP(4, 4, num_cells=[8]), NormalParamExtractor()))
policy = ProbabilisticActor(
    TensorDictModule(body, in_keys=["observation"], out_keys=["loc", "scale"]), in_keys=["loc", "scale"], distribution_class=TanhNormal, return_log_prob=True,
)  # fmt: skip
moves = steps.clone()
moves["action"] = picture(6, 2) * 0.5
GAE(gamma=0.9, lmbda=0.8, value_network=critic)(moves)
found += [moves["advantage"].sum(), moves["value_target"].sum()]
moves["action_log_prob"] = moves["sample_log_prob"]
ppo = ClipPPOLoss(policy, critic, entropy_bonus=False)
optimizer = torch.optim.Adam(ppo.parameters(), 1e-2)
for _ in range(3):
    told = ppo(moves)
    (told["loss_objective"] + told["loss_critic"]).backward()
    optimizer.step()
    optimizer.zero_grad()
    found += [told["loss_objective"], told["loss_critic"]]
pull = TensorDictModule(
    fill(MLP(4, 2, num_cells=[8])), in_keys=["observation"], out_keys=["action"]
)
judge = ValueOperator(fill(MLP(6, 1, num_cells=[8])), in_keys=["observation", "action"])
told = DDPGLoss(pull, judge)(
    moves.select("observation", "action", "next").exclude(("next", "state_value"))
)
(told["loss_actor"] + told["loss_value"]).backward()
found += [told["loss_actor"], told["loss_value"]]
rewards, values = picture(1, 6, 1), picture(1, 6, 1).flip(1)
ends = done[None]
found += [
    each.sum()
    for each in generalized_advantage_estimate(
        0.9, 0.8, values, values.roll(1, 1), rewards, ends, ends
    )
]
found.append(td_lambda_return_estimate(0.9, 0.7, values, rewards, ends, ends).sum())
kept = TensorDictReplayBuffer(
    storage=LazyTensorStorage(10), sampler=SamplerWithoutReplacement(), batch_size=6
)
kept.extend(steps)
found += [len(kept), kept.sample()["next", "reward"].sum()]
chain = TensorDictSequential(
    TensorDictModule(fill(torch.nn.Linear(4, 3)), ["observation"], ["h"]),
    TensorDictModule(torch.tanh, ["h"], ["out"]),
)
found.append(chain(steps)["out"].sum())
say(*found)
