"""Where a bounded merge step ends: on whole commits, over all partitions they touch. A decision as a value; no I/O."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class BatchEnd:
    """Where an append ends in a partition it touched, and bronze's version that its writer had seen (-1: not known)."""

    batch: str
    partition: int
    end: int
    after: int = -1


def step_ends(start: Mapping[int, int], batches: Sequence[BatchEnd], max_records: int) -> dict[int, int]:
    """The end offsets of the next step: at least ``max_records`` records where there are that many, and no commit cut in two.

    Args:
        start: partition to the offset where the step begins.
        batches: the appends beyond ``start``, by partition and offset.
        max_records: how many records the step takes, rounded up to whole commits.

    Returns:
        partition to end offset, exclusive. An append comes after those before it in every partition it touches, and of appends that touch
        no partition in common after those its writer had seen: what silver holds is never an effect without its cause. Commits
        of one writer after another are thus taken in their order; those that raced, in one or the other.
    """
    queues: dict[int, deque[BatchEnd]] = {}
    behind: dict[str, int] = {}
    touches: dict[str, list[int]] = {}
    for one in batches:
        queues.setdefault(one.partition, deque()).append(one)
        touches.setdefault(one.batch, []).append(one.partition)
        behind[one.batch] = behind.get(one.batch, 0) + 1
    ready: list[tuple[int, int, str]] = []

    def comes_to_the_head(queue: deque[BatchEnd]) -> None:
        if queue:
            behind[queue[0].batch] -= 1
            if not behind[queue[0].batch]:
                heapq.heappush(ready, (queue[0].after, queue[0].partition, queue[0].batch))

    for queue in queues.values():
        comes_to_the_head(queue)
    ends, taken = dict(start), 0
    while taken < max_records and ready:
        batch = heapq.heappop(ready)[2]
        for partition in touches[batch]:
            one = queues[partition].popleft()
            taken, ends[partition] = taken + one.end - ends[partition], one.end
            comes_to_the_head(queues[partition])
    if taken < max_records:  # everything there is
        ends |= {partition: queue[-1].end for partition, queue in queues.items() if queue}
    return ends
