"""Turn the verdicts of ``kata check --json`` into the results that other tools read.

``kata check --json proxy | python -m tools.results gradescope > results.json`` writes what an
autograder of Gradescope has to leave behind, and ``… classroom50 > result.json`` what one of
Classroom 50 has to. Each lesson is one test of 100 points, which its core's tests share evenly.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
from collections.abc import Mapping
from typing import Any

SCHEMA = 1  # of `kata check --json`, as docs/commands.md describes it
POINTS = 100
GREEN = ("done", "starred")
# What Classroom 50 says about a submission, by the names of the result's fields.
CONTEXT = {
    "classroom": "CLASSROOM",
    "assignment": "ASSIGNMENT",
    "submission": "SUBMISSION_TAG",
    "commit": "COMMIT_URL",
    "release": "RELEASE_URL",
    "review": "REVIEW_URL",
}
Json = dict[str, Any]


def points(lesson: Json) -> int:
    """The points for a lesson's core: all of them only if it is green; none for a stub."""
    core = lesson["core"]
    asked = core["planned"] - core["skipped"]
    if lesson["state"] in GREEN or not asked:
        return POINTS * (lesson["state"] in GREEN)
    return min(POINTS * core["passed"] // asked, POINTS - 1)


def explanation(lesson: Json) -> str:
    """Return what the learner reads: why the run stopped, and the first failure of the core."""
    if lesson["state"] == "todo":
        return f"not started: lessons/{lesson['lesson']}.py is the stub"
    failed = [each for each in lesson["failures"] if not each["stretch"]]
    first = [f"{failed[0]['sentence']}\n{failed[0]['text']}"] if failed else []
    ended = [lesson["ending"]["text"]] if lesson["ending"]["text"] else []
    passed = f"{lesson['core']['passed']} of {lesson['core']['planned']} tests of the core pass"
    return "\n\n".join([*ended, *first, passed])


def gradescope(checked: Json, environment: Mapping[str, str]) -> Json:
    """The content of Gradescope's ``results.json``."""
    lessons = checked["lessons"]
    done = sum(lesson["state"] in GREEN for lesson in lessons)
    return {
        "output": f"{done} of {len(lessons)} lessons are done",
        "test_output_format": "text",
        "execution_time": round(sum(lesson["seconds"] for lesson in lessons)),
        "tests": [
            {
                "name": lesson["lesson"],
                "score": points(lesson),
                "max_score": POINTS,
                "status": "passed" if lesson["state"] in GREEN else "failed",
                "output": explanation(lesson),
            }
            for lesson in lessons
        ],
    }


def classroom50(checked: Json, environment: Mapping[str, str]) -> Json:
    """The content of Classroom 50's ``result.json``; its runner adds who submitted, and when.

    Raises:
        KeyError: A variable that Classroom 50 sets isn't set.
    """
    # Without a review, the commit stands for it.
    known = {"REVIEW_URL": environment.get("COMMIT_URL", ""), **environment}
    tests = [
        {
            "test-name": lesson["lesson"],
            "passed": lesson["state"] in GREEN,
            "score": points(lesson),
            "max-score": POINTS,
            "output": explanation(lesson),
        }
        for lesson in checked["lessons"]
    ]
    return {
        "schema": "classroom50/result/v1",
        **{field: known[variable] for field, variable in CONTEXT.items()},
        "datetime": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%dT%H:%M:%SZ}",
        "score": sum(test["score"] for test in tests),
        "max-score": sum(test["max-score"] for test in tests),
        "tests": tests,
    }


FORMATS = {"gradescope": gradescope, "classroom50": classroom50}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("format", choices=FORMATS)
    convert = FORMATS[parser.parse_args().format]
    try:
        checked = json.load(sys.stdin)
        if (schema := checked.get("schema")) != SCHEMA:
            parser.error(f"schema {schema} of `kata check --json` isn't known: {SCHEMA}")
        print(json.dumps(convert(checked, os.environ), indent=2))
    except json.JSONDecodeError as error:
        parser.error(f"the input isn't output of `kata check --json`: {error}")
    except KeyError as error:
        parser.error(f"{error} isn't set: is this an autograder of Classroom 50?")


if __name__ == "__main__":
    main()
