"""Whose turn it is."""

from collections import Counter, OrderedDict, deque
from collections.abc import Collection
from typing import Generic, TypeVar

T = TypeVar("T")


class Turns(Generic[T]):
    """What waits, by its owner: the owners' turns go round, and each may have `most` at once."""

    def __init__(self, most: float = float("inf")) -> None:
        self._most = most
        self._waiting: OrderedDict[str, deque[T]] = OrderedDict()
        self._running: Counter[str] = Counter()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def wait(self, owner: str, one: T) -> None:
        """Let one wait, behind the others of its owner."""
        self._waiting.setdefault(owner, deque()).append(one)

    def drop(self, owner: str, one: T) -> None:
        """Let one wait no more, if it does."""
        waiting = self._waiting.get(owner, deque())
        if one in waiting:
            waiting.remove(one)
        if not waiting:
            self._waiting.pop(owner, None)

    def next(self, without: Collection[str] = ()) -> T | None:
        """Give the one whose turn it is, of an owner not in `without`; None where no owner may have one more."""
        may = (owner for owner in self._waiting if self._running[owner] < self._most and owner not in without)
        owner = next(may, None)
        if owner is None:
            return None
        waiting = self._waiting.pop(owner)
        one = waiting.popleft()
        if waiting:
            self._waiting[owner] = waiting  # behind the other owners
        self._running[owner] += 1
        return one

    def ended(self, owner: str) -> None:
        """Hear that one has ended whose turn it was."""
        self._running[owner] -= 1
        if not self._running[owner]:
            del self._running[owner]

    def clear(self) -> list[T]:
        """Give all that wait, which wait no more."""
        waiting = [one for line in self._waiting.values() for one in line]
        self._waiting.clear()
        return waiting
