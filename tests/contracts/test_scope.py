"""Write scopes: one reading of paths and globs for the proof on a diff and for what may overlap."""

from __future__ import annotations

import itertools
import time

import pytest
from contract_answers import refusal
from hypothesis import assume, example, given
from hypothesis import strategies as st
from pathspec import GitIgnoreSpec

from intent_board.contracts import Code, ContractError, scope
from intent_board.contracts.scope import first_overlap, matches, normalise, overlaps


@pytest.mark.parametrize(
    ("path", "normal"),
    [
        ("a", "a"),
        ("./a", "a"),
        ("a/", "a"),
        ("a//b", "a/b"),
        ("././a/./b/.//", "a/b"),
        (".", "."),
        ("./", "."),
        (".//.", "."),
        ("...", "..."),
        ("a..b/..c", "a..b/..c"),
        (".github/x", ".github/x"),
        (".gitignore", ".gitignore"),
        ("a b/ü.md", "a b/ü.md"),
        ("**/*.py", "**/*.py"),
        ("a~", "a~"),
        ("-a", "-a"),
        ("a/" + "b" * 255, "a/" + "b" * 255),
    ],
)
def test_a_path_has_one_spelling(path: str, normal: str) -> None:
    assert normalise(path) == normal
    assert normalise(normal) == normal


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("", Code.EMPTY),
        *(
            (bad, Code.PATH)
            for bad in ("/", "/a", "//a", "~", "~/a", "~a", "./~a", "..", "../a", "a/..", "a/../b", "./..")
        ),
        *(
            (bad, Code.PATH)
            for bad in (".git", ".git/config", "a/.git/hooks", ".GIT/x", "./.git", "**/.git", ".gıt/../.git")
        ),
        *((bad, Code.PATH) for bad in ("a\\b", "a\\", "b" * 256, "ü" * 128, "a/" * 2048 + "a")),
        *((bad, Code.WHITE_SPACE) for bad in (" a", "a ", "\u00a0a", "a\u3000", " ")),
        *((f"a{bad}b", Code.INVISIBLE_CHARACTER) for bad in "\x00\n\t\x1b\x7f\x85\u200b\u202e\u2028\ufeff\ufe0f\ud800"),
    ],
)
def test_what_is_no_path_inside_the_tree_is_refused(path: str, code: Code) -> None:
    assert refusal(lambda: normalise(path)) == ("$", code)


MATCHES = [
    ("a", "a", True),
    ("a", "a/b/c", True),
    ("a/b", "a", False),
    ("a", "ab", False),
    ("a", "A", False),
    (".", "anything/at/all", True),
    ("./a//b/", "a/b/c", True),
    ("*.md", "README.md", True),
    ("*.md", ".md", True),
    ("*.md", "docs/README.md", False),
    ("*", ".hidden", True),
    ("src/*.py", "src/a.py", True),
    ("src/*.py", "src/a/b.py", False),
    ("src/*", "src/a/b.py", True),  # `src/a` may be a directory, and a directory covers what is below it
    ("src/*/x", "src/a/x/deep", True),
    ("src/*/x", "src/x", False),
    ("a/**", "a/b", True),
    ("a/**", "a/b/c", True),
    ("a/**", "a", False),
    ("**", "a", True),
    ("**/x", "x", True),
    ("**/x", "a/b/x/y", True),
    ("**/x", "a/bx", False),
    ("a/**/b", "a/b", True),
    ("a/**/b", "a/x/y/b", True),
    ("a/**/b/**/c", "a/b/c", True),
    ("a/**/b/**/c", "a/c/b/b/x/c/d", True),
    ("a/**/b/**/c", "a/c/b", False),
    ("**/*.py", "a/b.py", True),
    ("**/*.py", "b.pyc", False),
    ("a?c", "abc", True),
    ("a?c", "a/c", False),
    ("a?c", "ac", False),
    ("[ab]", "b", True),
    ("[!ab]", "c", True),
    ("[^ab]", "a", False),
    ("[a-c]x", "bx", True),
    ("[a-c]x", "dx", False),
    ("[]a]", "]", True),
    ("[!]]", "]", False),
    ("[a-]", "-", True),
    ("[z-a]", "m", False),
    ("[!-0]", "a/b", True),
    ("x[+-0]y", "x/y", False),
    ("a[b", "a[b", True),
    ("a[]", "a[]", True),
    ("a*b*c", "aXbYbc", True),
    ("a*b*c", "aXcb", False),
    ("*", "a\nb", True),
    ("ä*", "äpfel", True),
    ("a.b", "axb", False),
    ("a+(b)|c", "a+(b)|c", True),
    ("!a", "a", False),
    ("#a", "#a", True),
    ("{a,b}", "a", False),
]


