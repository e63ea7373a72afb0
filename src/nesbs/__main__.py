"""`python -m nesbs` is the command `nesbs`."""

from nesbs.cli import main

if __name__ == "__main__":
    main()
