"""A cache-aware scheduler."""
