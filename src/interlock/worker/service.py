"""A service that is a function: the options of its process, and how it runs and ends there."""

import asyncio
import inspect
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any, NoReturn, cast

import msgspec

from interlock.error import BadHandler, CannotImport, shown
from interlock.worker.app_loader import load_app, load_function
from interlock.worker.definition import is_async, where_of

PROGRAM = "interlock.worker.service_process"
STOPS = (signal.SIGTERM, signal.SIGINT)


class ServiceOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The function of a service: declared by an app under this name, or given by its own name in `function`."""

    name: str
    app: str = ""
    function: str = ""  # `module:name`, or `path/to/file.py:name`
    path: list[str] = []  # additional places to import from

    def command(self) -> tuple[str, ...]:
        """Return the command of its process."""
        return (sys.executable, "-m", PROGRAM, msgspec.json.encode(self).decode())


class ServiceContext(msgspec.Struct, frozen=True, kw_only=True):
    """The argument of a service's function, if it takes one."""

    name: str
    resume_id: str  # the same for every life of this service
    previous_exit: int  # exit code of its last life; -1 without one
    previous_signal: int | None  # signal that ended its last life, if one did

    @classmethod
    def from_environment(cls, name: str) -> "ServiceContext":
        """Read the supervisor's variables; a function that is run by hand has no previous life."""
        previous_exit = _number("INTERLOCK_PREV_EXIT")
        return cls(
            name=name,
            resume_id=os.environ.get("INTERLOCK_RESUME_ID", ""),
            previous_exit=-1 if previous_exit is None else previous_exit,
            previous_signal=_number("INTERLOCK_PREV_SIGNAL"),
        )


def _number(variable: str) -> int | None:
    text = os.environ.get(variable, "")
    return int(text) if re.fullmatch(r"-?[0-9]{1,10}", text) else None


def takes_context(name: str, function: Callable[..., Any]) -> bool:
    """Return whether a service's function takes its context; raise if it needs other arguments."""
    if not callable(function):
        raise BadHandler(f"service {name!r}: {shown(function)} cannot be called: a service is a function")
    where = where_of(function)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise BadHandler(f"service {name!r}: {where} is a generator; a service is a function that runs until it ends")
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise BadHandler(f"service {name!r}: {where} has a signature that cannot be read: {error}") from error
    open_ended = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [
        parameter
        for parameter in parameters
        if parameter.default is parameter.empty and parameter.kind not in open_ended
    ]
    if len(needed) > 1 or any(parameter.kind is parameter.KEYWORD_ONLY for parameter in needed):
        names = ", ".join(parameter.name for parameter in needed)
        raise BadHandler(f"service {name!r}: {where} needs {names}; a service takes its context, and nothing else")
    return bool(needed)


def run_service(options: ServiceOptions) -> int:
    """Find the function and run it in this process; return the exit code. Raise if it cannot be found."""
    sys.path[:0] = [part for part in options.path if part not in sys.path]
    function = _function_of(options)
    arguments = [ServiceContext.from_environment(options.name)] if takes_context(options.name, function) else []
    if is_async(function):
        from interlock import runtime

        return runtime.run(_run_async(lambda: function(*arguments)))
    return _run_plain(lambda: function(*arguments))


def _function_of(options: ServiceOptions) -> Callable[..., Any]:
    if not options.app:
        function = load_function(options.function)
    else:
        services = getattr(load_app(options.app), "services", [])
        function = next((service.function for service in services if service.name == options.name), None)
        if function is None:
            raise CannotImport(options.app, f"it has no function for the service {options.name!r}")
    return cast(Callable[..., Any], function)


async def _run_async(call: Callable[[], Coroutine[Any, Any, Any]]) -> int:
    """Run the function until TERM cancels it, so that it can clean up; a second TERM ends it at once."""
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None
    asked = False

    def stop() -> None:
        nonlocal asked
        asked = True
        for number in STOPS:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)
        task.cancel()

    for number in STOPS:
        loop.add_signal_handler(number, stop)
    try:
        await call()
    except asyncio.CancelledError as error:
        if not asked:
            return _failed(error)
    except Exception as error:  # noqa: BLE001 - whatever a service raises is its end
        return _failed(error)
    return 0


def _run_plain(call: Callable[[], Any]) -> int:
    """Run the function until TERM raises SystemExit in it, so that `finally` and `with` run; a second TERM ends it at
    once."""

    def stop(_number: int, _frame: FrameType | None) -> NoReturn:
        for number in STOPS:
            signal.signal(number, signal.SIG_DFL)
        raise SystemExit(0)

    for number in STOPS:
        signal.signal(number, stop)
    try:
        call()
    except Exception as error:  # noqa: BLE001 - whatever a service raises is its end
        return _failed(error)
    return 0


def _failed(error: BaseException) -> int:
    """Print the exception without our own frames."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace)
    return 1
