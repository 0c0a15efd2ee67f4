"""One call of the command line: streams, arguments, and every way it may end."""

import errno
import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import click

from otolith import env
from otolith.cli._invocation import Invocation
from otolith.cli._root import PROGRAM, root
from otolith.cli._text import printable
from otolith.exceptions import OtolithError

INTERRUPTED = 130
BROKEN_PIPE = 141
# What these say is beside what they do: it is done although nobody was told.
_DOING = frozenset(
    {"remember", "update", "forget", "import", "init", "trust", "backup", "embed", "reindex", "compact"}
)
_COMPLETE_VARIABLE = "_OTOLITH_COMPLETE"


def run(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code. Never raises, never shows a traceback unless asked to."""
    nowhere = occupy_standard_descriptors()
    prepare_streams()
    arguments = [as_text(argument) for argument in (sys.argv[1:] if argv is None else argv)]
    instruction = os.environ.get(_COMPLETE_VARIABLE)
    if instruction:
        from click.shell_completion import shell_complete

        try:
            return shell_complete(root, {}, PROGRAM, _COMPLETE_VARIABLE, instruction)
        except (KeyError, ValueError, IndexError):
            return 1  # asked by something that is not a shell
    invocation = Invocation(json="--json" in arguments[: _end_of_options(arguments)])
    try:
        code = _invoke(arguments, invocation)
        sys.stdout.flush()
        if code == 0 and nowhere.written and invocation.command not in _DOING:
            invocation.error("the answer could not be written: stdout is closed", kind="OSError")
            code = 1
    except KeyboardInterrupt as error:
        code = _interrupted(invocation, error)
    except OSError as error:
        code = _lost_output(invocation, error)
    with suppress(OSError):
        sys.stderr.flush()
    return code


class _Nowhere(io.RawIOBase):
    """Stands for a stdout that the caller closed, and remembers whether anything was said there."""

    written = False

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        self.written = True
        return len(data)


def occupy_standard_descriptors() -> _Nowhere:
    """Opens the null device on standard descriptors that the caller closed.

    Otherwise the store would get number 1 or 2, and a message would be written into it.

    Returns:
        What took the place of stdout if that was closed.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
    nowhere = _Nowhere()
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(nowhere), encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (lives as long as the process)
    return nowhere


def prepare_streams() -> None:
    """What the encoding of a stream cannot say is escaped instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def as_text(argument: str) -> str:
    """Returns an argument as UTF-8 text, also where the locale says ASCII; what is not UTF-8 stays."""
    if sys.getfilesystemencoding() == "utf-8" or argument.isascii():
        return argument
    return os.fsencode(argument).decode("utf-8", "surrogateescape")


def _end_of_options(arguments: list[str]) -> int:
    return arguments.index("--") if "--" in arguments else len(arguments)


def _invoke(arguments: list[str], invocation: Invocation) -> int:
    try:
        with root.make_context(PROGRAM, arguments, obj=invocation) as context:
            try:
                root.invoke(context)
            finally:
                invocation.command = context.invoked_subcommand
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        invocation.words(error.ctx.get_help() if error.ctx else "")
        return 2
    except click.UsageError as error:
        _usage(invocation, error)
        return 2
    except click.ClickException as error:
        invocation.error(error.format_message(), kind="Error")
        return error.exit_code
    except click.Abort as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            return _interrupted(invocation, error.__cause__)
        invocation.error("stopped, nothing was changed", kind="Aborted")
        return 1
    except OtolithError as error:
        _show_traceback()
        invocation.failure(error)
        return 1
    except EOFError:
        invocation.error("stopped, nothing was changed", kind="Aborted")
        return 1
    except OSError as error:
        if _is_broken_pipe(error) or error.filename is None:
            raise
        _show_traceback()
        invocation.error(f"{error.filename}: {error.strerror}", kind=type(error).__name__)
        return 1
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 (the last place before the interpreter would print a traceback)
        shown = _show_traceback()
        advice = "" if shown else f"; run it again with {env.LOG}=debug to see where, and report it"
        invocation.error(f"unexpected {type(error).__name__}: {error}{advice}", kind="InternalError")
        return 1
    return invocation.exit_code


def _usage(invocation: Invocation, error: click.UsageError) -> None:
    if error.ctx is not None and not invocation.json:
        invocation.words(error.ctx.get_usage())
    path = error.ctx.command_path if error.ctx is not None else PROGRAM
    invocation.error(f"{error.format_message().rstrip('.')}; see {path} --help", kind="UsageError")


def _interrupted(invocation: Invocation, error: BaseException) -> int:
    # What the library says of changes that were made all the same.
    told = "; ".join(["interrupted", *getattr(error, "__notes__", ())])
    with suppress(OSError):
        invocation.error(told, kind="Interrupted")
    _silence_stdout()
    return INTERRUPTED


def _is_broken_pipe(error: OSError) -> bool:
    # Windows says EINVAL when the reader of a pipe is gone.
    return isinstance(error, BrokenPipeError) or (os.name == "nt" and error.errno == errno.EINVAL)


def _lost_output(invocation: Invocation, error: OSError) -> int:
    _silence_stdout()
    if _is_broken_pipe(error):
        return BROKEN_PIPE
    with suppress(OSError):
        invocation.error(f"the answer could not be written: {error.strerror}", kind=type(error).__name__)
    return 1


def _silence_stdout() -> None:
    """What is still buffered must not fail once more when the interpreter exits."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


def _show_traceback() -> bool:
    """Only for those who set OTOLITH_LOG to debug; a level from a file comes too late for some errors."""
    if (env.read(env.LOG) or "").lower() != "debug":
        return False
    import traceback

    sys.stderr.write(printable(traceback.format_exc()))
    return True
