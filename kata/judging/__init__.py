"""Judge a lesson: the suite runs on it in a process of its own, and a verdict comes back.

A run cannot harm what it doesn't own. It sees a copy of the tests and a copy of the lessons, it has
limits of time and memory, and its process group dies with it. Whatever it did until then is told.

    with Judge() as judge:
        verdict = judge.run(Request("tracer"))

``Judge`` imports torch and the suite once, in a worker process that forks a child per run. Where
fork can't be relied on, each run is a process, warmed up beforehand. The caller imports neither.
"""

from kata.judging.judge import Judge
from kata.judging.request import Request
from kata.judging.running import Running
from kata.verdict import CodeLine, Count, End, Ending, Report, Verdict

__all__ = ["CodeLine", "Count", "End", "Ending", "Judge", "Report", "Request", "Running", "Verdict"]
