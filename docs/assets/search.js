// In the search field, `:`, `^` and `~` belong to a query language; in a pasted error message they
// don't. Punctuation becomes space before the search sees it.
addEventListener("input", ({ target }) => {
  if (!target.matches(".md-search__input") || !/[^\w\s]/.test(target.value)) return;
  const caret = target.selectionStart;
  target.value = target.value.replace(/[^\w\s]/g, " ");
  target.setSelectionRange(caret, caret);
}, true);
