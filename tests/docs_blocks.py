"""The fenced blocks of a Markdown page, and what the comments above them say.

<!-- not run: WHY -->            the block cannot be run here, for this reason
<!-- run with: OLD => NEW -->    it is run with NEW in place of OLD: fewer images, a smaller model
<!-- exits with: CODE -->        its commands are meant to fail
"""

import re
from dataclasses import dataclass
from pathlib import Path

RUN = ("python", "console")
INERT = ("csv", "json", "text", "toml", "yaml")  # shown, not run
COMMENT = re.compile(r"<!-- (not run|run with|exits with): (.*) -->")


@dataclass(frozen=True)
class Block:
    """One fenced block; `line` is where its first line stands in the page."""

    language: str
    line: int
    text: str
    why_not: str | None = None
    stand_ins: tuple[tuple[str, str], ...] = ()
    exit_code: int = 0
    follows: bool = False  # only blank lines lie between this block and the one before

    @property
    def text_to_run(self) -> str:
        """The block with its stand-ins in place."""
        text = self.text
        for old, new in self.stand_ins:
            assert old in text, f"line {self.line}: nothing to replace: {old!r} is not in the block"
            text = text.replace(old, new)
        return text

    def commands(self) -> list[tuple[str, list[str]]]:
        """For a console block: each command with the lines that it is said to print."""
        found: list[tuple[str, list[str]]] = []
        for line in self.text_to_run.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                assert found, f"line {self.line}: a console block starts with '$ '"
                found[-1][1].append(line)
        return found


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page in order; a fence without a language, or a comment without a block, is refused."""
    found: list[Block] = []
    comments: list[tuple[str, str]] = []
    inside: list[str] | None = None
    language, start, follows = "", 0, False
    for number, line in enumerate(page.read_text().splitlines(), start=1):
        where = f"{page.name}:{number}"
        if inside is not None:
            if line != "```":
                inside.append(line)
                continue
            why_not = [reason for kind, reason in comments if kind == "not run"]
            assert all(len(reason.split()) >= 2 for reason in why_not), f"{where}: say why the block is not run"
            pairs = [pair.split(" => ") for kind, pair in comments if kind == "run with"]
            stand_ins = tuple((old, new) for old, new in pairs)
            codes = [int(code) for kind, code in comments if kind == "exits with"]
            text = "\n".join(inside) + "\n"
            found.append(Block(language, start, text, next(iter(why_not), None), stand_ins, sum(codes), follows))
            inside, comments, follows = None, [], True
        elif line.lstrip().startswith("```"):
            language, start, inside = line.removeprefix("```"), number + 1, []
            assert language in RUN + INERT, f"{where}: {language!r} is not one of {', '.join(RUN + INERT)}"
            assert not comments or language in RUN, f"{where}: a {language} block is never run; drop the comment"
        elif comment := COMMENT.fullmatch(line):
            comments.append((comment[1], comment[2]))
        else:
            assert not comments, f"{where}: the comment above is not directly above a block"
            follows = follows and not line.strip()
    assert inside is None, f"{page.name}: the last block is not closed"
    return found