@pytest.mark.parametrize(("entry", "path", "inside"), MATCHES)
def test_a_path_is_inside_or_not(entry: str, path: str, inside: bool) -> None:
    assert matches([entry], path) is inside
    assert matches(["zzzz/one", entry], path) is inside
    if inside:
        assert overlaps([entry], [path.replace("\n", "?")])


@pytest.mark.parametrize("path", ["", "/a", "a/", "a//b", "./a", "a/../b", "..", ".git/config", "a/.git/x", ".GIT/x"])
def test_what_git_never_names_is_in_no_scope(path: str) -> None:
    assert not matches(["."], path)
    assert not matches(["**"], path)


def test_an_empty_or_refused_scope_lets_nothing_through_and_overlaps_all() -> None:
    for bad in ([], ["../x"], ["/a", ""]):
        assert not matches(bad, "a")
        assert overlaps(bad, ["b"]) and overlaps(["b"], bad) and overlaps(bad, bad)
    assert matches(["/a", "b"], "b")


OVERLAP = [
    ("a/**", "a/b", True),
    ("*.md", "README.md", True),
    (".", "x/y", True),
    ("a", "a/b", True),
    ("a", "b", False),
    ("a/b", "a/c", False),
    ("a", "a-b", False),
    ("a/**", "a", True),
    ("**/x", "a", True),
    ("a/**/x", "a/y", True),
    ("a/**/x", "b/y", False),
    ("*.md", "*.txt", False),
    ("a*", "*b", True),
    ("a*", "b*", False),
    ("[ab].nix", "[cd].nix", False),
    ("[a-c].nix", "[c-e].nix", True),
    ("[!a]", "a", False),
    ("[!a]", "[a]", False),
    ("?", "??", False),
    ("??", "a*", True),
    ("*/x", "a", True),
    ("*/x", "a/y", False),
    ("*/x/y", "a/x", True),
    ("src/**.py", "src/a/b.py", True),
    ("src/x**", "src/y", False),
    ("src/x**", "src/xy/z", True),
    ("a/*/c", "a/b/*", True),
    ("*x*y*", "*y*x*", True),
    ("a?c*", "*b?", True),
]


@pytest.mark.parametrize(("one", "other", "meet"), OVERLAP)
def test_two_scopes_overlap_or_not(one: str, other: str, meet: bool) -> None:
    assert overlaps([one], [other]) is meet
    assert overlaps([other], [one]) is meet
    assert overlaps(["zzzz/one", one], [other, "zzzz/two"]) is meet


names = st.text(alphabet="ab.", min_size=1, max_size=3).filter(lambda name: name not in {".", ".."})
segments = st.one_of(
    names,
    st.text(alphabet="ab.*?", min_size=1, max_size=4),
    st.sampled_from(["**", "*", "[ab]", "[!a]*", "a[b-]", "**b"]),
)
globs = st.lists(segments, min_size=1, max_size=4).map("/".join).filter(lambda path: scope._entry(path) is not None)
paths = st.lists(names, min_size=1, max_size=5).map("/".join)


