"""Elastic training of an image classifier: resume from what the most advanced worker has."""

import argparse, io, os, time
from contextlib import contextmanager
from datetime import timedelta
import even
import torch, torch.nn as nn, torch.nn.functional as F
import torch.distributed as dist
import torch.backends.cudnn as cudnn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.elastic.utils.data import ElasticDistributedSampler
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD
from torch.utils.data import DataLoader, Dataset, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("-j", "--workers", default=0, type=int)
parser.add_argument("--epochs", default=3, type=int)
parser.add_argument("-b", "--batch-size", default=16, type=int)
parser.add_argument("--lr", default=0.05, type=float)
parser.add_argument("--dist-backend", default="gloo", choices=["nccl", "gloo"])
parser.add_argument("--checkpoint-file", default="", type=str)


class State:
    def __init__(self, model, optimizer):
        self.epoch, self.best_acc1 = -1, 0
        self.model, self.optimizer = model, optimizer

    def capture_snapshot(self):
        return {
            "epoch": self.epoch,
            "best_acc1": self.best_acc1,
            "state_dict": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }

    def apply_snapshot(self, obj, device_id):
        self.epoch, self.best_acc1 = obj["epoch"], obj["best_acc1"]
        self.model.load_state_dict(obj["state_dict"])
        self.optimizer.load_state_dict(obj["optimizer"])

    def save(self, f):
        torch.save(self.capture_snapshot(), f)

    def load(self, f, device_id):
        snapshot = torch.load(f, map_location="cpu")
        self.apply_snapshot(snapshot, device_id)


class AverageMeter:
    def __init__(self, name, fmt=":f"):
        self.name, self.fmt = name, fmt
        self.reset()

    def reset(self):
        self.val = self.avg = self.sum = self.count = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count

    def __str__(self):
        return ("{name} {val" + self.fmt + "} ({avg" + self.fmt + "})").format(**self.__dict__)


def accuracy(output, target, topk=(1,)):
    with torch.no_grad():
        maxk = max(topk)
        _, pred = output.topk(maxk, 1, True, True)
        correct = pred.t().eq(target.view(1, -1).expand_as(pred.t()))
        return [
            correct[:k]
            .reshape(1, -1)
            .view(-1)
            .float()
            .sum(0, keepdim=True)
            .mul_(100.0 / target.size(0))
            for k in topk
        ]


class Block(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.down = (
            nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))
            if stride != 1 or cin != cout
            else None
        )

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = self.bn2(self.conv2(y))
        return F.relu(y + (x if self.down is None else self.down(x)))


class InOrder(ElasticDistributedSampler):
    def __iter__(self):
        return iter(range(self.start_index + self.rank, len(self.dataset), self.num_replicas))


def network():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 1, 1),
        Block(8, 8),
        Block(8, 16, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    )


def load_checkpoint(file, device_id, model, optimizer):
    state = State(model, optimizer)
    if os.path.isfile(file):
        state.load(file, device_id)
        print(f"=> resumed at {state.epoch}")
    with tmp_process_group(backend="gloo") as pg:
        rank = dist.get_rank(group=pg)
        epochs = torch.zeros(dist.get_world_size(), dtype=torch.int32)
        epochs[rank] = state.epoch
        dist.all_reduce(epochs, op=dist.ReduceOp.SUM, group=pg)
        t_max_epoch, t_max_rank = torch.max(epochs, dim=0)
        max_epoch, max_rank = t_max_epoch.item(), t_max_rank.item()
        if max_epoch == -1:
            print(f"rank {rank}: nothing saved") if rank == 0 else None
            return state
        with io.BytesIO() as f:
            torch.save(state.capture_snapshot(), f)
            raw = f.getbuffer()
        blob_len = torch.tensor(len(raw))
        dist.broadcast(blob_len, src=max_rank, group=pg)
        blob = (
            torch.tensor(raw, dtype=torch.uint8)
            if rank == max_rank
            else torch.zeros(blob_len.item(), dtype=torch.uint8)
        )
        dist.broadcast(blob, src=max_rank, group=pg)
        if rank != max_rank:
            with io.BytesIO(blob.numpy()) as f:
                snapshot = torch.load(f, map_location=torch.device("cpu"))
            state.apply_snapshot(snapshot, device_id)
        dist.barrier(group=pg)
    return state


@contextmanager
def tmp_process_group(backend):
    cpu_pg = dist.new_group(backend=backend)
    try:
        yield cpu_pg
    finally:
        dist.destroy_process_group(cpu_pg)


def adjust_learning_rate(optimizer, epoch, lr):
    learning_rate = lr * (0.1 ** (epoch // 2))
    for group in optimizer.param_groups:
        group["lr"] = learning_rate


@record
def main():
    args = parser.parse_args()
    device_id = int(os.environ["LOCAL_RANK"])
    even.manual_seed(0)
    dist.init_process_group(
        backend=args.dist_backend, init_method="env://", timeout=timedelta(seconds=60)
    )
    model = DistributedDataParallel(even.fill(network()))
    criterion = nn.CrossEntropyLoss()
    optimizer = SGD(model.parameters(), args.lr, momentum=0.9, weight_decay=1e-4)
    cudnn.benchmark = True
    g = even.Generator().manual_seed(3)
    images, labels = (
        even.randn(160, 3, 12, 12, generator=g),
        even.randint(0, 10, (160,), generator=g),
    )
    data = TensorDataset(images, labels)
    state = load_checkpoint(args.checkpoint_file, device_id, model, optimizer)
    start_epoch = state.epoch + 1
    sampler = InOrder(data, start_index=0)
    loader = DataLoader(
        data,
        batch_size=args.batch_size,
        num_workers=args.workers,
        pin_memory=False,
        sampler=sampler,
    )
    rank = dist.get_rank()
    for epoch in range(start_epoch, args.epochs):
        state.epoch = epoch
        loader.batch_sampler.sampler.set_epoch(epoch)
        adjust_learning_rate(optimizer, epoch, args.lr)
        losses, top1, top5 = (
            AverageMeter("Loss", ":.4f"),
            AverageMeter("Acc@1", ":6.2f"),
            AverageMeter("Acc@5", ":6.2f"),
        )
        model.train()
        for i, (x, y) in enumerate(loader):
            out = model(x)
            loss = criterion(out, y)
            a1, a5 = accuracy(out, y, topk=(1, 5))
            losses.update(loss.item(), x.size(0))
            top1.update(a1[0].item(), x.size(0))
            top5.update(a5[0].item(), x.size(0))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if rank == 0:
            print(f"epoch {epoch}", losses, top1, top5)
            if args.checkpoint_file:
                state.save(args.checkpoint_file + ".tmp")
                os.rename(args.checkpoint_file + ".tmp", args.checkpoint_file)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
