"""A shell command taken apart: simple commands with their words, redirections and here-documents.

Read as a shell would read it, but without running anything: quotes are removed, known variables,
braces and `~` are put in, command substitutions become commands of their own. What only the shell
can know is the character `UNKNOWN` in a word. Never raises: a text that is no valid command is
read as far as possible.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice, product
from typing import Final


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


UNKNOWN: Final = "\0"
"""Stands in a word for what is known only when the command runs."""

_MOST_FORMS: Final = 64
_DEEPEST: Final = 5
_OPERATORS: Final = re.compile(r"&>>|&>|>>|>\||>&|<<<|<<-|<<|<>|<&|[<>]|\|\||&&|\|&|;;|[|&;()\n]")
_SEPARATORS: Final = frozenset({"|", "|&", "||", "&&", ";", ";;", "&", "(", ")", "\n"})
_PIPES: Final = frozenset({"|", "|&"})
_WRITING: Final = frozenset({">", ">>", ">|", "&>", "&>>", "<>", ">&"})
_KEYWORDS: Final = _names("! { } if then elif else fi do done while until case esac")
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)\+?=(.*)", re.DOTALL)
_VARIABLE: Final = re.compile(r"\$(?:\{(\w+)(?::?[-=?+][^}]*|[#%/^,:@][^}]*)?\}|(\w+|[@*#?]))")
_BRACES: Final = re.compile(r"\{([^{}]*)\}")


@dataclass(slots=True)
class Simple:
    """One simple command.

    Attributes:
        words: the program and its arguments, each in every form that it may take.
        writes_to: targets of redirections that write; `overwrites` of those that begin anew.
        fed: a here-document or here-string that it reads.
        piped: it reads what the command before it wrote.
        cwd: the folder where it runs, as far as `cd`s before it tell.
    """

    words: list[str] = field(default_factory=list)
    assigned: list[str] = field(default_factory=list)
    writes_to: list[str] = field(default_factory=list)
    overwrites: list[str] = field(default_factory=list)
    fed: str = ""
    piped: bool = False
    cwd: str = ""


class _Lexer:
    """Tokens of one text: operators as they are, words with a leading space."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.inner: list[str] = []
        """The texts of command substitutions."""

    def tokens(self) -> Iterator[str]:
        while self.at < len(self.text):
            character = self.text[self.at]
            if character in " \t\r":
                self.at += 1
            elif character == "#":
                self.at = self._line_end()
            elif self.text.startswith(("<(", ">("), self.at):
                self.at += 1
                self._substitution()
                yield " " + UNKNOWN
            elif operator := _OPERATORS.match(self.text, self.at):
                self.at = operator.end()
                yield operator[0]
            else:
                yield " " + self._word()

    def body(self, delimiter: str) -> str:
        """The lines of a here-document, from the next line on; they are taken out of the text."""
        start = self._line_end() + 1
        lines, at = [], start
        for line in self.text[start:].splitlines(keepends=True):
            at += len(line)
            if line.strip() == delimiter:
                break
            lines.append(line)
        self.text = self.text[:start] + self.text[at:]
        return "".join(lines)

    def _line_end(self) -> int:
        end = self.text.find("\n", self.at)
        return len(self.text) if end < 0 else end

    def _word(self) -> str:
        parts: list[str] = []
        while self.at < len(self.text):
            character = self.text[self.at]
            if character in " \t\r" or _OPERATORS.match(self.text, self.at):
                break
            parts.append(self._piece(character))
        return "".join(parts)

    def _piece(self, character: str) -> str:
        if character == "\\":
            taken = self.text[self.at + 1 : self.at + 2]
            self.at += 2
            return "" if taken == "\n" else taken
        if self.text.startswith(("$'", '$"'), self.at):
            self.at += 1
            return ""
        if character == "'":
            return self._single()
        if character == '"':
            return self._double()
        return self._plain(character)

    def _plain(self, character: str) -> str:
        if character == "`":
            return self._backticks()
        self.at += 1
        if character == "$" and self.text.startswith("(", self.at):
            return self._substitution()
        return character

    def _single(self) -> str:
        end = self.text.find("'", self.at + 1)
        end = len(self.text) if end < 0 else end
        taken, self.at = self.text[self.at + 1 : end], end + 1
        return taken

    def _double(self) -> str:
        self.at += 1
        parts: list[str] = []
        while self.at < len(self.text) and self.text[self.at] != '"':
            if self.text[self.at] == "\\" and self.text[self.at + 1 : self.at + 2] in '$`"\\\n':
                self.at += 1
                parts.append(self.text[self.at : self.at + 1].strip("\n"))
                self.at += 1
            else:
                parts.append(self._plain(self.text[self.at]))
        self.at += 1
        return "".join(parts)

    def _backticks(self) -> str:
        end = self.text.find("`", self.at + 1)
        end = len(self.text) if end < 0 else end
        self.inner.append(self.text[self.at + 1 : end])
        self.at = end + 1
        return UNKNOWN

    def _substitution(self) -> str:
        """From the opening bracket to its partner."""
        depth, start = 0, self.at + 1
        while self.at < len(self.text):
            character = self.text[self.at]
            if character in "\"'":
                _ = self._single() if character == "'" else self._double()
                continue
            depth += (character == "(") - (character == ")")
            self.at += 1
            if depth == 0:
                break
        self.inner.append(self.text[start : self.at - 1])
        return UNKNOWN


