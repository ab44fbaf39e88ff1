"""`python -m chaos`: run seeds, on all cores, and tell what failed."""

from chaos.cli import main

if __name__ == "__main__":
    main()
