"""The work of a job that is not a function of the app: a program, a container, or a function to import. Each dispatch
carries it. Core, engine and config ask the work itself, and know none of its kinds."""

import re
import shlex
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any, ClassVar, get_args

import msgspec

from interlock.fields import field_types as kinds
from interlock.fields.environment import Environment
from interlock.fields.field import Checked, Nested, doc, settable

FUNCTION = re.compile(r"([^\W\d]\w*(\.[^\W\d]\w*)*|[^\x00\n]*\.py):[^\W\d]\w*(\.[^\W\d]\w*)*")
FILLED = r"[^\x00]*[^\x00\s][^\x00]*"  # text that is more than white space
MEMORY = kinds.Size(1, 2**50)
CPUS = kinds.Number(0.01, 10_000)
NETWORK = kinds.Word(FILLED, "the name of a network")
USER = kinds.Word(FILLED, "the name or number of a user")
VOLUME_FORM = r"(/[^:\0]*|[A-Za-z0-9][A-Za-z0-9_.-]+):/[^:\0]*(:[A-Za-z,]+)?"
"""an engine takes what does not begin with a slash for the name of a volume that it keeps itself"""
_WORD, _PART = "[A-Za-z0-9_][A-Za-z0-9_.-]", "[a-z0-9]+((\\.|__?|-+)[a-z0-9]+)*"
IMAGE = kinds.Word(
    f"({_WORD}*(:[0-9]+)?/)?{_PART}(/{_PART})*(:{_WORD}{{0,127}})?(@[a-z0-9]+:[0-9a-fA-F]{{32,128}})?",
    "the name of an image in small letters, such as registry.example/train:1.4",
    accepts=lambda text: len(text) <= 512,
)


class FunctionName(kinds.Text):
    """`module:name` or `path/to/file.py:name`; in a document the path begins at its folder."""

    def __init__(self) -> None:
        super().__init__(FUNCTION.pattern, "of the form module:name or path/to/file.py:name")

    def check(self, value: Any, place: kinds.FieldPath) -> str:
        text = super().check(value, place)
        module, _, name = text.rpartition(":")
        if place.document is None or not module.endswith(".py"):
            return text
        return f"{place.document.path(str(place), module)}:{name}"


class Folder(kinds.Word):
    """The path of a folder; in a document it begins at the document's own."""

    def __init__(self) -> None:
        super().__init__(FILLED, "the path of a folder")

    def check(self, value: Any, place: kinds.FieldPath) -> str:
        text = super().check(value, place)
        return text if place.document is None else place.document.path(str(place), text)


class Limits(Checked, frozen=True, kw_only=True, omit_defaults=True):
    """Limits on a process and on each one that it starts; the worker's or supervisor's own by default."""

    where: ClassVar[str] = "limits"

    memory: Annotated[int | str | None, doc("Address space, as in `512MiB`, or bytes."), MEMORY] = None
    cpu: Annotated[
        float | str | None, doc("Processor time, at least a second; then it is killed."), kinds.Span("1s")
    ] = None
    files: Annotated[int | None, doc("Open files."), kinds.Whole(1)] = None
    processes: Annotated[int | None, doc("Processes of the same user."), kinds.Whole(1)] = None


class Volume(kinds.Word):
    """`outside:inside`. In a document, an outside path with a leading dot is relative to the document's folder."""

    def check(self, value: Any, place: kinds.FieldPath) -> str:
        if place.document is not None and isinstance(value, str) and value.startswith("."):
            outside, separator, inside = value.partition(":")
            value = f"{place.document.path(str(place), outside)}{separator}{inside}"
        return super().check(value, place)

    def schema(self) -> kinds.Schema:
        return {"type": "string", "pattern": ":/"}


VOLUME = Volume(VOLUME_FORM, "a volume like '/srv/data:/data' or '/srv/data:/data:ro'")


class BaseWork:
    """What each kind of work says of itself; `tag` is its kind in messages and in the store."""

    __slots__ = ()
    kind: ClassVar[str] = "handler"  # as people see it
    is_function: ClassVar[bool] = True  # whether it runs inside an executor process, shared or its own
    options: ClassVar[tuple[str, ...]] = ()  # those of its options that stand beside `run` in a document
    is_slow_to_start: ClassVar[bool] = False  # whether its runs are `starting` for a while

    @property
    def function_of(self) -> str | None:
        """Id of the job of the app whose function it runs. Any worker can execute work without one."""
        return None

    @property
    def words(self) -> Sequence[str]:
        """A command that stands for it."""
        return (str(self),)


