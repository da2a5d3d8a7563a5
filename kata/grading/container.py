"""Judge a submission in a container of its own: no network, the suite read-only, nothing else."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import uuid
from pathlib import Path
from typing import Any

from kata.arguments import UsageError
from kata.grading.report import TOTAL, Failure, Grade
from kata.grading.submissions import Submission
from kata.judge import Request
from kata.paths import ROOT
from kata.progress import write
from kata.verdict import Count, State

PERSON = "person"
ENGINES = ("podman", "docker")
IMAGE = "fx-kata"
RECIPE = """
FROM python:3.12-slim
COPY constraints.txt pyproject.toml README.md LICENSE /kata/
COPY kata /kata/kata
RUN pip install --no-cache-dir --constraint /kata/constraints.txt /kata
"""
# How long a container takes to start, in seconds.
STARTING = 120
CLOSED = (
    "--rm",
    "--memory=8g",  # half of it for torch
    "--network=none",
    "--read-only",
    "--tmpfs=/tmp",
    "--cap-drop=ALL",
    "--security-opt=no-new-privileges",
    "--pids-limit=512",
    f"--volume={ROOT}:/suite:ro",
    "--workdir=/suite",
    "--env=HOME=/tmp",
)


class Container:
    """How submissions are judged in containers.

    Args:
        seconds: How long a test inside may compute or wait.

    Raises:
        UsageError: There is neither podman nor docker, or the image cannot be built.
    """

    def __init__(self, seconds: float = Request.seconds) -> None:
        engine = next(filter(None, map(shutil.which, ENGINES)), None)
        if engine is None:
            raise UsageError(f"--container needs {' or '.join(ENGINES)}, and neither is there")
        self.engine, self.seconds = engine, seconds
        if self.call("image", "inspect", IMAGE).returncode:
            built = self.call("build", "--tag", IMAGE, "--file", "-", str(ROOT), text=RECIPE)
            if built.returncode:
                raise UsageError(f"no image {IMAGE} can be built:\n{built.stderr.strip()}")

    def grades(self, submission: Submission, lessons: list[str]) -> list[Grade]:
        """Judge these lessons of a submission.

        Raises:
            RuntimeError: The container reported no grades.
        """
        name = f"kata-{uuid.uuid4().hex}"
        with tempfile.TemporaryDirectory(prefix="kata-grade-") as folder:
            for lesson, source in submission.files.items():
                write(Path(folder, PERSON, f"{lesson}.py"), source)
            try:
                seconds = STARTING + TOTAL * len(lessons) * 2
                done = self.call(*self.command(name, folder, lessons), seconds=seconds)
            except subprocess.TimeoutExpired:
                self.call("kill", name)
                return [Grade(lesson, State.HUNG) for lesson in lessons]
        try:
            (person,) = json.loads(done.stdout)["people"]
            return [read(each) for each in person["grades"]]
        except (ValueError, KeyError, TypeError) as error:
            last = done.stderr.strip().rpartition("\n")[2]
            raise RuntimeError(f"the container said: {last}") from error

    def command(self, name: str, folder: str, lessons: list[str]) -> list[str]:
        grade = ["python", "-m", "kata", "grade", "/handed-in", "--json", "--jobs", "1"]
        grade += ["--seconds", f"{self.seconds:g}"]
        grade += [word for lesson in lessons for word in ("--lesson", lesson)]
        mount = f"--volume={folder}:/handed-in:ro"
        return ["run", *CLOSED, f"--name={name}", mount, IMAGE, *grade]

    def call(
        self, *words: str, text: str | None = None, seconds: float | None = None
    ) -> subprocess.CompletedProcess[str]:
        command = [self.engine, *words]
        return subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=seconds, check=False
        )


def read(content: dict[str, Any]) -> Grade:
    """A grade from the report that was written inside."""
    failure = content["failure"] and Failure(**content["failure"])
    counts = {name: Count(**content[name]) for name in ("core", "stretch")}
    names = {name: tuple(content[name]) for name in ("lent", "borrowed")}
    state = State(content["state"])
    return Grade(**{**content, **counts, **names, "state": state, "failure": failure})
