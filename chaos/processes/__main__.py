"""`python -m chaos.processes`: a run, or, with `report` in front, a page of earlier runs."""

import sys

from chaos.processes.command import command, report_command

if __name__ == "__main__":
    if sys.argv[1:2] == ["report"]:
        report_command(args=sys.argv[2:], prog_name="python -m chaos.processes report")
    command(prog_name="python -m chaos.processes")
