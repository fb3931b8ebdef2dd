"""Where a bounded merge step ends: on whole commits, over all partitions they touch. A decision as a value; no I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def step_ends(start: Mapping[int, int], batches: Sequence[tuple[str, int, int]], max_records: int) -> dict[int, int]:
    """The end offsets of the next step: at least ``max_records`` records where there are that many, and no commit cut in two.

    Args:
        start: partition to the offset where the step begins.
        batches: (batch id, partition, end offset) of the appends beyond ``start``, by partition and offset.
        max_records: how many records the step takes, rounded up to whole commits.

    Returns:
        partition to end offset, exclusive. Appends are taken in an order that the log allows: one whose predecessors are all taken,
        in every partition it touches, comes next.
    """
    queues: dict[int, list[tuple[str, int]]] = {}
    touches: dict[str, set[int]] = {}
    for batch, partition, end in batches:
        queues.setdefault(partition, []).append((batch, end))
        touches.setdefault(batch, set()).add(partition)
    heads = dict.fromkeys(queues, 0)
    ends, taken = dict(start), 0
    ready = sorted(queues)
    while taken < max_records and ready:
        for partition in ready:
            batch, _ = queues[partition][heads[partition]]
            if all(heads[other] < len(queues[other]) and queues[other][heads[other]][0] == batch for other in touches[batch]):
                break
        else:
            return {index: max(end for _, end in queues[index]) if index in queues else end for index, end in start.items()}
        for other in touches[batch]:
            _, end = queues[other][heads[other]]
            taken += end - ends[other]
            ends[other] = end
            heads[other] += 1
        ready = [index for index in ready if heads[index] < len(queues[index])]
    return ends
