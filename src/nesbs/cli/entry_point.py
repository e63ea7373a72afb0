"""The command: its list of commands, and how it ends."""

import signal
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import typer

from nesbs.cli.compare import compare, curves
from nesbs.cli.cost import cost
from nesbs.cli.distil import distil
from nesbs.cli.export import export, latency
from nesbs.cli.listing import datasets, recipes, zoo
from nesbs.cli.measure import attack, quality, report
from nesbs.cli.options import with_common_options
from nesbs.cli.predict import predict
from nesbs.cli.progress import StoppedError
from nesbs.cli.reproduce import reproduce
from nesbs.cli.run_train_evaluate import demo, evaluate, run, search, train
from nesbs.cli.status import status
from nesbs.cluster.torchrun import is_lost, joined
from nesbs.errors import NesbsError, out_of_memory, printable, reader_ended
from nesbs.version import __version__

COMMANDS: tuple[Callable[..., None], ...] = (
    *(demo, run, search, train, evaluate, quality, attack, compare, curves, reproduce, report),
    *(predict, export, latency, distil, status, cost, recipes, datasets, zoo),
)

PACKAGE = Path(__file__).parents[1]
WITH_PLACE = warnings.formatwarning

app = typer.Typer(
    name="nesbs",
    rich_markup_mode=None,  # plain help that can be copied
    add_completion=False,
    pretty_exceptions_enable=False,
)
for _command in COMMANDS:
    app.command()(with_common_options(_command))


def main(arguments: list[str] | None = None) -> None:
    """Run the command; bad input ends with code 2 and its message (or a traceback), Ctrl-C with 130."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments == ["--version"]:
        print(__version__)
        return
    debug = "--debug" in arguments
    if not debug:
        warnings.formatwarning = _warning_in_words
    with joined() as group:
        try:
            if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # as it was while modules were imported
                signal.signal(signal.SIGINT, signal.default_int_handler)
            if "" in arguments:  # as a path it would be the current folder
                raise NesbsError("an argument is empty: perhaps a variable of the shell that is not set")
            code = (
                group.follow() if group.rank else app(arguments or ["--help"], standalone_mode=False, prog_name="nesbs")
            )
        except (StoppedError, KeyboardInterrupt):
            if group.tells():
                print("stopped; the same command resumes from here", file=sys.stderr)
            raise SystemExit(130) from None
        except Exception as error:
            if not group.tells():
                raise SystemExit(2) from None
            message = _message(error, debug=debug)
            if message is None:
                raise
            print("error:", printable(message, keep="\n"), file=sys.stderr)
            raise SystemExit(2) from None
    raise SystemExit(code if isinstance(code, int) else 0)


def _warning_in_words(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """A warning as the terminal shows it: ours without the place in the code."""
    if not Path(filename).is_relative_to(PACKAGE):
        return WITH_PLACE(message, category, filename, lineno, line)
    words = printable(str(message), keep="\n")
    return f"warning: {words}\n"


def _message(error: Exception, *, debug: bool) -> str | None:
    """What to tell the user about an error; None where a traceback is to be shown."""
    if hasattr(error, "format_message"):  # the parser's: wrong options and missing arguments
        return f"{error.format_message()} (nesbs --help, nesbs COMMAND --help)"
    if debug:
        return None
    if isinstance(error, NesbsError):
        return str(error)
    if words := out_of_memory(error) or reader_ended(error):
        return words
    if is_lost(error):
        return "a process that torchrun started has ended, perhaps for want of memory: the same command resumes"
    if isinstance(error, OSError):
        return f"{error.strerror or error}: {error.filename}" if error.filename else str(error)
    return None
