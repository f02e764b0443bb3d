"""The default tokenizer: stable ids, stable cuts, lengths like those of real ones."""

from __future__ import annotations

import doctest
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixcache.errors import ConfigError
from scheduler.trace import PieceTokenizer, load_tokenizer, tokenizer
from scheduler.trace.tokenizer import PIECE

texts = st.text(st.characters() | st.sampled_from(" abcz09.,\n_é漢"), max_size=60)


@given(text=texts)
def test_pieces_make_up_the_text(text: str) -> None:
    assert "".join(PIECE.findall(text)) == text


@given(text=texts, more=texts)
def test_longer_text_changes_only_the_last_piece(text: str, more: str) -> None:
    encode = PieceTokenizer().encode
    first = encode(text)[:-1]
    assert encode(text + more)[: len(first)] == first


@given(text=texts)
def test_ids_fit_a_key(text: str) -> None:
    assert all(0 <= token < 2**31 for token in PieceTokenizer().encode(text))


def test_memory_of_pieces_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.trace.tokenizer.REMEMBERED_PIECES", 3)
    text = "one two three four five one"
    assert PieceTokenizer().encode(text)[:1] == PieceTokenizer().encode("one")
    made = PieceTokenizer()
    made.encode(text * 9)
    assert len(made._ids) <= 3


def test_ids_do_not_depend_on_the_process() -> None:
    code = (
        "from scheduler.trace import PieceTokenizer as T; print(T().encode('Hi there, 2 of you'))"
    )
    root = Path(__file__).resolve().parents[3]
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_english_is_about_4_characters_a_token(shared_dir: Path) -> None:
    conversations = json.loads((shared_dir / "traces" / "sharegpt_dummy.json").read_bytes())
    text = " ".join(m["value"] for c in conversations for m in c["conversations"])
    assert 3.5 < len(text) / len(PieceTokenizer().encode(text)) < 5


def test_file_that_is_no_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        load_tokenizer(str(tmp_path / "tokenizer.json"))


def test_example_in_the_documentation_is_right() -> None:
    assert doctest.testmod(tokenizer).failed == 0
