"""The examples of the README, as a stranger runs them."""

from __future__ import annotations

import re
import subprocess
import sys
import unittest
from pathlib import Path

from . import peers

README = Path(__file__).parent.parent / "README.md"


class Readme(unittest.TestCase):
    def test_examples_run(self) -> None:
        examples = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
        # Those for Django name files of a project.
        runnable = [one for one in examples if not re.match(r"# \w+\.py", one)]
        self.assertEqual((len(examples), len(runnable)), (6, 4))
        for number, example in enumerate(runnable):
            with self.subTest(example.splitlines()[0]):
                text = example.replace("http://127.0.0.1:8080", peers.shared().url)
                done = subprocess.run(
                    [sys.executable, "-B", "-c", text], capture_output=True, text=True
                )
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                if number == 0:
                    self.assertRegex(done.stdout, r"^\d+\n\[.*\]\nORD-\d+\n2\d\d\d-")
        for example in examples:
            compile(example, str(README), "exec")
