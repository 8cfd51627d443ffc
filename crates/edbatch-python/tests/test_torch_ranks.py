"""Several processes of PyTorch that train a layer: samplers, workers, gloo; skipped without it."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("encoder", reason="torch is not installed")
from edbatch.torch import BalancedSampler  # noqa: E402
from encoder import E, NET, SIZES, Packed, close, layer, matrix, slot_list  # noqa: E402

RECIPE = Path(__file__).parents[3] / "docs/deploy/torchrun/train_ddp.py"
TIMEOUT = 300


class TestBalancedSampler:
    WORK = [(i * 37) % 101 + 1 for i in range(50)]

    def ranks(self, ranks=3, **options):
        make = [
            BalancedSampler(self.WORK, 4, ranks=ranks, rank=rank, seed=1, **options)
            for rank in range(ranks)
        ]
        return make, [list(each) for each in make]

    @pytest.mark.smoke
    def test_steps_have_equal_numbers_and_about_equal_work(self):
        samplers, ranks = self.ranks()
        assert {len(rank) for rank in ranks} == {5} == {len(each) for each in samplers}
        for step in zip(*ranks, strict=True):
            assert len({len(batch) for batch in step}) == 1 and step[0]
            loads = [sum(self.WORK[index] for index in batch) for batch in step]
            assert max(loads) - min(loads) <= max(self.WORK[i] for batch in step for i in batch)
        seen = [index for rank in ranks for batch in rank for index in batch]
        assert set(seen) == set(range(50)) and len(seen) == 51

    def test_epochs_are_permutations(self):
        (sampler, *_), (first, *_) = self.ranks()
        assert list(sampler) == first
        sampler.set_epoch(1)
        assert list(sampler) != first
        other = BalancedSampler(self.WORK, 4, ranks=3, rank=0, seed=2)
        assert list(other) == list(sampler)

    def test_whole_steps_and_plain_order(self):
        samplers, ranks = self.ranks(drop_last=True)
        assert [len(each) for each in samplers] == [4] * 3
        assert {len(batch) for rank in ranks for batch in rank} == {4}
        _, ranks = self.ranks(shuffle=False)
        assert sorted(index for rank in ranks for index in rank[0]) == list(range(12))

    def test_fewer_inputs_than_ranks(self):
        ranks = [list(BalancedSampler([5, 1], 4, ranks=5, rank=rank)) for rank in range(5)]
        assert {len(rank) for rank in ranks} == {1}
        assert {index for rank in ranks for index in rank[0]} == {0, 1}
        assert list(BalancedSampler([], 4)) == [] and len(BalancedSampler([], 4)) == 0

    def test_invalid_numbers(self):
        for options, text in [
            ({"ranks": 3, "rank": 3}, "rank: expected a number below 3"),
            ({"ranks": 3, "rank": -1}, "rank: expected a number below 3"),
            ({"ranks": 0}, "ranks: expected at least 1"),
        ]:
            with pytest.raises(ValueError, match=text):
                BalancedSampler([1], 1, **options)
        with pytest.raises(ValueError, match="batch_size"):
            BalancedSampler([1], 0)

    def test_a_loader_takes_it(self):
        sampler = BalancedSampler(self.WORK, 8)
        loader = torch.utils.data.DataLoader(range(50), batch_sampler=sampler)
        assert sorted(int(i) for batch in loader for i in batch) == list(range(50))


class Trees(torch.utils.data.Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return slot_list(index % 3), matrix(index, E, SIZES[index % 3])


def joined(batch):
    return [calls for calls, _ in batch], torch.cat([x for _, x in batch])


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_lists_made_by_workers(method):
    l, kind = layer(), torch.utils.data.DataLoader
    loader = kind(
        Trees(), 3, collate_fn=joined, num_workers=2, multiprocessing_context=method
    )
    count = 0
    for (lists, x), (of_here, same) in zip(loader, kind(Trees(), 3, collate_fn=joined), strict=True):
        assert all(calls.network is NET for calls in lists) and lists == of_here
        assert torch.equal(l.packed(lists, x)[0], l.packed(of_here, same)[0])
        count += 1
    assert count == 2


def torchrun(ranks, *arguments):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(ranks), str(RECIPE), *arguments]
    path = os.pathsep.join(filter(None, sys.path))
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=TIMEOUT
    )


def test_two_ranks_of_torchrun_train_the_weights_of_one(tmp_path):
    states, losses = [], []
    for ranks in (1, 2):
        out = tmp_path / f"{ranks}.pt"
        done = torchrun(ranks, "--steps", "5", "--out", str(out))
        assert done.returncode == 0, done.stderr
        losses.append(done.stdout.splitlines())
        states.append(torch.load(out))
    assert len(losses[0]) == len(losses[1]) == 5 and losses[0] == losses[1]
    for name, tensor in states[0].items():
        close(states[1][name], tensor, 1e-6)


def in_ranks(function, folder):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(function, (port, str(folder)), nprocs=2, join=True)


def join_ranks(rank, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)


BATCHES = [([0, 1, 2], [1]), ([0, 1, 2], []), ([2], [0, 1])]


def uneven(rank, port, folder):
    join_ranks(rank, port)
    model = torch.nn.parallel.DistributedDataParallel(Packed(emits="state"))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step, of_ranks in enumerate(BATCHES):
        mine = of_ranks[rank]
        x = matrix(10 * step + rank, 3, sum(SIZES[index] for index in mine))
        optimizer.zero_grad()
        model([slot_list(index) for index in mine], x).square().sum().backward()
        optimizer.step()
    torch.save(model.module.state_dict(), os.path.join(folder, f"{rank}.pt"))
    torch.distributed.destroy_process_group()


def test_a_rank_without_inputs(tmp_path):
    in_ranks(uneven, tmp_path)
    states = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)]
    model = Packed()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step, of_ranks in enumerate(BATCHES):
        optimizer.zero_grad()
        for rank, mine in enumerate(of_ranks):
            x = matrix(10 * step + rank, 3, sum(SIZES[index] for index in mine))
            if mine:
                (model([slot_list(index) for index in mine], x).square().sum() / 2).backward()
        optimizer.step()
    for name, tensor in model.state_dict().items():
        assert torch.equal(states[0][name], states[1][name])
        close(states[0][name], tensor, 1e-6)


def sparse(rank, port, folder):
    from test_torch_sparse import INPUTS, tables

    join_ranks(rank, port)
    model = torch.nn.parallel.DistributedDataParallel(tables(sparse=("embed",)))
    loss = torch.cat(model(INPUTS)).sum()
    try:
        loss.backward()
    except RuntimeError as error:
        Path(folder, str(rank)).write_text(str(error))
    dense = torch.nn.parallel.DistributedDataParallel(tables())
    torch.cat(dense(INPUTS)).sum().backward()
    torch.distributed.destroy_process_group()


def test_sparse_gradients_between_ranks_say_what_to_do(tmp_path):
    in_ranks(sparse, tmp_path)
    for rank in range(2):
        text = (tmp_path / str(rank)).read_text()
        assert "sparse gradients (embed) do not work in DistributedDataParallel" in text
        assert "nn.Embedding(..., sparse=True)" in text and "dense gradient" in text
