// Pictures that move. A node that is pointed at, or reached with the arrow keys, lights up with its
// inputs and users; where the source stands beside the graph, the graph grows line by line.
function enliven(figure) {
  const view = figure.querySelector(".fx-view");
  const nodes = [...view.querySelectorAll("[data-node]")];
  const said = figure.insertBefore(document.createElement("p"), figure.querySelector("figcaption"));
  said.className = "fx-said";
  said.setAttribute("role", "status");
  let at = -1;

  const panelOf = (element) => element.closest(".panel");
  const edgesIn = (panel) => [...panel.querySelectorAll("[data-edge]")];
  const endsOf = (edge) => edge.dataset.edge.split(" ");

  // Lights a node, what it takes and who takes it; returns the node and its users in words.
  function show(node) {
    const panel = panelOf(node), name = node.dataset.node;
    const near = edgesIn(panel).filter((edge) => endsOf(edge).includes(name));
    const names = new Set(near.flatMap(endsOf));
    view.querySelectorAll(".here, .near").forEach((each) => each.classList.remove("here", "near"));
    near.forEach((edge) => edge.classList.add("near"));
    nodes.filter((each) => panelOf(each) === panel && names.has(each.dataset.node))
      .forEach((each) => each.classList.add("near"));
    node.classList.add("here");
    view.classList.add("fx-lit");
    const users = near.map(endsOf).filter(([from]) => from === name).map(([, to]) => to);
    return [node.querySelector("title").textContent, users.join(", ")];
  }

  function hide() {
    at = -1;
    view.classList.remove("fx-lit");
    said.textContent = "";
  }

  const step = figure.matches(".fx-steps") ? player() : (to) => {
    at = Math.max(0, Math.min(nodes.length - 1, to));
    const [words, users] = show(nodes[at]);
    said.textContent = users ? `${words} · used by ${users}` : words;
  };
  if (!figure.matches(".fx-steps")) {
    view.addEventListener("pointerover", ({ target }) => {
      const node = target.closest("[data-node]");
      if (node) step(nodes.indexOf(node));
    });
    view.addEventListener("pointerleave", hide);
    view.addEventListener("blur", hide);
  }
  view.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    step(at + by);
  });

  // Adds the controls, and returns what goes to a step.
  function player() {
    const bar = figure.insertBefore(document.createElement("div"), said);
    bar.className = "fx-player";
    bar.innerHTML = `<button type="button">Play</button>
      <input type="range" min="1" max="${nodes.length}" value="${nodes.length}" aria-label="Step">`;
    const [play, slider] = bar.children;
    let timer = 0;

    function stop() {
      clearInterval(timer);
      timer = 0;
      play.textContent = "Play";
    }

    function go(to) {
      at = Math.max(0, Math.min(nodes.length - 1, to));
      slider.value = at + 1;
      const [words] = show(nodes[at]), line = nodes[at].dataset.line;
      slider.setAttribute("aria-valuetext", `${at + 1} of ${nodes.length}: ${words}`);
      said.textContent = `${at + 1} of ${nodes.length}, line ${line}: ${words}`;
      const later = new Set(nodes.slice(at + 1).map((node) => node.dataset.node));
      nodes.forEach((node, number) => node.classList.toggle("later", number > at));
      edgesIn(view).forEach((edge) => edge.classList.toggle("later", later.has(endsOf(edge)[1])));
      figure.querySelectorAll(".fx-source [data-line]")
        .forEach((each) => each.classList.toggle("here", each.dataset.line === line));
      if (at === nodes.length - 1) stop();
    }

    play.addEventListener("click", () => {
      if (timer) return stop();
      go(at < nodes.length - 1 ? at : 0);
      play.textContent = "Pause";
      timer = setInterval(() => go(at + 1), 1200);
    });
    slider.addEventListener("input", () => {
      stop();
      go(slider.value - 1);
    });
    return (to) => {
      stop();
      go(to);
    };
  }
}

document.querySelectorAll(".fx-figure").forEach(enliven);
