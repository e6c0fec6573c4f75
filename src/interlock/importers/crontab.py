"""Crontabs of users and of the system, as cron and cronie read them."""

import os
import re

from interlock.importers.draft import NO_RETRY, CannotCarry, Draft, Imported, ImportSource

_ASSIGNMENT = re.compile(r"""("[^"]*"|'[^']*'|[^\s="']+)\s*=\s*(.*)""")
_ENTRY = re.compile(r"-?(@\w+|(?:\S+\s+){4}\S+)(?:\s+(.*))?")
_CHARACTER = re.compile(r"\\.|.", re.S)
_NAME = re.compile(r"(?:(?:cd|test|\[)\s[^&|;]*(?:&&|\|\||;)[\s({]*)*(?:\w+=\S*\s+)*(\S*)")
_OF_CRON_ITSELF = ("MAILTO", "MAILFROM", "CRON_TZ")
_NOTES = [
    "Time zone of entries without CRON_TZ: {tz}. 'interlock import --tz' changes it.",
    "cron starts commands in the user's home with PATH=/usr/bin:/bin; Interlock starts them where 'interlock up' was "
    "started, with its environment. Set cwd and env where that matters.",
    "cron starts a command while its previous run is active; Interlock starts it afterwards. Raise "
    "constraints.max_concurrent_runs to let them overlap.",
    "cron skips what was due while it was down; Interlock runs the latest if it is under a minute old "
    "(schedule.catch_up).",
]
_OF_NAMES = {
    "MAILTO": "no mail is sent; 'interlock runs --job JOB --output' shows what a job printed",
    "CRON_TZ": "read as cronie does, as the time zone of the entries below it; Debian's cron ignores it",
}


def read(source: ImportSource) -> Imported:
    """Read a crontab of a user or of the system."""
    drafts: list[Draft] = []
    notes = [note.format(tz=source.tz) for note in _NOTES]
    env: dict[str, str] = {}
    above: list[str] = []
    for number, line in enumerate(source.text.split("\n"), 1):
        text = line.strip()
        if text.startswith("#"):
            above.append(text.lstrip("# "))
        elif found := _ASSIGNMENT.fullmatch(text):
            name, value = (_unquoted(group) for group in found.groups())
            env[name] = value
            if name in _OF_NAMES:
                notes.append(f"{source.name}:{number}: {text}: {_OF_NAMES[name]}.")
        elif text:
            draft = Draft(name="job", origin=f"{source.name}:{number}: {text}", notes=above)
            with draft.carrying():
                _read_entry(draft, text, env, source)
            drafts.append(draft)
        if not text.startswith("#"):
            above = []
    return Imported(drafts, notes)


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def _read_entry(draft: Draft, text: str, env: dict[str, str], source: ImportSource) -> None:
    found = _ENTRY.fullmatch(text)
    if found is None:
        raise CannotCarry("neither five fields and a command, nor an assignment")
    times, rest = found.groups(default="")
    if source.system:
        user, rest = (*rest.split(None, 1), "", "")[:2]
        draft.notes.append(f"cron runs it as {user}; Interlock runs it as the user of 'interlock up'.")
    command, *lines = _split(rest)
    if not command.strip():
        raise CannotCarry("the entry has no command" + " after its user" * source.system)
    draft.name = os.path.basename(str(_NAME.match(command)[1])) or "job"  # type: ignore[index]
    if lines:
        command = _with_input(command, lines if lines[-1] else lines[:-1])
    draft.set_schedule(env.get("CRON_TZ") or source.tz, cron="* * * * *" if times == "@every_minute" else times)
    if delay := env.get("RANDOM_DELAY"):
        draft.fields["schedule"]["jitter"] = f"{delay}m"
        draft.notes.append("RANDOM_DELAY: cronie draws a new delay at its start; a job of Interlock keeps its delay.")
    shell = env.get("SHELL", "/bin/sh")
    draft.fields["run"] = {"shell": command} if shell == "/bin/sh" else {"process": [shell, "-c", command]}
    if passed := {name: value for name, value in env.items() if name not in _OF_CRON_ITSELF}:
        draft.fields["env"] = passed
    if "HOME" in env:
        draft.fields["cwd"] = env["HOME"]
    draft.fields |= {"stdin": False, "retry": NO_RETRY}
    if times == "@reboot":
        raise CannotCarry(
            "@reboot is not a time; use 'kind: Service' for a program that stays up, otherwise 'interlock up --submit'"
        )


def _split(command: str) -> list[str]:
    """Split at each `%`, which stands for a new line, unless a backslash precedes it."""
    parts = [""]
    for character in _CHARACTER.findall(command):
        if character == "%":
            parts.append("")
        else:
            parts[-1] += "%" if character == r"\%" else character
    return parts


def _with_input(command: str, lines: list[str]) -> str:
    """Return a command that reads these lines from its standard input."""
    end = "INPUT"
    while end in lines:
        end += "_"
    return "\n".join(["{ " + command, f"}} <<'{end}'", *lines, end, ""])
