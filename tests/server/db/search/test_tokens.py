"""Words, what is looked for, and the snippets that show it."""

import re
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any

import psycopg
import pytest

from ash_server.db.search.snippets import snippet
from ash_server.db.search.tokens import read_query, vectors, words
from ash_server.errors import InvalidParameter


@pytest.fixture(scope="module")
def conn(server_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(server_url, autocommit=True) as conn:
        yield conn


BYTES = b64encode(Random(1).randbytes(600)).decode()

WORDS: dict[str, tuple[str, list[str]]] = {
    "nothing": ("", []),
    "signs": ("… -- ?! \0 \x1b", []),
    "signs between words": ("foo_bar/baz-1.2 it's", ["foo", "bar", "baz", "1", "2", "it", "s"]),
    "capitals": ("Hello camelCase README", ["hello", "camelcase", "readme"]),
    "letters of elsewhere": ("Straße ÉCOLE ΟΔΟΣ", ["strasse", "école", "οδοσ"]),
    "accents in two ways": ("café cafe\u0301", ["café", "café"]),
    "without blanks": ("東京タワー へ", ["東", "京", "タ", "ワ", "ー", "へ"]),
    "among others": ("v2東京go", ["v2", "東", "京", "go"]),
    "syllables": ("한국어 검색은", ["한국어", "검색은"]),
    "vowels that are marks": ("यह का घर है, বাংলা ভাষা", ["यह", "का", "घर", "है", "বাংলা", "ভাষা"]),
    "as it is spoken": ("שָׁלוֹם שלום مَرْحَبًا مرحبا", ["שלום", "שלום", "مرحبا", "مرحبا"]),
    "marks alone": ("\u0301 \u093e a", ["a"]),
    "a word that nobody types": (f"a {'é' * 256} {'é' * 255}", ["a", "é" * 255]),
    "bytes": (f"see {BYTES} here", ["see", "here"]),
    "bytes in lines": ("see\n" + re.sub(r"(.{64})", r"\1\n", BYTES) + "\nhere", ["see", "here"]),
    "a digest": ("9f86d081884c7d659a2feaa0c55ad015", ["9f86d081884c7d659a2feaa0c55ad015"]),
    "half a pair of surrogates": ("a\ud800b", ["a", "b"]),
}


@pytest.mark.parametrize(("text", "expected"), WORDS.values(), ids=WORDS)
def test_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


def test_a_vector_has_the_places_of_the_words() -> None:
    assert list(vectors(["a b a", "c"])) == [f"'a':1,3 'b':2 'c':{3 + 16 + 1}"]


def test_nothing_is_no_vector() -> None:
    assert list(vectors([])) == list(vectors(["", "…"])) == []


@pytest.mark.parametrize(
    "text",
    [
        " ".join(map(str, range(10_000))),
        " ".join(f"{number:x}" * 30 for number in range(5000)),
        "a " * 20_000,
    ],
)
def test_a_long_text_is_cut_so_that_phrases_are_not(text: str, conn: psycopg.Connection) -> None:
    found, query = words(text), "SELECT tsvector_to_array(vector::tsvector) FROM unnest(%s::text[]) AS vector"
    made = [set(read) for (read,) in conn.execute(query, [list(vectors([text]))]).fetchall()]

    assert set.union(*made) == set(found)
    for start in range(0, len(found) - 8, 7):
        phrase = set(found[start : start + 8])
        assert any(phrase <= part for part in made)


QUERIES: dict[str, tuple[str, str]] = {
    "words": ("foo Bar", "('foo':*)&('bar':*)"),
    "one letter is a word": ("a", "('a')"),
    "a path": ("src/foo_bar.py", "('src'<->'foo'<->'bar'<->'py':*)"),
    "a phrase": ('"exact Phrase"', "('exact'<->'phrase')"),
    "a phrase that is not closed": ('a "exact phr', "('a')&('exact'<->'phr')"),
    "quotes of a typesetter": ("“exact phrase”", "('exact'<->'phrase')"),
    "without": ('foo -bar -"a b"', "('foo':*)&!('bar')&!('a'<->'b')"),
    "an option is a word": ("--no-verify", "('no'<->'verify':*)"),
    "or": ("foo bar OR baz", "('foo':*)&('bar':*)|('baz':*)"),
    "or where it stands between nothing": ("or foo or", "('or':*)&('foo':*)&('or':*)"),
    "or in a phrase": ('"foo or bar"', "('foo'<->'or'<->'bar')"),
    "or beside signs": ("foo or … or bar", "('foo':*)|('bar':*)"),
    "without blanks": ("東京", "('東'<->'京')"),
    "operators": ("a:* & b | !c <-> (d)", "('a')&('b')&('c')&('d')"),
    "quotes and backslashes": ("it's \\'a\\' $$b$$ %s", "('it'<->'s')&('a')&('b')&('s')"),
    "another statement": ("'); DROP TABLE search; --", "('drop':*)&('table':*)&('search':*)"),
    "too long to be there": ("x" * 300, f"('{'x' * 255}':*)"),
}


@pytest.mark.parametrize(("q", "expected"), QUERIES.values(), ids=QUERIES)
def test_queries(q: str, expected: str, conn: psycopg.Connection) -> None:
    query = read_query(q).query

    assert "|".join(wish[1:-1] for wish in query.split("|")) == expected
    assert conn.execute("SELECT %s::tsquery", [query]).fetchone() is not None


@pytest.mark.parametrize(
    "q", ["", " ", '"', '""', "-", "--", "-foo", '-"a b"', "… ?", "foo or -bar", "\0", "a " * 33, "🙂"]
)
def test_what_names_no_word_is_refused(q: str) -> None:
    with pytest.raises(InvalidParameter):
        read_query(q)


def test_no_query_is_a_syntax_error(conn: psycopg.Connection) -> None:
    """Whatever is typed, PostgreSQL reads it, or it is refused."""
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
    "without blanks": (["これは東京タワー"], "東京", "これは[東京]タワー"),
    "an accent in two ways": (["cafe\u0301"], "café", "[café]"),
    "a vowel that is a mark": (["यह का घर है"], "का", "यह [का] घर है"),
    "another vowel": (["यह का घर है"], "की", "यह का घर है"),
    "as it is spoken": (["שָׁלוֹם, مَرْحَبًا"], "שלום مرحبا", "[שָׁלוֹם], [مَرْحَبًا]"),
    "on one line": (["a\n\n\tb  file\r\nc"], "file", "a b [file] c"),
    "several": (["file and file, files"], "file and", "[file] [and] [file], [file]s"),
    "in the second text": (["nothing", "a file"], "file", "a [file]"),
    "where most stand together": (
        [f"file {LONG} test the file"],
        "test file",
        f"…{'a ' * 29}[test] the [file]",
    ),
    "in the middle": ([f"{LONG}file {LONG}"], "file", f"…{'a ' * 29}[file] {'a ' * 87}a…"),
    "written otherwise than it is looked for": (["Straße"], "strasse", "Straße"),
    "excluded": (["file and test"], "file -test", "[file] and test"),
    "control characters": (["a\x1b[31m file\0"], "file", "a\x1b[31m [file]\0"),
}


@pytest.mark.parametrize(("texts", "q", "expected"), SNIPPETS.values(), ids=SNIPPETS)
def test_snippets(texts: list[str], q: str, expected: str) -> None:
    found = snippet(texts, read_query(q).hits)
    shown = found.text
    for start, end in reversed(found.marks):
        shown = f"{shown[:start]}[{shown[start:end]}]{shown[end:]}"

    assert shown == expected


def test_marks_in_units_of_utf_16() -> None:
    found = snippet(["🙂 file 🙂🙂 file"], read_query("file").hits)

    assert found.marks == [(2, 6), (10, 14)]
    assert found.utf16_marks() == [(3, 7), (13, 17)]


HUGE: list[tuple[str, Any]] = [
    ("a" * 2**20, 0),
    ("a " * 2**19, 120),
    ("b" * 2**19 + " a", 1),
    ("ab" * 2**19 + " a", 0),
    ("." * 2**20 + "a", 1),
]


@pytest.mark.parametrize(("text", "count"), HUGE)
def test_snippets_of_huge_texts_are_short(text: str, count: int) -> None:
    found = snippet([text], read_query('"a"').hits)

    assert len(found.text) <= 482
    assert len(found.marks) == count
