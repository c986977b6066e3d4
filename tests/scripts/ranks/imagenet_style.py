"""The imagenet example's main: meters, samplers, batch norm converted, validation with leftovers."""

import argparse
import os
import time
from enum import Enum
import torch
import torch.nn as nn
import torch.distributed as dist
import torch.optim
import torch.utils.data
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import Subset, TensorDataset
from common import fill, data


class Summary(Enum):
    NONE = 0
    AVERAGE = 1


class AverageMeter(object):
    def __init__(self, name, fmt=":f", summary_type=Summary.AVERAGE):
        self.name, self.fmt, self.summary_type = name, fmt, summary_type
        self.reset()

    def reset(self):
        self.val = self.avg = self.sum = self.count = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count

    def all_reduce(self):
        total = torch.tensor([self.sum, self.count], dtype=torch.float32)
        dist.all_reduce(total, dist.ReduceOp.SUM, async_op=False)
        self.sum, self.count = total.tolist()
        self.avg = self.sum / self.count


def accuracy(output, target, topk=(1,)):
    with torch.no_grad():
        maxk = max(topk)
        batch_size = target.size(0)
        _, pred = output.topk(maxk, 1, True, True)
        pred = pred.t()
        correct = pred.eq(target.view(1, -1).expand_as(pred))
        res = []
        for k in topk:
            correct_k = correct[:k].reshape(-1).float().sum(0, keepdim=True)
            res.append(correct_k.mul_(100.0 / batch_size))
        return res


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
        )
        self.fc = nn.Linear(8, 10)

    def forward(self, x):
        return self.fc(self.features(x).mean((2, 3)))


def train(loader, model, criterion, optimizer, epoch):
    losses, top1 = AverageMeter("Loss", ":.4e"), AverageMeter("Acc@1", ":6.2f")
    model.train()
    end = time.time()
    for i, (images, target) in enumerate(loader):
        images = images.to("cpu", non_blocking=True)
        output = model(images)
        loss = criterion(output, target)
        acc1, acc5 = accuracy(output, target, topk=(1, 5))
        losses.update(loss.item(), images.size(0))
        top1.update(acc1[0], images.size(0))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        end = time.time()
    losses.all_reduce()
    if dist.get_rank() == 0:
        print(f"train {epoch} {losses.avg:.4f}", flush=True)


def validate(val_loader, model, criterion, args):
    def run_validate(loader):
        with torch.no_grad():
            for images, target in loader:
                output = model(images)
                loss = criterion(output, target)
                acc1, acc5 = accuracy(output, target, topk=(1, 5))
                losses.update(loss.item(), images.size(0))
                top5.update(acc5[0], images.size(0))

    losses, top5 = AverageMeter("Loss"), AverageMeter("Acc@5")
    model.eval()
    run_validate(val_loader)
    losses.all_reduce()
    top5.all_reduce()
    if len(val_loader.sampler) * args.world_size < len(val_loader.dataset):
        aux = Subset(
            val_loader.dataset,
            range(len(val_loader.sampler) * args.world_size, len(val_loader.dataset)),
        )
        run_validate(torch.utils.data.DataLoader(aux, batch_size=args.batch_size, shuffle=False))
    return top5.avg, losses.avg


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", default=3, type=int)
    parser.add_argument("-b", "--batch-size", default=16, type=int)
    parser.add_argument("--world-size", default=-1, type=int)
    parser.add_argument("--dist-url", default="env://", type=str)
    parser.add_argument("--dist-backend", default="gloo", type=str)
    args = parser.parse_args()
    if args.dist_url == "env://" and args.world_size == -1:
        args.world_size = int(os.environ["WORLD_SIZE"])
    args.rank = int(os.environ["RANK"])
    dist.init_process_group(
        backend=args.dist_backend,
        init_method=args.dist_url,
        world_size=args.world_size,
        rank=args.rank,
    )
    model = (
        nn.SyncBatchNorm.convert_sync_batchnorm(fill(Net()))
        if torch.cuda.is_available()
        else fill(Net())
    )
    args.batch_size = int(args.batch_size / args.world_size)
    model = torch.nn.parallel.DistributedDataParallel(model)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
    scheduler = StepLR(optimizer, step_size=2, gamma=0.1)
    labels = torch.arange(50) % 10
    train_set, val_set = (
        TensorDataset(data(50, 3, 8, 8), labels),
        TensorDataset(data(27, 3, 8, 8, seed=1), labels[:27]),
    )
    train_sampler = torch.utils.data.distributed.DistributedSampler(train_set, shuffle=False)
    val_sampler = torch.utils.data.distributed.DistributedSampler(
        val_set, shuffle=False, drop_last=True
    )
    train_loader = torch.utils.data.DataLoader(
        train_set,
        batch_size=args.batch_size,
        shuffle=(train_sampler is None),
        num_workers=0,
        pin_memory=False,
        sampler=train_sampler,
    )
    val_loader = torch.utils.data.DataLoader(
        val_set, batch_size=args.batch_size, shuffle=False, sampler=val_sampler
    )
    for epoch in range(args.epochs):
        train_sampler.set_epoch(epoch)
        train(train_loader, model, criterion, optimizer, epoch)
        top5, loss = validate(val_loader, model, criterion, args)
        if args.rank == 0:
            print(
                f"val {epoch} {float(top5):.2f} {loss:.5f} lr {scheduler.get_last_lr()[0]:.4f}",
                flush=True,
            )
        scheduler.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
