"""Completion in bash, zsh and fish: a script of each shell, and what the command answers to it.

They are click's, with three differences. In bash, click completes words, which end at each `=` of a selection. In fish,
it cuts a selection at its first comma. And after a part of a selection, which may go on, these scripts add no space.
"""

import os
from collections.abc import Mapping

from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
)

PART = "part"
"""The type of an item that may go on: a shell adds no space after it."""

_BREAKS = "=:"  # bash ends a word at these

_BASH = """\
%(complete_func)s() {
    local IFS=$'\\n' completion type value
    for completion in $(env COMP_LINE="${COMP_LINE:0:COMP_POINT}" %(complete_var)s=bash_complete "$1"); do
        IFS=',' read -r type value <<< "$completion"
        case $type in
            part) COMPREPLY+=("$value"); compopt -o nospace ;;
            dir) COMPREPLY=(); compopt -o dirnames ;;
            file) COMPREPLY=(); compopt -o default ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done
    return 0
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""

_ZSH = """\
#compdef %(prog_name)s

%(complete_func)s() {
    local -a words_to_offer parts response
    local type value help
    local -x COMP_WORDS="${words[*]}" COMP_CWORD=$((CURRENT-1)) %(complete_var)s=zsh_complete
    response=("${(@f)$($words[1])}")
    for type value help in ${response}; do
        case $type in
            part) parts+=("$value") ;;
            plain) words_to_offer+=("$value") ;;
            dir) _path_files -/ ;;
            file) _path_files -f ;;
        esac
    done
    (( $#words_to_offer )) && compadd -U -V unsorted -a words_to_offer
    (( $#parts )) && compadd -U -V unsorted -S '' -a parts
    return 0
}

(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
compdef %(complete_func)s %(prog_name)s
"""

_FISH = """\
function %(complete_func)s
    set -lx %(complete_var)s fish_complete
    set -lx COMP_WORDS (commandline -cp)
    set -lx COMP_CWORD (commandline -t)
    set -l parts
    for completion in (%(prog_name)s)
        set -l type_and_value (string split -m 1 "," $completion)
        switch $type_and_value[1]
            case dir
                __fish_complete_directories $type_and_value[2]
            case file
                __fish_complete_path $type_and_value[2]
            case part
                set -a parts $type_and_value[2]
            case plain
                echo $type_and_value[2]
        end
    end
    printf "%%s\\n" $parts
    # Fish adds a space after the only text that it is offered, unless that ends in a sign such as = or a comma.
    if test (count $parts) -eq 1; and not string match -q "*=" $parts
        echo $parts,
    end
end

complete --no-files --command %(prog_name)s --arguments "(%(complete_func)s)"
"""


@add_completion_class
class LineComplete(BashComplete):
    """Completion in bash by the line. Click's own completes by words, which end at each `=` of a selection."""

    source_template = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the cursor's, and the cursor's as far as it is written."""
        from click.shell_completion import split_arg_string  # noqa: PLC0415 - of the same module

        line = os.environ["COMP_LINE"]
        words = split_arg_string(line)
        incomplete = "" if line[-1:].isspace() and not _is_quoted(line) else words.pop()
        self._given = "" if _is_quoted(line) else incomplete
        return words[1:], incomplete

    def format_completion(self, item: CompletionItem) -> str:
        """Return what replaces the cursor's word: without what bash takes for the words before it."""
        start = max(self._given.rfind(sign) for sign in _BREAKS) + 1
        return f"{item.type},{str(item.value)[start:]}"


def _is_quoted(line: str) -> bool:
    """Return whether a quote is open at the end of a line."""
    quote = ""
    for sign in line:
        if sign == quote:
            quote = ""
        elif sign in "'\"" and not quote:
            quote = sign
    return bool(quote)


@add_completion_class
class OpenZshComplete(ZshComplete):
    """Completion in zsh, with parts of a selection."""

    source_template = _ZSH


@add_completion_class
class WholeFishComplete(FishComplete):
    """Completion in fish, of whole selections."""

    source_template = _FISH


SHELLS: Mapping[str, type[ShellComplete]] = {
    "bash": LineComplete,
    "zsh": OpenZshComplete,
    "fish": WholeFishComplete,
}
