// Pictures that move. A node that is pointed at, or reached with the arrow keys, lights up with its
// inputs and users. Where the source stands beside the graph, a reader goes through it step by step:
// a trace grows node by node, and in a change the nodes move to where the next step has them.
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const all = (element, selector) => [...element.querySelectorAll(selector)];
const nodesIn = (element) => all(element, "[data-node]");
const edgesIn = (element) => all(element, "[data-edge]");
const endsOf = (edge) => edge.dataset.edge.split(" ");
const titleOf = (node) => node.querySelector("title").textContent;

// A paragraph that is read aloud when its words change.
function addStatus(figure) {
  const said = figure.insertBefore(document.createElement("p"), figure.querySelector("figcaption"));
  said.className = "fx-said";
  said.setAttribute("role", "status");
  return said;
}

// Lights a node, what it takes and who takes it; returns its users in words.
function light(view, node) {
  const panel = node.closest(".folded") || node.closest(".panel"), name = node.dataset.node;
  const near = edgesIn(panel).filter((edge) => endsOf(edge).includes(name));
  const names = new Set(near.flatMap(endsOf));
  all(view, ".here, .near").forEach((each) => each.classList.remove("here", "near"));
  near.forEach((edge) => edge.classList.add("near"));
  nodesIn(panel).filter((each) => names.has(each.dataset.node))
    .forEach((each) => each.classList.add("near"));
  node.classList.add("here");
  view.classList.add("fx-lit");
  return near.map(endsOf).filter(([from]) => from === name).map(([, to]) => to).join(", ");
}

function onArrows(view, move) {
  view.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    move(by);
  });
}

function explore(figure, view) {
  const nodes = nodesIn(view), said = addStatus(figure);
  let at = -1;

  function go(to) {
    at = Math.max(0, Math.min(nodes.length - 1, to));
    const users = light(view, nodes[at]);
    said.textContent = titleOf(nodes[at]) + (users && ` · used by ${users}`);
  }

  function hide() {
    at = -1;
    view.classList.remove("fx-lit");
    said.textContent = "";
  }

  view.addEventListener("pointerover", ({ target }) => {
    const node = target.closest("[data-node]");
    if (node) go(nodes.indexOf(node));
  });
  view.addEventListener("pointerleave", hide);
  view.addEventListener("blur", hide);
  onArrows(view, (by) => go(at + by));
}

// The steps of a trace: each shows one more node.
function growth(view) {
  const nodes = nodesIn(view);
  return nodes.map((node, at) => ({
    line: node.dataset.line,
    says: titleOf(node),
    show() {
      const later = new Set(nodes.slice(at + 1).map((each) => each.dataset.node));
      light(view, node);
      nodes.forEach((each, number) => each.classList.toggle("later", number > at));
      edgesIn(view).forEach((edge) => edge.classList.toggle("later", later.has(endsOf(edge)[1])));
    },
  }));
}

// The steps of a change: each is a drawing, and takes the place of the one before it.
function change(figure, view) {
  const drawings = figure.querySelector("template").content.firstElementChild;
  const stage = drawings.cloneNode(false);
  view.replaceChildren(stage);
  figure.classList.add("fx-live");
  let shown = -1;
  return [...drawings.children].map((drawing, at) => ({
    line: drawing.dataset.line,
    says: drawing.dataset.says,
    show() {
      const pairs = (number) => JSON.parse(drawings.children[number].dataset.moves);
      const moves = shown === at - 1 ? pairs(at)
        : shown === at + 1 ? pairs(shown).map(([before, after]) => [after, before]) : [];
      morph(stage, drawing.cloneNode(true), moves);
      shown = at;
    },
  }));
}

