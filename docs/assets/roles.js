// Names and roles that Material leaves out. It adds elements after the page has come, so this runs
// again whenever it does.
function complete() {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  // Landmarks that are many on a page, with one name or none, are no landmarks.
  document.querySelectorAll(".md-code__nav, [data-md-component=toc] .md-nav").forEach((each) => {
    each.setAttribute("role", "none");
    each.removeAttribute("aria-label");
  });
  // A wide table is in a box that scrolls. A reader without a mouse has to get there too.
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
});