@given(st.lists(globs, min_size=1, max_size=3), st.lists(globs, min_size=1, max_size=3), paths)
@example(["a/**"], ["a/b"], "a/b")
def test_scopes_that_share_a_path_overlap(one: list[str], other: list[str], path: str) -> None:
    if matches(one, path) and matches(other, path):
        assert overlaps(one, other)
    assert overlaps(one, other) == overlaps(other, one)


UNIVERSE = [
    "/".join(parts)
    for depth in (1, 2, 3)
    for parts in itertools.product(["a", "b", "ab", "ba", ".a", "aab"], repeat=depth)
]
simple = st.lists(
    st.sampled_from(["a", "b", "ab", "*", "a*", "*b", "?", "a?", "[ab]", "[!a]*"]), min_size=1, max_size=3
)


@given(simple.map("/".join), simple.map("/".join))
def test_scopes_that_overlap_share_a_path(one: str, other: str) -> None:
    shared = any(matches([one], path) and matches([other], path) for path in UNIVERSE)
    assert overlaps([one], [other]) is shared


@given(globs, paths)
def test_matching_is_gits_own(entry: str, path: str) -> None:
    # pathspec reads patterns as git does; a leading slash binds one to the root, as every entry of a scope is.
    assume(normalise(entry) != ".")  # to git a pattern for nothing
    expected = GitIgnoreSpec.from_lines([f"/{normalise(entry)}"]).match_file(path)
    assert matches([entry], path) is expected, (entry, path)


@given(st.text(max_size=12))
def test_any_text_is_a_path_or_refused(text: str) -> None:
    try:
        normal = normalise(text)
    except ContractError as error:
        assert str(error).isprintable()
        return
    assert normalise(normal) == normal
    assert overlaps([text], [normal])


@given(st.text(alphabet="a/*?[]!^-.\\~\x00é\ud800", max_size=12), st.text(alphabet="a/é\ud800\n", max_size=8))
def test_no_text_breaks_a_question(entry: str, path: str) -> None:
    assert matches([entry], path) in {True, False}
    assert overlaps([entry], [path]) in {True, False}


def test_scopes_of_several_are_compared_with_those_they_must_not_meet() -> None:
    scopes = [["a"], ["b", "*.md"], ["README.md"], ["a/x"]]
    everybody = [0b1110, 0b1101, 0b1011, 0b0111]
    assert first_overlap(scopes, everybody) == (1, 2)
    assert first_overlap(scopes, [0b1110, 0b1001, 0b1001, 0b0111]) == (0, 3)
    assert first_overlap(scopes, [0b0110, 0b1001, 0b1001, 0b0110]) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        # Each pair once took a time that grows with a power of its length.
        (["*a" * 127 + "b"], ["a" * 255]),
        (["*a" * 127 + "b"], ["*b" * 127 + "c"]),
        (["**/a/" * 500 + "b"], ["a/" * 1500 + "c"]),
        (["?" * 255], ["*" + "?" * 254]),
        ([f"x/*{number}" for number in range(100)], [f"x/{number}*" for number in range(100)]),
        ([f"{'[ab]' * 60}{number}" for number in range(100)], [f"{'[bc]' * 60}x{number}" for number in range(100)]),
    ],
)
def test_a_nasty_scope_takes_no_long_time(one: list[str], other: list[str]) -> None:
    start = time.perf_counter()
    assert overlaps(one, other) in {True, False}
    for entry, path in itertools.product(one[:10], other[:10]):
        assert matches([entry], path) in {True, False}
    assert time.perf_counter() - start < 5


def test_many_nasty_scopes_end_as_not_told_apart() -> None:
    # A thousand globs that differ in the last character only, each of hundreds of places.
    scopes = [[f"{'[ab]?' * 20}/{'[bc]*' * 20}/{child}x{number}" for number in range(100)] for child in "abcdefghij"]
    start = time.perf_counter()
    found = first_overlap(scopes, [1023 & ~(1 << number) for number in range(10)])
    assert time.perf_counter() - start < 5
    assert found is None or found[0] < found[1]
