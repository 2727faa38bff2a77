"""What a tool call does to files, as far as its arguments tell: the pure part of self-protection.

Reading is nobody's business here; what is named are the paths that a call would write, remove or
link, and commands that set limits or switch the plugin off. Whether such a path is one of ours is
for the caller to find out, who may look at the disk.

A program that is not known to read only is taken to write what it names. That can be wrong for a
harmless program that is given our own files; it is never wrong for anybody else's.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from .shell_words import UNKNOWN, Simple, simple_commands


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


class Act(Enum):
    """What happens to a path."""

    WRITE = "write"
    OVERWRITE = "overwrite"
    """The whole file is replaced."""
    REMOVE = "remove"
    """Also what lies below goes with it: a folder above counts too."""


@dataclass(frozen=True, slots=True)
class Touch:
    """A path as it was spelled, the folder that it is relative to, and what happens to it."""

    path: str
    cwd: str
    act: Act


@dataclass(frozen=True, slots=True)
class Code:
    """Program text that a command carries; `is_shell` tells which kind."""

    text: str
    cwd: str
    is_shell: bool


@dataclass(frozen=True, slots=True)
class Effects:
    """What a command would do."""

    touches: tuple[Touch, ...] = ()
    codes: tuple[Code, ...] = ()
    sets_limits: bool = False


READING_COMMANDS: Final = _names(
    """
    status forecast history prices check verify doctor help runs receipt why replay cron
    """
)
"""Our own commands that change nothing; every other one is a setter."""

OUR_FILES: Final = ("budget.yaml", "pricing.yaml", "ledger.db", "budget")

_READERS: Final = _names(
    """
    [ [[ awk base64 basename bat batcat cat cd cksum cmp column comm cut date df diff dir
    dirname du echo egrep env export exit false fgrep file find fold gawk grep head hexdump
    history id jq less let ll ls man md5sum more nl od paste pgrep popd printenv printf ps pushd
    pwd read readlink realpath return rg sdiff sed seq set sha1sum sha256sum sleep sort source
    stat strings tac tail test tr tree true type uniq unset wait wc which whereis xxd yq zcat
    zgrep .
    """
)
_REMOVERS: Final = _names("rm rmdir unlink shred srm trash trash-put mv rename")
_COPIERS: Final = frozenset(["cp", "install", "rsync", "scp", "ditto"])
_ARCHIVERS: Final = frozenset(["tar", "bsdtar", "zip", "7z"])
_CHANGERS: Final = frozenset(["chmod", "chown", "chgrp", "chattr", "setfacl"])
_SHELLS: Final = frozenset(["sh", "bash", "zsh", "dash", "ksh", "ash", "fish"])
_INTERPRETERS: Final = re.compile(r"python[\d.]*|pypy[\d.]*|node|deno|bun|perl|ruby|php|lua|awk")
_WRAPPERS: Final = _names(
    """
    sudo doas env nohup time nice ionice timeout exec command builtin stdbuf setsid xargs
    parallel caffeinate watch busybox uv uvx poetry pipx npx run entr flock chronic
    """
)
_WRAPPER_VALUES: Final = frozenset(["-u", "-g", "-I", "-d", "-C"])
_GIT_READING: Final = _names("status log diff show blame grep ls-files rev-parse")
_WRITING_SQL: Final = re.compile(
    r"\b(insert|update|delete|drop|alter|create|replace|vacuum|attach|restore|import|save)\b", re.I
)


def effects_of(command: str, cwd: str, variables: Mapping[str, str]) -> Effects:
    """What a shell text would do. Never raises."""
    touches: list[Touch] = []
    codes: list[Code] = []
    sets = False
    pipeline: list[Simple] = []
    for simple in simple_commands(command, cwd, variables):
        pipeline = [*pipeline, simple] if simple.piped else [simple]
        touches += _redirections(simple)
        words = _unwrapped(simple.words)
        sets = sets or _sets_limits(simple, words)
        codes += _codes(simple, words, pipeline[:-1])
        touches += _touches(simple, words)
        if len(words) < len(simple.words) and _name(simple.words) in ("xargs", "parallel"):
            touches += _handed_over(pipeline[:-1], words)
    return Effects(tuple(touches), tuple(codes), sets)


def _name(words: Sequence[str]) -> str:
    """The program, without its folder."""
    return words[0].replace("\\", "/").rpartition("/")[2].removesuffix(".exe") if words else ""


def _unwrapped(words: list[str]) -> list[str]:
    """The command behind `sudo`, `env X=1`, `timeout 5`, `xargs -n 1`."""
    while words and _name(words) in _WRAPPERS:
        rest = words[1:]
        while rest and (rest[0].startswith("-") or "=" in rest[0] or rest[0][:1].isdigit()):
            rest = rest[2 if rest[0] in _WRAPPER_VALUES else 1 :]
        if not rest:
            return words
        words = rest
    return words


def _redirections(simple: Simple) -> Iterator[Touch]:
    for target in simple.writes_to:
        act = Act.OVERWRITE if target in simple.overwrites else Act.WRITE
        yield Touch(target, simple.cwd, act)


def _handed_over(before: Sequence[Simple], words: list[str]) -> Iterator[Touch]:
    """`find … | xargs rm`: what the commands before name, or found below it, is the argument."""
    if _name(words) in _READERS and not _is_writing_reader(words):
        return
    for simple in before:
        if not _is_filtered(simple.words):
            for word in _operands(simple.words[1:]):
                yield Touch(word, simple.cwd, Act.REMOVE)


# ---------------------------------------------------------------------- one command


def _touches(simple: Simple, words: list[str]) -> Iterator[Touch]:
    name = _name(words)
    for word, act in _acts(name, words):
        yield Touch(word, simple.cwd, act)


def _acts(name: str, words: list[str]) -> Iterator[tuple[str, Act]]:
    """The paths that a command changes."""
    special = _SPECIAL.get(name)
    if special is not None:
        yield from special(words)
    elif name in _REMOVERS:
        yield from _removed(name, words)
    elif name in _COPIERS:
        yield from _copied(words)
    elif name in _CHANGERS:
        act = Act.REMOVE if "-R" in words or "--recursive" in words else Act.WRITE
        yield from ((word, act) for word in _operands(words[1:]))
    elif name in _SHELLS or name in _READERS or name.startswith("hermes"):
        return  # what Hermes itself may not do is told by its subcommand
    else:
        yield from ((part, Act.WRITE) for word in words[1:] for part in _parts(word))


def _operands(words: Sequence[str]) -> list[str]:
    return [word for word in words if not word.startswith("-")]


def _parts(word: str) -> Iterator[str]:
    """What may be a path in a word: itself, an option's value, one side of a colon."""
    yield word
    if "=" in word:
        yield word.partition("=")[2]
    if ":" in word:
        yield from word.split(":")


def _removed(name: str, words: list[str]) -> Iterator[tuple[str, Act]]:
    operands = _operands(words[1:])
    yield from ((word, Act.REMOVE) for word in operands)
    if name == "mv":
        yield from _into(operands)


def _copied(words: list[str]) -> Iterator[tuple[str, Act]]:
    """The source is only read, unless it is linked."""
    operands = _operands(words[1:])
    flags = "".join(word[1:] for word in words[1:] if re.fullmatch(r"-[A-Za-z]+", word))
    options = [word for word in words if word.startswith("--")]
    links = ("l" in flags and _name(words) == "cp") or ("s" in flags and _name(words) == "cp")
    if links or any(word.startswith(("--link", "--symbolic")) for word in options):
        yield from ((word, Act.WRITE) for word in operands)
    for word in options:
        if word.startswith("--target-directory="):
            yield word.partition("=")[2], Act.WRITE
    if "-t" in words and _name(words) in ("cp", "install"):
        yield words[min(words.index("-t") + 1, len(words) - 1)], Act.WRITE
    yield from _into(operands)


def _into(operands: Sequence[str]) -> Iterator[tuple[str, Act]]:
    """The target, and what the sources become if it is a folder."""
    if len(operands) > 1:
        *sources, target = operands
        yield target, Act.OVERWRITE
        for source in sources:
            yield f"{target}/{source.rstrip('/').rpartition('/')[2]}", Act.OVERWRITE


def _tee(words: list[str]) -> Iterator[tuple[str, Act]]:
    act = Act.WRITE if "-a" in words or "--append" in words else Act.OVERWRITE
    return ((word, act) for word in _operands(words[1:]))


def _sed(words: list[str]) -> Iterator[tuple[str, Act]]:
    if any(re.match(r"-[A-Za-z]*i|--in-place", word) for word in words[1:]):
        yield from ((word, Act.WRITE) for word in _operands(words[1:]))
    yield from _written_in_scripts(words)


def _written_in_scripts(words: list[str]) -> Iterator[tuple[str, Act]]:
    """`sed 'w file'` and `awk '{print > "file"}'`."""
    for word in words[1:]:
        for match in re.finditer(r"(?:^|[;\s}/])w\s+(\S+)|>\s*\"([^\"]+)\"", word):
            yield match[1] or match[2], Act.WRITE


def _sort(words: list[str]) -> Iterator[tuple[str, Act]]:
    for at, word in enumerate(words[1:-1], 1):
        if word in ("-o", "--output"):
            yield words[at + 1], Act.OVERWRITE
    for word in words[1:]:
        if word.startswith(("--output=", "-o")) and word != "-o":
            yield word.partition("=")[2] or word[2:], Act.OVERWRITE


def _in_place(words: list[str]) -> Iterator[tuple[str, Act]]:
    if any(re.match(r"-i|--in-?place", word) for word in words[1:]):
        yield from ((word, Act.WRITE) for word in _operands(words[1:]))
    yield from _written_in_scripts(words)


def _find(words: list[str]) -> Iterator[tuple[str, Act]]:
    if _is_filtered(words) or not _is_writing_reader(words):
        return
    for word in words[1:]:
        if word.startswith(("-", "(", "!")):
            break
        yield word, Act.REMOVE


def _is_writing_reader(words: list[str]) -> bool:
    """Whether a reading program is asked to change what it finds."""
    if _name(words) == "sed":
        return any(True for _ in _sed(words))
    if _name(words) != "find":
        return False
    for at, word in enumerate(words):
        if word == "-delete" or word.startswith("-fprint"):
            return True
        if word in ("-exec", "-execdir", "-ok", "-okdir"):
            inner = _unwrapped(words[at + 1 :])
            return _name(inner) not in _READERS or _is_writing_reader(inner)
    return False


def _is_filtered(words: list[str]) -> bool:
    """Whether a `find` looks for names that none of our files has."""
    if _name(words) != "find":
        return False
    names = [words[at + 1] for at, w in enumerate(words[:-1]) if w in ("-name", "-iname")]
    return bool(names) and not any(
        matches(name.lower(), pattern.lower()) for pattern in names for name in OUR_FILES
    )


def matches(name: str, pattern: str) -> bool:
    """One component of a path against a shell's pattern."""
    translated = "".join(
        {"*": ".*", "?": "."}.get(part, part if part.startswith("[") else re.escape(part))
        for part in re.findall(r"\[[^\]]*\]|.", pattern)
    )
    try:
        return re.fullmatch(translated, name) is not None
    except re.error:
        return True


def _archive(words: list[str]) -> Iterator[tuple[str, Act]]:
    """Packing reads; unpacking writes, and so does the archive itself."""
    mode = words[1].lstrip("-") if len(words) > 1 else ""
    if _name(words) in ("tar", "bsdtar") and "x" not in mode and "--extract" not in words:
        operands = [word for word in words[1:] if not word.startswith("--")]
        yield from ((word, Act.OVERWRITE) for word in operands[1:2])
    else:
        yield from ((word, Act.WRITE) for word in _operands(words[1:]))


def _sqlite(words: list[str]) -> Iterator[tuple[str, Act]]:
    operands = _operands(words[1:])
    script = " ".join(operands[1:])
    if "-readonly" in words or (script and not _WRITING_SQL.search(script)):
        return
    yield from ((part, Act.WRITE) for word in operands for part in _parts(word))


def _ln(words: list[str]) -> Iterator[tuple[str, Act]]:
    """Under a second name a path is not recognised: a link to a folder above ours counts too."""
    operands = _operands(words[1:])
    yield from ((word, Act.REMOVE) for word in operands[: max(1, len(operands) - 1)])
    yield from _into(operands)


def _git(words: list[str]) -> Iterator[tuple[str, Act]]:
    if not _GIT_READING.isdisjoint(words[1:4]):
        return
    yield from ((part, Act.WRITE) for word in words[1:] for part in _parts(word))


_SPECIAL: Final = {
    "tee": _tee,
    "sed": _sed,
    "gsed": _sed,
    "sort": _sort,
    "yq": _in_place,
    "awk": _in_place,
    "gawk": _in_place,
    "find": _find,
    "sqlite3": _sqlite,
    "git": _git,
    "ln": _ln,
    **dict.fromkeys(_ARCHIVERS, _archive),
}


# ---------------------------------------------------------------------- programs in a command


def _codes(simple: Simple, words: list[str], before: Sequence[Simple]) -> Iterator[Code]:
    """Program texts: behind `-c`, in a here-document, piped in from `echo`, behind `eval`."""
    name = _name(words)
    if name == "eval":
        yield Code(" ".join(words[1:]), simple.cwd, True)
    for at, word in enumerate(words if name not in _READERS else ()):
        is_shell = _name([word]) in _SHELLS
        if is_shell or _INTERPRETERS.fullmatch(_name([word])):
            yield from _inline(words[at:], simple.cwd, is_shell=is_shell)
            if simple.fed:
                yield Code(simple.fed, simple.cwd, is_shell)
            if simple.piped and before and _name(before[-1].words) in ("echo", "printf", "cat"):
                text = before[-1].fed or " ".join(before[-1].words[1:])
                yield Code(text, simple.cwd, is_shell)
            return


def _inline(words: Sequence[str], cwd: str, *, is_shell: bool) -> Iterator[Code]:
    for at, word in enumerate(words[1:-1], 1):
        if re.fullmatch(r"-[A-Za-z]*[ceEr]|--eval|-[pn]i?e?", word):
            yield Code(words[at + 1], cwd, is_shell)


# ---------------------------------------------------------------------- our own setters


def _sets_limits(simple: Simple, words: list[str]) -> bool:
    if any(word.startswith("HERMES_SAFE_MODE=") for word in (*simple.assigned, *simple.words)):
        return any(_name([word]) == "hermes" for word in simple.words)
    if _name(words) in _READERS and _name(words) not in ("find", "env"):
        return False
    if _name(simple.words) in ("xargs", "parallel") and _name(words).startswith("hermes"):
        return "budget" in (*words, _name(words).removeprefix("hermes-"))
    return any(is_setter(simple.words[at:]) for at in range(len(simple.words)))


_OPTIONS_WITH_VALUE: Final = _names(
    """
    -p --profile -m --model --provider -t --toolsets -s --skills -r --resume --id
    """
)


def is_setter(words: Sequence[str]) -> bool:
    """Whether these words set a limit, confirm one, or switch the plugin off."""
    name, rest = _name(words), list(words[1:])
    if name.startswith(("python", "pypy")) and "-m" in rest[:-1]:
        module = rest[rest.index("-m") + 1]
        rest = rest[rest.index("-m") + 2 :]
        name = {"hermes_cli": "hermes", "budget_plugin": "hermes-budget"}.get(
            module.partition(".")[0], module
        )
    if name == "hermes-budget":
        return _changes(_arguments(rest))
    if name == "hermes":
        return _host_setter(_arguments(rest))
    if name in ("pip", "pip3", "uv"):
        return "uninstall" in rest and any("hermes" in word for word in rest)
    return False


def _arguments(words: Sequence[str]) -> list[str]:
    """The words that are no options."""
    found, skip = [], False
    for word in words:
        if not skip and not word.startswith("-"):
            found.append(word.lower())
        skip = word in _OPTIONS_WITH_VALUE
    return found


def _changes(arguments: Sequence[str]) -> bool:
    return bool(arguments) and arguments[0] not in READING_COMMANDS


def _host_setter(arguments: Sequence[str]) -> bool:
    if not arguments:
        return False
    first, rest = arguments[0], arguments[1:]
    if first == "budget":
        return _changes(rest)
    if first == "plugins":
        return any("budget" in word for word in rest) and rest[0] not in ("list", "show", "enable")
    if first == "config":
        return "set" in rest and any(word.startswith("plugins") for word in rest)
    return False


# ---------------------------------------------------------------------- program text

_SETTER_IN_CODE: Final = re.compile(
    r"""\bhermes['"\s,]+(?:-{1,2}\w+['"\s,=]+(?:\w+['"\s,]+)?)?budget['"\s,]+(\w+)"""
    r"""|hermes-budget['"\s,]+(\w+)|-m['"\s,]+budget_plugin['"\s,]+(\w+)""",
    re.IGNORECASE,
)
_OUR_MODULE: Final = re.compile(
    r"""\b(?:import|from)\s+budget_plugin\b|import_module\(\s*['"]budget_plugin"""
    r"""|__import__\(\s*['"]budget_plugin|hermes_plugins[._]?['"\]]*\.?budget"""
)
_CHANGES_FILES: Final = re.compile(
    r"""open\([^\n]{0,400},\s*(?:mode\s*=\s*)?['"][rbt]*[wax+]|['"]r\+|write_text|write_bytes"""
    r"""|\.write\(|writelines|unlink|\bremove\(|rmtree|rename|\.replace\((?![^(),]*,)"""
    r"""|os\.replace|shutil|os\.system|subprocess|popen|symlink|\blink\(|hardlink|chmod|truncate"""
    r"""|execute(?:script|many)?\(\s*f?['"]+\s*(?:insert|update|delete|drop|alter|create|replace)"""
    r"""|set_limit|writeFile|appendFile|fs\.|File\.|IO\.write|>\s*['"]?[~$/\w]""",
    re.IGNORECASE,
)
_WRITES_ELSEWHERE: Final = re.compile(
    r"""open\(\s*(?P<quote>['"])(?P<path>[^'"]+)(?P=quote)\s*,\s*['"][wax][^)]*\)"""
)
_LITERAL: Final = re.compile(r"""'([^'\n]{1,400})'|"([^"\n]{1,400})\"""")


def setter_in_code(text: str) -> bool:
    """Whether a program runs one of our setters, or reaches into our modules."""
    if _OUR_MODULE.search(text):
        return True
    return any(
        (match[1] or match[2] or match[3]).lower() not in READING_COMMANDS
        for match in _SETTER_IN_CODE.finditer(text)
    )


def changes_files(text: str, is_ours: Callable[[str], bool]) -> bool:
    """Whether a program writes, moves or removes anything, or runs other programs.

    What it writes into a file that it names and that is not ours is left aside.
    """
    found = () if "chdir" in text else _WRITES_ELSEWHERE.finditer(text)
    others = [match for match in found if not is_ours(match["path"])]
    for match in others:
        text = text.replace(match[0], "")
    if others:
        text = text.replace(".write(", "").replace("writelines", "")
    return _CHANGES_FILES.search(text) is not None


def literals(text: str) -> list[str]:
    """The string literals of a program that may be paths."""
    return [match[1] or match[2] for match in _LITERAL.finditer(text)]


def spells_our_folder(text: str) -> bool:
    """Whether a program puts together a path of ours: the home's name and the folder's apart."""
    lowered = text.lower()
    if not any(name in lowered for name in (".hermes", "hermes_home", "hermes_constants")):
        return False
    parts = {part for literal in literals(lowered) for part in literal.split("/")}
    return not parts.isdisjoint(OUR_FILES)


# ---------------------------------------------------------------------- cheap first looks

_REDIRECTION: Final = re.compile(r">(?![&>]?\s*(?:&|/dev/))")


def may_matter(command: str) -> bool:
    """Whether a shell text has to be taken apart: it names something of ours, or changes files."""
    bare = command.lower().replace("'", "").replace('"', "").replace("\\", "")
    return names_us(bare) or _may_change_files(bare)


def _may_change_files(text: str) -> bool:
    # Written out, since it is asked of every command: a regular expression takes ten times as long.
    return (
        "rm " in text
        or "mv " in text
        or "cp " in text
        or "ln " in text
        or "dd " in text
        or "sed " in text
        or "tee " in text
        or "perl" in text
        or "xargs" in text
        or "chmod" in text
        or "chown" in text
        or "rsync" in text
        or "shred" in text
        or "unlink" in text
        or "install " in text
        or "truncate" in text
        or "-delete" in text
        or "-exec" in text
        or (">" in text and _REDIRECTION.search(text) is not None)
    )


def names_us(text: str) -> bool:
    """Whether a text in lower case has one of the words without which we cannot be meant."""
    return "budget" in text or "hermes" in text or "pricing.yaml" in text or "ledger" in text


_PATCHED: Final = re.compile(r"^\*{3}\s*(?:Update|Add|Delete|Move)\s+File:\s*(.+?)\s*$", re.M)


def patched_paths(patch: str) -> list[str]:
    """The files that a patch names, both sides of a move."""
    return [
        path.strip() for found in _PATCHED.findall(patch) for path in re.split(r"\s+->\s+", found)
    ]


def may_end_in_ours(path: str, command: str) -> bool:
    """Whether a path that is partly known only to the shell may be ours, as far as can be told.

    Its end is one of our files, or nothing of it is known, and the command names our folder.
    """
    tail = path.rpartition(UNKNOWN)[2].rstrip("/")
    ends = ("budget/budget.yaml", "budget/pricing.yaml", "budget/ledger.db", ".hermes/budget")
    if tail.endswith(ends):
        return True
    bare = command.lower().replace("'", "").replace('"', "")
    if not (".hermes" in bare or "hermes_home" in bare) or "budget" not in bare:
        return False
    return path == UNKNOWN or tail.rpartition("/")[2] in OUR_FILES


_READING_NAME: Final = re.compile(
    r"(?:^|_)(?:read|get|list|search|find|view|stat|show|tree|info|fetch|query|describe)(?:_|$)"
)


def reads_by_name(tool: str) -> bool:
    """Whether a tool that we do not know calls itself a reading one."""
    return _READING_NAME.search(tool.lower()) is not None
