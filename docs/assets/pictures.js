// Pictures that move: a node lights up with inputs and users, and a player goes step by step
// through a trace that grows, a change in which nodes move, or a time line.
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const all = (element, selector) => [...element.querySelectorAll(selector)];
const nodesIn = (element) => all(element, "[data-node]");
const edgesIn = (element) => all(element, "[data-edge]");
const endsOf = (edge) => edge.dataset.edge.split(" ");
const titleOf = (node) => node.querySelector("title").textContent;

// Is read aloud when it changes.
function addStatus(after) {
  after.insertAdjacentHTML("beforebegin", `<p class="fx-said" role="status"></p>`);
  return after.previousSibling;
}

// Lights nodes of a panel and their neighbours; returns the users in words.
function light(view, nodes) {
  const panel = nodes[0]?.closest(".folded, .panel:not(.folded *)") || view;
  const lit = new Set(nodes.map((node) => node.dataset.node));
  const near = edgesIn(panel).filter((each) => endsOf(each).some((end) => lit.has(end)));
  const names = new Set(near.flatMap(endsOf));
  all(view, ".here, .near").forEach((each) => each.classList.remove("here", "near"));
  near.forEach((edge) => edge.classList.add("near"));
  nodesIn(panel).filter((each) => names.has(each.dataset.node))
    .forEach((each) => each.classList.add("near"));
  nodes.forEach((node) => node.classList.add("here"));
  view.classList.toggle("fx-lit", nodes.length > 0);
  return near.map(endsOf).filter(([from]) => lit.has(from)).map(([, to]) => to).join(", ");
}

// Calls `go` with the step that a key leads to.
function onKeys(view, go, at, last, onSpace) {
  view.addEventListener("keydown", (event) => {
    const to = { ArrowRight: at() + 1, ArrowLeft: at() - 1, Home: 0, End: last }[event.key];
    const act = to === undefined ? event.key === " " && onSpace : () => go(to);
    if (!act) return;
    event.preventDefault();
    act();
  });
}

// A node is lit while the mouse points at it; after a tap, until a tap beside it.
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

// Lights a node; returns what it is, and who takes it.
function tell(view, node) {
  const users = light(view, [node]);
  return titleOf(node) + (users && ` · used by ${users}`);
}

