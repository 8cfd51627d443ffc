"""Trains a layer by DistributedDataParallel: one process for each rank, started by torchrun.

    torchrun --nproc-per-node 2 train_ddp.py [--steps 6] [--out weights.pt]

Trees differ in size, so BalancedSampler divides each step's trees by their calls. Prints the loss
of each step, and writes the weights of the first rank.
"""

import argparse
import random

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

import edbatch as ed
from edbatch.torch import BalancedSampler, Layer

WORDS, E, H, CLASSES = 50, 8, 16, 3


def network():
    net = ed.Network()
    word, state = net.record("word", x=E), net.record("state", h=H)

    @net.cell(state)
    def leaf(c):
        return (c.parameter("leaf.w", (H, E)) @ c.one("word", word).x).tanh()

    @net.cell(state)
    def node(c):
        (left,), (right,) = c.one("left", state), c.one("right", state)
        return (c.parameter("node.l", (H, H)) @ left + c.parameter("node.r", (H, H)) @ right).tanh()

    return net


class Trees(Dataset):
    """Random trees. Each is a call list with a slot for each leaf, made where it is loaded."""

    def __init__(self, net, count=24):
        rng = random.Random(1)
        self.net, self.sizes = net, [rng.randint(1, 20) for _ in range(count)]

    def __len__(self):
        return len(self.sizes)

    def __getitem__(self, index):
        rng, leaves = random.Random(index), self.sizes[index]
        calls = ed.CallList(self.net)
        values = [calls.call(self.net.cells["leaf"], slot) for slot in calls.slots(self.net.records["word"], leaves)]
        while len(values) > 1:
            at = rng.randrange(len(values) - 1)
            values[at : at + 2] = [calls.call(self.net.cells["node"], *values[at : at + 2])]
        calls.emit(values[0])
        words = torch.tensor([rng.randrange(WORDS) for _ in range(leaves)])
        return calls, words, rng.randrange(CLASSES)


def join(batch):
    lists, words, classes = zip(*batch, strict=True)
    return list(lists), torch.cat(words), torch.tensor(classes)


class Model(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.embed, self.classify = nn.Embedding(WORDS, E), nn.Linear(H, CLASSES)
        self.encode = Layer(net, given=("word",), emits="state")

    def forward(self, lists, words):
        return self.classify(self.encode.packed(lists, self.embed(words))[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--batch", type=int, default=8, help="trees of all ranks in a step")
    parser.add_argument("--out", default=None)
    options = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(0)  # The same initial weights in each rank.
    torch.set_num_threads(1)
    net = network()
    model, trees = DistributedDataParallel(Model(net)), Trees(net)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    sampler = BalancedSampler(trees.sizes, options.batch // dist.get_world_size())
    loader = DataLoader(trees, batch_sampler=sampler, collate_fn=join)
    step, epoch = 0, 0
    while step < options.steps:
        sampler.set_epoch(epoch)
        for lists, words, classes in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(lists, words), classes)
            loss.backward()
            optimizer.step()
            dist.all_reduce(loss.detach_())
            step += 1
            if dist.get_rank() == 0:
                print(f"step {step}: loss {loss.item() / dist.get_world_size():.4f}", flush=True)
            if step == options.steps:
                break
        epoch += 1
    if options.out and dist.get_rank() == 0:
        torch.save(model.module.state_dict(), options.out)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
