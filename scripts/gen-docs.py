#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Man pages and shell completions, made from what --help says.

    scripts/gen-docs.py [--check] [build/pyheaptrace]

Writes man/*.1 and completions/*; with --check only tells whether they are what
would be written (exit status 1 if not).  So they cannot say anything else than
the program.  What is no option comes from man/*.1.in, one for each page.
"""
import argparse
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OPTION = re.compile(r"^ {2,6}(?:(-\w), )?(?:(--[\w-]+)(\[=\w+\])?|(-\w))(?: ([^\s]+))?(?:\s{2,}(.*))?$")


TERM = re.compile(r"^  ([a-z][\w-]*)\s{2,}(.*)$")
UNTOLD = {"--help": "print the help", "--verbose": "say more on standard error"}


class Option:
    def __init__(self, short, long, arg="", optional="", text=""):
        self.short, self.long, self.arg, self.optional = short, long, arg, optional
        self.text = [text] if text else []
        self.choices = []

    @property
    def name(self):
        return self.long or self.short

    @property
    def description(self):
        return " ".join(self.text) or UNTOLD.get(self.long, "")


class Help:
    """The --help of a command: usage, what it is for, options by group, examples."""

    def __init__(self, command, text):
        self.command = command
        self.usage, self.intro, self.groups, self.examples = [], [], [], []
        self.terms = []  # what the command can be told to do: [word, text]
        self.parse(text)
        if self.terms and self.word_option:
            self.groups[0][1].insert(0, Option(None, self.word_option, "FORMAT", "",
                                               "one of those above"))

    @property
    def word_option(self):
        """The option that takes one of the terms, where they are no argument."""
        match = re.search(r"(--\w+) FORMAT", self.usage[0])
        return match[1] if match else None

    @property
    def words(self):
        """What the first argument can be."""
        return [] if self.word_option else [word for word, _ in self.terms]

    @property
    def options(self):
        return [o for _, options in self.groups for o in options]

    def parse(self, text):
        section = "usage"
        for line in text.splitlines():
            if re.match(r"^[A-Z]\w*( [\w']+){0,3}:$", line):
                section = line[:-1]
                if section not in ("Examples", "Commands"):
                    self.groups.append((section, []))
                continue
            if section == "usage" and re.match(r"^(Usage:|      ) pyheaptrace", line):
                self.usage.append(line[7:])
                continue
            self.take(section, line)

    def take(self, section, line):
        match, term = OPTION.match(line), TERM.match(line)
        if section == "Examples":
            if line.startswith("  "):
                self.examples.append(line[2:])
        elif match and section != "Commands":
            if not self.groups:
                self.groups.append(("Options", []))
            self.groups[-1][1].append(Option(match[1] or match[4], match[2], match[5] or "",
                                             match[3] or "", match[6]))
        elif section == "Commands":
            return
        elif self.options:
            if line.startswith("      "):
                self.options[-1].text.append(line.strip())
        elif term:
            self.terms.append([term[1], term[2]])
        elif self.terms and line.startswith("      "):
            self.terms[-1][1] += " " + line.strip()
        elif line:
            self.intro.append(line)


def run(binary, *args):
    return subprocess.run([binary, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          universal_newlines=True, check=False)


def ask_choices(binary, page):
    """What an option may be: the program says so when it is given nonsense."""
    for option in page.options:
        if option.arg and option.arg not in ("PID", "PID[,PID...]", "FILE", "PATTERN", "PATH"):
            said = run(binary, *page.command.split(), option.name, "?").stderr
            match = re.search(r'"\?" is not one of (.*)', said)
            if match:
                option.choices = match[1].split(", ")
            elif option.name == page.word_option:
                option.choices = [word for word, _ in page.terms]


def subcommands():
    with open(os.path.join(ROOT, "user/commands.c"), encoding="utf-8") as f:
        return re.findall(r'\{ *"([a-z]+)", cmd_', f.read())


def load(binary):
    pages = []
    for command in ["", *subcommands()]:
        page = Help(command, run(binary, *command.split(), "--help").stdout)
        if not page.usage:
            sys.exit(f"gen-docs: {binary} {command} --help says nothing")
        ask_choices(binary, page)
        pages.append(page)
    return pages


# ---- man pages ----


def roff(text):
    return re.sub(r"^([.'])", r"\\&\1", text.replace("\\", "\\e").replace("-", "\\-"))


def man_option(option):
    names = ", ".join(f"\\fB{roff(n)}\\fR" for n in (option.short, option.long) if n)
    names += roff(option.optional)
    if option.arg:
        names += f" \\fI{roff(option.arg)}\\fR"
    return [".TP", names, roff(option.description)]


def man_options(page):
    out = []
    for title, options in page.groups:
        if len(page.groups) > 1:
            out.append(f".SS {title}")
        for option in options:
            out += man_option(option)
    return out


def man_terms(page):
    return [line for word, text in page.terms for line in (".TP", f".B {roff(word)}", roff(text))]


def man_examples(page):
    return [".EX", *map(roff, page.examples), ".EE"]


def man_see_also(page, pages):
    names = ["pyheaptrace" + (f"\\-{p.command}" if p.command else "")
             for p in pages if p is not page]
    return "\n".join(f".BR {n} (1)" + "," * (n != names[-1]) for n in names)


def man_page(page, pages, template, version):
    fill = {
        "SEEALSO": man_see_also(page, pages),
        "SYNOPSIS": "\n.br\n".join(re.sub(r"^(pyheaptrace(?: [a-z]+)?)", r"\\fB\1\\fR", roff(u))
                                   for u in page.usage),
        "INTRO": "\n".join([*map(roff, page.intro), *man_terms(page)]),
        "OPTIONS": "\n".join(man_options(page)),
        "EXAMPLES": "\n".join(man_examples(page)),
        "VERSION": version,
    }
    return re.sub(r"@(\w+)@", lambda m: fill[m[1]], template)


# ---- completions ----


def quote(text):
    return text.replace("'", "'\\''")


def label(option):
    text = re.sub(r"\s*\(default.*", "", option.description) or option.arg
    text = re.split(r"[:;] ", text)[0].replace("[", "(").replace("]", ")")
    return quote(text[:-1] if text.endswith(":") else text)


def kind(option):
    if option.choices:
        return "choices"
    if option.arg.startswith("PID"):
        return "pid"
    return "file" if option.arg in ("FILE", "OLD") else "value" if option.arg else ""


def names(options):
    return " ".join(n for o in options for n in (o.short, o.long) if n)


def patterns(pages, wanted):
    return "|".join(f"{p.command}:{n}" for p in pages for o in p.options if kind(o) == wanted
                    for n in (o.short, o.long) if n)


def bash_choices(page):
    return [(f"{page.command}:{n}", option.choices) for option in page.options
            if kind(option) == "choices" for n in (option.short, option.long) if n]


def bash_cases(pages):
    words = {}
    for page in pages:
        for pattern, choices in bash_choices(page):
            words.setdefault(" ".join(choices), []).append(pattern)
        if page.words:
            words.setdefault(" ".join(page.words), []).append(f"{page.command}:{page.command}")
    cases = [(patterns(pages, "pid"), '-W "$(_pyheaptrace_pids)"'),
             (patterns(pages, "file"), "-f"),
             *(("|".join(where), f'-W "{what}"') for what, where in words.items())]
    out = [f'\t{pattern})\n\t\tCOMPREPLY=($(compgen {what} -- "$cur"))\n\t\treturn ;;'
           for pattern, what in cases]
    return "\n".join(out + [f"\t{patterns(pages, 'value')})\n\t\treturn ;;"])


BASH = """# SPDX-License-Identifier: BSD-2-Clause
# bash completion for pyheaptrace.  Made by scripts/gen-docs.py.

_pyheaptrace_pids()
{{
	local exe
	for exe in /proc/[0-9]*/exe; do
		case $(readlink "$exe" 2>/dev/null) in
		*python*) exe=${{exe#/proc/}}; echo "${{exe%/exe}}" ;;
		esac
	done
}}

