"""The tutorial: its commands run as they stand, and print what the page says."""

import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "tutorial.md"
# Far above the minute that it takes, for a busy machine.
PATIENCE = 300
# Before what each block prints.
MARK = "=== block "


@dataclasses.dataclass
class Block:
    """Commands, and what they print, if the page says that."""

    commands: str
    printed: str | None = None


def blocks(page):
    """The commands of a page, in order. A block of text after commands is what these print."""
    found = []
    for kind, text in re.findall(r"(?ms)^```(\w*)\n(.*?)^```$", page):
        if kind == "sh":
            found.append(Block(text))
        elif kind == "text" and found and found[-1].printed is None:
            found[-1].printed = text
        else:
            raise ValueError(f"neither commands nor what they print: {text}")
    return found


def script(found):
    """One script of all commands, because variables and processes of a block are used by later ones."""
    return "set -eu\n" + "".join(
        f"echo '{MARK}{index}'\n{block.commands}" for index, block in enumerate(found)
    )


def pattern(line):
    """What a line of the page stands for. `…` is any text, and a number of several digits any number."""

    def stands_for(part):
        if part == "…":
            return ".*"
        if part.isspace():
            return r"\s+"
        return r"\d+" if re.fullmatch(r"\d\d+", part) else re.escape(part)

    return "".join(stands_for(part) for part in re.findall(r"\s+|\d+|.", line.strip()))


def difference(expected, printed):
    """Why these lines are not what the page says, or nothing. Nodes answer in any order."""
    left = [line.strip() for line in printed.splitlines() if line.strip()]
    for line in expected.splitlines():
        match = next((other for other in left if re.fullmatch(pattern(line), other)), None)
        if match is None:
            return f"not printed: {line}\nprinted:\n{printed}"
        left.remove(match)
    return f"not on the page: {left}" if left else None


def run(found, folder):
    """Runs the commands as an ordinary user, and returns the process and what each block printed."""
    (folder / "bin").mkdir()
    shutil.copy2(os.environ["RAINDROP"], folder / "bin" / "raindrop")
    (folder / "script").write_text(script(found))
    work = folder / "work"
    work.mkdir()
    shutil.chown(work, "nobody", "nogroup")
    folder.chmod(0o755)
    environment = {"PATH": f"{folder}/bin:{os.environ['PATH']}", "HOME": str(work), "LC_ALL": "C.UTF-8"}
    command = [
        *("unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"),
        *("sh", "-c", 'ip link set lo up && exec "$@"', "sh"),
        *("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"),
        *("timeout", str(PATIENCE), "bash", str(folder / "script")),
    ]
    result = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True)
    printed = {}
    for part in result.stdout.split(MARK)[1:]:
        index, _, text = part.partition("\n")
        printed[int(index)] = text
    return result, printed


class Comparison(unittest.TestCase):
    def test_numbers_of_several_digits_are_examples(self):
        for expected, printed in [
            ('{"id":"2532"}\n', '{"id":"97"}\n'),
            ("a  12   held\n", "a 345 held\n"),
            ("reason=… again\n", "reason=any text again\n"),
            ("node1\nnode2\n", "node2\nnode1\n"),
        ]:
            self.assertIsNone(difference(expected, printed))

    def test_anything_else_must_be_printed(self):
        for expected, printed in [
            ("ok\n", "unavailable\n"),
            ("2 held\n", "3 held\n"),
            ("10 held\n", "held\n"),
            ("a\n", "a\nb\n"),
            ("a\nb\n", "a\n"),
            ("a.b\n", "axb\n"),
        ]:
            self.assertIsNotNone(difference(expected, printed), expected)

    def test_text_that_belongs_to_no_commands_is_refused(self):
        for page in ("```text\na\n```\n", "```sh\na\n```\n```text\na\n```\n```text\na\n```\n"):
            with self.assertRaises(ValueError):
                blocks(page)


class Tutorial(unittest.TestCase):
    def test_the_commands_print_what_the_page_says(self):
        found = blocks(PAGE.read_text())
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            result, printed = run(found, folder)
            if result.returncode != 0:
                last = found[max(printed, default=0)].commands
                logs = [f"{log.name}:\n{log.read_text()[-2000:]}" for log in sorted(folder.rglob("*.log"))]
                self.fail("\n".join([f"exit code {result.returncode} in", last, result.stdout, result.stderr, *logs]))
        self.assertEqual(list(printed), list(range(len(found))))
        for index, block in enumerate(found):
            with self.subTest(block.commands):
                if block.printed is not None:
                    self.assertIsNone(difference(block.printed, printed[index]))


if __name__ == "__main__":
    unittest.main()
