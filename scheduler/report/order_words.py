"""What each built-in order does, in a line for people who see only its name."""

from __future__ import annotations

__all__ = ["ORDER_WORDS", "words_of"]

ORDER_WORDS = {
    "fcfs": "First come, first served.",
    "spf": "Shortest prefill first: whoever has the fewest tokens left to compute.",
    "sglang-lpm": "Longest prefix match as SGLang ships it: first come, first served while more "
    "than 128 requests wait.",
    "lpm": "Longest prefix match: whoever has the longest cached prefix, then the fewest tokens to "
    "compute; nobody is overtaken beyond a bound.",
    "lpm-fcfs-ties": "As lpm, but equally long prefixes go by arrival.",
    "lpm-aged-ties": "As lpm, but a long prompt that has waited is passed by fewer short ones.",
    "lpm-covered-first": "As lpm, but prompts that are cached as far as they can be go first.",
    "plain-lpm": "Longest cached prefix, then arrival, and nothing else: no bound, no hold.",
    "lpm-aging": "As plain-lpm, and waiting counts as a longer prefix.",
    "k-lpm": "As plain-lpm, but every k-th pick is the oldest request.",
    "dlpm": "As plain-lpm, among the clients that have not used up their share.",
    "hrrn": "Highest response ratio next: waiting time against the work that is left.",
    "dfs-weight": "Depth first through the cached tree, the branch with most requests first.",
    "lof": "Longest output first, by the most tokens a request may answer.",
    "random": "A random order, the same for the same seed.",
    "priority": "Larger priority first, then first come, first served.",
}


def words_of(label: str) -> str | None:
    """Return what an order does, by a label that may name preset, priority and guard too.

    >>> words_of("vllm:fcfs")
    'First come, first served.'
    """
    name = label.rpartition(":")[2].partition(" ")[0]
    if name in ORDER_WORDS:
        return ORDER_WORDS[name]
    first, _, rest = name.partition("+")
    words = ORDER_WORDS.get(rest)
    if words is None or first not in {"priority", "low-priority"}:
        return None
    return f"{'Larger' if first == 'priority' else 'Smaller'} priority first, then: {words}"
