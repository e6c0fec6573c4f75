"""What an older version sends can still be read, and what it reads is still sent: a cluster is upgraded node by node.

Each file has messages of every kind, encoded by that version (`python -m tools.frames`). A message may get further
fields with defaults, at its end. New kinds are sent only to whoever has shown that it knows them.
"""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock.wire.frames import FrameReader, encode

FILES = sorted((Path(__file__).parent / "frames").glob("*.json"))


def differences(old: Any, new: Any, where: str = "") -> list[str]:
    """Return where a value lacks something of an older one."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [one for key in old for one in differences(old[key], new.get(key, "nothing"), f"{where}.{key}")]
    if isinstance(old, list) and isinstance(new, list):
        short = [f"{where}: {len(new)} of {len(old)} values"] if len(new) < len(old) else []
        pairs = enumerate(zip(old, new, strict=False))
        return short + [one for place, (a, b) in pairs for one in differences(a, b, f"{where}[{place}]")]
    return [] if old == new else [f"{where}: {old!r} is now {new!r}"]


@pytest.mark.behaviour("CLU-3")
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_message_of_an_older_version_is_read_and_written_as_there(file: Path) -> None:
    found = []
    for kind, known in json.loads(file.read_text()).items():
        for sample in known["samples"]:
            old = bytes.fromhex(sample)
            frame = b"\x91" + old
            ((message,),) = FrameReader().feed(len(frame).to_bytes(4, "big") + frame)
            assert type(message).__name__ == kind
            assert list(type(message).__struct_fields__)[: len(known["fields"])] == known["fields"]
            new = msgspec.msgpack.decode(encode([message])[4:])[0]
            found += [f"{kind}{one}" for one in differences(msgspec.msgpack.decode(old), new)]
    assert found == []
