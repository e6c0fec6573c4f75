"""How busy this machine is: CPU, memory and GPU in percent. Cheap, and never fails: what cannot be read is 0."""

import os
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from interlock.wire.message import Load

PROC = Path("/proc")


class LoadMeter:
    """Measures the CPU from one reading to the next."""

    def __init__(self) -> None:
        self._nvml: Any = None  # the module that asks the GPUs
        self._gpus: list[Any] | None = None  # handles of the GPUs, once they were looked for
        self._busy, self._total = self._times() or (0, 0)

    def measure(self) -> Load:
        return Load(self._cpu(), self._memory(), self._gpu())

    def _cpu(self) -> float:
        times = self._times()
        if times is None:
            with suppress(OSError):
                return _percent(os.getloadavg()[0], os.cpu_count() or 1)
            return 0.0
        busy, total = times[0] - self._busy, times[1] - self._total
        self._busy, self._total = times
        return _percent(busy, total)

    def _times(self) -> tuple[int, int] | None:
        """Return the busy and the total time of all CPUs since the start of the machine."""
        with suppress(OSError, ValueError, IndexError), open(PROC / "stat") as file:
            # user, nice, system, idle, iowait, irq, softirq, steal; guests count as user.
            times = [int(ticks) for ticks in file.readline().split()[1:9]]
            return sum(times) - times[3] - times[4], sum(times)
        return None

    def _memory(self) -> float:
        with suppress(OSError, ValueError, IndexError, KeyError), open(PROC / "meminfo") as file:
            found = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in file)}
            return _percent(found["MemTotal"] - found["MemAvailable"], found["MemTotal"])
        return 0.0

    def _gpu(self) -> float:
        """Return the use of the busiest GPU."""
        try:
            if self._gpus is None:
                self._gpus = []
                self._nvml = import_module("pynvml")  # package nvidia-ml-py, if it is there
                self._nvml.nvmlInit()
                count = self._nvml.nvmlDeviceGetCount()
                self._gpus = [self._nvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
            rates = [float(self._nvml.nvmlDeviceGetUtilizationRates(gpu).gpu) for gpu in self._gpus]
        except Exception:  # noqa: BLE001 - no module, no driver, a GPU that is lost: all mean that nothing is known
            return 0.0
        return _percent(max(rates, default=0.0), 100)


def _percent(part: float, whole: float) -> float:
    return min(100.0, max(0.0, 100.0 * part / whole)) if whole > 0 else 0.0
