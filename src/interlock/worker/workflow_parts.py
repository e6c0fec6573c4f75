"""What a workflow awaits that is made of several parts, or ends its round."""

from collections.abc import Generator
from typing import Any, Never

from interlock.wire import turn as t
from interlock.worker.workflow_driver import Driver, Part


class Gather(Part[tuple[Any, ...]]):
    def __init__(self, driver: Driver, parts: list[Part[Any]]) -> None:
        super().__init__(driver)
        self._parts = parts
        for part in parts:
            part.listen(self._look)
        if not parts:
            self.settle(())

    def _look(self) -> None:
        if self.is_done:
            return
        failed = next((part.error for part in self._parts if part.is_done and part.error is not None), None)
        if failed is not None:
            self.cancel()
            self.settle(error=failed)
        elif all(part.is_done for part in self._parts):
            self.settle(tuple(part.value for part in self._parts))

    def cancel(self) -> None:
        if not self.is_done:
            for part in self._parts:
                part.cancel()


class First(Part[tuple[int, Any]]):
    def __init__(self, driver: Driver, parts: list[Part[Any]]) -> None:
        super().__init__(driver)
        self._parts = parts
        for part in parts:
            part.listen(self._look)

    def _look(self) -> None:
        if self.is_done:
            return
        index, winner = next((index, part) for index, part in enumerate(self._parts) if part.is_done)
        self.cancel()
        self.settle((index, winner.value), winner.error)

    def cancel(self) -> None:
        if not self.is_done:
            for part in self._parts:
                part.cancel()


class NextRound(Part[Never]):
    def __init__(self, driver: Driver, order: t.Order) -> None:
        super().__init__(driver)
        self._order = order

    def __await__(self) -> Generator[Part[Any], None, Never]:
        self.driver.end_round(self._order)
        while True:
            yield self
