"""Names and link targets that no tree of ours may hold."""

from __future__ import annotations

import re

#: Code points that HFS+ drops from a name, so that `.g<U+200C>it` is `.git` there.
_DROPPED = dict.fromkeys([*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF], None)
_INVISIBLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
#: Files that git reads by name; as a link they would be read from somewhere else.
READ_BY_GIT = frozenset({b".gitattributes", b".gitignore", b".gitmodules", b".mailmap"})


def is_git(name: bytes) -> bool:
    """Whether some file system or git version takes this name for `.git`."""
    folded = name.split(b":")[0].rstrip(b" .").lower()
    if folded == b".git" or re.fullmatch(rb"git~\d+", folded):
        return True
    return name.decode(errors="replace").translate(_DROPPED).casefold() == ".git"


def leaves_tree(path: bytes, target: bytes) -> bool:
    """Whether a link at `path` may lead out of the tree, or into its .git.

    `..` may only stand at the front: behind the name of another link it would start from that link's target.  So as
    long as every link obeys, no chain of them gets out.
    """
    parts = target.split(b"/")
    up = 0
    while up < len(parts) and parts[up] in {b"..", b".", b""}:
        up += 1
    above = parts[:up].count(b"..")
    rest = parts[up:]
    return target.startswith(b"/") or above > path.count(b"/") or b".." in rest or any(map(is_git, rest))


def shown(path: bytes) -> str:
    """A path as text that can be stored and printed: bytes that are no UTF-8 and invisible characters are escaped.

    What is escaped can't stand in a configured path or a scope either, so a shown path matches them as the real one.
    """
    text = path.decode(errors="backslashreplace")
    return _INVISIBLE.sub(lambda match: match.group().encode("unicode_escape").decode(), text)
