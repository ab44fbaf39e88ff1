"""The program of this package: a run, or, with `report` in front, a page of earlier runs."""

import sys

from chaos.processes.command import command, report_command

NAME = f"python -m {__package__}"

if __name__ == "__main__":
    if sys.argv[1:2] == ["report"]:
        report_command(args=sys.argv[2:], prog_name=f"{NAME} report")
    command(prog_name=NAME)
