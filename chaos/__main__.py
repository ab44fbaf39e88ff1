"""`python -m chaos`: the commands of `metaquorum chaos`, and those that need the sources."""

from chaos.cli import main
from chaos.mutants.commands import run_mutants

main.add_command(run_mutants)

if __name__ == "__main__":
    main()
