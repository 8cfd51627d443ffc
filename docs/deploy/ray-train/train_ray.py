"""Trains the model of train_ddp.py by Ray Train, with a checkpoint after each epoch.

    PYTHONPATH=../torchrun python train_ray.py --storage /shared/runs [--epochs 6] [--workers 2]

Ray starts a worker process for each rank, on one core. If a worker or its node is lost, Ray starts
all workers again, and each continues from the last checkpoint. Prints the loss of each step, and
the folder of the last checkpoint.
"""

import argparse
import os
import tempfile
from pathlib import Path

import ray
import ray.train
import torch
import torch.distributed as dist
import train_ddp
from ray.train.torch import TorchTrainer
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from edbatch.torch import BalancedSampler

# Workers get the code of train_ddp.py from this process, so they do not need the file.
ray.cloudpickle.register_pickle_by_value(train_ddp)


def train(options):
    """Runs in each worker, and again after a failure."""
    torch.manual_seed(0)  # The same initial weights in each rank.
    torch.set_num_threads(1)
    net = train_ddp.network()
    model, trees = DistributedDataParallel(train_ddp.Model(net)), train_ddp.Trees(net)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    # Do not pass the loader to ray.train.torch.prepare_data_loader: it replaces the sampler.
    sampler = BalancedSampler(trees.sizes, options["batch"] // dist.get_world_size())
    loader = DataLoader(trees, batch_sampler=sampler, collate_fn=train_ddp.join)
    first, losses = resume(model, optimizer)
    print(f"rank {dist.get_rank()}: process {os.getpid()} starts at epoch {first}", flush=True)
    for epoch in range(first, options["epochs"]):
        sampler.set_epoch(epoch)
        for lists, words, classes in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(lists, words), classes)
            loss.backward()
            optimizer.step()
            dist.all_reduce(loss.detach_())
            losses.append(loss.item() / dist.get_world_size())
        save(epoch, losses, model, optimizer)


def resume(model, optimizer):
    """Loads the last checkpoint, if there is one. Returns the next epoch and the losses so far."""
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        return 0, []
    with checkpoint.as_directory() as folder:
        state = torch.load(Path(folder, "state.pt"))
    model.module.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["epoch"] + 1, state["losses"]


def save(epoch, losses, model, optimizer):
    """Reports the epoch. All ranks report, and the first one adds the checkpoint."""
    metrics = {"epoch": epoch, "loss": losses[-1]}
    if dist.get_rank() > 0:
        ray.train.report(metrics)
        return
    state = {"epoch": epoch, "losses": losses}
    state |= {"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}
    with tempfile.TemporaryDirectory() as folder:
        torch.save(state, Path(folder, "state.pt"))
        # Copies the folder to the storage.
        ray.train.report(metrics, checkpoint=ray.train.Checkpoint.from_directory(folder))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--storage", required=True, help="a folder of all nodes, or a URI")
    parser.add_argument("--name", default="trees", help="the run's folder in the storage")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch", type=int, default=8, help="trees of all ranks in a step")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    ray.init()
    trainer = TorchTrainer(
        train,
        train_loop_config={"epochs": options.epochs, "batch": options.batch},
        scaling_config=ray.train.ScalingConfig(num_workers=options.workers),
        run_config=ray.train.RunConfig(
            name=options.name,
            storage_path=options.storage,
            failure_config=ray.train.FailureConfig(max_failures=3),
            checkpoint_config=ray.train.CheckpointConfig(num_to_keep=2),
        ),
    )
    checkpoint = trainer.fit().checkpoint
    with checkpoint.as_directory() as folder:
        state = torch.load(Path(folder, "state.pt"))
    for step, loss in enumerate(state["losses"], 1):
        print(f"step {step}: loss {loss:.4f}")
    print(f"checkpoint: {checkpoint.path}")


if __name__ == "__main__":
    main()
