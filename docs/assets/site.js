// Names and roles that Material leaves out. It adds elements after the page has come, so this runs
// again whenever it does.
function complete() {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  // Landmarks that are many on a page, with one name or none, are no landmarks.
  document.querySelectorAll(".md-code__nav, [data-md-component=toc] .md-nav").forEach((each) => {
    each.setAttribute("role", "none");
    each.removeAttribute("aria-label");
  });
  // Wide code and wide tables scroll. A reader without a mouse has to get there too.
  for (const code of document.querySelectorAll("pre > code")) {
    if (code.scrollWidth > code.clientWidth) code.tabIndex = 0;
  }
  for (const box of document.querySelectorAll(".md-typeset__scrollwrap")) {
    if (box.scrollWidth > box.clientWidth) {
      box.tabIndex = 0;
      box.setAttribute("role", "group");
      box.setAttribute("aria-label", "Table");
    }
  }
}

addEventListener("load", () => {
  complete();
  new MutationObserver(complete).observe(document.body, { childList: true, subtree: true });
  // A box that is opened later, a tab that is chosen, a window that gets narrow.
  ["toggle", "change"].forEach((kind) => document.addEventListener(kind, complete, true));
  addEventListener("resize", complete);
});

// In the search field, `:`, `^` and `~` belong to a query language; in a pasted error message they
// don't. Punctuation becomes space first.
addEventListener("input", ({ target }) => {
  if (!target.matches(".md-search__input") || !/[^\w\s]/.test(target.value)) return;
  const caret = target.selectionStart;
  target.value = target.value.replace(/[^\w\s]/g, " ");
  target.setSelectionRange(caret, caret);
}, true);

// A question has words that say nothing about its answer, and words that we don't use.
{
  const asking = new Set(("a an and are as at be but by can could do does doing file for get have how i in is it its me "
    + "mean means my of on or should so that the there this to was take what when where which who why with would you").split(" "));
  const ours = {
    undo: "undo reset", colab: "notebook", jupyter: "notebook", skip: "leaf",
    submodule: "module", inline: "inlining", start: "setup start", install: "setup install",
    windows: "windows setup", long: "hours minutes", grade: "grade grading", answer: "solution",
    stuck: "hint", bubble: "bubble busy", red: "troubleshooting red", traceerror: "TraceError symbolically", teach: "workshop", class: "workshop",
    course: "workshop", certificate: "finale", vs: "opcode", pickle: "pickling",
  };
  const asked = (query) => {
    const words = query.split(/\s+/).filter(Boolean);
    // One word is asked for, whatever it is, and a message is longer than a question.
    if (words.length < 2 || words.length > 9) return words.map((word) => ours[word.toLowerCase()] || word);
    const telling = words.filter((word) => !asking.has(word.toLowerCase()));
    return (telling.length ? telling : words).map((word) => ours[word.toLowerCase()] || word);
  };
  const { postMessage } = Worker.prototype;
  const listening = new WeakSet();
  let words = [];
  Worker.prototype.postMessage = function (message, ...others) {
    if (message?.type !== 2) return postMessage.call(this, message, ...others);
    words = asked(message.data);
    postMessage.call(this, { type: 2, data: words.join(" ") });
    if (listening.has(this)) return;
    listening.add(this);
    // Nothing found? One letter off.
    this.addEventListener("message", ({ data }) => {
      if (data.type !== 3 || data.data.items.length || !words.length) return;
      const near = words.join(" ").split(" ").map((word) => (word.length > 3 ? `${word}~1` : word));
      words = [];
      postMessage.call(this, { type: 2, data: near.join(" ") });
    });
  };
}

// The lessons that a reader has done, kept in the browser: ticked on the home page, by a button at
// the end of a lesson, and by an address that ends with #done=proxy,graph.
{
  const KEY = "fx-kata-done";
  const read = () => new Set(JSON.parse(localStorage.getItem(KEY) || "[]"));
  const write = (done) => localStorage.setItem(KEY, JSON.stringify([...done]));
  const lessonOf = (address) => new URL(address).pathname.match(/\/lessons\/(\w+)\.html$/)?.[1];

  const told = location.hash.match(/^#done=([\w,]+)$/)?.[1].split(",") || [];
  if (told.length) write(new Set([...read(), ...told]));

  const done = read();
  for (const node of document.querySelectorAll(".map [data-node]")) {
    if (!done.has(node.dataset.node)) continue;
    node.classList.add("done");
    const note = node.querySelector(".note");
    note.textContent = `${note.textContent.replace(/, \d+ min$/, "")} ✓ done`;
  }
  for (const link of document.querySelectorAll(".path li li > a")) {
    if (done.has(lessonOf(link.href))) link.before("✓ ");
  }

  const lesson = lessonOf(location.href);
  const end = document.querySelector(".md-content__inner > p:last-of-type");
  if (lesson && end) {
    const button = document.createElement("button");
    button.className = "md-button";
    const show = () => {
      const isDone = read().has(lesson);
      button.textContent = isDone ? "✓ Done" : "Mark as done";
      button.setAttribute("aria-pressed", isDone);
    };
    button.addEventListener("click", () => {
      const all = read();
      if (!all.delete(lesson)) all.add(lesson);
      write(all);
      show();
    });
    show();
    end.after(button);
  }
}
