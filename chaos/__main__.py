"""`python -m chaos`: run seeds on all cores, and report failures."""

from chaos.cli import main

if __name__ == "__main__":
    main()
