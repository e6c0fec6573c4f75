"""Port: the time."""

from abc import ABC, abstractmethod

from interlock.model.run import Now


class Clock(ABC):
    @abstractmethod
    def now(self) -> Now:
        """The wall clock, and elapsed time that never goes back and counts while the machine sleeps."""
