// Runs a reader's Python: a message asks for it, and the answer is what the page shows.
import { loadPyodide } from "./pyodide.mjs";

const START = `
import json, sys
sys.path.insert(0, "course")
sys.dont_write_bytecode = True
from tools.box import stand_in
stand_in.install()
def answer(kind, text):
    if kind == "trace":
        from tools.box.trace import trace as run
    else:
        from tests.suite.on_the_page import judge as run
    return json.dumps(run(text))
answer`;

const start = async () => {
  const [python, course] = await Promise.all([
    loadPyodide(),
    fetch("course.zip").then((answer) => answer.arrayBuffer()),
  ]);
  python.unpackArchive(course, "zip", { extractDir: "course" });
  return python.runPython(START);
};
const ready = start();

onmessage = async ({ data: { kind, text } }) => {
  try {
    const answer = await ready;
    postMessage("{}");
    postMessage(answer(kind, text));
  } catch (error) {
    postMessage(JSON.stringify({ says: `Python stopped: ${error.message}`, state: "red" }));
  }
};
