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
