"""Several processes for real: each program of `tests/ranks` on two or four ranks, and faults."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import adjoint as ad
import adjoint.distributed as dist
from adjoint.distributed import measuring
from adjoint.distributed.algorithms.ddp_comm_hooks import default_hooks
from adjoint.distributed.cost import Cluster, all_reduce_seconds
from adjoint.distributed.launch.options import chosen, get_args_parser, parse
from adjoint.distributed.measuring import Probes
from adjoint.distributed.rendezvous import place_from
from adjoint.distributed.store.server import StoreServer
from adjoint.futures import Future
from benchmarks import faults

pytest.importorskip("mpi4py", reason="the extra `mpi` is not installed")
# Seconds by the clock, which also run while other programs have the processors: one of three ranks,
# half a minute of work for each, took 185 s beside two others. Of those that wait for each other in
# vain, groups tell sooner.
LIMIT = 1200


def start(*args: str, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "adjoint.cli", "launch", *args]
    return subprocess.Popen(
        command,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def launch(*args: str, **environment: str) -> tuple[int, str, str]:
    process = start(*args, **environment)
    try:
        out, errors = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        process.terminate()  # it ends its processes
        out, errors = process.communicate()
        raise AssertionError(f"did not end within {LIMIT} s:\n{out}\n{errors}") from None
    return process.returncode, out, errors


@pytest.mark.parametrize(("program", "ranks"), [("collectives", 4), ("together", 2)])
def test_on_ranks(program: str, ranks: int, tmp_path: Path, **environment: str) -> None:
    where = {"CHECKPOINTS": str(tmp_path), **environment}
    code, out, errors = launch(f"--nproc-per-node={ranks}", "-m", f"tests.ranks.{program}", **where)
    assert code == 0, errors
    assert out == "passed\n"


MESSAGES = ["check_what_carries", "check_crossing", "check_tags", "check_refusals"]
OF_GPUS = ["check_engine", "check_what_carries", "check_moving", "check_mismatches"]


@pytest.mark.parametrize(
    ("program", "chosen"), [("loopback", []), ("stored", OF_GPUS), ("wires", MESSAGES)]
)
def test_engines_of_gpus_without_one(program: str, chosen: list[str]) -> None:
    """NCCL's engine with a library played by MPI, and the store in the place of MPI."""
    code, out, errors = launch("--nproc-per-node=2", "-m", f"tests.ranks.{program}", *chosen)
    assert code == 0, errors
    assert out == "passed\n"


@pytest.mark.slow
def test_engines_of_gpus_in_training() -> None:
    for program in ("loopback", "stored", "wires"):
        code, out, errors = launch(
            "--nproc-per-node=4", "-m", f"tests.ranks.{program}", WITH_TRAINING="1"
        )
        assert code == 0, errors
        assert out == "passed\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "ranks"),
    [
        *(("collectives", 2), ("training", 4), ("sharding", 4), ("tensors", 4)),
        *(("sharding", 2), ("states", 3), ("staged", 2), ("staged", 4)),
    ],
)
def test_on_other_numbers_of_ranks(program: str, ranks: int, tmp_path: Path) -> None:
    """And with every model: MLP, CNN with batch norm and GPT, eager and compiled."""
    test_on_ranks(program, ranks, tmp_path, EVERY_MODEL="1")


SPAWNED = """
import os, sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

def work(rank, size, port):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", str(port)
    dist.init_process_group("gloo", rank=rank, world_size=size)
    x = torch.ones(2) * rank
    dist.all_reduce(x)
    assert x.tolist() == [1, 1]
    if len(sys.argv) > 2 and rank == 1:
        raise ValueError("lost")
    dist.barrier()
    dist.destroy_process_group()

if __name__ == "__main__":
    mp.spawn(work, args=(2, sys.argv[1]), nprocs=2)
    print("joined")
"""


# Below those that systems give to whoever asks for any port: what was free a moment ago stays so.
# Each process that runs tests begins elsewhere.
PORTS = itertools.count(10_000 + 17 * os.getpid() % 20_000)


def free_port() -> int:
    for port in PORTS:
        with contextlib.suppress(dist.DistNetworkError):
            StoreServer("127.0.0.1", port, b"").close()
            return port
    raise AssertionError


