"""Runs every scenario with the driver of each language.

    run.py [go|java|js|python|python-asyncio|reference|self-test …] [--scenario TEXT] [--lanes N]
"""

import argparse
import asyncio
import concurrent.futures
import copy
import pathlib
import queue
import subprocess
import sys
import tempfile
import threading
import time

import yaml

import driver
import reference
from ledger import Ledger
from proxy import Proxy
from scenario import Scenario
from service import TOKEN, Service

HERE = pathlib.Path(__file__).parent


class Lane:
    """A service of two nodes with a proxy in front of each, where one scenario runs at a time.

    The services of all lanes share one store.
    """

    def __init__(self, folder, store, loop):
        folder.mkdir()
        self.folder = folder
        self.exchanges = []
        self.service = Service(folder, store)
        # The proxies of all lanes run in one thread.
        self.loop = loop
        self.proxies = {name: Proxy(name, node.port, self.exchanges) for name, node in self.service.nodes.items()}
        for proxy in self.proxies.values():
            proxy.others = self.proxies
            self.call(proxy.listen())

    def call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(timeout=30)

    def restore(self):
        """Undoes whatever the scenario before has broken."""
        for proxy in self.proxies.values():
            self.call(proxy.reset())
        self.exchanges.clear()
        self.service.restore()

    def proxy_command(self, fault):
        self.call(self.proxies[fault.get("node", "a")].command(fault))

    def service_command(self, command):
        for name, value in command.items():
            if name == "kill":
                self.service.nodes[value].kill()
            elif name == "start":
                self.service.start(self.service.nodes[value])
            elif name == "revoke_token":
                self.service.let_in("of-somebody-else")
            elif name == "restore_token":
                self.service.let_in(TOKEN)
            else:
                raise ValueError(f"no such command of the service: {name}")

    def stop(self):
        self.service.stop()


class Job:
    """One scenario for one driver. `broken` is the way in which the reference driver is broken on purpose."""

    def __init__(self, language, scenario, broken=None):
        self.language = language
        self.scenario = scenario
        self.broken = broken

    def run(self, lane, ledger):
        """Returns whether it came out as it should, and says so."""
        began = time.monotonic()
        # The IDs of a broken driver must not make other clients look broken.
        ledger = Ledger() if self.broken else ledger
        scenario = Scenario(lane, self.language, copy.deepcopy(self.scenario), ledger)
        try:
            failures = scenario.run()
            right = bool(failures) == bool(self.broken)
        except Exception as error:  # a fault of the suite itself must not pass for a scenario's
            failures, right = [f"the suite failed: {type(error).__name__}: {error}"], False
        name = f"{self.broken} is noticed by" if self.broken else self.language.name
        took = f"{time.monotonic() - began:.1f} s, {scenario.peak_mib} MiB"
        lines = [f"{'ok    ' if right else 'FAILED'} {name}: {self.scenario['name']} ({took})"]
        lines += [f"         {failure}" for failure in failures[:5]]
        print("\n".join(lines), flush=True)
        return right


def load_scenarios():
    """All scenarios in the order of their files; their names are unique."""
    scenarios = []
    for file in sorted(HERE.glob("*.yaml")):
        if file.name != "self_test.yaml":
            scenarios += [{**one, "file": file.stem} for one in yaml.safe_load(file.read_text(encoding="utf-8"))]
    names = [scenario["name"] for scenario in scenarios]
    if len(set(names)) < len(names):
        raise ValueError(f"scenarios of the same name: {sorted(names)}")
    return scenarios


def broken_jobs(scenarios):
    """The jobs of the reference driver broken in each way, which have to fail."""
    caught_by = yaml.safe_load((HERE / "self_test.yaml").read_text(encoding="utf-8"))
    if missing := reference.BROKEN.keys() ^ caught_by.keys():
        raise ValueError(f"self_test.yaml and reference.py differ: {sorted(missing)}")
    by_name = {scenario["name"]: scenario for scenario in scenarios}
    return [
        Job(driver.reference([way]), by_name[name], way)
        for way, names in caught_by.items()
        for name in names
        if name in by_name
    ]


def run_jobs(groups, lanes, ledger):
    """Runs the jobs of each group in as many of the lanes, and those that need the whole machine one by one at the end."""
    results = []

    def work(lane, waiting):
        while True:
            try:
                job = waiting.get_nowait()
            except queue.Empty:
                return
            results.append(job.run(lane, ledger))

    threads = []
    for number, jobs in enumerate(groups):
        waiting = queue.SimpleQueue()
        for job in jobs:
            if not job.scenario.get("alone"):
                waiting.put(job)
        threads += [threading.Thread(target=work, args=(lane, waiting)) for lane in lanes[number :: len(groups)]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for job in (job for jobs in groups for job in jobs):
        if job.scenario.get("alone"):
            results.append(job.run(lanes[0], ledger))
    return results


def build(language):
    for command in language.build:
        subprocess.run(command, cwd=language.folder, check=True, input=language.build_input, text=True, stdout=subprocess.DEVNULL)


def main():
    parser = argparse.ArgumentParser(description="Holds the clients to the contract.")
    parser.add_argument("languages", nargs="*", help="go, java, js, python, python-asyncio, reference or self-test. By default every language that there is")
    parser.add_argument("--scenario", default="", help="only scenarios whose name contains this text")
    parser.add_argument("--lanes", type=int, default=4, help="how many scenarios run side by side, and as many of the self-test")
    arguments = parser.parse_args()
    # A thread that computes must not delay the threads of the proxies.
    sys.setswitchinterval(0.0005)
    scenarios = [one for one in load_scenarios() if arguments.scenario.lower() in one["name"].lower()]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        known = {**driver.languages(folder), "reference": driver.reference()}
        present = [name for name, language in known.items() if name != "reference" and language.exists()]
        names = arguments.languages or present
        clients = [known[name] for name in names if name != "self-test"]
        # The slowest clients come first, so that the lanes end together: broken clients wait until a
        # scenario notices, and virtual machines take a while to start.
        clients.sort(key=lambda language: language.seconds, reverse=True)
        runs = ((language, scenario) for language in clients for scenario in scenarios)
        groups = [[Job(language, scenario) for language, scenario in runs if scenario["file"] in language.files or not language.files]]
        if "self-test" in names:
            # In lanes of their own, because they wait while those of the languages compute.
            groups.append(broken_jobs(scenarios) + [Job(known["reference"], scenario) for scenario in scenarios])
        groups = [jobs for jobs in groups if jobs]
        if not groups:
            parser.error("there are no such scenarios")
        ledger = Ledger()
        loop = asyncio.new_event_loop()
        threading.Thread(target=loop.run_forever, daemon=True).start()
        lanes = [Lane(folder / f"lane-{number}", folder / "raindrop.db", loop) for number in range(arguments.lanes * len(groups))]
        try:
            with concurrent.futures.ThreadPoolExecutor() as pool:
                builds = [pool.submit(build, language) for language in clients]
                # The first one creates the store.
                lanes[0].restore()
                for done in [*builds, *(pool.submit(lane.restore) for lane in lanes[1:])]:
                    done.result()
            results = run_jobs(groups, lanes, ledger)
        finally:
            for lane in lanes:
                lane.stop()
    print(f"{ledger.total()} IDs were drawn, and each was compared with all others of its space")
    print(f"{results.count(True)} passed, {results.count(False)} failed")
    return 0 if results and all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
