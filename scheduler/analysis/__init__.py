"""What can be said of a trace without serving it."""

__all__ = ()
