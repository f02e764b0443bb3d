"""Which peers are installed here, in the versions they were adapted to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bench import peer_dynamo, peer_sglang, peer_vllm
from bench.peer_loader import PeerMissingError
from bench.subjects import Subject

__all__ = ["PEER_VERSIONS", "find_peers"]

PEER_VERSIONS = {
    "SGLang Python": peer_sglang.VERSION,
    "SGLang Rust": peer_sglang.VERSION,
    "vLLM xxhash": peer_vllm.VERSION,
    "Dynamo": peer_dynamo.VERSION,
}
_LOADERS: tuple[tuple[str, Callable[[Path], None], tuple[type[Subject], ...]], ...] = (
    (
        "SGLang",
        peer_sglang.load_sglang,
        (peer_sglang.SglangPython, peer_sglang.SglangRust),
    ),
    ("vLLM", peer_vllm.load_vllm, (peer_vllm.Vllm,)),
    ("Dynamo", peer_dynamo.load_dynamo, (peer_dynamo.Dynamo,)),
)


def find_peers(
    peers_dir: Path | None, skip: Callable[[str], None], only: tuple[str, ...] = ()
) -> list[type[Subject]]:
    """Return the peers that work here; ``skip`` is told of each other one, and why."""
    if peers_dir is None:
        skip("all peers: give --peers-dir, the folder with sglang/, vllm/, dynamo/ and venv/")
        return []
    found: list[type[Subject]] = []
    for name, load, subjects in _LOADERS:
        if only and name not in only:
            continue
        try:
            load(peers_dir.resolve())
            for subject in subjects:
                subject(subject.pages[-1], 1024)
                found.append(subject)
        except PeerMissingError as error:
            skip(f"{name}: {error}")
        except Exception as error:
            skip(f"{name}: it does not run here ({type(error).__name__}: {error})")
    return found
