"""`python -m chaos`: the commands of `metaquorum chaos`, and those that need the sources."""

from chaos.cli import main
from chaos.mutants.commands import run_mutants
from chaos.processes import command as processes

for each in (run_mutants, processes.command, processes.report_command):
    main.add_command(each)

if __name__ == "__main__":
    main()
