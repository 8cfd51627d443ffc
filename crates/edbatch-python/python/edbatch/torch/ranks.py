"""Inputs of several processes that train together."""

from collections.abc import Iterator, Sequence

import torch
from torch import distributed
from torch.utils.data import Sampler


class BalancedSampler(Sampler[list[int]]):
    """Mini-batches for one of several ranks, with about the same work for each.

    A batch sampler: ``DataLoader(…, batch_sampler=BalancedSampler(work, 32))``. ``work`` has a
    number for each input, such as its calls. ``ranks`` and ``rank`` come from
    ``torch.distributed`` if it is initialized. ``seed`` and ``set_epoch`` are those of
    DistributedSampler, and the order of an epoch is a permutation by ``seed + epoch``, or 0, 1, …
    without ``shuffle``.

    All ranks have the same number of steps, and the same number of inputs in each step. In a step,
    the work of two ranks differs by at most the largest input. The order is filled up from its
    start to a multiple of ``ranks``, or cut with ``drop_last`` to whole steps.
    """

    def __init__(
        self,
        work: Sequence[float],
        batch_size: int,
        *,
        ranks: int | None = None,
        rank: int | None = None,
        seed: int = 0,
        shuffle: bool = True,
        drop_last: bool = False,
    ) -> None:
        active = distributed.is_available() and distributed.is_initialized()
        if ranks is None:
            ranks = distributed.get_world_size() if active else 1
        if rank is None:
            rank = distributed.get_rank() if active else 0
        if ranks < 1:
            raise ValueError(f"ranks: expected at least 1, got {ranks}")
        if not 0 <= rank < ranks:
            raise ValueError(f"rank: expected a number below {ranks}, the ranks, got {rank}")
        if batch_size < 1:
            raise ValueError(f"batch_size: expected at least 1, got {batch_size}")
        self.work, self.batch_size = [float(each) for each in work], batch_size
        self.ranks, self.rank, self.seed = ranks, rank, seed
        self.shuffle, self.drop_last, self.epoch = shuffle, drop_last, 0

    def set_epoch(self, epoch: int) -> None:
        """Sets the number of the epoch, which changes the order."""
        self.epoch = epoch

    def __len__(self) -> int:
        step = self.batch_size * self.ranks
        return len(self.work) // step if self.drop_last else -(-len(self.work) // step)

    def __iter__(self) -> Iterator[list[int]]:
        order, step = self._order(), self.batch_size * self.ranks
        for first in range(0, len(order), step):
            yield self._share(order[first : first + step])

    def _order(self) -> list[int]:
        """The inputs of an epoch."""
        count = len(self.work)
        order = list(range(count))
        if self.shuffle:
            generator = torch.Generator().manual_seed(self.seed + self.epoch)
            order = torch.randperm(count, generator=generator).tolist()
        if self.drop_last:
            return order[: len(self) * self.batch_size * self.ranks]
        while len(order) % self.ranks:
            order += order[: self.ranks - len(order) % self.ranks]
        return order

    def _share(self, inputs: list[int]) -> list[int]:
        """The inputs of this rank among those of a step: the longest first, `ranks` at a time, the
        longest of these for the rank with the least work so far."""
        inputs = sorted(inputs, key=lambda index: -self.work[index])
        loads, mine = [0.0] * self.ranks, []
        for first in range(0, len(inputs), self.ranks):
            ranks = sorted(range(self.ranks), key=lambda rank: loads[rank])
            for rank, index in zip(ranks, inputs[first : first + self.ranks], strict=True):
                loads[rank] += self.work[index]
                if rank == self.rank:
                    mine.append(index)
        return mine
