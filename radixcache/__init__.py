"""A radix-tree KV prefix cache."""
