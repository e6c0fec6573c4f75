"""Timers of systemd, each with the service that it starts."""

import os
import re
import shlex

from interlock.error import BadValue
from interlock.importers.calendar import DAY, HOUR, MINUTE, MONTH, WEEKDAY, cron_text, numbers_of
from interlock.importers.draft import FOREVER, NO_RETRY, CannotCarry, Draft, Imported, ImportSource, duration

_SHORT = {
    "minutely": "*:*", "hourly": "*:00", "daily": "*-*-*", "weekly": "Mon", "monthly": "*-*-01",
    "quarterly": "*-01,04,07,10-01", "semiannually": "*-01,07-01", "semi-annually": "*-01,07-01",
    "biannually": "*-01,07-01", "yearly": "*-01-01", "annually": "*-01-01",
}  # fmt: skip
_UNITS = {
    "usec us µs": 1e-6, "msec ms": 1e-3, "seconds second sec s": 1, "minutes minute min m": 60,
    "hours hour hr h": 3600, "days day d": 86400, "weeks week w": 604800, "months month M": 2629800,
    "years year y": 31557600,
}  # fmt: skip
_STARTS = ("OnBootSec", "OnStartupSec", "OnActiveSec")
_READ = {
    "Timer": (*_STARTS, "OnCalendar", "OnUnitActiveSec", "OnUnitInactiveSec", "Persistent", "RandomizedDelaySec",
              "FixedRandomDelay", "Unit"),
    "Service": ("ExecStart", "WorkingDirectory", "Environment", "Type"),
}  # fmt: skip
_NOTES = [
    "Time zone of OnCalendar without one: {tz}. 'interlock import --tz' changes it.",
    "systemd drops fire times while the unit is active; Interlock runs the latest one afterwards.",
    "systemd gives a unit its own environment; Interlock passes on the environment of 'interlock up'.",
    "Where clocks change, systemd may move a time; Interlock fires once.",
]
Sections = dict[str, dict[str, list[str]]]


def read(source: ImportSource) -> Imported:
    """Read a timer, with its service from the same text (`systemctl cat`) or from the file beside it."""
    units = _sections(source.text)
    if "Timer" not in units:
        raise BadValue("FILE", source.name, "a systemd timer: it has no [Timer]")
    timer, name = units["Timer"], os.path.basename(source.name).removesuffix(".timer")
    if source.path is None and (found := re.search(r"^# (?:.*/)?(.+)\.timer$", source.text, re.M)):
        name = found[1]  # from the comment that `systemctl cat` puts above each file
    if "Service" not in units and source.path is not None:
        beside = os.path.join(os.path.dirname(source.path), timer.get("Unit", [f"{name}.service"])[-1])
        if os.path.isfile(beside):
            with open(beside, encoding="utf-8", errors="replace") as file:
                units["Service"] = _sections(file.read()).get("Service", {})
    drafts = []
    for key in ("OnCalendar", "OnUnitActiveSec", "OnUnitInactiveSec", *_STARTS):
        if key in _STARTS and timer.get("OnUnitActiveSec"):
            continue  # they only delay its first start
        for value in timer.get(key, []):
            draft = Draft(name=name, origin=f"{source.name}: {key}={value}")
            draft.notes += [f"Description: {text}" for text in units.get("Unit", {}).get("Description", [])[:1]]
            with draft.carrying():
                _set_schedule(draft, key, value, timer, source.tz)
            with draft.carrying():
                _set_work(draft, units.get("Service", {}))
            for section, known in _READ.items():
                others = [(name, value) for name, values in units.get(section, {}).items() for value in values]
                draft.notes += [f"{name}={one}: not carried over" for name, one in others if name not in known]
            drafts.append(draft)
    notes = [note.format(tz=source.tz) for note in _NOTES]
    return Imported(drafts, notes + ["Each time of the timer is a separate job."] * (len(drafts) > 1))


def _sections(text: str) -> Sections:
    found: Sections = {}
    values: dict[str, list[str]] = {}
    for line in text.replace("\\\n", " ").split("\n"):
        if line.startswith("["):
            values = found.setdefault(line.strip(" []\r"), {})
        elif line.strip() and line.strip()[0] not in "#;":
            name, _, value = line.partition("=")
            if value.strip():
                values.setdefault(name.strip(), []).append(value.strip())
            else:
                values.pop(name.strip(), None)  # an empty value removes the earlier ones
    return found


def _set_schedule(draft: Draft, key: str, value: str, timer: dict[str, list[str]], tz: str) -> None:
    if key == "OnCalendar":
        _set_calendar(draft, value, tz)
        is_kept = _is_yes(timer, "Persistent")
        draft.fields["schedule"] |= {"catch_up_window": FOREVER} if is_kept else {"catch_up": "none"}
    elif key == "OnUnitActiveSec":
        every = _seconds(value)
        draft.set_schedule(every=duration(every))
        draft.notes.append("systemd counts from the unit's last start; Interlock keeps a fixed pace.")
        for start in _STARTS:
            for span in timer.get(start, []):
                if 0 < (wait := _seconds(span)) < every:
                    draft.fields["schedule"]["wait"] = duration(wait)
                draft.notes.append(f"{start}={span}: delays only the very first run, not the first after each boot.")
    else:
        raise CannotCarry(f"{key} counts from an event that Interlock does not know; use every or once")
    if delay := timer.get("RandomizedDelaySec"):
        draft.fields["schedule"]["jitter"] = duration(_seconds(delay[-1]))
        if not _is_yes(timer, "FixedRandomDelay"):
            draft.notes.append(
                "RandomizedDelaySec: systemd draws a new delay each time; a job of Interlock keeps its delay."
            )


