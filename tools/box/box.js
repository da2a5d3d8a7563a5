// Boxes in which a reader's Python runs. Python is fetched at the first click, into a worker that
// can be stopped; nothing leaves the page.
for (const box of document.querySelectorAll(".fx-box")) {
  const [text, said, shown] = ["textarea", "[role=status]", "pre"].map((each) => box.querySelector(each));
  const [run, stop, share] = box.querySelectorAll("button");
  const drawn = shown.previousElementSibling;
  let worker = null, asked = 0;

  function begin() {
    if (!stop.disabled) return;
    worker ||= start();
    stop.disabled = false;
    said.textContent = "Fetching Python, once: 6 MB …";
    asked = performance.now();
    worker.postMessage({ kind: box.dataset.kind, text: text.value });
  }

  function start() {
    const made = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
    made.onmessage = ({ data }) => show(JSON.parse(data));
    made.onerror = ({ message }) => end(`Python stopped: ${message || "it can't be loaded"}`);
    return made;
  }

  function show({ says, figure, code, state }) {
    if (says === undefined) {
      said.textContent = "Running …";
      return;
    }
    stop.disabled = true;
    shown.textContent = [says, code].filter(Boolean).join("\n\n");
    shown.hidden = !shown.textContent;
    box.dataset.state = state;
    drawn.innerHTML = figure || "";
    const view = drawn.querySelector(".fx-view");
    if (view) explore(drawn.firstElementChild, view);
    const seconds = ((performance.now() - asked) / 1000).toFixed(2);
    said.textContent = `${state[0].toUpperCase()}${state.slice(1)} after ${seconds} s.`;
  }

  function end(words) {
    worker?.terminate();
    worker = null;
    if (document.activeElement === stop) run.focus();
    stop.disabled = true;
    said.textContent = words;
  }

  const link = () => `${location.href.split("#")[0]}#s=${encodeURIComponent(text.value)}`;

  async function copy() {
    history.replaceState(null, "", link());
    try {
      await navigator.clipboard.writeText(link());
      said.textContent = "The link is copied: it holds your function.";
    } catch {
      said.textContent = "Copy the address of this page: it holds your function.";
    }
  }

  run.addEventListener("click", begin);
  stop.addEventListener("click", () => end("Stopped. The next run starts Python anew."));
  share?.addEventListener("click", copy);
  // With Ctrl, Enter runs the text; alone, it begins a line that is indented like the one before.
  text.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault();
    if (event.ctrlKey || event.metaKey) return begin();
    const [line, indent] = /^( *).*$/.exec(text.value.slice(0, text.selectionStart).split("\n").pop());
    document.execCommand("insertText", false, `\n${indent}${line.endsWith(":") ? "    " : ""}`);
  });
  const given = share && /^#s=(.+)/s.exec(location.hash);
  if (given) text.value = decodeURIComponent(given[1]);
  said.textContent = given ? "This function came with the link. Read it, then trace it." : "Ctrl+Enter runs it, too.";
}