_pyheaptrace()
{{
	local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} command=
	case ${{COMP_WORDS[1]}} in
	{commands}) [ "$COMP_CWORD" -gt 1 ] && command=${{COMP_WORDS[1]}} ;;
	esac
	COMPREPLY=()
	case $command:$prev in
{cases}
	esac
	case $command in
{lists}
	esac
	# Commands that take files.
	[ "${{#COMPREPLY[@]}}" -gt 0 ] || case $command in check | "") ;; *) COMPREPLY=($(compgen -f -- "$cur")) ;; esac
}}
complete -o filenames -F _pyheaptrace pyheaptrace
"""


def bash(pages):
    commands = [*(p.command for p in pages if p.command), "check"]
    lists = [f'\t{p.command})\n\t\tCOMPREPLY=($(compgen -W "{names(p.options)}" -- "$cur")) ;;'
             for p in pages if p.command]
    lists.append('\tcheck) ;;')
    lists.append(f'\t*)\n\t\tCOMPREPLY=($(compgen -W "{" ".join(commands)} '
                 f'{names(pages[0].options)}" -- "$cur")) ;;')
    return BASH.format(commands="|".join(commands), cases=bash_cases(pages),
                       lists="\n".join(lists))


def zsh_spec(option):
    action = {"choices": f":{option.arg}:({' '.join(option.choices)})",
              "pid": ":process:_pyheaptrace_pids", "file": ":file:_files",
              "value": f":{option.arg}:", "": ""}[kind(option)]
    action = action.replace("[", "(").replace("]", ")") if kind(option) != "choices" else action
    both = " ".join(n for n in (option.short, option.long) if n)
    return [f"'({both}){n}[{label(option)}]{action}'" for n in (option.short, option.long) if n]


def zsh_arguments(page, indent):
    specs = [s for o in page.options for s in zsh_spec(o)]
    if page.words:
        specs.append(f"'1:what:({' '.join(page.words)})'")
    if page.command:
        specs.append("'*:file:_files'")
    return (" \\\n" + indent).join(["_arguments -s", *specs])


def summary(page):
    """From the NAME section of its man page."""
    with open(os.path.join(ROOT, f"man/pyheaptrace-{page.command}.1.in"), encoding="utf-8") as f:
        return re.search(r"^pyheaptrace.* \\- (.*)", f.read(), re.M)[1].replace("\\-", "-")


def zsh(pages):
    sub = [p for p in pages if p.command]
    described = [f"'{p.command}:{quote(summary(p))}'" for p in sub]
    described.append("'check:can this host run it'")
    cases = [f"\t{p.command})\n\t\tshift words; ((CURRENT--))\n\t\t{zsh_arguments(p, chr(9) * 3)} ;;"
             for p in sub]
    return "\n".join([
        "#compdef pyheaptrace",
        "# SPDX-License-Identifier: BSD-2-Clause",
        "# zsh completion for pyheaptrace.  Made by scripts/gen-docs.py.",
        "",
        "_pyheaptrace_pids() {",
        "\tlocal -a pids",
        "\tlocal exe",
        "\tfor exe in /proc/<->/exe(N@); do",
        "\t\t[[ $(readlink $exe 2>/dev/null) == *python* ]] && pids+=(${${exe#/proc/}%/exe})",
        "\tdone",
        "\tcompadd -a pids",
        "}",
        "",
        "_pyheaptrace() {",
        "\tlocal -a commands",
        "\tcommands=(",
        *("\t\t" + d for d in described),
        "\t)",
        "\tif ((CURRENT == 2)) && [[ $words[2] != -* ]]; then",
        "\t\t_describe command commands",
        "\t\treturn",
        "\tfi",
        "\tcase $words[2] in",
        *cases,
        "\tcheck) ;;",
        f"\t*)\n\t\t{zsh_arguments(pages[0], chr(9) * 3)} ;;",
        "\tesac",
        "}",
        "",
        '_pyheaptrace "$@"',
        ""])


def fish_line(option, condition):
    out = f"complete -c pyheaptrace -n '{condition}'"
    if option.short:
        out += f" -s {option.short[1:]}"
    if option.long:
        out += f" -l {option.long[2:]}"
    out += {"choices": f" -x -a '{' '.join(option.choices)}'", "pid": " -x -a '(__pyheaptrace_pids)'",
            "file": " -r -F", "value": " -x", "": ""}[kind(option)]
    return out + f" -d '{label(option)}'"


def fish(pages):
    sub = [p.command for p in pages if p.command] + ["check"]
    none = "not __fish_seen_subcommand_from " + " ".join(sub)
    out = ["# SPDX-License-Identifier: BSD-2-Clause",
           "# fish completion for pyheaptrace.  Made by scripts/gen-docs.py.", "",
           "function __pyheaptrace_pids",
           "    for exe in /proc/*/exe",
           "        if string match -q '*python*' -- (readlink $exe 2>/dev/null)",
           "            string replace -r '/proc/(\\d+)/exe' '$1' -- $exe",
           "        end",
           "    end",
           "end", "",
           "complete -c pyheaptrace -f"]
    out += [f"complete -c pyheaptrace -n '{none}' -a {p.command} -d '{quote(summary(p))}'"
            for p in pages if p.command]
    out.append(f"complete -c pyheaptrace -n '{none}' -a check -d 'can this host run it'")
    for page in pages:
        condition = f"__fish_seen_subcommand_from {page.command}" if page.command else none
        out += ["", *(fish_line(o, condition) for o in page.options)]
        if page.command:
            words = f" -a '{' '.join(page.words)}'" if page.words else ""
            out.append(f"complete -c pyheaptrace -n '{condition}' -F{words}")
    return "\n".join(out) + "\n"


# ---- files ----


def make(pages):
    with open(os.path.join(ROOT, "VERSION"), encoding="utf-8") as f:
        version = f.read().strip()
    files = {"completions/pyheaptrace.bash": bash(pages), "completions/_pyheaptrace": zsh(pages),
             "completions/pyheaptrace.fish": fish(pages)}
    for page in pages:
        name = "man/pyheaptrace" + (f"-{page.command}" if page.command else "") + ".1"
        try:
            with open(os.path.join(ROOT, name + ".in"), encoding="utf-8") as f:
                files[name] = man_page(page, pages, f.read(), version)
        except FileNotFoundError:
            sys.exit(f"gen-docs: {name}.in is missing; take man/pyheaptrace-rss.1.in as a model")
    return files


def is_current(path, text):
    try:
        with open(path, encoding="utf-8") as f:
            return f.read() == text
    except OSError:
        return False


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--check", action="store_true", help="write nothing, exit 1 if anything differs")
    p.add_argument("binary", nargs="?", default=os.path.join(ROOT, "build/pyheaptrace"))
    args = p.parse_args()
    stale = 0
    for name, text in make(load(os.path.abspath(args.binary))).items():
        path = os.path.join(ROOT, name)
        if is_current(path, text):
            continue
        stale += 1
        print(f"{name}: {'differs from --help; run scripts/gen-docs.py' if args.check else 'made'}")
        if not args.check:
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
    return 1 if args.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
