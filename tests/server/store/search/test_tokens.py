"""Words, search queries and snippets."""

import re
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any

import psycopg
import pytest

from ash_server.errors import InvalidParameter
from ash_server.store.search.snippets import snippet
from ash_server.store.search.tokens import read_query, vectors, words


@pytest.fixture(scope="module")
def conn(server_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(server_url, autocommit=True) as conn:
        yield conn


BYTES = b64encode(Random(1).randbytes(600)).decode()

WORDS: dict[str, tuple[str, list[str]]] = {
    "nothing": ("", []),
    "punctuation": ("… -- ?! \0 \x1b", []),
    "punctuation between words": ("foo_bar/baz-1.2 it's", ["foo", "bar", "baz", "1", "2", "it", "s"]),
    "capitals": ("Hello camelCase README", ["hello", "camelcase", "readme"]),
    "letters beyond ASCII": ("Straße ΟΔΟΣ", ["strasse", "οδοσ"]),
    "composed and decomposed accents": ("café cafe\u0301 ÉCOLE", ["cafe", "cafe", "ecole"]),
    "Latin accents": (
        "Łódź İstanbul \u0131s\u0131 Việt smørrebrød",
        ["lodz", "istanbul", "isi", "viet", "smorrebrod"],
    ),
    "Greek and Cyrillic accents": (
        "Αθήνα \u0390s \u1fb3s ёлка Київ",
        ["αθηνα", "\u03b9s", "\u03b1s", "елка", "киів"],
    ),
    "marks of kana": ("がか\u3099パ", ["が", "が", "パ"]),
    "a script without spaces": ("東京タワー へ", ["東", "京", "タ", "ワ", "ー", "へ"]),
    "mixed scripts": ("v2東京go", ["v2", "東", "京", "go"]),
    "syllables": ("한국어 검색은", ["한국어", "검색은"]),
    "combining vowel signs": ("यह का घर है, বাংলা ভাষা", ["यह", "का", "घर", "है", "বাংলা", "ভাষা"]),
    "vowel points": ("שָׁלוֹם שלום مَرْحَبًا مرحبا", ["שלום", "שלום", "مرحبا", "مرحبا"]),
    "only marks": ("\u0301 \u093e a", ["a"]),
    "an overlong word": (f"a {'é' * 256} {'é' * 255}", ["a", "e" * 255]),
    "bytes": (f"see {BYTES} here", ["see", "here"]),
    "bytes in lines": ("see\n" + re.sub(r"(.{64})", r"\1\n", BYTES) + "\nhere", ["see", "here"]),
    "a digest": ("9f86d081884c7d659a2feaa0c55ad015", ["9f86d081884c7d659a2feaa0c55ad015"]),
    "a lone surrogate": ("a\ud800b", ["a", "b"]),
}


@pytest.mark.parametrize(("text", "expected"), WORDS.values(), ids=WORDS)
def test_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


def test_vector_has_word_positions() -> None:
    assert list(vectors(["a b a", "c"])) == [f"'a':1,3 'b':2 'c':{3 + 16 + 1}"]


def test_empty_texts_have_no_vector() -> None:
    assert list(vectors([])) == list(vectors(["", "…"])) == []


@pytest.mark.parametrize(
    "text",
    [
        " ".join(map(str, range(10_000))),
        " ".join(f"{number:x}" * 30 for number in range(5000)),
        "a " * 20_000,
    ],
)
def test_long_text_is_split_without_splitting_phrases(text: str, conn: psycopg.Connection) -> None:
    all_words = words(text)
    query = "SELECT tsvector_to_array(vector::tsvector) FROM unnest(%s::text[]) AS vector"
    parts = [set(read) for (read,) in conn.execute(query, [list(vectors([text]))]).fetchall()]

    assert set.union(*parts) == set(all_words)
    for start in range(0, len(all_words) - 8, 7):
        phrase = set(all_words[start : start + 8])
        assert any(phrase <= part for part in parts)


QUERIES: dict[str, tuple[str, str]] = {
    "words": ("foo Bar", "('foo':*)&('bar':*)"),
    "one letter is a word": ("a", "('a')"),
    "a path": ("src/foo_bar.py", "('src'<->'foo'<->'bar'<->'py':*)"),
    "a phrase": ('"exact Phrase"', "('exact'<->'phrase')"),
    "an unclosed phrase": ('a "exact phr', "('a')&('exact'<->'phr')"),
    "typographic quotes": ("“exact phrase”", "('exact'<->'phrase')"),
    "exclusions": ('foo -bar -"a b"', "('foo':*)&!('bar')&!('a'<->'b')"),
    "an option is a word": ("--no-verify", "('no'<->'verify':*)"),
    "or": ("foo bar OR baz", "('foo':*)&('bar':*)|('baz':*)"),
    "or without operands": ("or foo or", "('or':*)&('foo':*)&('or':*)"),
    "or in a phrase": ('"foo or bar"', "('foo'<->'or'<->'bar')"),
    "or next to punctuation": ("foo or … or bar", "('foo':*)|('bar':*)"),
    "a script without spaces": ("東京", "('東'<->'京')"),
    "operators": ("a:* & b | !c <-> (d)", "('a')&('b')&('c')&('d')"),
    "quotes and backslashes": ("it's \\'a\\' $$b$$ %s", "('it'<->'s')&('a')&('b')&('s')"),
    "another statement": ("'); DROP TABLE search; --", "('drop':*)&('table':*)&('search':*)"),
    "an overlong word": ("x" * 300, f"('{'x' * 255}':*)"),
    "accents": ('Résumé "Ærø"', "('resume':*)&('æro')"),
}


@pytest.mark.parametrize(("q", "expected"), QUERIES.values(), ids=QUERIES)
def test_queries(q: str, expected: str, conn: psycopg.Connection) -> None:
    query = read_query(q).query

    assert "|".join(alternative[1:-1] for alternative in query.split("|")) == expected
    assert conn.execute("SELECT %s::tsquery", [query]).fetchone() is not None


@pytest.mark.parametrize(
    "q", ["", " ", '"', '""', "-", "--", "-foo", '-"a b"', "… ?", "foo or -bar", "\0", "a " * 33, "🙂"]
)
def test_rejects_query_without_words(q: str) -> None:
    with pytest.raises(InvalidParameter):
        read_query(q)


def test_queries_are_never_syntax_errors(conn: psycopg.Connection) -> None:
    """Random queries are either refused or valid for PostgreSQL."""
    random, queries = Random(1), []
    for _ in range(3000):
        with suppress(InvalidParameter):
            queries.append(read_query("".join(random.choices(PIECES, k=random.randrange(1, 30)))).query)
    read = conn.execute("SELECT count(query::tsquery) FROM unnest(%s::text[]) AS query", [queries]).fetchone()

    assert read == (len(queries),)
    assert len(queries) > 1000


PIECES = [*"a-\"'\\:*&|!() é東_\t", "or", "<->", "%s"]


LONG = "a " * 200
SNIPPETS: dict[str, tuple[list[str], str, str]] = {
    "a word": (["One file."], "file", "One [file]."),
    "the beginning of a word": (["All tests pass."], "test", "All [test]s pass."),
    "a whole word": (["tests of a test"], '"test"', "tests of a [test]"),
    "no part of a word": (["attest a test"], "test", "attest a [test]"),
    "in any case": (["README.md"], "readme", "[README].md"),
    "a path": (["see src/foo_bar.py"], "foo/bar", "see src/[foo_bar].py"),
    "a script without spaces": (["これは東京タワー"], "東京", "これは[東京]タワー"),
    "a decomposed accent": (["cafe\u0301"], "café", "[café]"),
    "an accent only in the text": (["Mon Résumé, résumés"], "resume", "Mon [Résumé], [résumé]s"),
    "an accent only in the query": (["A Resume"], "résumé", "A [Resume]"),
    "a dotted capital": (["à İstanbul"], "istanbul", "à [İstanbul]"),
    "a combining vowel sign": (["यह का घर है"], "का", "यह [का] घर है"),
    "another vowel sign": (["यह का घर है"], "की", "यह का घर है"),
    "vowel points": (["שָׁלוֹם, مَرْحَبًا"], "שלום مرحبا", "[שָׁלוֹם], [مَرْحَبًا]"),
    "joined lines": (["a\n\n\tb  file\r\nc"], "file", "a b [file] c"),
    "several matches": (["file and file, files"], "file and", "[file] [and] [file], [file]s"),
    "in the second text": (["nothing", "a file"], "file", "a [file]"),
    "the densest passage": (
        [f"file {LONG} test the file"],
        "test file",
        f"…{'a ' * 29}[test] the [file]",
    ),
    "in the middle": ([f"{LONG}file {LONG}"], "file", f"…{'a ' * 29}[file] {'a ' * 87}a…"),
    "a match only by case folding": (["Straße"], "strasse", "Straße"),
    "excluded": (["file and test"], "file -test", "[file] and test"),
    "control characters": (["a\x1b[31m file\0"], "file", "a\x1b[31m [file]\0"),
}


@pytest.mark.parametrize(("texts", "q", "expected"), SNIPPETS.values(), ids=SNIPPETS)
def test_snippets(texts: list[str], q: str, expected: str) -> None:
    result = snippet(texts, read_query(q).hits)
    shown = result.text
    for start, end in reversed(result.marks):
        shown = f"{shown[:start]}[{shown[start:end]}]{shown[end:]}"

    assert shown == expected


def test_marks_in_utf16_units() -> None:
    result = snippet(["🙂 file 🙂🙂 file"], read_query("file").hits)

    assert result.marks == [(2, 6), (10, 14)]
    assert result.utf16_marks() == [(3, 7), (13, 17)]


HUGE: list[tuple[str, Any]] = [
    ("a" * 2**20, 0),
    ("a " * 2**19, 120),
    ("b" * 2**19 + " a", 1),
    ("ab" * 2**19 + " a", 0),
    ("." * 2**20 + "a", 1),
]


@pytest.mark.parametrize(("text", "count"), HUGE)
def test_snippets_of_huge_texts_are_short(text: str, count: int) -> None:
    result = snippet([text], read_query('"a"').hits)

    assert len(result.text) <= 482
    assert len(result.marks) == count