def test_spawned_functions_join(tmp_path: Path) -> None:
    script = tmp_path / "spawned.py"
    script.write_text(SPAWNED)
    command = [sys.executable, "-m", "adjoint.cli", "run", str(script), str(free_port())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "joined\n"


FAULTY = """
import os, sys, time
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=__import__("datetime").timedelta(seconds=60))
rank = dist.get_rank()
fault, attempt = sys.argv[1], os.environ["TORCHELASTIC_RESTART_COUNT"]
if rank == 1 and attempt == "0":
    if fault == "raise":
        raise ValueError("boom")
    if fault == "kill":
        os.kill(os.getpid(), 9)
    if fault == "late":
        time.sleep(100)
if fault == "late":
    try:
        dist.monitored_barrier(timeout=1.0)
    except dist.DistBackendError as error:
        print(error, flush=True)
        os._exit(7)
x = torch.ones(1)
dist.all_reduce(x)
sys.stdout.write(f"sum {x.item()}\\n")
"""


@pytest.fixture
def faulty(tmp_path: Path) -> str:
    script = tmp_path / "faulty.py"
    script.write_text(FAULTY)
    return str(script)


def test_the_first_failure_is_named(faulty: str) -> None:
    code, _, errors = launch("--nproc-per-node=2", faulty, "raise")
    assert code == 1
    assert errors.startswith("Traceback")
    assert re.search(
        r"adjoint launch: rank 1 .* failed with exit code 1\n  ValueError: boom", errors
    )


def test_restarts(faulty: str) -> None:
    code, out, errors = launch("--nproc-per-node=2", "--max-restarts=1", faulty, "kill")
    assert code == 0, errors
    assert "rank 1" in errors
    assert "killed by SIGKILL" in errors
    assert sorted(out.splitlines()) == ["sum 2.0", "sum 2.0"]


def test_a_missing_rank_is_named(faulty: str) -> None:
    code, out, _ = launch("--nproc-per-node=2", faulty, "late")
    assert code == 1
    assert "barrier (call 1) of group world" in out
    assert "missing rank(s): 1" in out
    assert "rank 1: has called no collective yet" in out
    assert "faulty.py:" in out


# -- without other processes ----------------------------------------------------------------------


def test_stores(tmp_path: Path) -> None:
    server = dist.TCPStore("127.0.0.1", 0, is_master=True, timeout=60)
    kinds: list[Any] = [
        dist.HashStore(),
        dist.FileStore(str(tmp_path / "store")),
        dist.TCPStore("127.0.0.1", server.port, timeout=60),
        dist.PrefixStore("inner", dist.HashStore()),
    ]
    for store in kinds:
        store.set("a", "1")
        assert store.get("a") == b"1"
        assert (store.add("n", 2), store.add("n", 3)) == (2, 5)
        assert store.compare_set("a", "0", "9") == b"1"
        assert store.compare_set("a", "1", "9") == b"9"
        assert store.compare_set("new", "", "x") == b"x"
        store.append("log", "a")
        store.append("log", "b")
        assert store.multi_get(["log", "a"]) == [b"ab", b"9"]
        assert store.check(["a", "n"])
        assert not store.check(["a", "missing"])
        assert store.num_keys() == 4
        assert store.delete_key("a")
        assert not store.delete_key("a")
        with pytest.raises(dist.DistStoreError, match="missing'"):
            store.wait(["missing"], 0.05)
    server.close()


def test_strangers_are_refused() -> None:
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, secret=b"ours")
    with pytest.raises(dist.DistNetworkError, match="secret"):
        dist.TCPStore("127.0.0.1", store.port, secret=b"theirs", timeout=60)
    with pytest.raises(dist.DistNetworkError, match="cannot listen"):
        dist.TCPStore("127.0.0.1", store.port, is_master=True)
    store.close()
    with pytest.raises(dist.DistNetworkError, match="nothing answers"):
        dist.TCPStore("127.0.0.1", free_port(), timeout=0.2)


