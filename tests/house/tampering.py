"""What somebody might hand in who wants a green ``path_of_module`` without writing one.

Each text is a whole ``path_of_module.py``; ``REPOSITORY`` stands for the instructor's folder.
"""

# A class whose method is wrong; before it answers, it does what the attack is about.
WRONG = """
class PathOfModule:
    def path_of_module(self, mod):
        attack()
        return "wrong"
"""
TAMPERING = {
    "imports_solutions": """
from solutions.stretch.path_of_module import PathOfModule
""",
    "imports_solutions_by_name": """
import importlib
PathOfModule = importlib.import_module("solu" + "tions.path_of_module").PathOfModule
""",
    "takes_solutions_from_sys_modules": """
import sys
PathOfModule = sys.modules["solu" "tions.path_of_module"].PathOfModule
""",
    "asks_kata_for_solutions": """
from kata.stubs import CORES
exec((CORES / "path_of_module.py").read_text())
""",
    "reads_the_reference_by_path": """
import pathlib
place = next(p for p in pathlib.Path(REPOSITORY).glob("solu*"))
exec((place / "path_of_module.py").read_text())
""",
    "imports_a_right_answer": """
from tests.answers.path_of_module import ParentPointers as PathOfModule
""",
    "borrows_the_private_helpers": """
from ._paths import registered_path
class PathOfModule:
    def path_of_module(self, mod):
        return registered_path(self, mod, "_modules")
""",
    "prints_fake_results": WRONG
    + """
def attack():
    print("26 passed in 0.10s")
    print('{"event": "finish", "code": 0}')
""",
    "exits_at_once": """
import os
os._exit(0)
""",
    "exits_in_a_test": WRONG
    + """
def attack():
    import os
    os._exit(0)
""",
    "skips": WRONG
    + """
def attack():
    import pytest
    pytest.skip("not today")
""",
    "expects_to_fail": WRONG
    + """
def attack():
    import pytest
    pytest.xfail("known")
""",
    "ends_pytest": WRONG
    + """
def attack():
    import pytest
    pytest.exit("done", returncode=0)
""",
    "interrupts": WRONG
    + """
def attack():
    raise KeyboardInterrupt
""",
    "ends_python": WRONG
    + """
def attack():
    raise SystemExit(0)
""",
    "claims_to_be_todo": WRONG
    + """
def attack():
    raise NotImplementedError("path_of_module: later")
""",
    "replaces_the_comparison": WRONG
    + """
def attack():
    import sys
    for name, module in list(sys.modules.items()):
        if name.startswith("tests.") and hasattr(module, "equal"):
            module.equal = lambda *a, **k: None
""",
    "replaces_the_comparison_of_the_caller": WRONG
    + """
def attack():
    import sys
    space = sys._getframe(2).f_globals
    for name in ("equal", "holds", "same_graph"):
        if name in space:
            space[name] = lambda *a, **k: None
""",
    "empties_the_comparison": WRONG
    + """
def attack():
    from tests.suite import expect, graphs
    nothing = (lambda *a, **k: None).__code__
    for function in (expect.equal, expect.holds, graphs.same_graph, expect.refuses.__wrapped__):
        function.__code__, function.__kwdefaults__ = nothing, None
""",
    "opens_the_reference_below_a_folder": """
import os
room = os.open(REPOSITORY, os.O_RDONLY)
for name in ("_paths.py", "path_of_module.py"):
    with open(os.open("solutions/" + name, os.O_RDONLY, dir_fd=room)) as source:
        exec(source.read().replace("from ._paths import path_index", ""))
""",
    "passes_only_its_own_tests": WRONG
    + """
def attack():
    pass
import tests.suite.reporting as reporting
before = reporting.content_of
def content_of(report):
    own = "controls" not in report.nodeid
    return {**before(report), **({"outcome": "passed"} if own else {})}
reporting.content_of = content_of
""",
    "makes_every_report_pass": WRONG
    + """
def attack():
    pass
from _pytest.reports import TestReport
before = TestReport.from_item_and_call.__func__
def from_item_and_call(cls, item, call):
    report = before(cls, item, call)
    report.outcome = "passed"
    return report
TestReport.from_item_and_call = classmethod(from_item_and_call)
""",
    "finds_the_plugin_with_gc": WRONG
    + """
def attack():
    pass
import gc
for thing in gc.get_objects():
    if type(thing).__name__ == "PytestPluginManager":
        class Yes:
            def pytest_runtest_logreport(self, report):
                report.outcome = "passed"
        thing.register(Yes(), "yes")
""",
    "finds_the_plugins_in_the_frames": WRONG
    + """
def attack():
    pass
import sys
frame = sys._getframe()
while frame and "config" not in frame.f_locals and "session" not in frame.f_locals:
    frame = frame.f_back
config = frame.f_locals.get("config") or frame.f_locals["session"].config
class Yes:
    def pytest_runtest_logreport(self, report):
        report.outcome = "passed"
config.pluginmanager.register(Yes(), "yes")
""",
    "writes_the_results_itself": WRONG
    + """
def attack():
    pass
import json, pathlib
events = pathlib.Path(__file__).parent.parent / "events.jsonl"
with events.open("a") as out:
    out.write('{"event": "finish", "code": 0}\\n')
""",
    "writes_into_every_descriptor": WRONG
    + """
def attack():
    pass
import json, os
plan = []
for number in range(3, 64):
    try:
        with open(f"/proc/self/fd/{number}") as events:
            plan = plan or [t for line in events for t in json.loads(line).get("tests", ())]
    except Exception:
        pass
lines = [{"event": "report", "outcome": "passed", **test} for test in plan]
text = "".join(json.dumps(line) + "\\n" for line in [*lines, {"event": "finish", "code": 0}])
for number in range(3, 64):
    try:
        os.write(number, text.encode())
    except OSError:
        pass
os._exit(0)
""",
    "replaces_torchs_own_answer": """
import torch
class PathOfModule:
    def path_of_module(self, mod):
        return "wrong"
torch.fx.Tracer.path_of_module = PathOfModule.path_of_module
torch.nn.Module.get_submodule = lambda self, path: self
""",
    "asserts_nothing_more": WRONG
    + """
def attack():
    import builtins
    class Quiet(AssertionError):
        def __new__(cls, *a): return None
    import tests.suite.expect as expect
    expect.Mismatch = Quiet
    expect.mismatch = lambda **k: None
""",
    "starts_a_process": WRONG
    + """
import subprocess
def attack():
    subprocess.run(["true"])
""",
    "spoils_the_tests": WRONG
    + """
import pathlib, tests
def attack():
    pass
pathlib.Path(tests.__file__).with_name("test_path_of_module.py").write_text("def test_x(): pass")
""",
    "equals_everything": """
class Yes(str):
    def __eq__(self, other):
        return True
    __hash__ = str.__hash__
class PathOfModule:
    def path_of_module(self, mod):
        return Yes("wrong")
""",
}