// Replaces what is on the stage. Nodes that stay move to their new places, new ones come out of those
// that they replace, and those that go move into what takes their place.
function morph(stage, next, moves) {
  const old = stage.firstElementChild;
  const placesIn = (drawing) => new Map(nodesIn(drawing).map((node) => {
    const { x, y } = node.querySelector("path").getBoundingClientRect();
    return [node.dataset.node, { node, x, y }];
  }));
  const before = old && placesIn(old), known = old && new Set(all(old, ".panel > :not(g)").map((e) => e.outerHTML));
  stage.replaceChildren(next);
  if (!old || calm.matches) return;
  const after = placesIn(next), scale = stage.viewBox.baseVal.width / stage.clientWidth;
  const at = (from, to, opacity) => ({
    transform: `translate(${(from.x - to.x) * scale}px, ${(from.y - to.y) * scale}px)`, opacity,
  });
  const run = (element, ...frames) => element.animate(frames, { duration: 600, easing: "ease-in-out" });
  for (const [name, to] of after) {
    const [origin] = moves.find(([, new_]) => new_ === name) || [];
    const from = before.get(name) || before.get(origin) || to;
    run(to.node, at(from, to, before.has(name) ? 1 : 0), at(to, to, 1));
  }
  for (const [name, from] of before) {
    if (after.has(name)) continue;
    const [, target] = moves.find(([old_]) => old_ === name) || [];
    const ghost = next.firstElementChild.appendChild(from.node);
    ghost.removeAttribute("data-node");
    run(ghost, at(from, from, 1), at(after.get(target) || from, from, 0)).onfinish = () => ghost.remove();
  }
  all(next, ".panel > :not(g)").filter((each) => !known.has(each.outerHTML))
    .forEach((each) => run(each, { opacity: 0 }, { opacity: 0 }, { opacity: 1 }));
}

// Goes through steps with a button, a slider and the arrow keys.
function play(figure, view) {
  const steps = figure.matches(".fx-change") ? change(figure, view) : growth(view);
  const said = addStatus(figure);
  const bar = figure.insertBefore(document.createElement("div"), said);
  bar.className = "fx-player";
  bar.innerHTML = `<button type="button">Play</button>
    <input type="range" min="1" max="${steps.length}" value="${steps.length}" aria-label="Step">`;
  const [button, slider] = bar.children;
  let at = steps.length - 1, timer = 0;

  function start(from) {
    go(from);
    button.textContent = "Pause";
    timer = setInterval(() => go(at + 1), figure.matches(".fx-change") ? 2000 : 1200);
  }

  function stop() {
    clearInterval(timer);
    timer = 0;
    button.textContent = "Play";
  }

  function go(to) {
    at = Math.max(0, Math.min(steps.length - 1, to));
    const { line, says, show } = steps[at];
    const words = `${at + 1} of ${steps.length}${line && `, line ${line}`}: ${says}`;
    show();
    slider.value = at + 1;
    slider.setAttribute("aria-valuetext", words);
    said.textContent = words;
    all(figure, ".fx-source [data-line]")
      .forEach((each) => each.classList.toggle("here", each.dataset.line === line));
    if (at === steps.length - 1) stop();
  }

  function jump(to) {
    stop();
    go(to);
  }

  button.addEventListener("click", () => {
    if (timer) return stop();
    start(at < steps.length - 1 ? at : 0);
  });
  slider.addEventListener("input", () => jump(slider.value - 1));
  slider.addEventListener("keydown", stop);
  onArrows(view, (by) => jump(at + by));
  if (figure.matches(".fx-change")) go(0);
  if (figure.matches(".fx-once") && !calm.matches) {
    view.classList.add("fx-lit");
    all(view, "[data-node], [data-edge]").forEach((each) => each.classList.add("later"));
    // Touched before it began: the reader has taken over.
    figure.addEventListener("pointerdown", () => seen.disconnect());
    figure.addEventListener("focusin", () => seen.disconnect());
    const seen = new IntersectionObserver(([entry]) => {
      if (!entry.isIntersecting) return;
      seen.disconnect();
      start(0);
    }, { threshold: 0.6 });
    seen.observe(view);
  }
}

for (const figure of document.querySelectorAll(".fx-figure")) {
  const view = figure.querySelector(".fx-view");
  (figure.matches(".fx-steps") ? play : explore)(figure, view);
}
