"""The page of all commands and options, from click."""

from collections.abc import Iterator

import click

_INTRODUCTION = (
    "[On the command line](../cli.md) has what all commands share. [JSON](json.md) lists the fields of `--format json`."
)


def cli_page(main: click.Group) -> str:
    """The Markdown of the command line's reference.

    Args:
        main: the group of all commands.
    """
    context = click.Context(main, info_name="lake-assets")
    lines = ["# Command line reference", "", *_usage(main, context), *_about(main), *_parameters(main, context)]
    lines += ["", _INTRODUCTION, ""]
    for name, command, inner in _commands(main, context):
        lines += [f"## {name}", "", *_about(command), *_usage(command, inner), *_parameters(command, inner), ""]
    return "\n".join(lines)


def _commands(group: click.Group, context: click.Context) -> Iterator[tuple[str, click.Command, click.Context]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        inner = click.Context(command, info_name=name, parent=context)
        yield inner.command_path.removeprefix("lake-assets "), command, inner
        if isinstance(command, click.Group):
            yield from _commands(command, inner)


def _usage(command: click.Command, context: click.Context) -> list[str]:
    pieces = " ".join(command.collect_usage_pieces(context))
    return ["```text { .no-copy }", f"{context.command_path} {pieces}", "```", ""]


def _about(command: click.Command) -> list[str]:
    # Click keeps the line breaks of a paragraph that begins with \b.
    paragraphs = (command.help or "").strip().split("\n\n")
    shown = []
    for paragraph in paragraphs:
        if paragraph.lstrip().startswith("\b"):
            body = paragraph.lstrip().removeprefix("\b").strip("\n")
            shown += ["```text { .no-copy }", body, "```", ""]
        else:
            shown += [_text(paragraph), ""]
    return shown


def _parameters(command: click.Command, context: click.Context) -> list[str]:
    options = [record for parameter in command.get_params(context) if (record := _record(parameter, context))]
    if not options:
        return []
    return ["| option | what it does |", "|---|---|", *(f"| {name} | {text} |" for name, text in options), ""]


def _record(parameter: click.Parameter, context: click.Context) -> tuple[str, str] | None:
    found = parameter.get_help_record(context)
    if found is None or not found[1] or "--help" in parameter.opts:
        return None  # the usage line has arguments without a text
    names, text = found
    return f"`{names.replace('|', '&#124;')}`" if "|" not in names else f"<code>{_cell(names)}</code>", _cell(text)


def _text(text: str) -> str:
    return " ".join(text.split()).replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")


def _cell(text: str) -> str:
    return _text(text).replace("|", "&#124;")