def _is_yes(timer: dict[str, list[str]], key: str) -> bool:
    return timer.get(key, [""])[-1].lower() in ("1", "yes", "true", "on")


def _seconds(text: str) -> float:
    units = {"": 1.0} | {name: size for names, size in _UNITS.items() for name in names.split()}
    found = re.findall(r"([0-9.]+)\s*([A-Za-zµ]*)", text)
    if re.sub(r"[0-9.]+\s*[A-Za-zµ]*|\s", "", text) or not found or any(unit not in units for _, unit in found):
        raise CannotCarry(f"{text!r} is not a time span")
    return round(sum(float(number) * units[unit] for number, unit in found), 6)


def _set_calendar(draft: Draft, text: str, tz: str) -> None:
    words = text.split()
    if len(words) > 1 and re.fullmatch(r"UTC|[A-Za-z_]+(/[\w+-]+)+", words[-1]):
        tz = words.pop()
    words[:1] = _SHORT.get(words[0].lower(), words[0]).split()
    weekdays = words.pop(0).rstrip(",") if words[0][:3].upper() in WEEKDAY.names else "*"
    date = words.pop(0) if words and re.search("[-~]", words[0]) else "*-*-*"
    hour, *rest = (words.pop(0) if words else "0:0").split(":")
    month, tilde, from_end = date.partition("~")
    year, month, day = ["*", *month.split("-"), *(["*"] if tilde else [])][-3:]
    if words or len(rest) not in (1, 2):
        raise CannotCarry(f"{text!r} is not a readable time")
    minute, second = [*rest, "0"][:2]
    if f"{year}{month}{day}{hour}{minute}".isdecimal() and (weekdays, tilde) == ("*", ""):
        parts = [part.zfill(2) for part in (month, day, hour, minute, second)]
        draft.set_schedule(tz, at="{}-{}-{}T{}:{}:{}".format(year, *parts))
        return
    if year != "*" or second.strip("0"):
        raise CannotCarry(f"{text!r}: a cron expression has no years or seconds")
    if tilde and (from_end.lstrip("0"), weekdays) != ("1", "*"):
        raise CannotCarry(f"{text!r}: counted from the end of a month, cron knows only the last day")
    spans = (MINUTE, HOUR, DAY, MONTH, WEEKDAY)
    texts = zip((minute, hour, day, month, weekdays), spans, strict=True)
    fields = cron_text(*(numbers_of(one, span, "..") for one, span in texts)).split()
    fields[2] = "L" if tilde else fields[2]
    draft.set_schedule(tz, cron=" ".join(fields))


def _set_work(draft: Draft, service: dict[str, list[str]]) -> None:
    draft.fields |= {"run": _run(service.get("ExecStart", []), draft)}
    env = dict(word.partition("=")[::2] for line in service.get("Environment", []) for word in _words(line))
    if env:
        draft.fields["env"] = env
    for folder in service.get("WorkingDirectory", [])[-1:]:
        if not (folder := folder.lstrip("-")).startswith("/") or "%" in folder:
            raise CannotCarry(f"WorkingDirectory={folder}: give cwd as a path")
        draft.fields["cwd"] = folder
    draft.fields |= {"stdin": False, "retry": NO_RETRY}


def _words(line: str) -> list[str]:
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise CannotCarry(f"{line!r} cannot be read ({error})") from None
    if re.search(r"%[^%]", line.replace("%%", "")) or ";" in words:
        raise CannotCarry(f"{line!r}: systemd replaces its % specifiers and splits it at ';'")
    return [word.replace("%%", "%") for word in words]


def _run(lines: list[str], draft: Draft) -> dict[str, object]:
    if not lines:
        raise CannotCarry(
            "no ExecStart; put the service beside its timer, or give both: 'systemctl cat X.timer X.service'"
        )
    commands = []
    for line in lines:
        marks = line[: len(line) - len(line.lstrip("-@:+!|"))]
        if marks.strip("-"):
            raise CannotCarry(f"ExecStart={line}: {marks!r} has no equivalent")
        if "\\" in line:
            draft.notes.append("Backslashes in ExecStart are read as a shell reads them.")
        commands.append((_words(line[len(marks) :]), bool(marks)))
    if len(commands) == 1 and not commands[0][1] and "$" not in lines[0]:
        return {"process": commands[0][0]}
    texts = [(" ".join(map(_quoted, words)), may_fail) for words, may_fail in commands]
    return {"shell": " && ".join(f"{{ {text} || true; }}" if may_fail else text for text, may_fail in texts)}


def _quoted(word: str) -> str:
    """Quote a word for the shell, so that the shell replaces the same variables as systemd."""
    if re.fullmatch(r"\$\w+", word):
        return word
    if "${" in word:
        return '"' + re.sub(r'([\\"`]|\$(?!\{))', r"\\\1", word) + '"'
    return shlex.quote(word.replace("$$", "$"))