def test_places() -> None:
    slurm = {"SLURM_PROCID": "3", "SLURM_NTASKS": "4", "SLURM_STEP_NODELIST": "n[1-2]"}
    assert (place_from(slurm).rank, place_from(slurm).host) == (3, "n1")
    assert place_from({}, init_method="tcp://h:5?rank=1&world_size=2").port == 5
    assert place_from({"RANK": "1", "WORLD_SIZE": "2"}, rank=0).rank == 0
    assert place_from({}).size == 1
    with pytest.raises(ValueError, match="rank must be"):
        place_from({}, size=2)
    for name, wrong in (
        ("RANK", "x"), ("RANK", "-1"), ("WORLD_SIZE", "-2"), ("WORLD_SIZE", "0"),
        ("WORLD_SIZE", "2.0"), ("MASTER_PORT", "0x1"), ("MASTER_PORT", "99999"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=rf"\${name} must be a number from .*{wrong!r}"):
            place_from({"RANK": "0", "WORLD_SIZE": "2", name: wrong})


@pytest.mark.parametrize(
    "wrong",
    [
        *(
            "--nnodes=1:4",
            "--nnodes=0",
            "--nproc-per-node=many",
            "--tee=7",
            "--tee=12",
            "--tee=0:4",
        ),
        *(
            "--rdzv-endpoint=host:port",
            "--rdzv-backend=etcd",
            "--rdzv-conf=timeout",
            "--node-rank=1",
        ),
        *("--max-restarts=-1", "--local-ranks-filter=a", "--signals-to-handle=SIGNONE"),
        *("--numa-binding=node", "--shutdown-timeout=soon"),
    ],
)
def test_launch_refuses(wrong: str) -> None:
    with pytest.raises(SystemExit, match=wrong.split("=", maxsplit=1)[0]):
        parse([wrong, "train.py"])


def test_launch_options(monkeypatch: pytest.MonkeyPatch) -> None:
    given = ["--standalone", "-r", "1", "--tee=0:3,2:1", "--local_ranks_filter=0,2", "-m", "train"]
    options = parse([*given, "--rdzv-conf", "join_timeout=7"])
    assert options.program == ("train", "--rdzv-conf", "join_timeout=7")
    assert (options.as_module, options.host, options.port) == (True, "127.0.0.1", 0)
    assert (options.redirects, options.tee) == ({0: 1}, {0: 3, 2: 1})
    assert options.shown == frozenset({0, 2})
    monkeypatch.setenv("PET_NPROC_PER_NODE", "3")
    monkeypatch.setenv("PET_RDZV_CONF", "join_timeout=7")
    assert (parse(["train.py"]).processes, parse(["train.py"]).meeting) == (3, 7.0)
    assert parse(["--nproc-per-node=2", "train.py"]).processes == 2


PRINTS = "import os, sys; print('out', os.environ['LOCAL_RANK']); print('err', file=sys.stderr)"


def test_what_processes_print(tmp_path: Path) -> None:
    (tmp_path / "prints.py").write_text(PRINTS)
    code, out, errors = launch(
        "--nproc-per-node=2", f"--log-dir={tmp_path / 'logs'}", "--redirects=2", "--tee=1:1",
        "--local-ranks-filter=1", str(tmp_path / "prints.py"),
    )  # fmt: skip
    assert (code, out, errors) == (0, "[default1]:out 1\n", "")
    logs = {str(p.relative_to(tmp_path / "logs")): p.read_text() for p in tmp_path.rglob("*.log")}
    assert logs == {
        "attempt_0/0/stderr.log": "err\n", "attempt_0/1/stderr.log": "err\n",
        "attempt_0/1/stdout.log": "out 1\n",
    }  # fmt: skip


def test_what_is_not_there(tmp_path: Path) -> None:
    code, _, errors = launch("nothing.py")
    assert code == 1
    assert errors.endswith("failed with exit code 1\n  there is no file 'nothing.py'\n")
    code, _, errors = launch("--no-python", "no-such-command")
    assert (code, errors) == (1, "adjoint launch: no-such-command: No such file or directory\n")


def test_two_machines_end_together(tmp_path: Path) -> None:
    """Two launchers on one machine; the one that keeps the store is the last to leave."""
    (tmp_path / "prints.py").write_text(PRINTS)
    place = ["--nnodes=2", f"--rdzv-endpoint=127.0.0.1:{free_port()}"]
    jobs = [start(*place, f"--node-rank={n}", str(tmp_path / "prints.py")) for n in (0, 1)]
    assert [job.communicate(timeout=LIMIT)[0] for job in jobs] == ["out 0\n"] * 2
    assert [job.returncode for job in jobs] == [0, 0]
    code, _, errors = launch(*place, "--node-rank=0", "--rdzv-conf=join_timeout=0.5", "prints.py")
    assert code == 1
    assert "machine 1 of 2 has not come within 0.5 s" in errors


def test_remote_calls_are_refused() -> None:
    from adjoint.distributed import rpc

    with pytest.raises(NotImplementedError, match="init_rpc"):
        rpc.init_rpc("worker")


# -- faults at random moments ---------------------------------------------------------------------


@pytest.mark.slow
def test_killed_ranks() -> None:
    """50 of them by `python -m benchmarks.faults`; here some, or as many as $ADJOINT_KILLS says."""
    assert faults.main(["--kills", os.environ.get("ADJOINT_KILLS", "5")]) == 0


def test_meta_tensors_are_refused() -> None:
    dist.init_process_group("gloo", rank=0, world_size=1)
    try:
        with pytest.raises(RuntimeError, match="meta device"):
            dist.all_reduce(ad.ones(2, device="meta"))
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize(("model", "best"), [("gpt2", "data parallel"), ("llama-7b", "fully")])
def test_plans(model: str, best: str, capsys: pytest.CaptureFixture[str]) -> None:
    from adjoint.cli import main

    assert main(["plan", "--model", model, "--gpus", "8"]) == 0
    assert capsys.readouterr().out.splitlines()[2].startswith(best)
    assert main(["plan", "--model", "llama-7b", "--gpus", "1", "--memory", "8"]) == 1
    assert "no layout fits" in capsys.readouterr().out


def test_a_measured_plan(capsys: pytest.CaptureFixture[str]) -> None:
    """One process alone: what is measured are products and memory."""
    from adjoint.cli import main

    try:
        assert main(["plan", "--measure", "--batch", "1", "--length", "16"]) in (0, 1)
        lines = capsys.readouterr().out.splitlines()
        assert "on 1 devices" in lines[0]
        assert any(line.startswith("data parallel ") for line in lines)
    finally:
        dist.destroy_process_group()


def test_a_ring_is_as_the_formula_says() -> None:
    """Constants that are known come back from times that were made of them."""
    probes = Probes.__new__(Probes)
    size, n = 4.0 * measuring.LARGE, 4
    known = Cluster(n, 1.0, 1e9, 2e9, 1e-4, 5e9, 8e9, 0.0)
    times = [
        2 * measuring.SIDE**3 / known.flops, 2 * size / known.copying, size / known.summing,
        2 * (n - 1) * known.latency, all_reduce_seconds(n, size, known),
    ]  # fmt: skip
    found = probes.cluster(times, n)
    for name in ("flops", "bandwidth", "latency", "summing", "copying"):
        assert getattr(found, name) == pytest.approx(getattr(known, name)), name


EXAMPLES = sorted((Path(__file__).parent.parent / "examples" / "distributed").glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples(example: Path) -> None:
    code, out, errors = launch("--nproc-per-node=2", str(example))
    assert code == 0, errors
    assert "loss" in out


def test_a_program_may_fill_in_the_launchers_fields_itself() -> None:
    given = get_args_parser().parse_args(["train.py"])
    given.nproc_per_node, given.nnodes, given.node_rank = "2", "1", "0"
    given.rdzv_endpoint, given.training_script_args = None, ["--lr", "1"]
    options = chosen(given)
    assert (options.program, options.processes) == (("train.py", "--lr", "1"), 2)
    assert (options.machine, options.host) == (0, "127.0.0.1")


def test_gradients_travel_in_fewer_bits_and_come_back_whole() -> None:
    class Bucket:
        def __init__(self) -> None:
            self.flat = ad.tensor([1.0, 1.0 / 3.0])

        def buffer(self) -> ad.Tensor:
            return self.flat

        def set_buffer(self, tensor: ad.Tensor) -> None:
            self.flat = tensor

    seen = []

    def hook(state: Any, bucket: Any) -> Future:
        seen.append(bucket.buffer().dtype)
        done = Future()
        done.set_result(bucket.buffer() * 2)
        return done

    bucket = Bucket()
    result = default_hooks.bf16_compress_wrapper(hook)(None, bucket).wait()
    assert seen == [ad.bfloat16]
    assert bucket.flat is result
    assert result.tolist() == [2.0, float(ad.tensor(1 / 3).bfloat16()) * 2]
