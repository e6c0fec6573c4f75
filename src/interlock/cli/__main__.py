"""`python -m interlock.cli`."""

from interlock.cli.main import main

main()
