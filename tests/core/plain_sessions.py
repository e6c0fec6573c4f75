"""Sessions as plain as they can be: one list of runs a session, searched from end to end."""

from dataclasses import dataclass, field

from interlock.model.session import Drop, Mode, SessionOptions

ACTIVE = ("active", "retrying", "stopping")


@dataclass
class Entry:
    run_id: str
    place: str = "waiting"
    """waiting, active, retrying (between two attempts), stopping (asked to, still holds its place), detached"""
    window: float = 0.0
    """until when it collects others, as the last of its session"""
    held: bool = False


@dataclass
class PlainSession:
    options: SessionOptions
    runs: list[Entry] = field(default_factory=list)
    cutoff: float = 0.0
    paused: bool = False
    busy: bool = False
    """uses 60 % of its window or more"""
    ended: dict[str, str] = field(default_factory=dict)
    """run → its last state, and why"""

    def submit(self, run_id: str, now: float, stamp: float) -> None:
        if self.cutoff and stamp < self.cutoff:
            self.ended[run_id] = "cancelled message_stale"
            return
        self.cutoff = 0.0
        last = self.runs[-1] if self.runs and self.runs[-1].place == "waiting" else None
        if self.options.mode is Mode.INTERRUPT:
            self.stop_all("interrupted by a later run")
        elif last is not None and now < last.window and not last.held:
            last.window = now + self.options.debounce
            self.ended[run_id] = f"skipped debounced into {last.run_id}"
            return
        if last is not None and last.held:
            last.window = 0.0  # it no longer collects
        debounce = 0.0 if self.options.mode is Mode.INTERRUPT else self.options.debounce
        self.runs.append(Entry(run_id, window=now + debounce if debounce else 0.0))
        self.proceed(now)
        waiting = self.at("waiting")
        if len(waiting) > self.options.cap:
            gone, why = (waiting[-1], "queue_full") if self.options.drop is Drop.NEW else (waiting[0], "queue_dropped")
            self.end(gone.run_id, f"cancelled {why}")

    def at(self, *places: str) -> list[Entry]:
        return [one for one in self.runs if one.place in places]

    def proceed(self, now: float) -> None:
        most = 1 if self.busy else self.options.max_concurrent
        for one in [one for one in self.at("waiting") if not one.held]:
            if len(self.at(*ACTIVE)) >= most or self.paused or now < one.window:
                return
            one.place = "active"

    def end(self, run_id: str, how: str) -> None:
        self.runs = [one for one in self.runs if one.run_id != run_id]
        self.ended[run_id] = how

    def cancel(self, run_id: str, why: str) -> None:
        (one,) = [one for one in self.runs if one.run_id == run_id]
        if one.place in ("waiting", "retrying"):
            self.end(run_id, f"cancelled {why}")
        elif one.place == "active":
            one.place = "stopping"

    def stop_all(self, why: str) -> None:
        for one in list(self.runs):
            if one.place != "detached":
                self.cancel(one.run_id, why)

    def reset(self) -> None:
        self.busy = False
        for one in list(self.runs):
            if one.place == "waiting":
                self.end(one.run_id, "cancelled lane_cleared")
            else:
                one.place = "detached"