class ProcessWork(BaseWork, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="process"):
    """A program. Its exit code decides, and the run's log is what it prints."""

    kind = "process"
    is_function = False
    options = ("env", "cwd", "stdin", "limits")

    command: tuple[str, ...]
    env: Annotated[dict[str, str | None], doc("Variables of a process; null takes one away."), Environment()] = {}
    cwd: Annotated[str | None, doc("Folder of a process."), Folder()] = None
    stdin: Annotated[bool, doc("Whether a process reads the payload from standard input, as one line of JSON.")] = True
    limits: Annotated[Limits, doc("Limits on a process.")] = Limits()

    @property
    def words(self) -> Sequence[str]:
        return self.command

    def __str__(self) -> str:
        return shlex.join(self.command)


class Pull(StrEnum):
    MISSING = "missing"
    ALWAYS = "always"
    NEVER = "never"


class ContainerWork(BaseWork, Checked, frozen=True, kw_only=True, omit_defaults=True, tag="container"):
    """A container of Docker or Podman on the worker's machine, made for each attempt. Its exit code decides, and the
    run's log is what it prints."""

    where: ClassVar[str] = "run.container"
    kind = "container"
    is_function = False
    options = ("env",)
    is_slow_to_start = True

    image: Annotated[str, doc("Name of the image."), IMAGE]
    command: Annotated[tuple[str, ...], doc("Command, in place of the image's own."), kinds.Command(least=0)] = ()
    memory: Annotated[int | None, doc("Memory, as in `512MiB`, or bytes."), MEMORY] = None
    cpus: Annotated[float | None, doc("Number of processors."), CPUS] = None
    processes: Annotated[int | None, doc("Most processes in it."), kinds.Whole(1)] = None
    pull: Annotated[Pull, doc("When to pull the image: `missing`, `always` or `never`.")] = Pull.MISSING
    mounts: Annotated[
        tuple[str, ...],
        doc("`host path:path inside`; `:ro` after it makes it read-only."),
        kinds.Texts(VOLUME, make=tuple),
    ] = ()
    user: Annotated[str | None, doc("User it runs as."), USER] = None
    workdir: Annotated[str | None, doc("Folder it runs in, inside."), kinds.Word(FILLED, "the path of a folder")] = None
    network: Annotated[str | None, doc("Network it joins."), NETWORK] = None
    env: Annotated[dict[str, str | None], Environment()] = {}

    @property
    def words(self) -> Sequence[str]:
        return (self.image, *self.command)

    def __str__(self) -> str:
        return shlex.join(self.words)


class FunctionWork(BaseWork, Checked, frozen=True, kw_only=True, omit_defaults=True, tag="function"):
    """A function that the worker imports on first use."""

    kind = "function"

    function: Annotated[str, FunctionName()]

    def __str__(self) -> str:
        return self.function


class JobWork(BaseWork, Checked, frozen=True, kw_only=True, omit_defaults=True, tag="job"):
    """The function of a job of the app; every other option is the own one of the job with this work."""

    job: Annotated[str, kinds.JOB_WORD]

    @property
    def function_of(self) -> str:
        return self.job

    def __str__(self) -> str:
        return self.job


Work = ProcessWork | ContainerWork | FunctionWork | JobWork
KINDS = " or ".join(sorted(f"`{work.kind}`" for work in get_args(Work) if work.kind != BaseWork.kind))
WORK_FIELDS = settable(ProcessWork)
"""options of work that stand beside `run` in a document"""
ALLOWED_FOR = dict.fromkeys(ProcessWork.options, "process and shell") | {"env": "process, shell and container"}


class JobRun(Checked, frozen=True, kw_only=True):
    """What a job does: exactly one of these."""

    where: ClassVar[str] = "run"
    one_of: ClassVar[tuple[str, ...]] = ("process", "shell", "container", "function", "job")

    process: Annotated[
        tuple[str, ...] | None,
        doc(
            "A program and its arguments. It reads the payload from its standard input, its exit code decides, and the "
            "log is what it prints."
        ),
        kinds.Command(),
    ] = None
    shell: Annotated[
        str | None, doc("A text for `/bin/sh`, run in the same way."), kinds.Word(FILLED, "text for the shell")
    ] = None
    container: Annotated[
        ContainerWork | None,
        doc("A container: its image, or a mapping. Its exit code decides, and the log is what it prints."),
        Nested(ContainerWork, "image"),
    ] = None
    function: Annotated[str | None, doc("Function, as `module:name` or `path/file.py:name`."), FunctionName()] = None
    job: Annotated[str | None, doc("Job of the app, by its id: runs the function of that job."), kinds.JOB_WORD] = None

    @property
    def work(self) -> Work:
        """The work, with default options."""
        if self.function is not None:
            return FunctionWork(function=self.function)
        if self.job is not None:
            return JobWork(job=self.job)
        if self.container is not None:
            return self.container
        return ProcessWork(command=self.process or shell(self.shell or ""))


def shell(text: str) -> tuple[str, ...]:
    """Return the command that runs this text in a shell."""
    return ("/bin/sh", "-c", text)
