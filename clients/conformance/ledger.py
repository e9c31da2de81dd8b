"""Whatever was ever drawn through the service: no ID twice, and none that was not given whole."""

import bisect
import itertools
import operator
import threading


class Ledger:
    """The IDs of each space, over all scenarios and languages."""

    def __init__(self):
        # Of each space: sorted lists, one of each scenario.
        self.spaces = {}
        self.lock = threading.Lock()

    def add(self, space, ids):
        """Enters IDs; returns those that were drawn before, and those that come twice among them."""
        ids = sorted(ids)
        if not ids:
            return []
        twice = [a for a, b in zip(ids, itertools.islice(ids, 1, None)) if a == b] if has_equal_neighbours(ids) else []
        with self.lock:
            for earlier in self.spaces.setdefault(space, []):
                # IDs of a layout rise with time, so mostly nothing overlaps.
                low, high = bisect.bisect_left(earlier, ids[0]), bisect.bisect_right(earlier, ids[-1])
                if low < high:
                    twice += set(earlier[low:high]).intersection(ids)
            self.spaces[space].append(ids)
        return twice

    def total(self):
        return sum(len(ids) for lists in self.spaces.values() for ids in lists)


def has_equal_neighbours(ids):
    return any(map(operator.eq, ids, itertools.islice(ids, 1, None)))


def not_issued(ids, ranges):
    """Returns those of the sorted `ids` that are in none of the ranges of answers."""
    found = 0
    blocks = []
    for one in ranges:
        first, step, count = int(one["first"]), int(one["step"]), one["count"]
        for index in range(one.get("repeat", 1)):
            start = first + index * int(one.get("stride", 0))
            blocks.append((start, start + (count - 1) * step, step))
    for start, last, step in blocks:
        low, high = bisect.bisect_left(ids, start), bisect.bisect_right(ids, last)
        found += high - low if step == 1 else sum((ids[at] - start) % step == 0 for at in range(low, high))
    if found >= len(ids):
        return []
    known = set()
    for start, last, step in blocks:
        known.update(range(start, last + 1, step))
    return [one for one in ids if one not in known]
