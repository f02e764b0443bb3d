"""What a replay found: metrics, recorder, summary, table, JSON and CSV."""

__all__ = ()
