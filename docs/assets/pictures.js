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
function addStatus(figure, before) {
  const said = figure.insertBefore(document.createElement("p"), before);
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

// Calls `go` with where a key leads: one on or back, to the first or to the last.
function onKeys(view, go, at, last, onSpace) {
  view.addEventListener("keydown", (event) => {
    const to = { ArrowRight: at() + 1, ArrowLeft: at() - 1, Home: 0, End: last }[event.key];
    if (to === undefined && (event.key !== " " || !onSpace)) return;
    event.preventDefault();
    if (to === undefined) onSpace();
    else go(to);
  });
}

// A node is lit while the mouse points at it, and after a tap until the next one beside it.
function onNodes(view, show, hide) {
  view.addEventListener("pointerover", ({ target }) => {
    const node = target.closest("[data-node]");
    if (node) show(node);
  });
  view.addEventListener("pointerleave", ({ pointerType }) => pointerType !== "touch" && hide());
  document.addEventListener("pointerdown", ({ target }) => {
    if (!view.contains(target) || !target.closest("[data-node]")) hide();
  });
}

// What a node is, and who takes it; lights both.
function tell(view, node) {
  const users = light(view, node);
  return titleOf(node) + (users && ` · used by ${users}`);
}

function explore(figure, view) {
  const nodes = nodesIn(view), said = addStatus(figure, figure.querySelector("figcaption"));
  let at = -1;

  function show(node) {
    at = nodes.indexOf(node);
    said.textContent = tell(view, node);
  }

  function hide() {
    at = -1;
    view.classList.remove("fx-lit");
    said.textContent = "";
  }

  onNodes(view, show, hide);
  view.addEventListener("blur", hide);
  const go = (to) => show(nodes[Math.max(0, Math.min(nodes.length - 1, to))]);
  onKeys(view, go, () => at, nodes.length - 1);
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
  // On paper, the first step and the last.
  const paper = figure.insertBefore(document.createElement("div"), view);
  paper.className = "fx-paper";
  paper.append(...view.childNodes);
  view.append(stage);
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

// Goes through steps with buttons, a slider and keys.
function play(figure, view) {
  const moves = figure.matches(".fx-change");
  const steps = moves ? change(figure, view) : growth(view);
  const bar = figure.insertBefore(document.createElement("div"), figure.firstChild);
  const said = addStatus(figure, bar.nextSibling);
  bar.className = "fx-player";
  bar.innerHTML = `<button type="button" aria-label="Step back">‹</button>
    <button type="button">Play</button><button type="button" aria-label="Step on">›</button>
    <input type="range" min="1" max="${steps.length}" value="${steps.length}" aria-label="Step">`;
  const [back, button, on, slider] = bar.children;
  let at = steps.length - 1, timer = 0, words = "";

  function start(from) {
    go(from);
    button.textContent = "Pause";
    timer = setInterval(() => go(at + 1), moves ? 2000 : 1200);
  }

  function stop() {
    clearInterval(timer);
    timer = 0;
    button.textContent = "Play";
  }

  function go(to) {
    at = Math.max(0, Math.min(steps.length - 1, to));
    const { line, says, show } = steps[at];
    words = `${at + 1} of ${steps.length}${line && `, line ${line}`}: ${says}`;
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

  function toggle() {
    if (timer) stop();
    else start(at < steps.length - 1 ? at : 0);
  }

  // What a node says, until the step's words come back.
  function show(node) {
    stop();
    said.textContent = tell(view, node);
  }

  function hide() {
    if (said.textContent === words) return;
    if (moves) view.classList.remove("fx-lit");
    else if (words) steps[at].show();
    said.textContent = words;
  }

  back.addEventListener("click", () => jump(at - 1));
  button.addEventListener("click", toggle);
  on.addEventListener("click", () => jump(at + 1));
  slider.addEventListener("input", () => jump(slider.value - 1));
  slider.addEventListener("keydown", stop);
  onKeys(view, jump, () => at, steps.length - 1, toggle);
  onNodes(view, show, hide);
  if (moves) go(0);
  if (figure.matches(".fx-once") && !calm.matches) {
    view.classList.add("fx-lit");
    all(view, "[data-node], [data-edge]").forEach((each) => each.classList.add("later"));
    const seen = new IntersectionObserver(([entry]) => {
      if (!entry.isIntersecting) return;
      seen.disconnect();
      start(0);
    }, { threshold: 0.6 });
    seen.observe(view);
    // A reader who takes over before it began isn't interrupted.
    ["pointerdown", "focusin"].forEach((kind) => figure.addEventListener(kind, () => seen.disconnect()));
  }
}

// On a phone, panels go below each other, to be readable.
function stack(drawing) {
  const panels = all(drawing, ":scope > .panel"), narrow = matchMedia("(max-width: 44.98em)");
  if (panels.length < 2 || !narrow.matches) return;
  const legend = all(drawing, ":scope > .legend");
  const boxes = panels.map((panel) => panel.getBBox());
  const width = Math.max(...boxes.map((box) => box.x + box.width)) + 12;
  let top = 6;
  panels.forEach((panel, number) => {
    panel.setAttribute("transform", `translate(6 ${top - boxes[number].y})`);
    top += boxes[number].height + 24;
  });
  legend.forEach((entry) => {
    entry.setAttribute("transform", `translate(6 ${top})`);
    top += 20;
  });
  all(drawing, ".link").forEach((link) => link.remove());
  const size = { viewBox: `0 0 ${width} ${top}`, width, height: top };
  Object.entries(size).forEach(([name, value]) => drawing.setAttribute(name, value));
  drawing.style.setProperty("--fx-width", `${width}px`);
}

const figures = all(document, ".fx-figure");
for (const figure of figures) {
  const view = figure.querySelector(".fx-view");
  if (!figure.matches(".fx-steps")) stack(view.firstElementChild);
  (figure.matches(".fx-steps") ? play : explore)(figure, view);
}
figures[0]?.querySelector("figcaption").insertAdjacentHTML("afterend",
  `<p class="fx-hint">Point at a node or tap it to see its users. Arrow keys work, too.</p>`);
