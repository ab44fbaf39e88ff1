"""`metaquorum completion`: the scripts with which a shell completes commands and options."""

from typing import Final

import click

from admin.cli.options import write

PROGRAMS: Final = ("metaquorum", "metadata-quorum", "reassign-partitions")


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the script with which SHELL completes the commands.

    \b
    bash: add to ~/.bashrc   source <(metaquorum completion bash)
    zsh:  add to ~/.zshrc    source <(metaquorum completion zsh)
    fish: metaquorum completion fish > ~/.config/fish/completions/metaquorum.fish
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    for program in PROGRAMS:
        variable = f"_{program.replace('-', '_').upper()}_COMPLETE"
        made = kind(command, {}, program, variable)
        write(made.source_template % made.source_vars())
