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
