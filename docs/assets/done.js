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
