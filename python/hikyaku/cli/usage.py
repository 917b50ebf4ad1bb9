# SPDX-License-Identifier: BSD-3-Clause
"""Errors of the command line that click finds, in the form of all others: the cause, and the fix.

click prints the usage and one sentence, in which the fix is missing or hard to find.
"""

import shlex
import sys
from collections.abc import Sequence
from difflib import get_close_matches

import click

from ..called import called
from ..errors import HikyakuError


def explained(error: click.ClickException) -> HikyakuError:
    """@error as a sentence with a fix."""
    unknown = isinstance(error, (click.NoSuchOption, click.NoSuchCommand))
    # the message of an unknown word without click's suggestions, of which we make a fix
    text = (error.message if unknown else error.format_message()).removesuffix(".")
    text = text[:1].lower() + text[1:]
    return HikyakuError.said(text) if "; fix: " in text else HikyakuError(text, _fix(error))


def _fix(error: click.ClickException) -> str:
    ctx = getattr(error, "ctx", None)
    path = (ctx.command_path if ctx else "hikyaku").replace("hikyaku", called(), 1)
    see_help = f"see {path} --help"
    moved = _moved(error, sys.argv[1:]) if isinstance(error, click.NoSuchOption) else None
    if moved:
        return moved
    if isinstance(error, (click.NoSuchOption, click.NoSuchCommand)):
        before = f"{path} " if isinstance(error, click.NoSuchCommand) else ""
        near = _meant(error)
        return f"{before}{near[0]}; or {see_help}" if near else see_help
    if isinstance(error, click.BadParameter) and error.param:
        return _value(error.param, error.message) or see_help
    return see_help


# Words of other programs, and what they may mean here.
MEANT = {
    "list": ("status", "list"),
    "ls": ("status", "list"),
    "ps": ("status", "list"),
    "show": ("status", "list"),
    "start": ("up", "start", "run"),
    "create": ("up", "start", "run"),
    "run": ("mpirun", "run"),
    "mpiexec": ("mpirun",),
    "stop": ("down", "stop"),
    "delete": ("down", "stop"),
    "destroy": ("down", "stop"),
    "end": ("down", "stop"),
    "ssh": ("exec",),
    "shell": ("exec",),
}


def _meant(error: click.NoSuchOption | click.NoSuchCommand) -> Sequence[str]:
    """The names that the user may have meant, the likeliest first.

    A command is meant by another word for it, or by its name without that of its group. Else the
    spelling decides."""
    group = error.ctx.command if error.ctx else None
    if not isinstance(error, click.NoSuchCommand) or not isinstance(group, click.Group):
        return error.possibilities or ()
    names = (error.command_name, *MEANT.get(error.command_name, ()))
    if here := [name for name in names if name in group.commands]:
        return here
    groups = {name: each for name, each in group.commands.items() if isinstance(each, click.Group)}
    below = [f"{g} {name}" for g in groups for name in names if name in groups[g].commands]
    if len(below) > 1:
        return ()  # a word of many groups, whose spelling would mislead
    return below or error.possibilities or ()


def _moved(error: click.NoSuchOption, words: Sequence[str]) -> str | None:
    """The command line @words, with the option of @error behind the command that has it.

    None: no group got the option, or @words name no command of that group that has it.
    """
    if error.ctx is None or not isinstance(error.ctx.command, click.Group):
        return None
    groups = error.ctx.command_path.split()[1:]
    name = error.option_name
    for at, word in enumerate(words):
        if word.partition("=")[0] != name:
            continue
        for size in (1, 2):  # without its value, or with it
            given, rest = words[at : at + size], [*words[:at], *words[at + size :]]
            command, depth = _command(error.ctx.command, rest, len(groups))
            if rest[: len(groups)] == groups and _takes(command, name, size == 2 or "=" in word):
                return "hikyaku " + shlex.join([*rest[:depth], *given, *rest[depth:]])
    return None


def _command(group: click.Command, words: Sequence[str], depth: int) -> tuple[click.Command, int]:
    """The command below @group that @words name from @depth on, and where its own words begin."""
    for word in words[depth:]:
        if not isinstance(group, click.Group) or word not in group.commands:
            break
        group, depth = group.commands[word], depth + 1
    return group, depth


def _takes(command: click.Command, option: str, with_value: bool) -> bool:
    """Does @command have @option, and has that option a value if @with_value says so?"""
    return any(
        isinstance(param, click.Option)
        and option in param.opts
        and with_value == (not param.is_flag and not param.count)
        for param in command.params
    )


def _value(param: click.Parameter, message: str) -> str | None:
    """A value that @param takes in place of the one that @message quotes; None: any may be."""
    if isinstance(param.type, click.Choice):
        choices = [str(each) for each in param.type.choices]
        wrong = message.partition("'")[2].partition("'")[0]
        default = param.default if param.default in choices else choices[0]
        value = (get_close_matches(wrong, choices, 1, 0.4) or [default])[0]
    elif isinstance(param.default, (int, float)) and not isinstance(param.default, bool):
        value = param.type.max if _is_above(param.type, message) else param.default
    else:
        return None
    option = "such as " if isinstance(param, click.Argument) else f"{max(param.opts, key=len)} "
    return f"{option}{value}"


def _is_above(type_: click.ParamType, message: str) -> bool:
    """Is the number at the start of @message above the range @type_, which takes its own end?"""
    if not isinstance(type_, (click.IntRange, click.FloatRange)):
        return False
    try:
        wrong = float(message.split(maxsplit=1)[0])
    except ValueError:
        return False
    return type_.max is not None and not type_.max_open and wrong > type_.max
