# SPDX-License-Identifier: BSD-3-Clause
"""The command line: parses, calls, prints. What the commands do lies in the other modules."""

import os
import shlex
import signal
import sys

import click

from . import __version__
from .cli_bench import bench, demo
from .cli_capture import capture
from .cli_daemon import daemon
from .cli_doctor import doctor
from .cli_lab import lab
from .cli_learn import learn
from .cli_p2p import p2p
from .cli_reach import reach
from .cli_sdn import sdn
from .cli_stats import stats, top
from .cli_tag import tag
from .errors import HikyakuError

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


ENDING = (signal.SIGTERM, signal.SIGHUP)


def _terminate(signum: int, _frame: object) -> None:
    """SIGTERM and SIGHUP end this process by an exception, so that every `finally` runs: to its
    end, whatever comes then. timeout(1) sends its signal twice, to us and to our group."""
    for each in ENDING:
        signal.signal(each, lambda *_: None)  # not SIG_IGN, which helpers would inherit
    sys.exit(128 + signum)


def run() -> None:
    """The entry: clean-up on every way out, and one sentence instead of a traceback."""
    for signum in ENDING:
        signal.signal(signum, _terminate)
    try:
        main(standalone_mode=False, prog_name="hikyaku")
    except HikyakuError as error:
        click.echo(f"hikyaku: {error}", err=True)
        sys.exit(1)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("hikyaku: interrupted; everything it started is ended", err=True)
        sys.exit(130)
    except BrokenPipeError:
        # The reader (head, less) has gone; that is no failure. Nothing more can be written.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


@click.group(context_settings=CONTEXT)
@click.version_option(__version__, prog_name="hikyaku")
def main() -> None:
    """MPI over user-space Ethernet.

    \b
    First steps, on one machine:
      hikyaku doctor                           what is here, what is missing, how to mend it
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
      mpirun --host a,b ./program                           as ever
    """


@main.command()
def env() -> None:
    """Print the settings to use Hikyaku's BTL from any shell.

    Without a port the BTL stays out of the way, and ranks of different nodes do not reach each
    other: so name it, too. These settings are needed where mpirun is called, which hands those of
    Open MPI on to the other nodes; what they name must lie at the same place there.

    $HIKYAKU_INTERPOSER is the library that a program preloads to have what it sends again and
    again sent by puts, $HIKYAKU_PYTHON what PYTHONPATH needs for `from hikyaku import halo`;
    see docs/halo.md.

    \b
    Example:
      eval "$(hikyaku env)"
      export OMPI_MCA_btl_hikyaku_port=pci:0000:3b:02.1     # the port, see docs/ports.md
      mpirun -np 2 --host a,b ./program
      mpirun -np 2 --host a,b -x LD_PRELOAD=$HIKYAKU_INTERPOSER -x HK_HALO_REPORT=1 ./program
    """
    from .checkout import ROOT
    from .lab.openmpi import fabric_settings, interposer_settings

    settings = fabric_settings() | {
        "HIKYAKU_INTERPOSER": interposer_settings()["LD_PRELOAD"],
        "HIKYAKU_PYTHON": str(ROOT / "python"),
    }
    for key, value in settings.items():
        click.echo(f"export {key}={shlex.quote(value)}")


for command in (doctor, reach, lab, bench, demo, daemon, stats, top, capture, learn, sdn, tag, p2p):
    main.add_command(command)