function explore(figure, view) {
  const nodes = nodesIn(view), said = addStatus(figure.querySelector("figcaption"));
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
function growth(figure, view) {
  const nodes = nodesIn(view);
  return nodes.map((node, at) => ({
    line: node.dataset.line || "",
    says: titleOf(node),
    news: () => [node],
    show() {
      const later = new Set(nodes.slice(at + 1).map((each) => each.dataset.node));
      nodes.forEach((each, number) => each.classList.toggle("later", number > at));
      edgesIn(view).forEach((edge) => edge.classList.toggle("later", later.has(endsOf(edge)[1])));
    },
  }));
}

// The steps of a change: each is a drawing, and takes the place of the one before it.
function change(figure, view) {
  const drawings = figure.querySelector("template").content.firstElementChild;
  const stage = drawings.cloneNode(false);
  // For paper: both ends.
  view.insertAdjacentHTML("beforebegin", `<div class="fx-paper"></div>`);
  view.previousSibling.append(...view.childNodes);
  view.append(stage);
  figure.classList.add("fx-live");
  let shown = -1;
  const textAt = (at, name) => drawings.children[at]?.querySelector(`[data-node="${name}"]`)?.textContent;
  return [...drawings.children].map((drawing, at) => ({
    line: drawing.dataset.line,
    says: drawing.dataset.says,
    // The nodes that it says more of, unless these are most.
    news() {
      const nodes = nodesIn(stage);
      const more = nodes.filter((each) => !textAt(at - 1, each.dataset.node)?.includes(each.textContent));
      return more.length * 2 > nodes.length ? [] : more;
    },
    show() {
      const pairs = (number) => JSON.parse(drawings.children[number].dataset.moves);
      const moves = shown === at - 1 ? pairs(at)
        : shown === at + 1 ? pairs(shown).map(([before, after]) => [after, before]) : [];
      light(view, []);
      morph(stage, drawing.cloneNode(true), moves);
      shown = at;
    },
  }));
}

// The moments of a time line: a curtain is over what hasn't happened yet.
function clock(figure, view) {
  return JSON.parse(figure.dataset.moments).map(([over, says]) => ({
    line: "",
    says,
    news: () => [],
    show: () => view.style.setProperty("--fx-left", 1 - over),
  }));
}

// Replaces what is on the stage: nodes that stay move, others come out of what they replace.
function morph(stage, next, moves) {
  const old = stage.firstElementChild;
  const placesIn = (drawing) => new Map(nodesIn(drawing).map((node) => {
    const { x, y } = node.querySelector("path").getBoundingClientRect();
    return [node.dataset.node, { node, x, y }];
  }));
  if (!old || calm.matches) return stage.replaceChildren(next);
  const before = placesIn(old), known = old.innerHTML;
  stage.replaceChildren(next);
  const after = placesIn(next), scale = stage.viewBox.baseVal.width / stage.clientWidth;
  const at = (from, to, opacity) => ({
    transform: `translate(${(from.x - to.x) * scale}px, ${(from.y - to.y) * scale}px)`, opacity,
  });
  const run = (element, ...frames) => element.animate(frames, { duration: 600, easing: "ease" });
  const targets = new Map(moves), origins = new Map(moves.map(([from, to]) => [to, from]));
  for (const [name, to] of after) {
    const from = before.get(name) || before.get(origins.get(name)) || to;
    run(to.node, at(from, to, before.has(name) ? 1 : 0), at(to, to, 1));
  }
  for (const [name, from] of before) {
    if (after.has(name)) continue;
    const ghost = next.firstElementChild.appendChild(from.node);
    ghost.removeAttribute("data-node");
    run(ghost, at(from, from, 1), at(after.get(targets.get(name)) || from, from, 0)).onfinish = () => ghost.remove();
  }
  all(next, ".panel > :not(g)").filter((each) => !known.includes(each.outerHTML))
    .forEach((each) => each.animate({ opacity: [0, 0, 1] }, 600));
}

// Goes through steps with buttons, a slider and keys.
function play(figure, view) {
  const kind = figure.matches(".fx-change") ? change : figure.dataset.moments ? clock : growth;
  const steps = kind(figure, view);
  figure.insertAdjacentHTML("afterbegin", `<div class="fx-player">
    <button aria-label="Step back">‹</button><button>Play</button><button aria-label="Step on">›</button>
    <input type="range" min="1" max="${steps.length}" value="${steps.length}" aria-label="Step"></div>`);
  const bar = figure.firstChild, said = addStatus(bar.nextSibling);
  const [back, button, on, slider] = bar.children;
  const invites = "Play it, or move the slider.";
  let at = steps.length - 1, timer = 0, words = said.textContent = invites;

  function start(from) {
    go(from);
    button.textContent = "Pause";
    timer = setInterval(() => go(at + 1), kind === change ? 2000 : Math.min(1200, 2e4 / steps.length));
  }

  function stop() {
    clearInterval(timer);
    timer = 0;
    button.textContent = "Play";
  }

  function go(to) {
    at = Math.max(0, Math.min(steps.length - 1, to));
    const { line, says, news, show } = steps[at];
    words = `${at + 1} of ${steps.length}${line && `, line ${line}`}: ${says}`;
    show();
    light(view, news());
    slider.value = at + 1;
    slider.setAttribute("aria-valuetext", words);
    said.textContent = words;
    all(figure, ".fx-source [data-line]")
      .forEach((each) => each.classList.toggle("here", each.dataset.line === line));
    if (at === steps.length - 1) stop();
  }

  const jump = (to) => { stop(); go(to); };
  const toggle = () => (timer ? stop() : start(at < steps.length - 1 ? at : 0));

  function point(node) {
    stop();
    said.textContent = tell(view, node);
  }

  function leave() {
    if (said.textContent === words) return;
    light(view, words === invites ? [] : steps[at].news());
    said.textContent = words;
  }

  back.addEventListener("click", () => jump(at - 1));
  button.addEventListener("click", toggle);
  on.addEventListener("click", () => jump(at + 1));
  slider.addEventListener("input", () => jump(slider.value - 1));
  onKeys(view, jump, () => at, steps.length - 1, toggle);
  onNodes(view, point, leave);
  if (kind === change) go(0);
  if (figure.matches(".fx-once") && !calm.matches) {
    view.classList.add("fx-lit");
    [...nodesIn(view), ...edgesIn(view)].forEach((each) => each.classList.add("later"));
    const seen = new IntersectionObserver(([entry]) => {
      if (!entry.isIntersecting) return;
      seen.disconnect();
      start(0);
    }, { threshold: 0.6 });
    seen.observe(view);
      // A reader who takes over first isn't interrupted.
    ["pointerdown", "focusin"].forEach((kind) => figure.addEventListener(kind, () => seen.disconnect()));
  }
}

// On a phone, panels go below each other.
function stack(drawing) {
  const parts = all(drawing, ":scope > :is(.panel, .legend), :scope > .folded > .panel");
  if (!parts[1]?.matches(".panel") || !matchMedia("(max-width: 44.98em)").matches) return;
  let top = 6, width = 0;
  for (const each of parts) {
    const box = each.getBBox();
    each.setAttribute("transform", `translate(6 ${top - box.y})`);
    top += box.height + (each.matches(".panel") ? 20 : 8);
    width = Math.max(width, box.x + box.width + 12);
  }
  all(drawing, ".link, .fold").forEach((link) => link.remove());
  const size = { width, height: top, viewBox: `0 0 ${width} ${top}` };
  for (const name in size) drawing.setAttribute(name, size[name]);
  drawing.style.setProperty("--fx-width", `${width}px`);
}

// Where a page has a box to run Python in, its script is beside this one.
if (document.querySelector(".fx-box") && location.protocol !== "file:") {
  import(new URL("box/box.js", document.currentScript.src));
}

const figures = all(document, ".fx-figure");
for (const figure of figures) {
  const view = figure.querySelector(".fx-view");
  if (!figure.matches(".fx-steps:not(.fx-time)")) stack(view.firstElementChild);
  (figure.matches(".fx-steps") ? play : explore)(figure, view);
}
figures.find((each) => !each.matches(".fx-time"))?.querySelector("figcaption").insertAdjacentHTML("afterend",
  `<p class="fx-hint">Point at a node or tap it to see its users. Arrow keys work, too.</p>`);