class _Parser:
    """Joins tokens to simple commands; follows `cd` and assignments."""

    def __init__(self, cwd: str, variables: Mapping[str, str]) -> None:
        self.cwd = cwd
        self.environment = variables
        self.variables: dict[str, list[str]] = {}
        self.commands: list[Simple] = []
        self._current = Simple(cwd=cwd)
        self._redirects = ""

    def read(self, text: str, depth: int = 0) -> None:
        lexer = _Lexer(text)
        for token in lexer.tokens():
            if token[0] == " ":
                self._word(token[1:], lexer)
            elif token in _SEPARATORS:
                self._end(token)
            else:
                self._redirects = token
                self._drop_descriptor()
        self._end("\n")
        if depth < _DEEPEST:
            for inner in lexer.inner:
                self.read(inner, depth + 1)

    def _drop_descriptor(self) -> None:
        """`2>x`: the number is not a word of the command."""
        if self._current.words and self._current.words[-1].isdigit():
            self._current.words.pop()

    def _word(self, word: str, lexer: _Lexer) -> None:
        operator, self._redirects = self._redirects, ""
        command = self._current
        if operator in ("<<", "<<-"):
            command.fed += lexer.body(word)
        elif operator == "<<<":
            command.fed += word
        elif operator in _WRITING:
            command.writes_to += self.forms(word)
            if operator in (">", ">|", "&>"):
                command.overwrites += self.forms(word)
        elif not operator:
            self._argument(word)

    def _argument(self, word: str) -> None:
        command = self._current
        if not command.words:
            if word in _KEYWORDS:
                return
            if assigned := _ASSIGNMENT.fullmatch(word):
                self.variables[assigned[1]] = self.forms(assigned[2])
                command.assigned.append(word)
                return
        command.words += self.forms(word)

    def _end(self, separator: str) -> None:
        command, self._redirects = self._current, ""
        if command.words and command.words[0] == "for" and "in" in command.words:
            self._loop(command.words)
        elif command.words or command.assigned or command.writes_to:
            self.commands.append(command)
            self._follow(command)
        self._current = Simple(cwd=self.cwd, piped=separator in _PIPES)

    def _loop(self, words: list[str]) -> None:
        if len(words) > 1:
            self.variables[words[1]] = words[words.index("in") + 1 :][:_MOST_FORMS]

    def _follow(self, command: Simple) -> None:
        words = command.words
        if not words and command.assigned:
            return
        if words and words[0] in ("export", "declare", "local", "readonly", "typeset"):
            for word in words[1:]:
                if assigned := _ASSIGNMENT.fullmatch(word):
                    self.variables[assigned[1]] = [assigned[2]]
        if words and words[0] in ("cd", "pushd"):
            self._change_folder([word for word in words[1:] if word != "--"])

    def _change_folder(self, words: list[str]) -> None:
        target = next((word for word in words if not word.startswith("-")), "")
        if words and words[0] == "-":
            return
        home = self._value("HOME")[0]
        self.cwd = joined(self.cwd, target or home)
        self.variables["PWD"] = [self.cwd]

    # ------------------------------------------------------------------ expansion

    def forms(self, word: str) -> list[str]:
        """What a word may become: braces, `~` and the variables that are known."""
        forms = (form for braced in _braces(word) for form in self._with_variables(braced))
        return [self._with_home(form) for form in islice(forms, _MOST_FORMS)]

    def _with_variables(self, word: str) -> Iterator[str]:
        if "$" not in word:
            yield word
            return
        pieces = _VARIABLE.split(word)
        # Of each three pieces: a text, a name in braces, a name without.
        texts = pieces[0::3]
        names = [braced or bare for braced, bare in zip(pieces[1::3], pieces[2::3], strict=True)]
        values = [self._value(name) for name in names]
        for chosen in product(*values):
            yield texts[0] + "".join(v + t for v, t in zip(chosen, texts[1:], strict=True))

    def _value(self, name: str) -> list[str]:
        """What a variable may be."""
        return self.variables.get(name) or [self.environment.get(name, UNKNOWN)]

    def _with_home(self, word: str) -> str:
        home = self._value("HOME")[0] if "~" in word else ""
        if home and (word == "~" or word.startswith("~/")):
            return home + word[1:]
        return word.replace("=~/", f"={home}/") if home and "=~/" in word else word


def _braces(word: str) -> list[str]:
    """`{a,b}` as a shell expands it, up to a number of forms; `${name}` is no brace."""
    open_forms: list[str] = [word]
    forms: list[str] = []
    while open_forms and len(forms) < _MOST_FORMS:
        form = open_forms.pop()
        match = next((m for m in _BRACES.finditer(form) if _is_list(form, m)), None)
        if match is None:
            forms.append(form)
            continue
        before, after = form[: match.start()], form[match.end() :]
        choices = match[1].split(",")[:_MOST_FORMS]
        open_forms += [f"{before}{choice}{after}" for choice in reversed(choices)]
    return forms


def _is_list(word: str, match: re.Match[str]) -> bool:
    return "," in match[1] and word[: match.start()][-1:] != "$"


def joined(cwd: str, path: str) -> str:
    """A path in a folder; an absolute one stands for itself."""
    return path if path.startswith("/") or re.match(r"[A-Za-z]:[\\/]", path) else f"{cwd}/{path}"


def simple_commands(text: str, cwd: str, variables: Mapping[str, str]) -> list[Simple]:
    """The simple commands of a shell text in their order; substitutions come last.

    Args:
        variables: the environment as far as it matters: `HOME` is needed for `~`.
    """
    parser = _Parser(cwd, variables)
    parser.read(text)
    return parser.commands
