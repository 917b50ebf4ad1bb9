# SPDX-License-Identifier: BSD-3-Clause
"""The entry of the command line, and the group of all commands."""

import os
import re
import signal
import sys

import click

from .. import __version__
from ..called import as_typed
from ..errors import HikyakuError
from ..packages import missing
from .late import LateCommands
from .usage import explained

CONTEXT = {
    "help_option_names": ["-h", "--help"],
    "max_content_width": 100,
    "show_default": True,
}

ENDING = (signal.SIGTERM, signal.SIGHUP)


def _terminate(signum: int, _frame: object) -> None:
    """Ends this process by an exception, so that every `finally` runs to its end.

    Further signals are ignored: timeout(1) sends its signal twice, to us and to our group.
    """
    for each in ENDING:
        signal.signal(each, lambda *_: None)  # not SIG_IGN: child processes would inherit it
    sys.exit(128 + signum)


class _Help(click.HelpFormatter):
    """Help whose examples work when they are pasted."""

    def getvalue(self) -> str:
        return re.sub(
            r"(?m)^ +([A-Z_]+=\S+ )*hikyaku .*$", lambda line: as_typed(line[0]), super().getvalue()
        )


click.Context.formatter_class = _Help


def _say(error: HikyakuError) -> None:
    click.echo(f"hikyaku: {as_typed(str(error))}", err=True)


def run() -> None:
    """Runs the command line. Cleans up however it ends; errors are one sentence, no traceback."""
    for signum in ENDING:
        signal.signal(signum, _terminate)
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # the launcher has blocked it
        main(standalone_mode=False, prog_name="hikyaku")
    except HikyakuError as error:
        _say(error)
        sys.exit(1)
    except ModuleNotFoundError as error:
        sentence = missing(error)
        if sentence is None:
            raise
        _say(sentence)
        sys.exit(1)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()  # the help
        sys.exit(error.exit_code)
    except click.ClickException as error:
        _say(explained(error))
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("hikyaku: interrupted; all processes that it started have ended", err=True)
        sys.exit(130)
    except BrokenPipeError:
        # The reader (head, less) has closed the pipe, which is not a failure.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


COMMANDS = ("bench", "capture", "daemon", "demo", "devmem", "doctor", "env", "lab", "learn")
COMMANDS += ("mpi", "papers", "reach", "sdn", "sim", "stats", "tag", "top", "trials")
MODULES = {name: name for name in COMMANDS}


@click.group(commands=LateCommands(__package__, MODULES), context_settings=CONTEXT)
@click.version_option(__version__, prog_name="hikyaku")
def main() -> None:
    """MPI over user-space Ethernet.

    \b
    First steps, on one machine:
      hikyaku doctor                           what this machine has and lacks
      hikyaku lab up --nodes 2 --wire memif    a cluster of two nodes on this machine
      hikyaku lab mpirun -np 2 ./program       an unmodified MPI program over Hikyaku
      hikyaku lab mpirun --tcp -np 2 ./program the same over TCP
      hikyaku bench mpi                        both, measured side by side
      hikyaku lab down

    \b
    On a real cluster:
      hikyaku reach -p af_xdp:iface=eth1 a b                whether two nodes reach each other
      eval "$(hikyaku env)"
      export OMPI_MCA_btl_hikyaku_port=af_xdp:iface=eth1    the port, see 'hikyaku doctor'
      mpirun --host a,b ./program                           an unmodified MPI program
    """
