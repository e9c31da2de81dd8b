"""A driver's process, and how each language builds and starts its driver."""

import dataclasses
import json
import os
import pathlib
import queue
import re
import signal
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).parent
CLIENTS = HERE.parent
JAVA_DRIVER = "src/test/java/org/example/raindrop/conformance/Driver.java"
# A run of Java's virtual machine that stores its classes, so that later ones start sooner.
JAVA_WARM_UP = [
    {"do": "open", "urls": ["http://127.0.0.1:1"], "token": "warm-up", "options": {"deadline_ms": 1000}},
    {"do": "next", "code": "plain"},
    {"do": "stats"},
    {"do": "close"},
]


@dataclasses.dataclass
class Language:
    name: str
    start: list
    # Commands that are run in the client's folder, once, before the first scenario.
    build: list = dataclasses.field(default_factory=list)
    folder: pathlib.Path = HERE
    # A file of the driver; without the file, the suite leaves the language out by default.
    needs: str = "reference.py"
    # The standard input of the commands that build it.
    build_input: str = ""
    # The part of the IDs that bursts at full speed draw, for languages that take longer.
    scale: float = 1.0
    # The files of scenarios that it runs, where those are not all.
    files: tuple = ()
    # About how long a short scenario takes, for the order of the jobs.
    seconds: float = 0.0
    # The most memory that the driver may ever have, in MiB. The scenario of many answers reads 100 MiB, and
    # where garbage is collected late, the command bounds the heap to less than that.
    memory_mib: int = 96

    def exists(self):
        return (self.folder / self.needs).exists()


def languages(build_folder):
    """All languages by name. What is built goes into a folder of each language below `build_folder`."""
    go = pathlib.Path(build_folder, "go")
    java = pathlib.Path(build_folder, "java")
    # A virtual machine takes what memory it may, so what it may has to be little.
    java_machine = ["java", "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    java_driver = ["-cp", f"{java}/driver.jar", "org.example.raindrop.conformance.Driver"]
    known = [
        Language(
            "go",
            [str(go / "driver")],
            [["go", "build", "-o", str(go / "driver"), "./conformance"]],
            CLIENTS / "go",
            "conformance/main.go",
        ),
        Language(
            "java",
            [*java_machine, f"-XX:SharedArchiveFile={java}/classes.jsa", *java_driver],
            # Without Maven, because the driver needs no packages.
            [
                ["javac", "-d", f"{java}/classes", "-sourcepath", "src/main/java:src/test/java", JAVA_DRIVER],
                ["jar", "--create", "--file", f"{java}/driver.jar", "-C", f"{java}/classes", "."],
                [*java_machine, "-Xlog:disable", f"-XX:ArchiveClassesAtExit={java}/classes.jsa", *java_driver],
            ],
            CLIENTS / "java",
            JAVA_DRIVER,
            build_input="".join(json.dumps(request) + "\n" for request in JAVA_WARM_UP),
            seconds=1.5,
            memory_mib=320,
        ),
        # Threads share one lock of the interpreter, so that they draw fewer IDs at full speed, too.
        python("python"),
        # Only its callers wait in another way.
        python("python-asyncio", "--asyncio", files=("codes", "demand", "life")),
        # One thread does all, so it draws fewer IDs at full speed.
        Language("js", ["node", "--max-old-space-size=64", "conformance/driver.js"], [["npm", "ci", "--ignore-scripts", "--silent"], ["npm", "run", "--silent", "build"]], CLIENTS / "js", "conformance/driver.js", scale=0.25, seconds=1.0, memory_mib=256),
    ]
    return {language.name: language for language in known}


def python(name, *arguments, **more):
    driver = "conformance/driver.py"
    return Language(name, [sys.executable, "-B", driver, *arguments], [], CLIENTS / "python", driver, scale=0.1, **more)


def reference(broken=()):
    command = [sys.executable, "-B", str(HERE / "reference.py")]
    if broken:
        command += ["--broken", *broken]
    return Language("reference", command, scale=0.02)


class Hang(Exception):
    """A request was not answered in its time."""


class Enough(Exception):
    """What the driver has done so far is enough to know that the scenario fails."""


class Driver:
    """A running driver. Requests are answered in order, so each waits for its line."""

    # How often what a driver does is watched while it works.
    WATCH_S = 0.2
    # How long a driver may take to start, and to answer after the request's own time is over.
    SLACK_S = 20.0

    def __init__(self, language, errors):
        self.process = subprocess.Popen(
            language.start, cwd=language.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
            env={**os.environ, "NODE_NO_WARNINGS": "1"},
        )
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def send(self, request):
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()

    def receive(self, seconds, watch=None):
        """Returns the next answer. `watch` is called while it does not come, and may raise `Enough`."""
        ends = time.monotonic() + seconds + self.SLACK_S
        while True:
            rest = max(ends - time.monotonic(), 0)
            try:
                line = self.lines.get(timeout=min(rest, self.WATCH_S) if watch else rest)
                break
            except queue.Empty:
                if time.monotonic() >= ends:
                    raise Hang(f"no answer after {seconds + self.SLACK_S:.1f} s") from None
                if watch:
                    watch()
        if line is None:
            raise Hang(f"the driver ended with status {self.process.wait()}")
        return json.loads(line)

    def ask(self, request, seconds, watch=None):
        """Asks, and waits for at most `seconds` and some slack."""
        self.send(request)
        return self.receive(seconds, watch)

    def sleep_as_stopped(self, seconds, request=None):
        """Stops the process, as a suspended machine would; `request` is sent meanwhile. Returns when it goes on."""
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        if request:
            self.send(request)
        # Before the signal, so that whatever is drawn afterwards is drawn after this time.
        goes_on = time.time()
        self.process.send_signal(signal.SIGCONT)
        return goes_on

    def peak_memory_mib(self):
        try:
            status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        except OSError:
            return 0
        peak = re.search(r"VmHWM:\s+(\d+) kB", status)
        return int(peak[1]) // 1024 if peak else 0

    def end(self):
        """Ends the input; returns whether the driver then ended by itself."""
        try:
            self.process.stdin.close()
        except OSError:
            pass
        try:
            self.process.wait(timeout=self.SLACK_S)
            return True
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return False
