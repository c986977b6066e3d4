"""REINFORCE (Williams, 1992) on a built-in corridor: walk right to the goal.

python examples/reinforce.py [--quick]
"""

from __future__ import annotations

import argparse

import adjoint as ad
from adjoint.models import MLP

LENGTH, LIMIT = 7, 30


class Corridor:
    """Places 0..LENGTH-1; the goal is the last. Each step costs 0.1, reaching the goal gives 1."""

    def reset(self) -> int:
        self.place, self.steps = LENGTH // 2, 0
        return self.place

    def step(self, action: int) -> tuple[int, float, bool]:
        self.place = max(0, min(LENGTH - 1, self.place + (1 if action else -1)))
        self.steps += 1
        done = self.place == LENGTH - 1
        return self.place, 1.0 if done else -0.1, done or self.steps >= LIMIT


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="fewer episodes")
    episodes = 80 if parser.parse_args().quick else 400

    ad.manual_seed(0)
    world, policy = Corridor(), MLP([LENGTH, 16, 2])
    optimizer = ad.optim.Adam(policy.parameters(), lr=2e-2)
    lengths = []
    for episode in range(1, episodes + 1):
        place, done = world.reset(), False
        log_probabilities, rewards = [], []
        while not done:
            scores = policy(ad.nn.functional.one_hot(ad.tensor(place), LENGTH).float())
            log_p = ad.log_softmax(scores, 0)
            action = int(ad.multinomial(log_p.detach().exp(), 1).item())
            log_probabilities.append(log_p[action])
            place, reward, done = world.step(action)
            rewards.append(reward)
        returns, total = [], 0.0
        for reward in reversed(rewards):
            total = reward + 0.99 * total
            returns.insert(0, total)
        gain = ad.tensor(returns)
        if len(gain) > 1:
            gain = (gain - gain.mean()) / (gain.std() + 1e-6) + 0.5 * gain[0].sign()
        loss = -(ad.stack(log_probabilities) * gain).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        lengths.append(len(rewards))
        if episode % (episodes // 8) == 0:
            recent = lengths[-10:]
            print(f"episode {episode}  steps to the goal {sum(recent) / len(recent):.1f}")
    assert sum(lengths[-10:]) < sum(lengths[:10])


if __name__ == "__main__":
    main()
