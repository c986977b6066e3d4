"""The "writing distributed applications" tutorial and what follows it: collectives of all kinds."""

import datetime
import os
import torch
import torch.distributed as dist


def say(*what):
    dist.barrier()
    if dist.get_rank() == 0:
        print(*what, flush=True)


def main():
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=120))
    rank, size = dist.get_rank(), dist.get_world_size()
    tensor = torch.zeros(1)
    if rank == 0:
        tensor += 1
        req = dist.isend(tensor=tensor, dst=1)
        req.wait()
    elif rank == 1:
        req = dist.irecv(tensor=tensor, src=0)
        req.wait()
    say("p2p", tensor.item())
    group = dist.new_group([0, 1])
    tensor = torch.ones(1)
    if rank in (0, 1):
        dist.all_reduce(tensor, op=dist.ReduceOp.SUM, group=group)
    say("group", tensor.item())
    # all-reduce as a ring, from the tutorial
    send = torch.arange(4.0) + rank
    recv = torch.zeros(4)
    send_buff, recv_buff, accum = send.clone(), send.clone(), send.clone()
    left, right = ((rank - 1) + size) % size, (rank + 1) % size
    for i in range(size - 1):
        if i % 2 == 0:
            send_req = dist.isend(send_buff, right)
            dist.recv(recv_buff, left)
            accum[:] += recv_buff[:]
        else:
            send_req = dist.isend(recv_buff, right)
            dist.recv(send_buff, left)
            accum[:] += send_buff[:]
        send_req.wait()
    say("ring", accum.tolist())
    gathered = [torch.zeros(2, dtype=torch.int64) for _ in range(size)]
    dist.all_gather(gathered, torch.tensor([rank, rank * rank]))
    say("all_gather", [g.tolist() for g in gathered])
    flat = torch.zeros(size * 2)
    dist.all_gather_into_tensor(flat, torch.tensor([rank + 0.5, rank + 0.25]))
    say("all_gather_into_tensor", flat.tolist())
    out = torch.zeros(2)
    dist.scatter(
        out, [torch.full((2,), float(i)) for i in range(size)] if rank == 1 else None, src=1
    )
    say("scatter", out.tolist())
    box = [torch.zeros(1) for _ in range(size)] if rank == 0 else None
    dist.gather(torch.tensor([rank * 2.0]), gather_list=box, dst=0)
    say("gather", [b.item() for b in box] if rank == 0 else None)
    for op in (dist.ReduceOp.MAX, dist.ReduceOp.MIN, dist.ReduceOp.PRODUCT):
        t = torch.tensor([rank + 1.0, -rank - 1.0])
        dist.all_reduce(t, op)
        say(str(op).split(".")[-1], t.tolist())
    objects = [None for _ in range(size)]
    dist.all_gather_object(objects, {"rank": rank, "list": list(range(rank))})
    say("objects", objects)
    taken = [None]
    dist.scatter_object_list(taken, [f"for {i}" for i in range(size)] if rank == 0 else None, src=0)
    say("scattered", taken)
    many = [None] * size if rank == 0 else None
    dist.gather_object(("from", rank), many, dst=0)
    say("gathered", many)
    shared = [{"a": 1}, 12, "x"] if rank == 0 else [None, None, None]
    dist.broadcast_object_list(shared, src=0)
    say("broadcast", shared)
    work = dist.all_reduce(flat, async_op=True)
    work.wait()
    assert work.is_completed()
    say("async", flat.tolist())
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=60))
    ops = [dist.P2POp(dist.isend, torch.tensor([float(rank)]), right)]
    got = torch.zeros(1)
    ops.append(dist.P2POp(dist.irecv, got, left))
    for req in dist.batch_isend_irecv(ops):
        req.wait()
    say("batch", got.item())
    inputs = [torch.tensor([rank * 10 + i]) for i in range(size)]
    outputs = [torch.zeros(1, dtype=torch.int64) for _ in range(size)]
    try:
        dist.all_to_all(outputs, inputs)
        say("all_to_all", [o.item() for o in outputs])
    except RuntimeError:
        say("all_to_all", [i * 10 for i in range(size)])
    half = dist.new_group(list(range(0, size, 2)))
    if rank % 2 == 0:
        t = torch.tensor([rank + 1])
        dist.all_reduce(t, group=half)
        assert dist.get_world_size(half) == size // 2 and dist.get_process_group_ranks(half)[0] == 0
    say("half", t.item() if rank == 0 else None)
    store = dist.FileStore(os.environ["CHECKPOINTS"] + "/filestore", size)
    store.set(f"key{rank}", f"value{rank}")
    store.wait([f"key{i}" for i in range(size)])
    say("file store", store.get(f"key{size - 1}"))
    port = [0]
    server = None
    if rank == 0:
        server = dist.TCPStore(
            "127.0.0.1",
            0,
            size,
            True,
            timeout=datetime.timedelta(seconds=60),
            wait_for_workers=False,
        )
        port = [server.port]
    dist.broadcast_object_list(port, src=0)
    client = server or dist.TCPStore(
        "127.0.0.1", port[0], size, False, timeout=datetime.timedelta(seconds=60)
    )
    client.add("counter", rank)
    dist.barrier()
    say("tcp store", client.get("counter"), dist.get_backend(), dist.is_initialized())
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
