"""`python -m scheduler`: the same as the `radixcache` command."""

from scheduler.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
